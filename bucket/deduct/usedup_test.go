package deduct_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/budgetd/budgetd/bucket"
	"github.com/budgetd/budgetd/bucket/deduct"
	"github.com/budgetd/budgetd/budget"
	"github.com/budgetd/budgetd/limit"
)

// flights counts the calls of a ledger.
type flights struct {
	deduct.Ledger
	deduct.Lookup
	commits, limits int
}

func (f *flights) Commit(ctx context.Context, ops []bucket.Operation) ([]bucket.Outcome, error) {
	f.commits++
	return f.Ledger.Commit(ctx, ops)
}

func (f *flights) Usages(ctx context.Context, asked []bucket.Charged) ([][]*limit.Usage, error) {
	f.limits++
	return f.Lookup.Usages(ctx, asked)
}

// TestUsedUpLimit checks that further requests of a value that a limit has refused join no flight.
// Each is refused only by what is read then, so returned units, a new window and a larger maximum
// let requests pass at once, and a repeat of an accepted id gets its outcome.
func TestUsedUpLimit(t *testing.T) {
	onClock(t, func(w *clocked) {
		f := &flights{Ledger: w.part, Lookup: w.part}
		w.s = w.node(func(c *deduct.Config) { c.Ledger, c.Lookup = f, f })
		d := limited("b", perUser("day", 5, budget.Day))
		made, err := w.defs.Create(w.Ctx, d, make([]bucket.Partition, 2))
		w.OK(err)
		ref := bucket.BudgetRef{Tenant: d.Tenant, Name: d.Name}
		w.accept(ref, 5) // r1
		w.refuse(ref, 1, budget.LimitExceeded)
		commits := f.commits
		for i := range 5 {
			e := w.refuse(ref, 1, budget.LimitExceeded)
			if e.RetryAfter <= 0 || e.Limit == nil || e.Limit.Used != 5 || f.limits != i+1 {
				w.Errorf("%v, %+v, %d reads", e, e.Limit, f.limits)
			}
		}
		if f.commits != commits {
			w.Errorf("%d flights more", f.commits-commits)
		}
		r := bucket.DeductRequest{Budget: ref, RequestID: "r1", Amount: 5,
			Dimensions: map[string]string{"user": "u"}}
		if got, err := w.s.Deduct(w.Ctx, r); err != nil || !got.Replayed {
			w.Errorf("a repeat: %+v, %v", got, err)
		}
		r.RequestID, r.Dimensions = "other", map[string]string{"user": "v"}
		if _, err := w.s.Deduct(w.Ctx, r); err != nil {
			w.Errorf("another user: %v", err)
		}
		most := limited("b", perUser("day", 6, budget.Day)).Limits.List
		_, err = w.defs.Change(w.Ctx, made.Budget.ID, bucket.Change{Limits: &most})
		w.OK(err)
		time.Sleep(1100 * time.Millisecond) // until the node has read it (I8)
		w.accept(ref, 1)
		w.refuse(ref, 1, budget.LimitExceeded)
		w.Clock.Advance(midnight(w.DB.Now()).Sub(w.DB.Now()))
		before := f.limits
		w.accept(ref, 6)
		if f.limits != before {
			w.Error("a window that is over was looked at")
		}
	})
}

// TestUsedIsTold checks that Refills is notified of used budgets.
func TestUsedIsTold(t *testing.T) {
	b := newBooks()
	told := heard{}
	s := node(t, b, func(c *deduct.Config) { c.Refills = told })
	one, two := b.add("one", 100, 2, 50), b.add("two", 1, 1, 1)
	var requests []bucket.DeductRequest
	for i := range 6 {
		requests = append(requests, request(one, fmt.Sprint(i), 1))
	}
	requests = append(requests, request(two, "too much", 2))
	s.DeductAll(context.Background(), requests)
	if told[one.ID] == 0 || told[one.ID] > 6 || told[two.ID] != 0 {
		t.Error(told)
	}
}

type heard map[int64]int

func (t heard) Used(id int64) { t[id]++ }
