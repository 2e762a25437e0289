package adversarial

import (
	"net/url"
	"strings"
)

// OddIDs returns valid request ids that look dangerous or alike. Ids are compared byte by byte, so
// each of them is a different request.
func OddIDs() []string {
	return []string{
		"a", "A", "a ", " a", "á", "a\u0301", "7", "007", "1e3", "1000", "1000.0", "7 ", "null", "true",
		"0", "-0",
		"{}", "{partition}", "a:b:c", "}{", "*?[", "'; DROP TABLE deduction;--", "${jndi:x}", "%s%n%d",
		"%00",
		"\\0",
		"]] redis.call('FLUSHALL')", "../../admin", "<script>", "\"", "\\", "|", "a|b", "ﬀ", "ff", "İ",
		"ı",
		"\u200b", "\u202e", "\ufeff", "\U0001F600", strings.Repeat("x", 128), strings.Repeat("ü", 64),
	}
}

// badText returns JSON strings that are invalid as a request id, key or dimension.
func badText(limit int) map[string]string {
	return map[string]string{
		"empty": `""`, "too long": `"` + strings.Repeat("x", limit+1) + `"`, "NUL": `"a\u0000b"`,
		"too long in characters of two bytes": `"` + strings.Repeat("ü", limit/2+1) + `"`,
		"CR LF":                               `"a\r\nX-Evil: 1"`, "escape": `"\u001b[2J"`,
		"delete": `"\u007f"`, "C1": `"\u0085"`,
		"500 KiB": `"` + strings.Repeat("x", 500<<10) + `"`,
	}
}

// noText has JSON values that are not strings.
var noText = map[string]string{
	"null": `null`, "number": `7`, "true": `true`, "array": `["a"]`, "object": `{"a":"b"}`,
}

// brokenText has invalid JSON strings.
var brokenText = map[string]string{
	"invalid UTF-8": "\"a\xff\"", "lone surrogate": `"\ud800"`, "raw NUL": "\"a\x00b\"",
	"raw line feed":  "\"a\nb\"",
	"overlong UTF-8": "\"\xc0\xaf\"",
}

// texts returns cases of invalid ids, keys, dimensions and references in every call that takes
// them.
func texts(target Target) []Case {
	var cases []Case
	for _, f := range []struct {
		verb, field, before, after string
		limit                      int
	}{
		{"deduct", "request_id", `{"amount":1,"request_id":`, `}`, 128},
		{"deduct", "key", `{"request_id":"hostile","amount":1,"key":`, `}`, 256},
		{"deduct", "reference", `{"request_id":"hostile","amount":1,"reference":`, `}`, 256},
		{"deduct", "dimensions.user", `{"request_id":"hostile","amount":1,"dimensions":{"user":`, `}}`,
			256},
		{"append", "request_id", `{"quantity":1,"request_id":`, `}`, 128},
		{"rollback", "request_id", `{"request_id":`, `}`, 128},
		{"rollback", "rollback_id", `{"request_id":"hostile","rollback_id":`, `}`, 128},
		{"cancel", "request_id", `{"request_id":`, `}`, 128},
	} {
		add := func(c Case) {
			c.Field = f.field
			cases = append(cases, c)
		}
		for name, text := range badText(f.limit) {
			add(invalid(on(target, f.verb, f.field+" "+name, f.before+text+f.after)))
		}
		for name, text := range noText {
			add(malformed(on(target, f.verb, f.field+" "+name, f.before+text+f.after)))
		}
		for name, text := range brokenText {
			cases = append(cases, malformed(on(target, f.verb, f.field+" "+name, f.before+text+f.after)))
		}
	}
	dimensions := func(name, text string) Case {
		return on(target, "deduct", "dimensions "+name,
			`{"request_id":"hostile","amount":1,"dimensions":`+text+`}`)
	}
	many := make([]string, 17)
	for i := range many {
		many[i] = `"d` + string(rune('a'+i)) + `":"x"`
	}
	for _, c := range []Case{
		invalid(dimensions("17", "{"+strings.Join(many, ",")+"}")),
		invalid(dimensions("no name", `{"":"x"}`)),
		invalid(dimensions("name with NUL", `{"a\u0000":"x"}`)),
		invalid(dimensions("long name", `{"`+strings.Repeat("x", 257)+`":"x"}`)),
		malformed(dimensions("array", `["user"]`)), malformed(dimensions("null", `null`)),
		malformed(dimensions("text", `"user=u1"`)),
	} {
		c.Field = "dimensions"
		cases = append(cases, c)
	}
	return append(cases, missing(target)...)
}

// missing returns cases of bodies without a required member, and of queries without an id.
func missing(target Target) []Case {
	var cases []Case
	for _, m := range []struct{ verb, body, field string }{
		{"deduct", `{"amount":1}`, "request_id"}, {"deduct", `{"request_id":"hostile"}`, "amount"},
		{"deduct", `{}`, "amount"}, {"append", `{"request_id":"hostile"}`, "quantity"},
		{"append", `{"quantity":1}`, "request_id"}, {"rollback", `{}`, "request_id"},
		{"rollback", `{"rollback_id":"r"}`, "request_id"}, {"cancel", `{}`, "request_id"},
	} {
		c := invalid(on(target, m.verb, "without "+m.field, m.body))
		c.Field = m.field
		cases = append(cases, c)
	}
	for name, id := range map[string]string{
		"none": "", "empty": "?request_id=", "NUL": "?request_id=%00", "CR LF": "?request_id=a%0d%0a",
		"too long": "?request_id=" + strings.Repeat("x", 129), "invalid UTF-8": "?request_id=%ff",
	} {
		c := invalid(Case{Name: "deductions: request_id " + name, Method: "GET",
			Path: "/v1/budgets/" + target.Budget + "/deductions" + id})
		c.Field = "request_id"
		cases = append(cases, c)
	}
	cases = append(cases, malformed(Case{Name: "a parameter whose name is not UTF-8", Method: "GET",
		Path: "/v1/budgets?%ff=1"}))
	return cases
}

// definitions returns cases of invalid budgets.
func definitions(Target) []Case {
	var cases []Case
	add := func(c Case, field string) {
		c.Field = field
		cases = append(cases, c)
	}
	for name, text := range map[string]string{
		"empty": "", "upper case": "Sale", "digit first": "7sale", "dash first": "-sale", "dots": "a.b",
		"slash":    "a/b",
		"64 bytes": strings.Repeat("a", 64), "500 KiB": strings.Repeat("a", 500<<10), "space": "a b",
		"braces": "a{b}",
		"colon":  "a:b", "glob": "a*?[", "SQL": "'; DROP TABLE deduction;--", "JNDI": "${jndi:x}",
		"format": "%s%n",
		"Lua":    "]] redis.call('FLUSHALL')", "climb": "../../admin", "escaped": "%2e%2e", "umlaut": "ä",
		"NUL":   `a\u0000`,
		"CR LF": `a\r\n`,
	} {
		add(invalid(definition("name "+name, `"name":"`+text+`"`)), "name")
		add(invalid(definition("tenant "+name, `"tenant":"`+text+`"`)), "tenant")
	}
	for _, w := range []struct{ members, field string }{
		{`"bucket_quantity":0`, "bucket_quantity"}, {`"bucket_quantity":-1`, "bucket_quantity"},
		{`"bucket_quantity":1000000000`, "bucket_quantity"},
		{`"bucket_quantity":1025`, "bucket_quantity"},
		{`"sharding_quantity":-1`, "sharding_quantity"},
		{`"sharding_quantity":9007199254740992`, "sharding_quantity"},
		{`"adjust_cnt":-0`, "adjust_cnt"}, {`"sharding_quantity":-0`, "sharding_quantity"},
		{`"adjust_cnt":-1`, "adjust_cnt"}, {`"adjust_cnt":1000000001`, "adjust_cnt"},
		{`"unit":"pieces"`, "unit"}, {`"unit":""`, "unit"}, {`"type":"hourly"`, "type"},
		{`"gl_code":"a\u0000"`, "gl_code"}, {`"gl_code":"` + strings.Repeat("x", 129) + `"`, "gl_code"},
		{`"start_at":"2026-02-01T00:00:00Z","end_at":"2026-01-01T00:00:00Z"`, "end_at"},
		{`"start_at":"2026-02-01T00:00:00Z","end_at":"2026-02-01T00:00:00Z"`, "end_at"},
		{`"start_at":"2026-02-01T08:00:00+08:00","end_at":"2026-02-01T00:00:00Z"`, "end_at"},
		{`"start_at":"0000-01-01T00:00:00Z"`, "start_at"},
		{`"start_at":"0001-01-01T00:00:00Z"`, "start_at"},
		{`"end_at":"9999-12-31T23:59:59Z"`, "end_at"}, {`"end_at":"1969-12-31T23:59:59Z"`, "end_at"},
		{`"end_at":"tomorrow"`, "end_at"}, {`"end_at":"2026-02-30T00:00:00Z"`, "end_at"},
		{`"end_at":"2026-01-01"`, "end_at"}, {`"end_at":"2026-01-01T00:00:00"`, "end_at"},
		{`"end_at":"2026-01-01T25:00:00Z"`, "end_at"}, {`"end_at":"12026-01-01T00:00:00Z"`, "end_at"},
		{`"timezone":"../etc/passwd"`, "timezone"}, {`"timezone":"Local"`, "timezone"},
		{`"timezone":""`, "timezone"},
		{`"timezone":"Mars/Olympus"`, "timezone"}, {`"timezone":"/etc/localtime"`, "timezone"},
		{`"timezone":"Europe/../UTC"`, "timezone"}, {`"timezone":"UTC\u0000"`, "timezone"},
		{`"timezone":"Europe"`, "timezone"},
	} {
		add(invalid(definition(w.members[:min(len(w.members), 60)], w.members)), w.field)
	}
	for _, w := range []struct{ members, field string }{
		{`"name":null`, "name"}, {`"name":7`, "name"}, {`"tenant":null`, "tenant"},
		{`"bucket_quantity":"8"`, "bucket_quantity"},
		{`"bucket_quantity":1e1`, "bucket_quantity"}, {`"adjust_cnt":null`, "adjust_cnt"},
		{`"end_at":1769850000`, "end_at"},
		{`"end_at":null`, "end_at"}, {`"limits":{}`, "limits"}, {`"unlimited":"true"`, "unlimited"},
		{`"unlimited":1`, "unlimited"},
		{`"Name":"x"`, "Name"}, {`"totalQuantity":1`, "totalQuantity"}, {`"id":7`, "id"},
		{`"version":1`, "version"},
		{`"name":"a","name":"b"`, "name"}, {`"name":"a","\u006eame":"b"`, "name"},
	} {
		add(malformed(definition(w.members, w.members)), w.field)
	}
	for _, member := range []string{"name", "unit", "type", "total_quantity"} {
		add(invalid(definition("without "+member, "", member)), member)
	}
	return append(append(append(cases, rules()...), limits()...), notYet()...)
}

// notYet returns cases of members that this version refuses by name because it does not implement
// them yet.
func notYet() []Case {
	var cases []Case
	for _, w := range []struct{ members, field string }{
		{`"durability":"memory"`, "durability"},
	} {
		c := invalid(definition("not yet "+w.members, w.members))
		c.Field = w.field
		cases = append(cases, c)
	}
	return cases
}

// paths returns cases of paths that do not exist, or that imitate another path.
func paths(target Target) []Case {
	var cases []Case
	for _, name := range []string{
		"..", "%2e%2e", "..%2f..%2fadmin", "%2e%2e%2fadmin", "%00", "a%00b", "%0d%0aX-Evil:1", "%ff", "*",
		"%2a%3f%5b", "SALE",
		"007", "0", "-1", "1e3", "9007199254740992", "%25s%25n", "%7b%7d", "a%20b", "%c3%a4",
		"'%3b%20DROP%20TABLE%20x--",
		"$%7bjndi:x%7d", strings.Repeat("a", 64), strings.Repeat("a", 10_000),
		"%5d%5d%20redis.call('FLUSHALL')",
	} {
		path := "/v1/budgets/" + name
		show := name[:min(len(name), 40)]
		for _, c := range []Case{
			{Name: "view of " + show, Method: "GET", Path: path},
			{Name: "deduct from " + show, Method: "POST", Path: path + "/deduct",
				Body: `{"request_id":"hostile","amount":1}`},
		} {
			c.Statuses, c.Codes = []int{404}, notFound("budget")
			cases = append(cases, c)
		}
	}
	ours := "/v1/budgets/" + target.Budget
	for _, path := range []string{
		"/v1/budgets/", "/v1//budgets", "//v1/budgets", "/v1/./budgets", "/v1/x/../budgets",
		"/v1/budgets/..", "/v2/budgets",
		"/v1/budget", "/V1/budgets", "/v1/budgets/.", ours + "/", ours + "//deduct",
		ours + "/../" + target.Budget,
		ours + "/deduct/", ours + "/unknown", ours + "/buckets//offline", ours + "/buckets/..",
		"/v1/deductions%3Abatch/x",
		"/admin", "/.git/config", "/debug/pprof/", "/metrics/", "/healthz/", "/%2e%2e/%2e%2e/etc/passwd",
		"/v1",
	} {
		cases = append(cases, Case{Name: "path " + path, Method: "GET", Path: path,
			Statuses: []int{404}, Codes: notFound("route")})
	}
	for _, key := range []string{"%00", "%0d%0a", strings.Repeat("x", 257), "%ff"} {
		for _, verb := range []string{"offline", "online", "apply"} {
			cases = append(cases, Case{Name: verb + " of bucket " + key[:min(len(key), 20)], Method: "POST",
				Path: ours + "/buckets/" + key + "/" + verb, Statuses: []int{404}, Codes: notFound("bucket")})
		}
	}
	for _, m := range []struct{ method, path string }{
		{"DELETE", "/v1/budgets"}, {"DELETE", ours + "/deduct"}, {"PUT", ours}, {"POST", ours},
		{"GET", ours + "/deduct"},
		{"PATCH", "/v1/budgets"}, {"HEAD", ours + "/deduct"},
		{"POST", "/healthz"}, {"TRACE", ours}, {"OPTIONS", ours}, {"get", ours},
		{"PROPFIND", "/v1/budgets"},
		{"GET", "/v1/deductions:batch"}, {"POST", ours + "/audit"},
		{"GET", ours + "/buckets/x/offline"},
	} {
		cases = append(cases, Case{Name: m.method + " " + m.path, Method: m.method, Path: m.path,
			Statuses: []int{405}, Codes: notFound("method")})
	}
	for name, path := range map[string]string{"bad escape": "/v1/budgets/%zz",
		"half an escape": "/v1/budgets/%2", "a space": "/v1/budgets/a b",
		"a raw NUL": "/v1/budgets/\x00", "no slash": "v1/budgets"} {
		cases = append(cases, Case{Name: "path with " + name, Method: "GET", Path: path,
			Statuses: []int{400}})
	}
	return cases
}

// queries returns cases of parameters that are unknown, repeated or invalid.
func queries(target Target) []Case {
	ours := "/v1/budgets/" + target.Budget
	var cases []Case
	add := func(c Case, field string) {
		c.Name, c.Field = c.Method+" "+c.Path[:min(len(c.Path), 80)], field
		cases = append(cases, c)
	}
	for _, q := range []struct{ path, field string }{
		{ours + "?x=1", "x"}, {ours + "?Tenant=default", "Tenant"},
		{ours + "?tenant=default&tenant=default", "tenant"},
		{"/v1/budgets?page_size=1&page_size=2", "page_size"}, {"/v1/budgets?pagesize=1", "pagesize"},
		{ours + "/audit?deep=1", "deep"}, {ours + "/ledger?cursor=x", "cursor"},
		{ours + "/ledger?after=a&after=b", "after"},
		{ours + "/series?since=1h", "since"}, {ours + "/series?step=1m&step=2m", "step"},
		{ours + "/deductions?request_id=a&request_id=b", "request_id"},
		{"/v1/instances?name=x", "name"},
		{ours + "?tenant=%zz", ""}, {ours + "?tenant=a;b=c", ""}, {ours + "?%", ""},
	} {
		add(malformed(Case{Method: "GET", Path: q.path}), q.field)
	}
	for _, q := range []struct{ path, field string }{
		{ours + "?tenant=", "tenant"}, {ours + "?tenant=ACME", "tenant"},
		{ours + "?tenant=" + url.QueryEscape("' OR 1=1 --"), "tenant"},
		{ours + "?tenant=%00", "tenant"}, {ours + "?tenant=*", "tenant"},
		{ours + "?tenant=" + strings.Repeat("a", 64), "tenant"},
		{ours + "/ledger?limit=0", "limit"}, {ours + "/ledger?limit=1001", "limit"},
		{ours + "/ledger?wait=5", "wait"}, {ours + "/ledger?wait=31s", "wait"},
		{ours + "/ledger?wait=-1s", "wait"}, {ours + "/ledger?limit=", "limit"},
		{ours + "/series?from=yesterday", "from"}, {ours + "/series?to=", "to"},
		{ours + "/series?from=2026-05-01T12:00:00", "from"}, {ours + "/series?from=1746100800", "from"},
		{ours + "/series?to=10000-01-01T00:00:00Z", "to"},
		{ours + "/series?from=2026-05-01T12:00:00+08:00", "from"},
		{ours + "/series?step=5", "step"}, {ours + "/series?step=-1m", "step"},
		{ours + "/series?step=", "step"},
		{"/v1/budgets?page_size=0", "page_size"}, {"/v1/budgets?page_size=-1", "page_size"},
		{"/v1/budgets?page_size=1001", "page_size"},
		{"/v1/budgets?page_size=1e2", "page_size"}, {"/v1/budgets?page_size=", "page_size"},
		{"/v1/budgets?page_size=%EF%BC%95", "page_size"},
		{"/v1/budgets?page_token=x", "page_token"}, {"/v1/budgets?page_token=", "page_token"},
		{"/v1/budgets?page_token=MTotMQ", "page_token"},
		{"/v1/budgets?status=gone", "status"}, {"/v1/budgets?type=PROMO", "type"},
	} {
		add(invalid(Case{Method: "GET", Path: q.path}), q.field)
	}
	for _, verb := range []string{"deduct", "append", "rollback", "cancel"} {
		c := malformed(on(target, verb, "query", `{"request_id":"hostile","amount":1,"quantity":1}`))
		c.Path += "?force=true"
		add(c, "force")
	}
	return cases
}
