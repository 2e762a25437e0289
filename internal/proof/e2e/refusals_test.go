package e2e

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/budgetd/budgetd/budget"
	"github.com/budgetd/budgetd/client"
)

// refused deducts and returns the refusal.
func (w *limitWorld) refused(name string, amount int64, code budget.Code) *client.Problem {
	w.Helper()
	w.ids++
	_, err := w.c.Deduct(w.ctx, name, client.DeductRequest{RequestID: fmt.Sprint("r", w.ids), Amount: amount,
		Dimensions: dimensionsOf("user=u1")})
	var p *client.Problem
	if !errors.As(err, &p) || p.Code != code {
		w.Fatalf("a deduction of %d from %s: %v, want %s", amount, name, err, code)
	}
	return p
}

// TestWhenToTryAgain checks that the answer names the time at which a repeat will be served, and
// that it names no time if the amount can never be covered.
func TestWhenToTryAgain(t *testing.T) {
	eachDatabase(t, func(w *limitWorld) {
		w.noon()
		month := each(budget.Month, "month", "user", 1)
		w.create("both", 1000, each(budget.Day, "day", "user", 1), month)
		w.create("reverse", 1000, month, each(budget.Day, "day", "user", 1))
		for _, name := range []string{"both", "reverse"} {
			w.expect("accepted", name, 1, "user=u1")
			p := w.refused(name, 1, budget.LimitExceeded)
			// The test's clock stands still while the database server's continues.
			off := p.RetryAfter - p.Limit.ResetAt.Sub(w.clock.Now())
			if p.Limit.Name != "month" || len(p.Limits) != 2 || p.Limits[1].Name != "day" || p.Never ||
				off.Abs() > time.Minute {
				t.Errorf("%s: %v, %+v", name, p, p.Limits)
			}
		}
		amount := each(budget.Day, "amount", "user", 5)
		amount.Measure = budget.MeasureAmount
		w.create("five", 1000, amount)
		p := w.refused("five", 6, budget.LimitExceeded)
		if !p.Never || p.RetryAfter != 0 || !p.Limit.ResetAt.IsZero() {
			t.Errorf("more than is ever allowed: %v, %+v", p, p.Limit)
		}
		start := w.clock.Now().Add(time.Hour).Truncate(time.Second)
		if _, err := w.c.Create(w.ctx, client.CreateRequest{Name: "later", Unit: budget.Count, Type: budget.Promo,
			TotalQuantity: 10, StartAt: start}); err != nil {
			t.Fatal(err)
		}
		if p = w.refused("later", 1, budget.BudgetNotEffective); !p.StartAt.Equal(start) || p.RetryAfter <= 0 {
			t.Errorf("%v: starts at %s", p, p.StartAt)
		}
	})
}

// TestUnitsReturnAtOnce checks that units that are rolled back remain in the budget at once,
// without being in transit, and can be used again to the last unit.
func TestUnitsReturnAtOnce(t *testing.T) {
	eachDatabase(t, func(w *limitWorld) {
		w.create("back", 500)
		used := int64(0)
		for i := range 10 {
			w.expect("accepted", "back", 50, "")
			used += 50
			if i%2 == 1 {
				if _, err := w.c.Rollback(w.ctx, "back", client.RollbackRequest{RequestID: fmt.Sprint("r", w.ids)}); err != nil {
					t.Fatal(err)
				}
				used -= 50
			}
			b, err := w.c.Budget(w.ctx, "back")
			if err != nil || b.InTransit != 0 || b.Used != used || *b.InBuckets+*b.Undistributed != 500-used {
				t.Errorf("after %d deductions: in transit %d, used %d, remaining %d, undistributed %d, %v", i+1, b.InTransit,
					b.Used, *b.InBuckets, *b.Undistributed, err)
			}
		}
		w.expect("accepted", "back", 250, "")
	})
}

// TestUnlimitedThroughHTTP checks that the largest amounts do not exhaust an unlimited budget, and
// that counts that would overflow are refused.
func TestUnlimitedThroughHTTP(t *testing.T) {
	eachDatabase(t, func(w *limitWorld) {
		off := false
		seen := each(budget.Day, "seen", "user", 1)
		seen.Enforce = &off
		w.create("free", 0, seen)
		for range 3 {
			w.expect("accepted", "free", budget.MaxAmount, "user=u1")
		}
		count := func(id string) error {
			_, err := w.c.Deduct(w.ctx, "free", client.DeductRequest{RequestID: id, Amount: 1,
				Dimensions: dimensionsOf("user=u2"), Counts: map[string]int64{"seen": budget.MaxAmount}})
			return err
		}
		if err := count("c1"); err != nil {
			t.Fatal(err)
		}
		for _, id := range []string{"c2", "c3"} {
			if err := count(id); client.CodeOf(err) != budget.Invalid {
				t.Errorf("%s: %v", id, err)
			}
		}
		b, err := w.c.Budget(w.ctx, "free")
		if err != nil || !b.Unlimited || b.Used != budget.MaxAmount {
			t.Errorf("%+v, %v", b, err)
		}
	})
}
