package deduct_test

import (
	"context"
	"fmt"
	"maps"
	"testing"
	"testing/synctest"
	"time"

	"pgregory.net/rapid"

	"github.com/budgetd/budgetd/bucket"
	"github.com/budgetd/budgetd/bucket/deduct"
	"github.com/budgetd/budgetd/budget"
)

// TestFigures sends random traffic of one caller through two nodes. An answer shows the bucket and
// the budget after the deduction, except for what the other node has done within a second. No
// figure is above what was left then, below what the bucket has, or older than the deduction.
func TestFigures(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		synctest.Test(t, func(*testing.T) {
			b := newBooks()
			const total = 1000
			a := b.add("b", total, 3, 200)
			if rapid.Bool().Draw(rt, "daily") {
				now := time.Now()
				b.change(a.ID, func(a *account) {
					a.Type = budget.Daily
					a.Period.Start, a.Period.End = now.Add(-time.Hour), now.Add(48*time.Hour)
				})
			}
			nodes := []*deduct.Service{node(t, b, nil), node(t, b, nil)}
			used := int64(0)
			var lately [2]int64 // used through the other node since this one may have read the sum
			for n := range rapid.IntRange(1, 40).Draw(rt, "calls") {
				if rapid.IntRange(0, 9).Draw(rt, "wait") == 0 {
					time.Sleep(2 * time.Second)
					lately = [2]int64{}
				}
				on := rapid.IntRange(0, 1).Draw(rt, "node")
				requests := make([]bucket.DeductRequest, rapid.IntRange(1, 4).Draw(rt, "size"))
				for i := range requests {
					requests[i] = request(a, fmt.Sprint(n, "-", i/2), rapid.Int64Range(1, 60).Draw(rt, "amount"))
					if i%2 == 1 {
						requests[i].Amount = requests[i-1].Amount // the same request again
					}
				}
				before := used
				for _, r := range nodes[on].DeductAll(context.Background(), requests) {
					if r.Err == nil && !r.Answer.Replayed {
						used += r.Answer.Amount
					}
					if r.Err != nil && !budget.Is(r.Err, budget.BudgetExhausted) {
						rt.Fatalf("%v", r.Err)
					}
					if r.Err != nil {
						continue
					}
					got, most := r.Answer, total-before-r.Answer.Amount+lately[on]
					if got.FiguresUnknown || got.BudgetRemaining < got.BucketRemaining || got.BudgetRemaining > most {
						rt.Fatalf("call %d: %+v, at most %d", n, got, most)
					}
					if p := got.PeriodRemaining; (a.Type == budget.Daily) != (p != nil) || p != nil && *p != got.BudgetRemaining {
						rt.Fatalf("call %d: the period's %v", n, p)
					}
				}
				lately[1-on] += used - before
				synctest.Wait()
			}
			time.Sleep(time.Minute)
		})
	})
}

// TestFiguresOfManyBudgets checks that a batch reads the figures of a few budgets only, and that
// further answers are the same without them.
func TestFiguresOfManyBudgets(t *testing.T) {
	const mostReads = 8
	b := newBooks()
	var requests []bucket.DeductRequest
	for i := range 3 * mostReads {
		a := b.add(fmt.Sprint("b", i), 100, 1, 100)
		requests = append(requests, request(a, "one", 30), request(a, "two", 5))
	}
	s := node(t, b, nil)
	read := map[string]bool{}
	for i, r := range s.DeductAll(t.Context(), requests) {
		if r.Err != nil || r.Answer.RemainingUnknown || r.Answer.BucketRemaining == 100 {
			t.Fatalf("%d: %+v", i, r)
		}
		name := requests[i].Budget.Name
		if had, ok := read[name]; ok && had == r.Answer.FiguresUnknown {
			t.Errorf("budget %s has figures in one answer of two", name)
		}
		read[name] = !r.Answer.FiguresUnknown
		if read[name] && r.Answer.BudgetRemaining > 95 {
			t.Errorf("%d: %+v", i, r.Answer)
		}
	}
	maps.DeleteFunc(read, func(_ string, figures bool) bool { return !figures })
	if len(read) != mostReads {
		t.Errorf("figures of %d budgets, want %d", len(read), mostReads)
	}
}
