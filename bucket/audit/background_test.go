package audit_test

import (
	"context"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/budgetd/budgetd/bucket"
	"github.com/budgetd/budgetd/bucket/audit"
	"github.com/budgetd/budgetd/budget"
	"github.com/budgetd/budgetd/internal/proof/fixture"
	"github.com/budgetd/budgetd/ledger"
)

// clock is a bucket.Clock that a test moves.
type clock struct{ *fixture.Clock }

func (clock) Sleep(ctx context.Context, _ time.Duration) error { return ctx.Err() }

// background returns the service's loop with a clock that stands still.
func (w *world) background(set audit.Settings, visitors ...audit.Visitor) func() {
	s := audit.New(audit.Config{DB: w.DB, Budgets: w.budgets, Observer: w.seen,
		Clock: clock{w.Clock}})
	loop := s.Loops(set, visitors...)[0]
	return func() {
		w.Helper()
		w.OK(loop.RunOnce(w.Ctx))
		w.Clock.Advance(time.Second)
	}
}

// TestBackgroundFindsBreaks checks that the books find a wrong column of the sum, that the recount
// finds a unit in the wrong one of two columns, and that each halts only its epoch.
func TestBackgroundFindsBreaks(t *testing.T) {
	each(t, func(w *world) {
		run := w.background(audit.Settings{})
		sum, moved, fine := w.history("sum"), w.history("moved"), w.history("fine")
		run()
		if w.seen.books != 0 || w.seen.halts != 0 {
			t.Fatalf("%+v", w.seen)
		}
		w.Exec([]any{breaks[2].statement, sum.Buckets[1].ID}, []any{breaks[6].statement, moved.Buckets[1].ID})
		for range 3 {
			run()
		}
		for _, b := range []*bucket.Budget{sum, moved} {
			if got := w.halted(b); !slices.Equal(got, []string{"1:1"}) {
				t.Errorf("%s: halted %v", b.Name, got)
			}
		}
		if got := w.halted(fine); got != nil || w.seen.halts != 2 {
			t.Errorf("halted %v, %d in all", got, w.seen.halts)
		}
		if w.seen.unfinished["halted"] != 2 || w.seen.stranded[0] == 0 || w.seen.gap != 2 {
			t.Errorf("%v, stranded %v, gap %d", w.seen.unfinished, w.seen.stranded, w.seen.gap)
		}
		w.Exec([]any{`UPDATE bucket_epoch SET used_quantity = used_quantity - 1 WHERE bucket_id IN (?, ?)`,
			sum.Buckets[1].ID, moved.Buckets[1].ID}, []any{`UPDATE bucket_epoch SET
			outstanding_quantity = outstanding_quantity + 1 WHERE bucket_id = ?`, moved.Buckets[1].ID})
		w.Clock.Advance(11 * time.Minute)
		run()
		if w.seen.books != 0 || w.seen.gap != 0 {
			t.Errorf("%d discrepancies are known still, gap %d", w.seen.books, w.seen.gap)
		}
	})
}

// TestRecountKeepsItsRate checks that unchanged budgets are counted once, and that a pause follows
// a budget with many rows.
func TestRecountKeepsItsRate(t *testing.T) {
	each(t, func(w *world) {
		counts := map[int64]int{}
		s := audit.New(audit.Config{DB: w.DB, Budgets: w.budgets, Observer: w.seen,
			Clock: clock{w.Clock}})
		s.SeeAccounts(func(a *audit.Accounts) { counts[a.ID]++ })
		loop := s.Loops(audit.Settings{Rows: 100})[0]
		big, small := w.make("big", 10_000, 1), w.make("small", 10, 1)
		var ops []bucket.Operation
		for i := range 500 {
			ops = append(ops, operation(big, 0, fmt.Sprint("id", i), 1))
		}
		w.deduct(ops...)
		seconds := func(n int) {
			for range n {
				w.OK(loop.RunOnce(w.Ctx))
				w.Clock.Advance(time.Second)
			}
		}
		seconds(3)
		if counts[big.ID] != 1 || counts[small.ID] != 0 {
			t.Errorf("at once: %v", counts)
		}
		seconds(8)
		if counts[small.ID] != 1 {
			t.Errorf("after a rest: %v", counts)
		}
		seconds(30)
		if counts[big.ID] != 1 || counts[small.ID] != 1 {
			t.Errorf("nothing has changed: %v", counts)
		}
		w.deduct(operation(small, 0, "x", 1))
		seconds(30)
		if counts[big.ID] != 1 || counts[small.ID] != 2 {
			t.Errorf("one has changed: %v", counts)
		}
		w.Clock.Advance(time.Hour)
		seconds(30)
		if counts[big.ID] != 2 || counts[small.ID] != 3 {
			t.Errorf("after an hour: %v", counts)
		}
	})
}

// TestAuditLooksAgain checks that a difference in one read that is gone in the next is no
// discrepancy.
func TestAuditLooksAgain(t *testing.T) {
	each(t, func(w *world) {
		b := w.history("split")
		wrong := 0 // how many reads show a commit without the one before it
		w.s.SeeAccounts(func(a *audit.Accounts) {
			if wrong--; wrong >= 0 {
				a.Epochs[0].Row.Used++
			}
		})
		for _, wrong = range []int{1, 2} {
			w.clean(b)
		}
		if wrong = 3; w.audit(b).OK || !slices.Equal(w.halted(b), []string{"0:1"}) {
			t.Errorf("halted %v", w.halted(b))
		}
	})
}

// TestSnapshotsTellTheMetrics checks the largest budgets, the sums over all, and the counts of what is
// incomplete.
func TestSnapshotsTellTheMetrics(t *testing.T) {
	each(t, func(w *world) {
		ids := map[int]int64{}
		for i := range 450 { // more than two pages
			ids[i] = w.Create(fmt.Sprint("b", i), int64(i), 1).ID
		}
		run := w.background(audit.Settings{Interval: time.Hour, Shown: 3})
		run()
		var names []string
		for _, f := range w.seen.largest {
			names = append(names, f.Name)
		}
		if !slices.Equal(names, []string{"b449", "b448", "b447"}) || w.seen.all.Total != 449*450/2 ||
			w.seen.all.Online != 450 {
			t.Errorf("%v, %+v", names, w.seen.all)
		}
		parent, child := ids[449], ids[9]
		w.Exec([]any{`UPDATE bucket_epoch SET outstanding_quantity = outstanding_quantity - 9, closed_quantity = 9
			WHERE budget_id = ?`, parent},
			[]any{`UPDATE budget_management_bucket SET allocated_quantity = 9 WHERE id = ?`, parent},
			[]any{`UPDATE budget_management_bucket SET parent_id = ?, parent_period = 1 WHERE id = ?`, parent, child})
		w.Clock.Advance(time.Minute)
		run()
		if w.seen.all.Total != 449*450/2-9 || w.seen.all.Total != w.seen.all.Sum() {
			t.Errorf("the units of a child are not counted once: %+v", w.seen.all)
		}
		w.Exec([]any{`UPDATE adjustment SET status = 'pending' WHERE quantity = ?`, 448})
		w.Clock.Advance(time.Minute)
		run()
		if w.seen.unfinished["shrinks"] != 1 || w.seen.unfinished["grants"] != 0 {
			t.Errorf("%v", w.seen.unfinished)
		}
		if w.seen.books == 0 || w.seen.halts != 0 {
			t.Errorf("an adjustment that is not done: %d discrepancies, %d halts", w.seen.books,
				w.seen.halts)
		}
		w.Forget()
	})
}

// TestLimitCounters checks that a counter that disagrees with its deductions is found, and halts
// nothing.
func TestLimitCounters(t *testing.T) {
	each(t, func(w *world) {
		b := w.make("limits", 1000, 2, perUser(budget.Day))
		of := func(r *ledger.Request) { r.Dimensions = ledger.Dimensions(map[string]string{"user": "u"}) }
		w.deduct(operation(b, 0, "a", 5, of), operation(b, 1, "b", 6, of))
		w.clean(b)
		w.Exec([]any{`DELETE FROM deduction_value WHERE budget_id = ? AND request_id = x'61'`, b.ID})
		r := w.audit(b)
		want := []ledger.Discrepancy{{What: `limit per-user of user "u"`, Recorded: 11, Counted: 6},
			{What: `limit slides of user "u"`, Recorded: 2, Counted: 1}}
		if !slices.Equal(r.Discrepancies, want) || w.halted(b) != nil {
			t.Errorf("%v, halted %v", r.Discrepancies, w.halted(b))
		}
	})
}
