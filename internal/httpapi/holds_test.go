package httpapi_test

import (
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/budgetd/budgetd/internal/httpapi"
)

// TestFaultsOfHolds checks that an invalid call on holds names the field and does not reach the
// service.
func TestFaultsOfHolds(t *testing.T) {
	const one = "/v1/budgets/sale/"
	service, server, _ := start(t)
	for _, tc := range []struct{ verb, body, field, message string }{
		{"deduct", `{"request_id":"o1","amount":1,"group":"g"}`, "group", "hold_ttl"},
		{"deduct", `{"request_id":"o1","amount":1,"hold_ttl":"0s"}`, "hold_ttl", "length of time"},
		{"deduct", `{"request_id":"o1","amount":1,"hold_ttl":"-1s"}`, "hold_ttl", "length of time"},
		{"deduct", `{"request_id":"o1","amount":1,"hold_ttl":"1us"}`, "hold_ttl", "whole milliseconds"},
		{"deduct", `{"request_id":"o1","amount":1,"hold_ttl":"367d"}`, "hold_ttl", "366d"},
		{"deduct", `{"request_id":"o1","amount":1,"hold_ttl":"1m","group":""}`, "group", "is missing"},
		{"confirm", `{}`, "request_id", "is missing"},
		{"confirm", `{"request_id":"o1","group":"g"}`, "request_id", "beside"},
		{"confirm", `{"group":"g","amount":1}`, "amount", "beside"},
		{"extend", `{"request_id":"o1"}`, "hold_ttl", "is missing"},
		{"extend", `{"group":"g","receipt":"r","hold_ttl":"1m"}`, "receipt", "beside"},
		{"rollback", `{"group":"g","rollback_id":"r"}`, "rollback_id", "beside"},
		{"rollback", `{"group":"g","key":""}`, "key", "beside"},
		{"rollback", `{"group":"g","dimensions":{}}`, "dimensions", "beside"},
		{"rollback", `{"group":"g","request_id":"o1"}`, "request_id", "beside"},
	} {
		_, body := ask(t, server, "POST", one+tc.verb, tc.body)
		found := false
		for _, fault := range problemIn(t, body).Errors {
			found = found || fault.Field == tc.field && strings.Contains(fault.Message, tc.message)
		}
		if !found {
			t.Errorf("%s %s: %s; want %s: %s", tc.verb, tc.body, body, tc.field, tc.message)
		}
	}
	if calls := service.taken(); len(calls) > 0 {
		t.Error(calls)
	}
}

// TestExpiresIn checks that every answer with the end of a hold has the seconds until then by the
// database's clock, rounded down, and never more than the caller has just asked for.
func TestExpiresIn(t *testing.T) {
	const one = "/v1/budgets/sale/"
	now := at
	_, server, _ := start(t, func(c *httpapi.Config) { c.SQLNow = func() time.Time { return now } })
	group := func(ttl string) string { return `{"group":"order-17","hold_ttl":"` + ttl + `"}` }
	batch := `{"deductions":[{"budget":"sale","request_id":"o1","amount":1,"hold_ttl":"1s"},` +
		`{"budget":"sale","request_id":"o2","amount":1}]}`
	for _, tc := range []struct {
		what            string
		after           time.Duration
		verb, way, body string
		want            string
	}{
		{"at once", 0, "POST", one + "deduct", `{"request_id":"o1","amount":1,"hold_ttl":"1s"}`, "1"},
		{"a third of a second later", time.Second / 3, "POST", one + "deduct",
			`{"request_id":"o1","amount":1,"hold_ttl":"1s"}`, "0.666"},
		{"its clock is behind", -time.Minute, "POST", one + "deduct",
			`{"request_id":"o1","amount":1,"hold_ttl":"1s"}`, "1"},
		{"a replay may be extended", -time.Minute, "POST", one + "deduct",
			`{"request_id":"again","amount":1,"hold_ttl":"1s"}`, "61"},
		{"too late", time.Minute, "POST", one + "deduct",
			`{"request_id":"o1","amount":1,"hold_ttl":"1s"}`, "0"},
		{"no hold", 0, "POST", one + "deduct", `{"request_id":"o1","amount":1}`, ""},
		{"a batch", 250 * time.Millisecond, "POST", "/v1/deductions:batch", batch, "0.75"},
		{"an extension", time.Second / 2, "POST", one + "extend", `{"request_id":"o1","hold_ttl":"15m"}`, "899.5"},
		{"its clock is behind", -time.Hour, "POST", one + "extend", `{"request_id":"o1","hold_ttl":"3s"}`, "3"},
		{"those of a group", 0, "POST", one + "extend", group("15m"), "900 900"},
		{"those of a group", -time.Hour, "POST", one + "extend", group("5s"), "5 5"},
		{"confirmed", -time.Hour, "POST", one + "confirm", `{"request_id":"o1"}`, "0"},
		{"a lookup", time.Second / 2, "GET", one + "deductions?request_id=held", "", "1.5"},
		{"open holds", time.Second / 2, "GET", one + "holds", "", "2.5"},
	} {
		now = at.Add(tc.after)
		_, body := ask(t, server, tc.verb, tc.way, tc.body)
		var got []string
		for _, found := range expiresIn.FindAllStringSubmatch(body, -1) {
			got = append(got, found[1])
		}
		if strings.Join(got, " ") != tc.want || strings.Count(body, `"hold_until"`) != len(got) {
			t.Errorf("%s, %s %s: %q, want %s: %s", tc.what, tc.way, tc.body, got, tc.want, body)
		}
	}
}

var expiresIn = regexp.MustCompile(`"expires_in":([^,}]*)`)
