package adversarial

import (
	"fmt"
	"strings"

	"github.com/budgetd/budgetd/budget"
)

// notFound returns the code for a missing object.
func notFound(what string) []budget.Code {
	switch what {
	case "budget":
		return []budget.Code{budget.BudgetNotFound, budget.RouteNotFound}
	case "bucket":
		return []budget.Code{budget.BucketNotFound}
	case "method":
		return []budget.Code{budget.MethodNotAllowed}
	}
	return []budget.Code{budget.RouteNotFound}
}

// changes returns cases of PATCHes that are empty or have invalid members, and of invalid
// conditions.
func changes(target Target) []Case {
	patch := func(body string, header ...string) Case {
		return Case{Name: fmt.Sprintf("patch %.60s %s", body, header), Method: "PATCH",
			Path: "/v1/budgets/" + target.Budget, Body: body, Header: header}
	}
	var cases []Case
	add := func(c Case, field string) {
		c.Field = field
		cases = append(cases, c)
	}
	for _, p := range []struct{ body, field string }{
		{`{}`, ""}, {`{"status":"expired"}`, "status"}, {`{"status":""}`, "status"},
		{`{"status":"PAUSED"}`, "status"},
		{`{"end_at":"0001-01-01T00:00:00Z"}`, "end_at"},
		{`{"end_at":"0000-01-01T00:00:00Z"}`, "end_at"},
		{`{"end_at":"9999-01-01T00:00:00Z"}`, "end_at"}, {`{"end_at":"never"}`, "end_at"},
		{`{"sharding_quantity":-1}`, "sharding_quantity"}, {`{"adjust_cnt":-1}`, "adjust_cnt"},
		{`{"limits":[{}]}`, "limits[0].name"},
		{`{"limits":[` + soundLimit + `,` + soundLimit + `]}`, "limits[1].name"},
		{`{"bucket_quantity":0}`, "bucket_quantity"},
		{`{"bucket_quantity":1025}`, "bucket_quantity"},
		{`{"type_rule":{}}`, "type_rule.kind"}, {`{"type_rule":{"kind":"daily"}}`, "type_rule.kind"},
		{`{"type_rule":{"kind":"calendar"}}`, "type_rule.every"},
		{`{"type_rule":{"kind":"free","quantity":1}}`, "type_rule.quantity"},
		{`{"late_refund":""}`, "late_refund"}, {`{"late_refund":"spread"}`, "late_refund"},
		{`{"timezone":""}`, "timezone"}, {`{"timezone":"Mars/Olympus"}`, "timezone"},
	} {
		add(invalid(patch(p.body)), p.field)
	}
	for _, p := range []struct{ body, field string }{
		{`{"status":null}`, "status"}, {`{"status":true}`, "status"},
		{`{"sharding_quantity":null}`, "sharding_quantity"},
		{`{"adjust_cnt":1.0}`, "adjust_cnt"}, {`{"total_quantity":1}`, "total_quantity"},
		{`{"tenant":"x"}`, "tenant"}, {`{"type":"daily"}`, "type"},
		{`{"type_rule":null}`, "type_rule"}, {`{"type_rule":"free"}`, "type_rule"},
		{`{"type_rule":{"kind":"free","Kind":"free"}}`, "type_rule.Kind"},
		{`{"type_rule":{"kind":"free","kind":"free"}}`, "type_rule.kind"},
		{`{"late_refund":null}`, "late_refund"},
		{`{"limits":null}`, "limits"}, {`{"limits":{}}`, "limits"}, {`{"limits":[7]}`, "limits[0]"},
		{`{"unlimited":true}`, "unlimited"}, {`{"routing_dimension":"user"}`, "routing_dimension"},
		{`{"version":1}`, "version"}, {`[{"op":"replace","path":"/status","value":"paused"}]`, ""},
	} {
		add(malformed(patch(p.body)), p.field)
	}
	for _, condition := range []string{"1", `"x"`, `"0"`, `"-1"`, `"1.0"`, `W/"1"`, `"1", "2"`, `"`,
		`""`, `"01"`, `"9007199254740992"`} {
		add(malformed(patch(`{"status":"paused"}`, "If-Match: "+condition)), "If-Match")
	}
	add(malformed(patch(`{"status":"paused"}`, `If-Match: "1"`, `If-Match: "1"`)), "If-Match")
	return cases
}

// bodies returns cases of bodies that are not the JSON object that a call needs.
func bodies(target Target) []Case {
	const sound = `{"request_id":"hostile","amount":1}`
	deduct := func(name, body string, header ...string) Case {
		c := on(target, "deduct", name, body)
		c.Header = header
		return c
	}
	deep := strings.Repeat("[", 100_000)
	pairs := strings.Repeat(`{"a":`, 100_000)
	cases := []Case{
		malformed(deduct("empty", "")), malformed(deduct("blank", " \r\n\t")),
		malformed(deduct("text", "amount=1")),
		malformed(deduct("array", "["+sound+"]")), malformed(deduct("null", "null")),
		malformed(deduct("number", "5")),
		malformed(deduct("cut", sound[:20])), malformed(deduct("two objects", sound+sound)),
		malformed(deduct("trailing text", sound+"x")),
		malformed(deduct("trailing NUL", sound+"\x00")),
		malformed(deduct("trailing bracket", sound+"}")),
		malformed(deduct("100,000 arrays deep", deep)),
		malformed(deduct("100,000 objects deep", pairs)),
		malformed(deduct("deep and closed", `{"x":`+deep+strings.Repeat("]", 100_000)+`}`)),
		malformed(deduct("deep where text belongs", `{"request_id":`+deep)),
		malformed(deduct("byte order mark", "\ufeff"+sound)), malformed(deduct("UTF-16", utf16(sound))),
		malformed(deduct("Latin-1", "{\"request_id\":\"caf\xe9\",\"amount\":1}")),
		malformed(deduct("comment", `{/**/"request_id":"h","amount":1}`)),
		malformed(deduct("single quotes", `{'request_id':'hostile','amount':1}`)),
		malformed(deduct("trailing comma", `{"request_id":"h","amount":1,}`)),
		malformed(deduct("XML", `<?xml version="1.0"?><deduct/>`)),
		malformed(deduct("YAML", "request_id: hostile\namount: 1\n")),
		malformed(deduct("duplicate amount", `{"request_id":"hostile","amount":1,"amount":1}`)),
		malformed(deduct("duplicate by escape", `{"request_id":"hostile","amount":1,"\u0061mount":2}`)),
		malformed(deduct("unknown member", `{"request_id":"hostile","amount":1,"force":true}`)),
		malformed(deduct("case variant", `{"request_id":"hostile","Amount":1,"amount":1}`)),
		malformed(deduct("prototype", `{"request_id":"hostile","amount":1,"__proto__":{}}`)),
		malformed(deduct("100,000 unknown members", `{"request_id":"h"`+manyMembers()+`}`)),
		invalid(deduct("hold_ttl", `{"request_id":"hostile","amount":1,"hold_ttl":"-15m"}`)),
		invalid(deduct("hold of a century", `{"request_id":"hostile","amount":1,"hold_ttl":"36500d"}`)),
		invalid(deduct("group", `{"request_id":"hostile","amount":1,"group":"g"}`)),
		invalid(deduct("counts -1", `{"request_id":"hostile","amount":1,"counts":{"l":-1}}`)),
		invalid(deduct("counts too large",
			`{"request_id":"hostile","amount":1,"counts":{"l":9007199254740992}}`)),
		invalid(deduct("counts name", `{"request_id":"hostile","amount":1,"counts":{"L":1}}`)),
		invalid(deduct("counts of 100", `{"request_id":"hostile","amount":1,"counts":{`+manyCounts(100)+
			`}}`)),
		malformed(deduct("counts 1.5", `{"request_id":"hostile","amount":1,"counts":{"l":1.5}}`)),
		malformed(deduct("counts null", `{"request_id":"hostile","amount":1,"counts":{"l":null}}`)),
		malformed(deduct("counts array", `{"request_id":"hostile","amount":1,"counts":[1]}`)),
		malformed(deduct("counts twice", `{"request_id":"hostile","amount":1,"counts":{"l":1,"l":2}}`)),
		malformed(deduct("dry_run text", `{"request_id":"hostile","amount":1,"dry_run":"true"}`)),
		malformed(deduct("dry_run null", `{"request_id":"hostile","amount":1,"dry_run":null}`)),
		tooLarge(deduct("larger than allowed", `{"request_id":"hostile","amount":1,"reference":"`+
			strings.Repeat("x", int(target.BodyBytes))+`"}`)),
		tooLarge(deduct("blank and larger than allowed", strings.Repeat(" ", int(target.BodyBytes)+1))),
		tooLarge(Case{Name: "chunked and larger than allowed", Raw: "POST /v1/budgets/" + target.Budget +
			"/deduct HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nTransfer-Encoding: " +
			"chunked\r\n\r\n" +
			fmt.Sprintf("%x\r\n%s\r\n0\r\n\r\n", target.BodyBytes+1,
				strings.Repeat(" ", int(target.BodyBytes)+1))}),
		malformed(Case{Name: "GET with a body", Method: "GET", Path: "/v1/budgets/" + target.Budget,
			Body: sound}),
		malformed(Case{Name: "offline with members", Method: "POST", Path: "/v1/budgets/" +
			target.Budget + "/buckets/x/offline", Body: sound}),
	}
	for name, types := range map[string][]string{
		"missing": nil, "empty": {"Content-Type:"}, "text": {"Content-Type: text/plain"},
		"form":        {"Content-Type: application/x-www-form-urlencoded"},
		"XML":         {"Content-Type: application/xml"},
		"UTF-16":      {"Content-Type: application/json; charset=utf-16"},
		"utf8":        {"Content-Type: application/json; charset=utf8"},
		"two":         {"Content-Type: application/json", "Content-Type: text/plain"},
		"like JSON":   {"Content-Type: application/jsonp"},
		"merge patch": {"Content-Type: application/merge-patch+json"},
		"nonsense":    {"Content-Type: ;;;"},
		"compressed":  {"Content-Type: application/json", "Content-Encoding: gzip"},
	} {
		c := deduct("Content-Type "+name, sound, types...)
		c.Untyped, c.Statuses, c.Codes = true, []int{415}, []budget.Code{budget.UnsupportedMediaType}
		cases = append(cases, c)
	}
	return cases
}

func tooLarge(c Case) Case {
	c.Statuses, c.Codes = []int{413}, []budget.Code{budget.TooLarge}
	return c
}

func utf16(text string) string {
	out := "\xff\xfe"
	for _, c := range []byte(text) {
		out += string([]byte{c, 0})
	}
	return out
}

func manyMembers() string {
	var out strings.Builder
	for i := range 100_000 {
		fmt.Fprintf(&out, `,"%x":1`, i)
	}
	return out.String()
}

// batches returns cases of batches that are refused as a whole, or in their first item.
func batches(target Target) []Case {
	batch := func(name, body string) Case {
		return Case{Name: "batch: " + name, Method: "POST", Path: "/v1/deductions:batch", Body: body}
	}
	item := func(name, item string) Case {
		c := batch("item "+name, `{"deductions":[`+item+`]}`)
		c.Item = true
		return c
	}
	with := func(c Case, field string) Case {
		c.Field = field
		return c
	}
	ours := `{"budget":"` + target.Budget + `","request_id":"hostile"`
	cases := []Case{
		with(invalid(batch("nothing", `{}`)), "deductions"),
		with(invalid(batch("no deductions", `{"deductions":[]}`)), "deductions"),
		with(malformed(batch("not an array", `{"deductions":{}}`)), "deductions"),
		with(malformed(batch("null", `{"deductions":null}`)), "deductions"),
		with(malformed(batch("unknown", `{"deductions":[`+ours+`,"amount":1}],"atomic":true}`)),
			"atomic"),
		malformed(batch("an array", `[`+ours+`,"amount":1}]`)),
		malformed(batch("broken in the second", `{"deductions":[`+ours+`,"amount":1},{"amount":tru}]}`)),
		malformed(batch("cut", `{"deductions":[`+ours+`,"amount":1}`)),
		malformed(batch("trailing", `{"deductions":[`+ours+`,"amount":1}]}]`)),
		malformed(batch("duplicate in the second", `{"deductions":[`+ours+`,"amount":1},`+ours+
			`,"amount":1,"amount":2}]}`)),
		tooLarge(batch("one too many", `{"deductions":[`+strings.Repeat(`{},`, target.BatchItems)+
			`{}]}`)),
		tooLarge(batch("1,000,001", `{"deductions":[`+strings.Repeat(`{},`, 1_000_000)+`{}]}`)),
		tooLarge(batch("larger than allowed", `{"deductions":[`+
			strings.Repeat(" ", int(target.BatchBytes))+`]}`)),
	}
	for _, text := range []string{"0", "-1", "9007199254740992"} {
		cases = append(cases, with(invalid(item("amount "+text, ours+`,"amount":`+text+`}`)), "amount"))
	}
	for _, text := range []string{"1.5", "1e3", `"5"`, "null", "true", "[]"} {
		cases = append(cases, with(malformed(item("amount "+text, ours+`,"amount":`+text+`}`)), "amount"))
	}
	unknown := item("unknown budget", `{"budget":"SALE","request_id":"hostile","amount":1}`)
	unknown.Statuses, unknown.Codes = []int{404}, notFound("budget")
	return append(cases, unknown,
		with(malformed(batch("a number", `{"deductions":[7]}`)), "deductions[0]"),
		with(malformed(batch("a string", `{"deductions":[`+ours+`,"amount":1},"x"]}`)), "deductions[1]"),
		with(malformed(batch("null as item", `{"deductions":[null]}`)), "deductions[0]"),
		with(malformed(batch("an array as item", `{"deductions":[[]]}`)), "deductions[0]"),
		with(invalid(item("without budget", `{"request_id":"hostile","amount":1}`)), "budget"),
		with(invalid(item("without id", `{"budget":"`+target.Budget+`","amount":1}`)), "request_id"),
		with(malformed(item("unknown member", ours+`,"amount":1,"force":1}`)), "force"),
		with(invalid(item("hold", ours+`,"amount":1,"hold_ttl":"15 m"}`)), "hold_ttl"),
	)
}

func manyCounts(n int) string {
	counts := make([]string, n)
	for i := range counts {
		counts[i] = fmt.Sprintf(`"l%d":1`, i)
	}
	return strings.Join(counts, ",")
}
