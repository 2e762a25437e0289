package httpapi_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
	"github.com/google/go-cmp/cmp"
)

// TestUnaskable checks that invalid checks, items of checks and queries of usage are refused and do
// not reach the service.
func TestUnaskable(t *testing.T) {
	service, server, _ := start(t)
	for _, c := range []struct{ method, path, body, want string }{
		{"POST", "/v1/checks", `{}`, "invalid: checks"}, {"POST", "/v1/checks", `{"checks":[]}`, "invalid: checks"},
		{"POST", "/v1/checks", `{"checks":{}}`, "malformed: checks"}, {"POST", "/v1/checks", `{"checks":null}`, "malformed: checks"},
		{"POST", "/v1/checks", `{"checks":[{"budget":"a","amount":1}],"user":"u1"}`, "malformed: user"},
		{"POST", "/v1/checks?tenant=ACME", `{"checks":[{"budget":"a","amount":1}]}`, "invalid: tenant"},
		{"POST", "/v1/checks", `{"checks":[` + strings.Repeat(`{},`, 1000) + `{}]}`, "too_large:"},
		{"GET", "/v1/budgets/sale/usage", "", "invalid: "},
		{"GET", "/v1/budgets/sale/usage?from=2026-01-31T09:00:00Z", "", "invalid: "},
		{"GET", "/v1/budgets/sale/usage?user=", "", "invalid: user"},
		{"GET", "/v1/budgets/sale/usage?user=u1&user=u2", "", "malformed: user"},
		{"GET", "/v1/budgets/sale/usage?user=u1&dimension.user=u2", "", "malformed: user"},
		{"GET", "/v1/budgets/sale/usage?user=u1&from=today", "", "invalid: from"},
		{"GET", "/v1/budgets/sale/usage?user=u1&from=2026-01-31T09:00:00Z&to=2026-01-31T09:00:00Z", "", "invalid: to"},
		{"GET", "/v1/budgets/sale/usage?user=%00", "", "invalid: user"},
		{"GET", "/v1/budgets/sale/usage?user=u1;ad=a1", "", "malformed:  "},
		{"GET", "/v1/budgets/sale/usage?" + manyDimensions(17), "", "invalid: "},
		{"GET", "/v1/budgets/SALE/usage?user=u1", "", "budget_not_found:"},
		{"GET", "/v1/budgets/sale/limits/per-user/nearest?limit=0", "", "invalid: limit"},
		{"GET", "/v1/budgets/sale/limits/per-user/nearest?limit=1001", "", "invalid: limit"},
		{"PUT", "/v1/budgets/sale/limits/per-user/overrides", `{}`, "invalid:  "},
		{"PUT", "/v1/budgets/sale/limits/per-user/overrides", `{"value":"vip"}`, "invalid: "},
		{"PUT", "/v1/budgets/sale/limits/per-user/overrides", `{"value":"vip","max":5,"exempt":true}`, "invalid: "},
		{"PUT", "/v1/budgets/sale/limits/per-user/overrides", `{"value":"","max":5}`, "invalid: value"},
		{"PUT", "/v1/budgets/sale/limits/per-user/overrides", `{"value":"vip","max":-1}`, "invalid: max"},
		{"PUT", "/v1/budgets/sale/limits/per-user/overrides", `{"value":"vip","max":1.5}`, "malformed: max"},
		{"PUT", "/v1/budgets/sale/limits/per-user/overrides", `{"value":"vip","max":9007199254740992}`, "invalid: max"},
		{"PUT", "/v1/budgets/sale/limits/per-user/overrides", `{"value":"` + strings.Repeat("x", 257) + `","max":1}`, "invalid: value"},
		{"PUT", "/v1/budgets/sale/limits/per-user/overrides", `{"value":"vip","max":5,"most":5}`, "malformed: most"},
		{"PUT", "/v1/budgets/sale/limits/per-user/overrides", `{"overrides":[]}`, "invalid: overrides"},
		{"PUT", "/v1/budgets/sale/limits/per-user/overrides", `{"overrides":[{"value":"a","max":1}],"value":"b"}`, "invalid: value"},
		{"DELETE", "/v1/budgets/sale/limits/per-user/overrides", "", "invalid: value"},
		{"DELETE", "/v1/budgets/sale/limits/per-user/overrides?value=", "", "invalid: value"},
		{"DELETE", "/v1/budgets/sale/limits/per-user/overrides?value=a", `{"value":"a"}`, "malformed: "},
		{"GET", "/v1/budgets/sale/limits/per-user/overrides?page_size=1001", "", "invalid: page_size"},
		{"GET", "/v1/budgets/sale/limits/per-user/overrides?page_token=MTo", "", "invalid: page_token"},
		{"GET", "/v1/budgets/SALE/limits/per-user/nearest", "", "budget_not_found:"},
	} {
		_, text := ask(t, server, c.method, c.path, c.body)
		if got := faultsIn(t, text); got != c.want {
			t.Errorf("%s %.80s: %s, want %s", c.path, c.body, got, c.want)
		}
	}
	_, text := ask(t, server, "POST", "/v1/checks", `{"checks":[{"budget":"sale"},{"amount":1},{"budget":"sale","amount":1.5},
		{"budget":"sale","amount":1,"request_id":"o1"},{"budget":"sale","amount":1,"dimensions":{"user":""}},
		{"budget":"sale","amount":1,"counts":{"x":-1}}]}`)
	var got []string
	for _, result := range resultsIn(t, text) {
		got = append(got, faultsIn(t, result))
	}
	want := []string{"invalid: amount", "invalid: budget", "malformed: amount", "malformed: request_id",
		"invalid: dimensions.user", "invalid: counts.x"}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
	if calls := service.taken(); len(calls) > 0 {
		t.Error("the service was asked:", calls)
	}
}

// TestAllFaultsOfLimits checks that all faults of a definition are listed in one answer, each once.
func TestAllFaultsOfLimits(t *testing.T) {
	service, server, _ := start(t)
	for body, want := range map[string]string{
		`{"name":"a","unit":"count","unlimited":true,"type":"daily","routing_dimension":"a+b","limits":[
			{"name":"x","dimension":"","window":{"kind":"sliding","length":"8 h","every":"day"},"max":-1,"measure":"calls"},
			{"name":"x","dimension":"user","max":1.5,"window":7,"measure":"count","overrides":[{"value":"v"},{"values":["a","b"],"max":1}]}]}`: "malformed: limits[1].max limits[1].window limits[0].window.length" +
			" limits[0].max limits[1].overrides[0] routing_dimension type limits[0].dimension limits[0].measure" +
			" limits[0].window.every limits[0].window.slot limits[1].name limits[1].overrides[1].value type_rule",
		`{"name":"a","unit":"count","unlimited":true,"total_quantity":5}`: "invalid: total_quantity",
		`{"name":"a","unit":"count","unlimited":false}`:                   "invalid: type total_quantity",
	} {
		_, text := ask(t, server, "POST", "/v1/budgets", body)
		if got := faultsIn(t, text); got != want {
			t.Errorf("got  %s\nwant %s", got, want)
		}
	}
	if calls := service.taken(); len(calls) > 0 {
		t.Error(calls)
	}
}

func manyDimensions(n int) string {
	names := make([]string, n)
	for i := range names {
		names[i] = fmt.Sprintf("d%d=x", i)
	}
	return strings.Join(names, "&")
}

// faultsIn writes a problem's code and fields in one line.
func faultsIn(t *testing.T, text string) string {
	t.Helper()
	p := problemIn(t, text)
	line := p.Code + ":"
	for _, fault := range p.Errors {
		line += " " + fault.Field
	}
	return line
}

// resultsIn returns the results of a batch or check.
func resultsIn(t *testing.T, text string) []string {
	t.Helper()
	var got struct {
		Results []jsontext.Value `json:"results"`
	}
	if err := json.Unmarshal([]byte(text), &got); err != nil {
		t.Fatalf("%s: %v", text, err)
	}
	results := make([]string, len(got.Results))
	for i, result := range got.Results {
		results[i] = string(result)
	}
	return results
}
