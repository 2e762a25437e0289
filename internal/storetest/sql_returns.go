package storetest

import (
	"fmt"

	"github.com/budgetd/budgetd/bucket"
	"github.com/budgetd/budgetd/budget"
	"github.com/budgetd/budgetd/ledger"
)

var returnTests = []sqlTest{
	{"rollback/the whole", rollbackWhole},
	{"rollback/parts", rollbackParts},
	{"rollback/the default id with an amount", rollbackDefaultPart},
	{"rollback/with another amount under one id", rollbackConflict},
	{"rollback/of what never was", rollbackNotFound},
	{"rollback/of a tombstone", rollbackVoid},
	{"rollback/finds a home wherever the bucket is", rollbackHome},
	{"cancel/what was never deducted", cancelAbsent},
	{"cancel/what was deducted", cancelUsed},
	{"cancel/what is left after rollbacks", cancelRest},
	{"cancel/in a budget that does not exist", cancelNoBudget},
	{"sweep/returning units go to the total", sweepMoves},
}

// give rolls back a part of a deduction, or the whole with amount 0.
func (w *sqlWorld) give(budgetID int64, id, rollbackID string, amount int64) (
	ledger.Deduction, bool, error) {
	d, replayed, err := w.db.Rollback(w.ctx, bucket.RollbackOrder{
		Budget: budgetID, RequestID: id, RollbackID: rollbackID, Amount: amount})
	return inUTC(d), replayed, err
}

// gives rolls back and compares what is then rolled back of the deduction.
func (w *sqlWorld) gives(budgetID int64, id, rollbackID string, amount, rolledBack int64,
	replayed bool) {
	w.Helper()
	d, again, err := w.give(budgetID, id, rollbackID, amount)
	if err != nil || d.RolledBack != rolledBack || again != replayed {
		w.Fatalf("rollback %q of %d of %q: %d rolled back, replayed %v, %v; want %d, %v",
			rollbackID, amount, id, d.RolledBack, again, err, rolledBack, replayed)
	}
	want := ledger.StateUsed
	if d.RolledBack == d.Amount {
		want = ledger.StateRolledBack
	}
	equal(w, "state", d.State, want)
	row, _ := w.recorded(budgetID, id)
	equal(w, "row", inUTC(row), d)
}

func rollbackWhole(w *sqlWorld) {
	b := w.create("b", 100, 1)
	ref := b.Buckets[0].Ref()
	d := w.use(ref, "order", 30)
	w.use(ref, "other", 5)
	w.gives(b.ID, "order", "", 0, 30, false)
	row := w.epoch(ref)
	equal(w, "used", row.Used, 5)
	equal(w, "returning", row.Returning, 30)
	equal(w, "outstanding", row.Outstanding, 65)
	equal(w, "next entry", row.NextEntry, 4) // two deductions, one rollback
	w.unchanged(b.ID, "a repeated rollback", func() {
		w.gives(b.ID, "order", "", 0, 30, true)
		_, _, err := w.give(b.ID, "order", "another id", 0)
		w.refused(err, budget.AlreadyRolledBack)
		_, _, err = w.give(b.ID, "order", "another id", 30)
		w.refused(err, budget.AlreadyRolledBack)
	})
	d.State, d.RolledBack = ledger.StateRolledBack, 30
	row2, _ := w.recorded(b.ID, "order")
	equal(w, "row", inUTC(row2), inUTC(d))
}

func rollbackParts(w *sqlWorld) {
	b := w.create("b", 100, 1)
	w.use(b.Buckets[0].Ref(), "order", 30)
	w.gives(b.ID, "order", "one", 10, 10, false)
	w.gives(b.ID, "order", "two", 15, 25, false)
	w.gives(b.ID, "order", "one", 10, 25, true)
	w.unchanged(b.ID, "a rollback of more than is left", func() {
		_, _, err := w.give(b.ID, "order", "three", 6)
		e := w.refused(err, budget.AmountExceedsRemaining)
		if e.Available == nil || *e.Available != 5 {
			w.Errorf("available %v, want 5", e.Available)
		}
		_, _, err = w.give(b.ID, "order", "three", budget.MaxAmount)
		w.refused(err, budget.AmountExceedsRemaining)
	})
	w.gives(b.ID, "order", "three", 5, 30, false) // the refused id is free
	w.unchanged(b.ID, "repeated parts", func() {
		for id, amount := range map[string]int64{"one": 10, "two": 15, "three": 5} {
			w.gives(b.ID, "order", id, amount, 30, true)
		}
		_, _, err := w.give(b.ID, "order", "", 0)
		w.refused(err, budget.AlreadyRolledBack)
	})
	equal(w, "returning", w.figures(b.ID).Returning, 30)
}

func rollbackDefaultPart(w *sqlWorld) {
	b := w.create("b", 100, 1)
	w.use(b.Buckets[0].Ref(), "order", 30)
	w.gives(b.ID, "order", "", 10, 10, false)
	w.gives(b.ID, "order", "", 10, 10, true)
	_, _, err := w.give(b.ID, "order", "", 0)
	w.refused(err, budget.RequestConflict)
	w.gives(b.ID, "order", "rest", 0, 30, false)
	w.gives(b.ID, "order", "rest", 0, 30, true)
}

func rollbackConflict(w *sqlWorld) {
	b := w.create("b", 100, 1)
	w.use(b.Buckets[0].Ref(), "order", 30)
	w.gives(b.ID, "order", "part", 10, 10, false)
	w.gives(b.ID, "order", "whole", 0, 30, false)
	w.unchanged(b.ID, "a conflicting rollback", func() {
		for id, amount := range map[string]int64{"part": 11, "whole": 20} {
			_, _, err := w.give(b.ID, "order", id, amount)
			w.refused(err, budget.RequestConflict)
		}
		_, _, err := w.give(b.ID, "order", "part", 0)
		w.refused(err, budget.RequestConflict)
	})
}

func rollbackNotFound(w *sqlWorld) {
	b, other := w.create("b", 100, 1), w.create("other", 100, 1)
	w.use(other.Buckets[0].Ref(), "order", 30)
	w.unchanged(b.ID, "a rollback of what never was", func() {
		for _, id := range []string{"order", "ORDER", ""} {
			_, _, err := w.give(b.ID, id, "", 0)
			w.refused(err, budget.DeductionNotFound)
		}
	})
	w.use(b.Buckets[0].Ref(), "order", 5) // "not found" is not final
	w.gives(b.ID, "order", "", 0, 5, false)
	equal(w, "used of the other budget", w.figures(other.ID).Used, 30)
}

func rollbackVoid(w *sqlWorld) {
	b := w.create("b", 100, 1)
	must(w.db.Cancel(w.ctx, b.ID, "order"))(w)
	w.unchanged(b.ID, "a rollback of a tombstone", func() {
		for _, amount := range []int64{0, 5} {
			_, _, err := w.give(b.ID, "order", "", amount)
			w.refused(err, budget.RequestVoid)
		}
	})
}

func rollbackHome(w *sqlWorld) {
	b := w.create("b", 700, 7)
	refs := make([]bucket.Ref, 7)
	for i := range refs {
		refs[i] = b.Buckets[i].Ref()
		w.use(refs[i], fmt.Sprint("order-", i), 10)
	}
	must(w.db.Ending(w.ctx, b.ID, refs[1], bucket.ByOperator, false))(w)
	w.offline(b.ID, refs[2], bucket.ByOperator, false, nil)
	must(w.db.Lose(w.ctx, refs[3]))(w)
	w.ok(w.db.Fence(w.ctx, refs[4], "broken"))
	w.offline(b.ID, refs[5], bucket.ByOperator, false, nil)
	must(w.db.Reopen(w.ctx, b.ID, refs[5].Bucket))(w)
	paused, past := true, w.db.Now()
	must(w.db.Change(w.ctx, b.ID, bucket.Change{Paused: &paused, EndAt: &past}))(w)
	for i, what := range []string{"open", "closing", "closed", "lost", "fenced", "reopened", "open"} {
		before := w.epoch(refs[i])
		w.gives(b.ID, fmt.Sprint("order-", i), "part", 4, 4, false)
		w.gives(b.ID, fmt.Sprint("order-", i), "", 0, 10, false)
		after := w.epoch(refs[i])
		equal(w, "used of the "+what+" epoch", after.Used, 0)
		equal(w, "returning of the "+what+" epoch", after.Returning, 10)
		equal(w, "outstanding of the "+what+" epoch", after.Outstanding, before.Outstanding)
		equal(w, "status of the "+what+" epoch", after.Status, before.Status)
	}
	equal(w, "swept before the roll-over", must(w.db.Sweep(w.ctx, b.ID))(w), 0) // which of it is late is known then
	must(w.db.RollOver(w.ctx, b.ID))(w)
	equal(w, "swept", must(w.db.Sweep(w.ctx, b.ID))(w), 70)
	f := w.figures(b.ID)
	equal(w, "not funded", f.Unfunded, 6*90+70) // all but the fenced one's
	equal(w, "used", f.Used, 0)
}

func cancelAbsent(w *sqlWorld) {
	b, other := w.create("b", 100, 1), w.create("other", 100, 1)
	w.clock.Advance(3)
	want := ledger.Deduction{Budget: b.ID, RequestID: "order", State: ledger.StateVoid}
	d := must(w.db.Cancel(w.ctx, b.ID, "order"))(w)
	if !d.CountedAt.Equal(w.db.Now()) {
		w.Errorf("counted at %v, now is %v", d.CountedAt, w.db.Now())
	}
	row, _ := w.recorded(b.ID, "order")
	equal(w, "row", inUTC(row), inUTC(d))
	want.CountedAt = d.CountedAt
	equal(w, "tombstone", inUTC(d), inUTC(want))
	w.unchanged(b.ID, "a repeated cancel", func() {
		w.clock.Advance(1_000_000_000)
		equal(w, "repeated", inUTC(must(w.db.Cancel(w.ctx, b.ID, "order"))(w)), inUTC(want))
	})
	w.use(b.Buckets[0].Ref(), "Order", 1)
	w.use(other.Buckets[0].Ref(), "order", 1)
}

func cancelUsed(w *sqlWorld) {
	b := w.create("b", 100, 1)
	made := w.use(b.Buckets[0].Ref(), "order", 30)
	d := must(w.db.Cancel(w.ctx, b.ID, "order"))(w)
	made.State, made.RolledBack = ledger.StateRolledBack, 30
	equal(w, "cancelled", inUTC(d), inUTC(made))
	w.unchanged(b.ID, "a repeated cancel", func() {
		equal(w, "again", inUTC(must(w.db.Cancel(w.ctx, b.ID, "order"))(w)), inUTC(made))
		_, _, err := w.give(b.ID, "order", "another", 1)
		w.refused(err, budget.AlreadyRolledBack)
	})
	f := w.figures(b.ID)
	equal(w, "used", f.Used, 0)
	equal(w, "returning", f.Returning, 30)
}

func cancelRest(w *sqlWorld) {
	b := w.create("b", 100, 1)
	ref := b.Buckets[0].Ref()
	for i, rollbackID := range []string{"", "part"} { // the default id may be taken
		id := fmt.Sprint("order-", i)
		w.use(ref, id, 30)
		w.gives(b.ID, id, rollbackID, 10, 10, false)
		d := must(w.db.Cancel(w.ctx, b.ID, id))(w)
		equal(w, "rolled back", d.RolledBack, 30)
		equal(w, "state", d.State, ledger.StateRolledBack)
		w.gives(b.ID, id, rollbackID, 10, 30, true)
	}
	w.use(ref, "whole", 5)
	w.gives(b.ID, "whole", "", 0, 5, false)
	w.unchanged(b.ID, "a cancel of what was rolled back", func() {
		d := must(w.db.Cancel(w.ctx, b.ID, "whole"))(w)
		equal(w, "rolled back", d.RolledBack, 5)
	})
	equal(w, "returning", w.figures(b.ID).Returning, 65)
}

func cancelNoBudget(w *sqlWorld) {
	b := w.create("b", 100, 1)
	_, err := w.db.Cancel(w.ctx, b.ID+1, "order")
	w.refused(err, budget.BudgetNotFound)
	later := w.create("later", 100, 1)
	w.use(later.Buckets[0].Ref(), "order", 5)
}

func sweepMoves(w *sqlWorld) {
	b, other := w.create("b", 100, 2), w.create("other", 100, 1)
	refs := []bucket.Ref{b.Buckets[0].Ref(), b.Buckets[1].Ref()}
	w.use(refs[0], "a", 10)
	w.use(refs[1], "b", 20)
	w.book(refs[1]).deduct("a", 7) // a duplicate
	w.commit(w.book(refs[1]))
	w.use(other.Buckets[0].Ref(), "a", 5)
	w.gives(b.ID, "a", "", 0, 10, false)
	w.gives(b.ID, "b", "part", 3, 3, false)
	w.gives(other.ID, "a", "", 0, 5, false)
	w.offline(b.ID, refs[0], bucket.ByOperator, false, nil)
	equal(w, "moved", must(w.db.Sweep(w.ctx, b.ID))(w), 20)
	f := w.figures(b.ID)
	equal(w, "undistributed", f.Undistributed, 40+20)
	equal(w, "returning", f.Returning, 0)
	equal(w, "returning of the other budget", w.figures(other.ID).Returning, 5)
	w.unchanged(b.ID, "a repeated sweep", func() {
		equal(w, "moved again", must(w.db.Sweep(w.ctx, b.ID))(w), 0)
	})
	w.gives(b.ID, "b", "more", 1, 4, false)
	equal(w, "moved later", must(w.db.Sweep(w.ctx, b.ID))(w), 1)
}
