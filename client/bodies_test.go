package client_test

import (
	"encoding/json"
	"reflect"
	"testing"

	"github.com/budgetd/budgetd/client"
)

// TestNamesTheDeduction checks that a rollback, a cancel and a lookup say how their deduction was
// routed, which store mode needs: {} means that it had no other dimensions, and an empty key that it
// had none.
func TestNamesTheDeduction(t *testing.T) {
	keyed := client.DeductRequest{RequestID: "o1", Amount: 5, Key: "k", Dimensions: map[string]string{"user": "u1"}}
	plain := client.DeductRequest{RequestID: "o1", Amount: 5}
	settled := answer(200, `{"request_id":"o1","state":"rolled_back"}`)
	for _, test := range []struct {
		name, body, uri string
		call            func(*client.Client) error
	}{
		{name: "cancel", body: `{"request_id":"o1","key":"k","dimensions":{"user":"u1"}}`,
			call: func(c *client.Client) error { return second(c.Cancel(t.Context(), "b", keyed.Cancellation())) }},
		{name: "cancel without a key", body: `{"request_id":"o1","dimensions":{},"key":""}`,
			call: func(c *client.Client) error { return second(c.Cancel(t.Context(), "b", plain.Cancellation())) }},
		{name: "cancel that does not say", body: `{"request_id":"o1"}`,
			call: func(c *client.Client) error {
				return second(c.Cancel(t.Context(), "b", client.CancelRequest{RequestID: "o1"}))
			}},
		{name: "rollback", body: `{"request_id":"o1","key":"k","dimensions":{"user":"u1"}}`,
			call: func(c *client.Client) error { return second(c.Rollback(t.Context(), "b", keyed.Return())) }},
		{name: "rollback without a key", body: `{"request_id":"o1","dimensions":{},"key":""}`,
			call: func(c *client.Client) error { return second(c.Rollback(t.Context(), "b", plain.Return())) }},
		{name: "lookup", uri: "/v1/budgets/b/deductions?key=&request_id=o1",
			call: func(c *client.Client) error { return second(c.Deduction(t.Context(), "b", "o1")) }},
		{name: "lookup by key", uri: "/v1/budgets/b/deductions?key=k&request_id=o1",
			call: func(c *client.Client) error { return second(c.KeyedDeduction(t.Context(), "b", "o1", "k")) }},
	} {
		t.Run(test.name, func(t *testing.T) {
			server := newScripted(t, settled)
			c, _ := impatient(t, server.URL)
			if err := test.call(c); err != nil {
				t.Fatal(err)
			}
			got := server.log()[0]
			if same := sameJSON(t, got.body, test.body); !same || test.uri != "" && got.uri != test.uri {
				t.Errorf("sent %s %s, want %s %s", got.uri, got.body, test.uri, test.body)
			}
		})
	}
}

// sameJSON reports whether two texts are the same JSON; an empty text is no JSON.
func sameJSON(t *testing.T, a, b string) bool {
	t.Helper()
	if a == "" || b == "" {
		return a == b
	}
	var left, right any
	if err := json.Unmarshal([]byte(a), &left); err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal([]byte(b), &right); err != nil {
		t.Fatal(err)
	}
	return reflect.DeepEqual(left, right)
}
