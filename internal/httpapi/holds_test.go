package httpapi_test

import (
	"strings"
	"testing"
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
