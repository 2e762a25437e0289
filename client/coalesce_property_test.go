//go:build go1.25

package client_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/budgetd/budgetd/budget"
	"github.com/budgetd/budgetd/client"
)

// TestCoalescingKeepsEveryPromise runs 64 callers with up to 1,000 deductions each over a network
// that loses, delays and refuses calls. At the end every answer must agree with the records, no id
// may have taken effect twice, and every wait must have ended (otherwise synctest fails).
func TestCoalescingKeepsEveryPromise(t *testing.T) {
	tests := []struct {
		name    string
		calls   int // of each caller
		bounds  client.Coalescing
		options []client.Option
	}{
		{name: "not coalesced", calls: 100},
		{name: "coalesced, with a short queue", calls: 200, bounds: client.Coalescing{Calls: 4, Items: 20, Queue: 40}},
		{name: "coalesced, unknown ones cancelled", calls: 1000, bounds: client.Coalescing{Calls: 2, Items: 100},
			options: []client.Option{client.WithCancelUnknown(time.Second)}},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			calls, options := test.calls, test.options
			if test.bounds.Calls > 0 {
				options = append(options, client.WithCoalescing(test.bounds))
			}
			synctest.Test(t, func(t *testing.T) { keepsPromises(t, calls, test.bounds, options) })
		})
	}
}

func keepsPromises(t *testing.T, calls int, bounds client.Coalescing, options []client.Option) {
	const callers = 64
	s := newTill()
	s.chaotic(7)
	c := s.customer(t, 5, options...)
	told := make([][]error, callers)
	var all sync.WaitGroup
	for g := range callers {
		told[g] = make([]error, calls)
		all.Go(func() {
			chance := rand.New(rand.NewPCG(uint64(g), 2))
			for n := range calls {
				ctx, cancel := context.Background(), func() {}
				if chance.IntN(10) == 0 {
					ctx, cancel = context.WithTimeout(ctx, time.Duration(chance.IntN(60))*time.Millisecond)
				}
				id, amount := fmt.Sprintf("%d-%d", g, n), int64(1+n*callers+g)
				a, err := c.Deduct(ctx, "b", client.DeductRequest{RequestID: id, Amount: amount})
				cancel()
				told[g][n] = err
				if err == nil && (a.RequestID != id || a.Amount != amount) {
					t.Errorf("%s of %d was answered %+v", id, amount, a)
				}
			}
		})
	}
	all.Wait()
	time.Sleep(time.Minute) // what was delayed has arrived
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.failure != "" {
		t.Error(s.failure)
	}
	if bounds.Calls > 0 && (s.most > bounds.Calls || s.largest > bounds.Items) {
		t.Errorf("%d calls at once and %d items, more than %+v", s.most, s.largest, bounds)
	}
	kinds := map[string]int{}
	for g := range callers {
		for n, err := range told[g] {
			id := fmt.Sprintf("%d-%d", g, n)
			r := s.record(id)
			kinds[fmt.Sprintf("kind %d %s", client.KindOf(err), client.CodeOf(err))]++
			if why := broken(err, r); why != "" {
				t.Errorf("%s: %s; told %v, recorded %+v", id, why, err, *r)
			}
		}
	}
	t.Logf("%d calls, at most %d at once and %d items; %v", len(s.calls), s.most, s.largest, kinds)
}

// broken returns how an id's record contradicts the caller's answer, or "".
func broken(err error, r *record) string {
	counts := r.executed > 0 && !r.gone
	var p *client.Problem
	switch {
	case r.executed > 1:
		return "took effect twice"
	case err == nil && !counts:
		return "accepted without effect"
	case client.KindOf(err) == budget.Faulty:
		return "a valid request is called faulty"
	case err != nil && client.KindOf(err) != budget.MayBeDone && counts:
		return "has an effect although the caller was told that it has none"
	case errors.As(err, &p) && p.Cancelled && !r.gone:
		return "is not cancelled although the caller was told so"
	case errors.Is(err, client.ErrQueueFull) && client.KindOf(err) == budget.NotDone && r.executed > 0:
		return "was sent although the queue was full"
	}
	return ""
}
