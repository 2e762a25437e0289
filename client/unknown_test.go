//go:build go1.25

package client_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/budgetd/budgetd/budget"
	"github.com/budgetd/budgetd/client"
	"github.com/google/go-cmp/cmp"
)

// TestCancelUnknown checks that WithCancelUnknown cancels an outcome that stays unknown, whatever
// happened to the attempts. Every call takes 10 ms; an attempt waits for 100 ms.
func TestCancelUnknown(t *testing.T) {
	lostRequest, lostReply := luck{before: true}, luck{after: true}
	refused := luck{status: 409, code: "budget_exhausted"}
	stuck := luck{delay: time.Hour}
	late := luck{late: true, delay: 20 * time.Millisecond} // arrives 40 ms after it was sent
	deduct, cancel := "deduct a", "cancel a"
	tests := []struct {
		name     string
		replies  map[int]luck
		deadline time.Duration
		within   time.Duration
		calls    []string
		kind     budget.Kind
		code     budget.Code
		executed int
		effect   bool
	}{
		{name: "request lost, then accepted", replies: map[int]luck{1: lostRequest}, within: time.Second,
			calls: []string{deduct, deduct}, executed: 1, effect: true},
		{name: "reply lost, then replayed", replies: map[int]luck{1: lostReply}, within: time.Second,
			calls: []string{deduct, deduct}, executed: 1, effect: true},
		{name: "time-out, then replayed", replies: map[int]luck{1: {late: true, delay: 45 * time.Millisecond}, 2: stuck},
			within: time.Second, calls: []string{deduct, deduct, deduct}, executed: 1, effect: true},
		{name: "time-out, then refused: cancelled", replies: map[int]luck{1: stuck, 2: refused}, within: time.Second,
			calls: []string{deduct, deduct, cancel}, kind: budget.Refused, code: budget.BudgetExhausted},
		{name: "requests lost to the end: cancelled, had not happened",
			replies: map[int]luck{1: lostRequest, 2: lostRequest, 3: lostRequest}, within: time.Second,
			calls: []string{deduct, deduct, deduct, cancel}, kind: budget.Conflict, code: budget.RequestVoid},
		{name: "replies lost to the end: cancelled, had happened",
			replies: map[int]luck{1: lostReply, 2: lostReply, 3: lostReply}, within: time.Second,
			calls: []string{deduct, deduct, deduct, cancel}, kind: budget.Conflict, code: budget.RequestVoid, executed: 1},
		{name: "the deadline passes: cancelled after it", replies: map[int]luck{1: stuck}, deadline: 50 * time.Millisecond,
			within: time.Second, calls: []string{deduct, cancel}, kind: budget.Conflict, code: budget.RequestVoid},
		{name: "a refusal after the time-out, near the deadline: cancelled after it",
			replies:  map[int]luck{1: stuck, 2: refused, 3: {delay: 50 * time.Millisecond}},
			deadline: 120 * time.Millisecond, within: time.Second,
			calls: []string{deduct, deduct, cancel}, kind: budget.Refused, code: budget.BudgetExhausted},
		{name: "the cancel overtakes a request, which then finds the id void",
			replies: map[int]luck{1: late}, deadline: 15 * time.Millisecond, within: time.Second,
			calls: []string{deduct, cancel}, kind: budget.Conflict, code: budget.RequestVoid},
		{name: "the cancel arrives after the request, which is rolled back",
			replies: map[int]luck{1: late, 2: {delay: 60 * time.Millisecond}}, deadline: 15 * time.Millisecond, within: time.Second,
			calls: []string{deduct, cancel}, kind: budget.Conflict, code: budget.RequestVoid, executed: 1},
		{name: "the cancel's answer is lost once", replies: map[int]luck{1: lostReply, 2: lostReply, 3: lostReply, 4: lostReply},
			within: time.Second, calls: []string{deduct, deduct, deduct, cancel, cancel},
			kind: budget.Conflict, code: budget.RequestVoid, executed: 1},
		{name: "the cancel is not answered in its time: unknown",
			replies: map[int]luck{1: lostReply, 2: lostReply, 3: lostReply, 4: stuck, 5: stuck}, within: 150 * time.Millisecond,
			calls: []string{deduct, deduct, deduct, cancel, cancel},
			kind:  budget.MayBeDone, code: budget.OutcomeUnknown, executed: 1, effect: true},
		{name: "unavailable to the end: nothing to cancel",
			replies: map[int]luck{1: unavailable, 2: unavailable, 3: unavailable}, within: time.Second,
			calls: []string{deduct, deduct, deduct}, kind: budget.NotDone, code: budget.Unavailable},
		{name: "without WithCancelUnknown: unknown", replies: map[int]luck{1: lostReply, 2: lostReply, 3: lostReply},
			calls: []string{deduct, deduct, deduct}, kind: budget.MayBeDone, code: budget.OutcomeUnknown, executed: 1, effect: true},
	}
	for _, test := range tests {
		for name, options := range map[string][]client.Option{"": nil,
			", coalescing": {client.WithCoalescing(client.Coalescing{})}} {
			t.Run(test.name+name, func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					s := newTill()
					s.slow(test.replies)
					ctx := t.Context()
					if test.deadline > 0 {
						var end context.CancelFunc
						ctx, end = context.WithTimeout(ctx, test.deadline)
						defer end()
					}
					a, err := ask(ctx, s.customer(t, 3, append(options, client.WithCancelUnknown(test.within))...), "a")
					time.Sleep(2 * time.Hour) // until late requests have arrived
					if kind, code := client.KindOf(err), client.CodeOf(err); kind != test.kind || code != test.code {
						t.Errorf("kind %d %q, want %d %q: %v", kind, code, test.kind, test.code, err)
					}
					if (a == nil) == (err == nil) {
						t.Errorf("answer %v with error %v: want exactly one", a, err)
					}
					if diff := cmp.Diff(test.calls, s.log()); diff != "" {
						t.Errorf("calls (-want +got):\n%s", diff)
					}
					r := s.record("a")
					if effect := r.executed > 0 && !r.gone; r.executed != test.executed || effect != test.effect {
						t.Errorf("executed %d times, want %d; effect %t, want %t", r.executed, test.executed, effect, test.effect)
					}
					var p *client.Problem
					if done := test.kind == budget.Conflict || test.kind == budget.Refused; errors.As(err, &p) && p.Cancelled != done {
						t.Errorf("cancelled %t: %v", p.Cancelled, err)
					}
				})
			})
		}
	}
}

var unavailable = luck{status: 503, code: "unavailable"}

// TestCancelUnknownOfABatch checks that only the items that stay unknown are cancelled, and that all
// of them share one time limit.
func TestCancelUnknownOfABatch(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newTill()
		s.slow(map[int]luck{2: {before: true}, 3: {before: true}, 6: {delay: time.Hour}, 7: {delay: time.Hour}})
		s.item = func(id string) string {
			return map[string]string{"x": "outcome_unknown", "y": "outcome_unknown", "z": "outcome_unknown"}[id]
		}
		var items []client.BatchItem
		for _, id := range []string{"a", "x", "y", "z"} {
			items = append(items, client.BatchItem{Budget: "b", DeductRequest: client.DeductRequest{RequestID: id, Amount: 1}})
		}
		began := time.Now()
		got, err := s.customer(t, 3, client.WithCancelUnknown(120*time.Millisecond)).DeductBatch(t.Context(), items)
		if err != nil {
			t.Fatal(err)
		}
		if took := time.Since(began); took > 300*time.Millisecond {
			t.Errorf("took %s; the cancels had 120 ms", took)
		}
		var codes []budget.Code
		for _, r := range got {
			codes = append(codes, client.CodeOf(r.Err))
		}
		if diff := cmp.Diff([]budget.Code{"", "request_void", "request_void", "outcome_unknown"}, codes); diff != "" {
			t.Errorf("codes (-want +got):\n%s", diff)
		}
		want := []string{"batch a x y z", "batch x y z", "batch x y z", "cancel x", "cancel y", "cancel z"}
		if diff := cmp.Diff(want, s.log()[:6]); diff != "" {
			t.Errorf("calls (-want +got):\n%s", diff)
		}
	})
}
