package adversarial

import (
	"fmt"
	"strings"
)

// rules returns cases of daily budgets with an invalid rule.
func rules() []Case {
	var cases []Case
	add := func(make func(Case) Case, members, field string) {
		c := make(definition("rule "+members[:min(len(members), 120)], `"type":"daily",`+members))
		c.Field = field
		cases = append(cases, c)
	}
	rule := func(make func(Case) Case, text, field string) {
		add(make, `"type_rule":`+text, field)
	}
	for _, w := range []struct{ text, field string }{
		{`{}`, "type_rule.kind"}, {`{"every":"day"}`, "type_rule.kind"},
		{`{"kind":""}`, "type_rule.kind"},
		{`{"kind":"FREE"}`, "type_rule.kind"}, {`{"kind":"cron","every":"day"}`, "type_rule.kind"},
		{`{"kind":"free","every":"day"}`, "type_rule.every"},
		{`{"kind":"free","every":""}`, "type_rule.every"},
		{`{"kind":"free","unused":"spread"}`, "type_rule.unused"},
		{`{"kind":"free","windows":[]}`, "type_rule.windows"},
		{`{"kind":"calendar"}`, "type_rule.every"}, {`{"kind":"calendar","every":"year"}`,
			"type_rule.every"},
		{`{"kind":"calendar","every":"day","quantity":0}`, "type_rule.quantity"},
		{`{"kind":"calendar","every":"day","quantity":-1}`, "type_rule.quantity"},
		{`{"kind":"calendar","every":"day","quantity":9007199254740992}`, "type_rule.quantity"},
		{`{"kind":"calendar","every":"day","quantity":` + strings.Repeat("9", 10_000) + `}`,
			"type_rule.quantity"},
		{`{"kind":"calendar","every":"day","quantity":1,"unused":""}`, "type_rule.unused"},
		{`{"kind":"calendar","every":"day","quantity":1,"unused":"total"}`, "type_rule.unused"},
		{`{"kind":"calendar","every":"day"}`, "end_at"}, // an end is needed to compress the total
		{`{"kind":"windows"}`, "type_rule.windows"},
		{`{"kind":"windows","windows":[]}`, "type_rule.windows"},
		{`{"kind":"windows","windows":[{}]}`, "type_rule.windows[0].from"},
		{`{"kind":"windows","windows":[` + manyWindows(97) + `]}`, "type_rule.windows"},
		{`{"kind":"windows","windows":[` + manyWindows(10_000) + `]}`, "type_rule.windows"},
	} {
		rule(invalid, w.text, w.field)
	}
	for _, w := range []struct{ windows, field string }{
		{`{"from":"6:00","to":"07:00","quantity":1}`, "[0].from"},
		{`{"from":"06.00","to":"07:00","quantity":1}`, "[0].from"},
		{`{"from":"24:00","to":"24:00","quantity":1}`, "[0].from"},
		{`{"from":"-1:00","to":"07:00","quantity":1}`, "[0].from"},
		{`{"from":"06:00:00","to":"07:00","quantity":1}`, "[0].from"},
		{`{"from":"","to":"07:00","quantity":1}`, "[0].from"},
		{`{"from":"０６:００","to":"07:00","quantity":1}`, "[0].from"},
		{`{"from":"06:00","to":"24:01","quantity":1}`, "[0].to"},
		{`{"from":"06:00","to":"06:60","quantity":1}`, "[0].to"},
		{`{"from":"06:00","to":"06:00","quantity":1}`, "[0].to"},
		{`{"from":"22:00","to":"06:00","quantity":1}`, "[0].to"},
		{`{"from":"06:00","to":"07:00\u0000","quantity":1}`, "[0].to"},
		{`{"from":"06:00","to":"07:00","quantity":0}`, "[0].quantity"},
		{`{"from":"06:00","to":"07:00"}`, "[0].quantity"},
		{`{"from":"06:00","to":"07:00","quantity":1},{"from":"06:30","to":"08:00","quantity":1}`,
			"[1].from"},
		{`{"from":"12:00","to":"13:00","quantity":1},{"from":"06:00","to":"07:00","quantity":1}`,
			"[1].from"},
	} {
		rule(invalid, `{"kind":"windows","windows":[`+w.windows+`]}`, "type_rule.windows"+w.field)
	}
	for _, w := range []struct{ text, field string }{
		{`null`, "type_rule"}, {`"free"`, "type_rule"}, {`[]`, "type_rule"},
		{`[{"kind":"free"}]`, "type_rule"}, {`7`, "type_rule"},
		{`{"kind":null}`, "type_rule.kind"}, {`{"kind":["free"]}`, "type_rule.kind"},
		{`{"kind":{"x":1}}`, "type_rule.kind"},
		{`{"kind":"free","Kind":"free"}`, "type_rule.Kind"},
		{`{"kind":"free","kind":"free"}`, "type_rule.kind"},
		{`{"kind":"free","\u006bind":"windows"}`, "type_rule.kind"},
		{`{"kind":"free","cron":"* * * * *"}`, "type_rule.cron"},
		{`{"kind":"free","__proto__":{}}`, "type_rule.__proto__"},
		{`{"kind":"calendar","every":"day","quantity":1.0}`, "type_rule.quantity"},
		{`{"kind":"calendar","every":"day","quantity":1e3}`, "type_rule.quantity"},
		{`{"kind":"calendar","every":"day","quantity":"10"}`, "type_rule.quantity"},
		{`{"kind":"calendar","every":"day","quantity":null}`, "type_rule.quantity"},
		{`{"kind":"calendar","every":60}`, "type_rule.every"}, {`{"kind":"windows","windows":null}`,
			"type_rule.windows"},
		{`{"kind":"windows","windows":{"from":"00:00","to":"06:00","quantity":1}}`, "type_rule.windows"},
		{`{"kind":"windows","windows":["00:00-06:00=1"]}`, "type_rule.windows[0]"},
		{`{"kind":"windows","windows":[null]}`, "type_rule.windows[0]"},
		{`{"kind":"windows","windows":[{"from":"00:00","to":"06:00","quantity":1},` +
			`{"from":0,"to":"08:00","quantity":1}]}`,
			"type_rule.windows[1].from"},
		{`{"kind":"windows","windows":[{"from":"00:00","to":"06:00","quantity":1.5}]}`,
			"type_rule.windows[0].quantity"},
		{`{"kind":"windows","windows":[{"from":"00:00","to":"06:00","quantity":1,"Quantity":2}]}`,
			"type_rule.windows[0].Quantity"},
		{`{"kind":"windows","windows":[{"from":"00:00","to":"06:00","quantity":1,"quantity":2}]}`,
			"type_rule.windows[0].quantity"},
		{`{"kind":"windows","windows":[{"from":"00:00","to":"06:00","quantity":1,"unused":"next"}]}`,
			"type_rule.windows[0].unused"},
		{`{"kind":` + strings.Repeat("[", 100_000), "type_rule.kind"},
	} {
		rule(malformed, w.text, w.field)
	}
	const free = `"type_rule":{"kind":"free"}`
	add(invalid, free+`,"late_refund":"spread"`, "late_refund")
	add(invalid, free+`,"late_refund":""`, "late_refund")
	add(malformed, free+`,"late_refund":null`, "late_refund")
	add(invalid, `"gl_code":"x"`, "type_rule") // missing
	// On that day the clock of Europe/London skips the hour from 01:00, so the only window does not
	// exist.
	add(invalid,
		`"type_rule":{"kind":"windows","windows":[{"from":"01:00","to":"02:00","quantity":1}]},
		"timezone":"Europe/London",
		"start_at":"2026-03-29T00:00:00Z","end_at":"2026-03-29T23:00:00Z"`, "type_rule")
	c := invalid(definition("a rule for promo", free))
	c.Field = "type_rule"
	return append(cases, c)
}

func manyWindows(n int) string {
	windows := make([]string, n)
	for i := range windows {
		windows[i] = fmt.Sprintf(`{"from":"%02d:%02d","to":"%02d:%02d","quantity":1}`, i/60%24, i%60,
			(i+1)/60%24, (i+1)%60)
	}
	return strings.Join(windows, ",")
}
