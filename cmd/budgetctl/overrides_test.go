package main

import (
	"bytes"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
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

// TestOverridesOfApply checks that apply lets no value be judged by a maximum that it has neither
// before nor after: by the order of its calls, and by what they carry.
func TestOverridesOfApply(t *testing.T) {
	server, file := serveReal(t), filepath.Join(t.TempDir(), "b.yaml")
	to, err := url.Parse(server)
	if err != nil {
		t.Fatal(err)
	}
	var calls []string
	forward := httputil.NewSingleHostReverseProxy(to)
	between := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		r.Body = io.NopCloser(bytes.NewReader(body))
		if text := string(body); r.Method != http.MethodGet && !strings.Contains(text, `"dry_run":true`) {
			name := r.URL.Path[strings.LastIndex(r.URL.Path, "/")+1:]
			said := regexp.MustCompile(`"(status|enforce|value|max)":[^,}]*`).FindAllString(text, 5)
			calls = append(calls, fmt.Sprint(r.Method, " ", name, r.URL.RawQuery, " ", said))
		}
		forward.ServeHTTP(w, r)
	}))
	defer between.Close()
	of := func(n int) string {
		var out strings.Builder
		for i := range n {
			fmt.Fprintf(&out, "{value: v%04d, max: %d},", i, 10+i)
		}
		return out.String()
	}
	one := func(name, window, rest string) string {
		return "\n      - {name: " + name + ", dimension: user, measure: count, window: {" + window + "}, " + rest + "}"
	}
	const day, ever = "kind: calendar, every: day", "kind: lifetime"
	apply := func(limits string, want ...string) {
		t.Helper()
		calls = nil
		text := "budgets:\n  - name: b\n    unit: count\n    type: promo\n    total_quantity: 9\n    bucket_quantity: 1\n    limits:" + limits
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		must1(t, between.URL, "apply -f "+file)
		if fmt.Sprint(calls) != fmt.Sprint(want) {
			t.Errorf("calls:\n%s\nwant:\n%s", strings.Join(calls, "\n"), strings.Join(want, "\n"))
		}
		if r := must1(t, server, "apply -f "+file+" --dry-run"); !strings.Contains(r.stdout, "1 as they were") {
			t.Errorf("it is not as the file says: %s", r.stdout)
		}
		if r := must1(t, server, "get b -o json"); !strings.Contains(r.stdout, `"effective"`) {
			t.Errorf("it stays paused: %s", r.stdout)
		}
	}
	first := one("a", day, "max: 2, overrides: ["+of(1001)+"]")
	apply(first, `POST budgets ["max":2 "status":"paused"]`,
		`PUT overrides ["value":"v0000" "max":10 "value":"v0001" "max":11 "value":"v0002"]`,
		`PUT overrides ["value":"v1000" "max":1010]`, `PATCH b ["status":"effective"]`)
	// What a value gets is set before the limit changes, what it loses is removed afterwards.
	a := one("a", day, "max: 1, overrides: ["+of(999)+"{value: x, max: 7}]")
	apply(a, `PUT overrides ["value":"x" "max":7]`, `PATCH b ["max":1]`, `DELETE overridesvalue=v0999 []`,
		`DELETE overridesvalue=v1000 []`)
	// A new limit comes with its overrides, or refuses nothing until it has them.
	apply(a+one("b", ever, "max: 1, overrides: [{value: x, max: 7}]"),
		`PATCH b ["max":1 "max":1 "value":"x" "max":7]`)
	c := a + one("c", ever, "max: 1, overrides: ["+of(1001)+"]")
	apply(c, `PATCH b ["max":1 "max":1 "enforce":false]`,
		`PUT overrides ["value":"v0000" "max":10 "value":"v0001" "max":11 "value":"v0002"]`,
		`PUT overrides ["value":"v1000" "max":1010]`, `PATCH b ["max":1 "max":1]`)
	// A limit that begins to count otherwise does so with other overrides, at once.
	apply(one("a", ever, "max: 1, overrides: [{value: x, max: 8}]"), `PATCH b ["max":1 "value":"x" "max":8]`)
	text := strings.Replace(c, "name: c", "name: a2", 1)
	text = strings.Replace(strings.Replace(text, a, "", 1), "name: a2", "name: a", 1)
	text = strings.Replace(text, ever, day, 1)
	calls = nil
	if err := os.WriteFile(file, []byte("budgets:\n  - name: b\n    limits:"+text), 0o600); err != nil {
		t.Fatal(err)
	}
	checkFailure(t, command(t, between.URL, "apply -f "+file), exitError, "give it another name")
	if len(calls) > 0 {
		t.Errorf("calls of an apply that fails: %q", calls)
	}
	paused := "budgets: [{name: p, unit: count, type: promo, total_quantity: 9, status: paused}]"
	if err := os.WriteFile(file, []byte(paused), 0o600); err != nil {
		t.Fatal(err)
	}
	checkContains(t, must1(t, server, "apply -f "+file).stderr, "paused at once")
	checkFailure(t, command(t, server, "deduct p 1 --request-id o1"), exitRefused, "budget_paused")
}
