package adversarial

import (
	"fmt"
	"strings"
)

// soundLimit is a valid limit.
const soundLimit = `{"name":"l","dimension":"user","window":{"kind":"lifetime"},` +
	`"max":1,"measure":"count"}`

// limits returns cases of budgets with invalid limits.
func limits() []Case {
	var cases []Case
	add := func(make func(Case) Case, list, field string) {
		c := make(definition("limits "+list[:min(len(list), 120)], `"limits":`+list))
		c.Field = field
		cases = append(cases, c)
	}
	with := func(change ...string) string {
		return "[" +
			strings.NewReplacer(change...).Replace(soundLimit) + "]"
	}
	window := func(text string) string { return with(`{"kind":"lifetime"}`, text) }
	override := func(text string) string { return with(`"max":1`, `"max":1,"overrides":[`+text+`]`) }
	for _, w := range []struct{ list, field string }{
		{`[{}]`, "limits[0].name"}, {`[{"name":"l"}]`, "limits[0].dimension"},
		{`[{"name":"l"}]`, "limits[0].window"},
		{`[{"name":"l"}]`, "limits[0].max"},
		{"[" + soundLimit + "," + soundLimit + "]", "limits[1].name"},
		{with(`"l"`, `""`), "limits[0].name"}, {with(`"l"`, `"L"`), "limits[0].name"},
		{with(`"l"`, `"`+strings.Repeat("l", 64)+`"`), "limits[0].name"},
		{with(`"user"`, `""`), "limits[0].dimension"}, {with(`"user"`, `"+"`), "limits[0].dimension"},
		{with(`"user"`, `"user+user"`), "limits[0].dimension"},
		{with(`"user"`, `"a+b+c+d+e"`), "limits[0].dimension"},
		{with(`"user"`, `"a\u0000"`), "limits[0].dimension"},
		{with(`"max":1`, `"max":-1`), "limits[0].max"}, {with(`"max":1`, `"max":9007199254740992`),
			"limits[0].max"},
		{with(`"count"`, `"calls"`), "limits[0].measure"}, {with(`"count"`, `""`), "limits[0].measure"},
		{window(`{}`), "limits[0].window.kind"}, {window(`{"kind":"daily"}`), "limits[0].window.kind"},
		{window(`{"kind":"calendar"}`), "limits[0].window.every"},
		{window(`{"kind":"calendar","every":"decade"}`), "limits[0].window.every"},
		{window(`{"kind":"calendar","every":"day","timezone":"Mars/Olympus"}`),
			"limits[0].window.timezone"},
		{window(`{"kind":"calendar","every":"day","timezone":"Local"}`), "limits[0].window.timezone"},
		{window(`{"kind":"calendar","every":"day","length":"1d"}`), "limits[0].window.length"},
		{window(`{"kind":"lifetime","every":"day"}`), "limits[0].window.every"},
		{window(`{"kind":"first_hit"}`), "limits[0].window.length"},
		{window(`{"kind":"first_hit","length":"0s"}`), "limits[0].window.length"},
		{window(`{"kind":"first_hit","length":"-5s"}`), "limits[0].window.length"},
		{window(`{"kind":"first_hit","length":"5"}`), "limits[0].window.length"},
		{window(`{"kind":"first_hit","length":"1ns"}`), "limits[0].window.length"},
		{window(`{"kind":"first_hit","length":"99999d"}`), "limits[0].window.length"},
		{window(`{"kind":"first_hit","length":"5s","slot":"1s"}`), "limits[0].window.slot"},
		{window(`{"kind":"sliding","length":"8h"}`), "limits[0].window.slot"},
		{window(`{"kind":"sliding","length":"8h","slot":"9h"}`), "limits[0].window.slot"},
		{window(`{"kind":"sliding","length":"365d","slot":"1ms"}`), "limits[0].window.slot"},
		{override(`{}`), "limits[0].overrides[0]"},
		{override(`{"value":"vip"}`), "limits[0].overrides[0]"},
		{override(`{"max":1}`), "limits[0].overrides[0]"},
		{override(`{"value":"vip","max":1,"exempt":true}`), "limits[0].overrides[0]"},
		{override(`{"value":"vip","values":["vip"],"max":1}`), "limits[0].overrides[0]"},
		{override(`{"value":"vip","exempt":false}`), "limits[0].overrides[0]"},
		{override(`{"values":["vip","a1"],"max":1}`), "limits[0].overrides[0].value"},
		{override(`{"value":"","max":1}`), "limits[0].overrides[0].value"},
		{override(`{"value":"vip","max":-1}`), "limits[0].overrides[0].max"},
		{override(`{"value":"vip","max":1},{"value":"vip","max":2}`), "limits[0].overrides[1].value"},
		{"[" + manyLimits(33) + "]", "limits"}, {"[" + manyLimits(5_000) + "]", "limits"},
		{override(manyOverrides(1_001)), "limits[0].overrides"},
	} {
		add(invalid, w.list, w.field)
	}
	for _, w := range []struct{ list, field string }{
		{`null`, "limits"}, {`{}`, "limits"}, {`"l"`, "limits"}, {`[null]`, "limits[0]"},
		{`["l"]`, "limits[0]"},
		{with(`"max":1`, `"max":1.5`), "limits[0].max"}, {with(`"max":1`, `"max":"1"`), "limits[0].max"},
		{with(`"max":1`, `"max":null`), "limits[0].max"}, {with(`"max":1`, `"max":1,"max":2`),
			"limits[0].max"},
		{with(`"max":1`, `"max":1,"Max":2`), "limits[0].Max"}, {with(`"max":1`, `"max":1,"period":"day"`),
			"limits[0].period"},
		{with(`"max":1`, `"max":1,"enforce":"no"`), "limits[0].enforce"},
		{with(`"max":1`, `"max":1,"optional":1`), "limits[0].optional"},
		{window(`"day"`), "limits[0].window"}, {window(`null`), "limits[0].window"},
		{window(`[]`), "limits[0].window"},
		{window(`{"kind":"first_hit","length":5}`), "limits[0].window.length"},
		{window(`{"kind":"lifetime","size":5}`), "limits[0].window.size"},
		{override(`null`), "limits[0].overrides[0]"}, {override(`"vip"`), "limits[0].overrides[0]"},
		{override(`{"value":7,"max":1}`), "limits[0].overrides[0].value"},
		{override(`{"values":"vip","max":1}`), "limits[0].overrides[0].values"},
		{override(`{"values":[7],"max":1}`), "limits[0].overrides[0].values[0]"},
		{override(`{"value":"vip","max":1,"until":"x"}`), "limits[0].overrides[0].until"},
	} {
		add(malformed, w.list, w.field)
	}
	for _, w := range []struct{ members, field string }{
		{`"unlimited":true`, "total_quantity"}, {`"unlimited":true,"type":"daily"`, "type"},
		{`"routing_dimension":""`, "routing_dimension"},
		{`"routing_dimension":"a+b"`, "routing_dimension"},
		{`"durability":"store","limits":[` + soundLimit + `]`, "limits[0].dimension"},
		{`"durability":"store","routing_dimension":"device","limits":[` + soundLimit + `]`,
			"limits[0].dimension"},
	} {
		c := invalid(definition(w.members[:min(len(w.members), 80)], w.members))
		c.Field = w.field
		cases = append(cases, c)
	}
	return cases
}

func manyLimits(n int) string {
	list := make([]string, n)
	for i := range list {
		list[i] = strings.Replace(soundLimit, `"l"`, fmt.Sprintf(`"l%d"`, i), 1)
	}
	return strings.Join(list, ",")
}

func manyOverrides(n int) string {
	list := make([]string, n)
	for i := range list {
		list[i] = fmt.Sprintf(`{"value":"v%d","max":1}`, i)
	}
	return strings.Join(list, ",")
}
