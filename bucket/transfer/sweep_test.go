package transfer_test

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/budgetd/budgetd/budget"
)

// TestSweepByPeriod checks that units that came back before the end of the period go where `unused`
// says, and later ones where late_refund says, even if the rollover has not happened yet.
func TestSweepByPeriod(t *testing.T) {
	everywhere(t, func(w *world) {
		for _, tc := range []struct {
			unused, late budget.Where
			most         int64    // max_rollover
			want         [3]int64 // F, U + O, X: of 10 used 1 came back in time, 2 + 4 late
		}{
			{budget.Spread, budget.ToTotal, 0, [3]int64{957, 40, 0}},
			{budget.Spread, budget.Next, 0, [3]int64{951, 46, 0}},
			{budget.Spread, budget.Forfeit, 0, [3]int64{951, 40, 6}},
			{budget.Next, budget.ToTotal, 0, [3]int64{926, 71, 0}},
			{budget.Next, budget.ToTotal, 30, [3]int64{927, 70, 0}},
			{budget.Next, budget.Forfeit, 0, [3]int64{920, 71, 6}},
			{budget.Forfeit, budget.ToTotal, 0, [3]int64{926, 40, 31}},
			{budget.Forfeit, budget.Next, 0, [3]int64{920, 46, 31}},
		} {
			name, rule := fmt.Sprintf("%s-%s-%d", tc.unused, tc.late, tc.most), day(tc.unused)
			rule.MaxRollover = tc.most
			b := w.daily(name, 1000, rule, func(d *budget.Definition) { d.LateRefund = tc.late })
			w.use(b.Buckets[0].ID, "a", 10)
			w.until(dayLong - time.Millisecond)
			w.giveBack(b.ID, "a", "in time", 1, false)
			w.until(dayLong)
			w.giveBack(b.ID, "a", "before the rollover", 2, true)
			sweep := func() int64 { return must(w.part.Sweep(w.ctx, []int64{b.ID}))(w) }
			w.until(dayLong - time.Millisecond)
			equal(w, name+": by a clock that is behind", sweep(), 0)
			w.until(dayLong)
			if tc.most == 0 {
				w.rollOver(b.ID)
			} else {
				equal(w, name+": with the rollover", sweep(), 3)
			}
			w.giveBack(b.ID, "a", "after it", 4, true)
			if got := must(w.part.Returning(w.ctx, 10))(w); !slices.Equal(got, []int64{b.ID}) {
				w.Errorf("%s: returning %v", name, got)
			}
			equal(w, name+": swept", sweep(), map[bool]int64{true: 7, false: 4}[tc.most == 0])
			w.holds(name, b.ID, [5]int64{tc.want[0], tc.want[1], 0, 3, tc.want[2]})
			equal(w, name+": returning", len(must(w.part.Returning(w.ctx, 10))(w)), 0)
		}
	})
}

// TestSweepOfManyBudgets checks that one call sweeps the epochs of many budgets, more than one
// transaction locks, also if they are not sorted.
func TestSweepOfManyBudgets(t *testing.T) {
	everywhere(t, func(w *world) {
		var ids []int64
		for i := range 3 {
			b := w.create(promo(fmt.Sprint("b", i), 1000, 30))
			ids = append(ids, b.ID)
			for k := range b.Buckets {
				id := fmt.Sprint("d", k)
				w.use(b.Buckets[k].ID, id, 5)
				w.giveBack(b.ID, id, "r", 2, false)
			}
		}
		equal(w, "swept", must(w.part.Sweep(w.ctx, append(ids, 1<<40)))(w), 3*30*2)
		equal(w, "nothing is left", must(w.part.Sweep(w.ctx, ids))(w), 0)
		for _, id := range ids {
			equal(w, "undistributed", w.figures(id).Undistributed, 60)
		}
	})
}
