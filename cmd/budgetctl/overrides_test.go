package main

import (
	"fmt"
	"strings"
	"testing"

	"github.com/budgetd/budgetd/client"
)

// TestOverridesOfSet checks the calls that --override and --remove-override make, and which they refuse.
func TestOverridesOfSet(t *testing.T) {
	server := newScripted(t, 200, cappedAnswer)
	must1(t, server.URL, "set capped --override per-user=a:b:7 --override per-user=vip:exempt --remove-override per-ad=u1+ad1")
	const own = "/v1/budgets/capped/limits/"
	want := []string{"GET /v1/budgets/capped ", "GET " + own + "per-user/overrides?value=a%3Ab ",
		"GET " + own + "per-user/overrides?value=vip ",
		"PUT " + own + `per-user/overrides {"overrides":[{"value":"a:b","max":7},{"value":"vip","exempt":true}]}`,
		"GET /v1/budgets/capped ", "GET " + own + "per-ad/overrides?value=u1&value=ad1 ",
		"DELETE " + own + "per-ad/overrides?value=u1&value=ad1 ", "GET /v1/budgets/capped "}
	if got := server.asked; fmt.Sprint(got) != fmt.Sprint(want) {
		t.Errorf("calls:\n%s\nwant:\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
	for _, text := range []string{"per-user", "=vip:5", "per-user=vip", "per-user=vip:x", "per-user=vip:5 --buckets 3"} {
		if r := command(t, server.URL, "set capped --override "+text); r.status != exitUsage {
			t.Errorf("%s: exit %d", text, r.status)
		}
	}
}

// TestDifferenceOfOverrides checks which values a difference names, and what has to be done for it.
func TestDifferenceOfOverrides(t *testing.T) {
	most := func(value string, n int64) client.Override { return client.Override{Value: value, Max: &n} }
	m := ownMaximums{limit: "l"}
	lines := m.differ([]client.Override{most("a", 1), most("b", 2), most("c", 3), {Value: "d", Exempt: true}},
		[]client.Override{most("b", 2), most("c", 4), {Values: []string{"a"}, Max: new(int64)}, most("e", 0)})
	want := "[- override l=c: 3 + override l=c: 4 - override l=a: 1 + override l=a: 0 + override l=e: 0 - override l=d: exempt]"
	if fmt.Sprint(lines) != want || len(m.set) != 3 || len(m.remove) != 1 || m.remove[0].Value != "d" {
		t.Errorf("%s, %+v", lines, m)
	}
	if got := shown(make([]string, 25)); len(got) != 21 || got[20] != "… and 5 more lines of overrides" {
		t.Errorf("%q", got)
	}
}
