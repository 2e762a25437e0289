package counter_test

import (
	"context"
	"fmt"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"github.com/budgetd/budgetd/bucket"
	"github.com/budgetd/budgetd/bucket/counter"
	"github.com/budgetd/budgetd/budget"
	"github.com/budgetd/budgetd/internal/redisstore/faultstore"
)

// late is a store that receives the first deduction of an id only when the test sends it. Until then
// the caller knows only that there was no reply, as if a stopped server had it in a buffer.
type late struct {
	bucket.Counter
	id   string
	sent bool
	send func() (bucket.StoreAnswer, error)
}

func (l *late) Deduct(ctx context.Context, m bucket.Memory, all []bucket.StoreDeduction) (
	bucket.StoreAnswer, error) {
	if l.sent || all[0].ID != l.id {
		return l.Counter.Deduct(ctx, m, all)
	}
	all = slices.Clone(all)
	l.sent = true
	l.send = func() (bucket.StoreAnswer, error) {
		return l.Counter.Deduct(context.WithoutCancel(ctx), m, all)
	}
	return bucket.StoreAnswer{}, budget.Refuse(budget.OutcomeUnknown, "deduct", "planned")
}

// TestLateAttempt checks that a request is not refused while an attempt of it may still reach the
// store: the budget is used up, or a limit, and later the attempt finds units.
func TestLateAttempt(t *testing.T) {
	everywhere(t, 1, func(w *world) {
		for _, limited := range []bool{false, true} {
			d := promo(fmt.Sprint("limited-", limited), 10, 1)
			d.RoutingDimension = "user"
			if limited {
				d.TotalQuantity = 100
				d.Limits = &budget.Limits{List: []budget.Limit{{Name: "ever", Dimension: "user", Max: 10,
					Enforce: true, Measure: budget.MeasureAmount,
					Window: budget.LimitWindow{Kind: budget.WindowLifetime}}}}
			}
			b := w.create(d)
			ask := func(id string) bucket.DeductRequest {
				r := request(b, id, 10)
				r.Dimensions = map[string]string{"user": "u"}
				return r
			}
			first := w.node.DeductAll(t.Context(), []bucket.DeductRequest{ask("first")})[0]
			w.ok(first.Err)
			slow := &late{Counter: w.stores["m"].Counter, id: "late"}
			node, _ := w.newNode(func(c *counter.Config) {
				store := *w.stores["m"]
				store.Counter = slow
				c.Stores = map[string]*counter.Store{"m": &store}
				c.Settings.Deadline = 200 * time.Millisecond
			})
			r := node.DeductAll(t.Context(), []bucket.DeductRequest{ask("late")})[0]
			if !budget.Is(r.Err, budget.OutcomeUnknown) {
				w.Errorf("limited %t: %+v", limited, r)
			}
			_, err := w.node.Rollback(t.Context(), bucket.RollbackRequest{Budget: ref(b),
				RequestID: "first", Receipt: first.Answer.Receipt})
			w.ok(err)
			answer, err := slow.send()
			if err != nil || answer.Outcomes[0].Verdict != bucket.Accepted {
				w.Errorf("limited %t: the late attempt: %+v, %v", limited, answer, err)
			}
			r = node.DeductAll(t.Context(), []bucket.DeductRequest{ask("late")})[0]
			if r.Err != nil || !r.Answer.Replayed {
				w.Errorf("limited %t: repeated: %+v", limited, r)
			}
		}
	})
}

// TestLateRollbackIsUnclear checks that a rollback whose first attempt is on its way is not refused
// because the deduction is missing: the attempt may follow the deduction.
func TestLateRollbackIsUnclear(t *testing.T) {
	w := onRedis(t, "sqlite", 1)
	b := w.create(promo("sale", 100, 1))
	r := bucket.RollbackRequest{NoKey: true, Budget: ref(b), RequestID: "a"}
	if _, err := w.node.Rollback(t.Context(), r); !budget.Is(err, budget.DeductionNotFound) {
		t.Errorf("without a deduction: %v", err)
	}
	var first atomic.Bool
	w.network.Inject(func(op string, _ bucket.Partition) faultstore.Fault {
		if op == "rollback" && first.CompareAndSwap(false, true) {
			return faultstore.HoldBack
		}
		return faultstore.None
	})
	if _, err := w.node.Rollback(t.Context(), r); !budget.Is(err, budget.OutcomeUnknown) {
		t.Errorf("on its way: %v", err)
	}
	w.deduct(b, "a", 30)
	if n := w.network.Release(); n != 1 {
		t.Fatalf("%d calls were held back", n)
	}
	w.settled(b, books{T: 100, O: 100})
}
