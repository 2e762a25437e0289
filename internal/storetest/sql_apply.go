package storetest

import (
	"fmt"

	"github.com/budgetd/budgetd/bucket"
	"github.com/budgetd/budgetd/budget"
	"github.com/budgetd/budgetd/ledger"
)

var applyTests = []sqlTest{
	{"apply/grants what is undistributed", applyGrants},
	{"apply/need, units and sharding_quantity", applyBounds},
	{"apply/adjust_cnt", applyCount},
	{"apply/adjust_cnt counts within an epoch", applyCountAnew},
	{"apply/keeps pending shrinks", applyShrink},
	{"apply/only to an open epoch", applyOpenOnly},
	{"apply/numbers arrive once", applyNumbers},
}

// withUndistributed makes a budget of which that much is undistributed.
func (w *sqlWorld) withUndistributed(name string, units int64, buckets int,
	edits ...func(*budget.Definition)) bucket.Budget {
	w.Helper()
	b := w.create(name, int64(buckets), buckets, edits...)
	must(w.append(b.ID, "units", units))(w)
	return w.read(b.ID)
}

// apply applies and returns the units granted, 0 for nothing.
func (w *sqlWorld) apply(budgetID int64, want bucket.Want) int64 {
	w.Helper()
	order := must(w.db.Apply(w.ctx, budgetID, want))(w)
	if order == nil {
		return 0
	}
	equal(w, "granted to", order.Ref, want.Ref)
	return order.Amount
}

func applyGrants(w *sqlWorld) {
	b := w.withUndistributed("b", 100, 2)
	ref := b.Buckets[0].Ref()
	w.clock.Advance(1_000_000_000)
	order := must(w.db.Apply(w.ctx, b.ID, bucket.Want{Ref: ref, Need: 10, Units: 30}))(w)
	equal(w, "order", *order, bucket.GrantOrder{Ref: ref, Number: 2, Amount: 30})
	row := w.epoch(ref)
	equal(w, "outstanding", row.Outstanding, 31)
	equal(w, "next grant", row.NextGrant, 3)
	read := w.read(b.ID)
	equal(w, "out_quantity", read.Buckets[0].OutQuantity, 31)
	equal(w, "out_cnt", read.Buckets[0].OutCnt, 2)
	equal(w, "out_cnt of the other", read.Buckets[1].OutCnt, 1)
	equal(w, "list version", read.ListVersion, b.ListVersion)
	equal(w, "version", read.Version, b.Version)
	f := w.figures(b.ID)
	equal(w, "undistributed", f.Undistributed, 70)
	equal(w, "out_quantity of the budget", f.OutQuantity(), 32)
	grants := must(w.db.Unfinished(w.ctx, 10))(w).Grants
	equal(w, "pending", len(grants), 3)
	equal(w, "order of the numbers", grants[0].Order.Number, 1)
	equal(w, "pending grant", grants[1], bucket.PendingGrant{Lane: laneOf(0), Order: *order})
	w.deliver()
	w.use(ref, "order", 31)
	equal(w, "pending after it was drained", len(must(w.db.Unfinished(w.ctx, 10))(w).Grants), 1)
}

func applyBounds(w *sqlWorld) {
	for i, test := range []struct {
		name            string
		undistributed   int64
		sharding        int64
		need, units     int64
		unbounded       bool
		granted, remain int64
	}{
		{"all it asks for", 100, 0, 10, 30, false, 30, 70},
		{"what is left", 20, 0, 10, 30, false, 20, 0},
		{"exactly the need", 10, 0, 10, 30, false, 10, 0},
		{"one below the need", 9, 0, 10, 30, false, 0, 9},
		{"nothing left", 0, 0, 1, 30, false, 0, 0},
		{"sharding_quantity", 100, 7, 1, 30, false, 7, 93},
		{"sharding_quantity above the units", 100, 31, 1, 30, false, 30, 70},
		{"sharding_quantity below the need", 100, 7, 8, 30, false, 0, 100},
		{"unbounded lifts sharding_quantity", 100, 7, 8, 30, true, 30, 70},
		{"unbounded takes what is left", 20, 7, 8, 30, true, 20, 0},
		{"unbounded, one below the need", 9, 7, 10, 30, true, 0, 9},
		{"the largest want", 100, 0, 1, budget.MaxAmount, false, 100, 0},
	} {
		b := w.create(fmt.Sprintf("b%d", i), 1, 1,
			func(d *budget.Definition) { d.ShardingQuantity = test.sharding })
		if test.undistributed > 0 {
			must(w.append(b.ID, "units", test.undistributed))(w)
		}
		want := bucket.Want{Ref: b.Buckets[0].Ref(), Need: test.need, Units: test.units,
			Unbounded: test.unbounded}
		call := func() { equal(w, test.name, w.apply(b.ID, want), test.granted) }
		if test.granted == 0 {
			w.unchanged(b.ID, test.name, call)
		} else {
			call()
		}
		equal(w, test.name+": undistributed", w.figures(b.ID).Undistributed, test.remain)
	}
}

func applyCount(w *sqlWorld) {
	b := w.withUndistributed("b", 100, 2, func(d *budget.Definition) { d.AdjustCnt = 2 })
	ref := b.Buckets[0].Ref()
	want := bucket.Want{Ref: ref, Need: 1, Units: 10}
	equal(w, "the hand-out counts as the first", w.apply(b.ID, want), 10)
	w.unchanged(b.ID, "an apply beyond adjust_cnt", func() {
		equal(w, "used up", w.apply(b.ID, want), 0)
	})
	want.Unbounded = true
	equal(w, "unbounded", w.apply(b.ID, want), 10)
	want.Unbounded = false
	three, five := 3, 5
	must(w.db.Change(w.ctx, b.ID, bucket.Change{AdjustCnt: &three}))(w)
	equal(w, "unbounded ones count too", w.apply(b.ID, want), 0)
	must(w.db.Change(w.ctx, b.ID, bucket.Change{AdjustCnt: &five}))(w)
	equal(w, "after the bound was raised", w.apply(b.ID, want), 10)
	want.Ref = b.Buckets[1].Ref()
	equal(w, "the other bucket", w.apply(b.ID, want), 10)
}

func applyCountAnew(w *sqlWorld) {
	b := w.withUndistributed("b", 100, 3, func(d *budget.Definition) { d.AdjustCnt = 2 })
	want := bucket.Want{Ref: b.Buckets[0].Ref(), Need: 1, Units: 10}
	equal(w, "first epoch", w.apply(b.ID, want), 10)
	equal(w, "first epoch, used up", w.apply(b.ID, want), 0)
	w.deliver()
	w.offline(b.ID, want.Ref, bucket.ByOperator, false, nil)
	equal(w, "out_cnt once it has ended", w.read(b.ID).Buckets[0].OutCnt, 0)
	want.Ref = must(w.db.Reopen(w.ctx, b.ID, want.Ref.Bucket))(w).Opened[0].Ref()
	w.open(want.Ref)
	for i := range 2 {
		equal(w, "second epoch", w.apply(b.ID, want), 10)
		equal(w, "out_cnt", w.read(b.ID).Buckets[0].OutCnt, i+1)
	}
	equal(w, "second epoch, used up", w.apply(b.ID, want), 0)
	must(w.db.Lose(w.ctx, want.Ref))(w)
	equal(w, "out_cnt once it was lost", w.read(b.ID).Buckets[0].OutCnt, 0)
	equal(w, "out_cnt of another", w.read(b.ID).Buckets[1].OutCnt, 1)
	equal(w, "out_quantity", w.read(b.ID).Buckets[0].OutQuantity, 31)
}

func applyShrink(w *sqlWorld) {
	b := w.withUndistributed("b", 100, 2)
	w.apply(b.ID, bucket.Want{Ref: b.Buckets[1].Ref(), Need: 60, Units: 60}) // U 40, O 62
	equal(w, "shrink", must(w.append(b.ID, "less", -50))(w), bucket.AdjustmentPending)
	ref := b.Buckets[0].Ref()
	equal(w, "pending shrinks", w.figures(b.ID).PendingShrink, 50)
	for _, unbounded := range []bool{false, true} {
		want := bucket.Want{Ref: ref, Need: 1, Units: 1, Unbounded: unbounded}
		equal(w, "granted", w.apply(b.ID, want), 0)
	}
	must(w.append(b.ID, "more", 9))(w) // U 49
	equal(w, "granted of 49 less 50", w.apply(b.ID, bucket.Want{Ref: ref, Need: 1, Units: 9}), 0)
	must(w.append(b.ID, "yet more", 1))(w) // U 50: covers it, but nobody continued it
	equal(w, "granted of 50 less 50", w.apply(b.ID, bucket.Want{Ref: ref, Need: 1, Units: 9}), 0)
	equal(w, "shrink", must(w.append(b.ID, "less", -50))(w), bucket.AdjustmentDone)
	must(w.append(b.ID, "even more", 4))(w)
	equal(w, "granted once it is done", w.apply(b.ID, bucket.Want{Ref: ref, Need: 1, Units: 9}), 4)
}

func applyOpenOnly(w *sqlWorld) {
	b, other := w.withUndistributed("b", 1000, 6), w.withUndistributed("other", 10, 1)
	opening := w.createOnly(definition("opening", 10, 1))
	must(w.append(opening.ID, "units", 10))(w)
	refs := make([]bucket.Ref, 6)
	for i := range refs {
		refs[i] = b.Buckets[i].Ref()
	}
	must(w.db.Ending(w.ctx, b.ID, refs[1], bucket.ByService, false))(w)
	w.offline(b.ID, refs[2], bucket.ByService, false, nil)
	must(w.db.Lose(w.ctx, refs[3]))(w)
	w.ok(w.db.Fence(w.ctx, refs[4], "broken"))
	w.offline(b.ID, refs[5], bucket.ByService, true, nil)
	must(w.db.Reopen(w.ctx, b.ID, refs[5].Bucket))(w)
	w.unchanged(b.ID, "an apply that is not allowed", func() {
		for name, ref := range map[string]bucket.Ref{
			"closing": refs[1], "closed": refs[2], "lost": refs[3], "fenced": refs[4],
			"an earlier epoch": refs[5],
			"opening":          {Bucket: refs[5].Bucket, Epoch: 2, Activation: 1},
			"a later epoch":    {Bucket: refs[0].Bucket, Epoch: 2, Activation: 1},
			"no such bucket":   {Bucket: refs[5].Bucket + 100, Epoch: 1, Activation: 1},
			"another budget's": other.Buckets[0].Ref(),
		} {
			equal(w, name, w.apply(b.ID, bucket.Want{Ref: ref, Need: 1, Units: 1}), 0)
		}
		w.apply(opening.ID, bucket.Want{Ref: opening.Buckets[0].Ref(), Need: 1, Units: 1})
	})
	equal(w, "outstanding of the opening one", w.epoch(opening.Buckets[0].Ref()).Outstanding, 10)
	equal(w, "outstanding of the other budget's", w.epoch(other.Buckets[0].Ref()).Outstanding, 1)
	_, err := w.db.Apply(w.ctx, opening.ID+1, bucket.Want{Ref: refs[0], Need: 1, Units: 1})
	w.refused(err, budget.BudgetNotFound)
	equal(w, "to an open one", w.apply(b.ID, bucket.Want{Ref: refs[0], Need: 1, Units: 1}), 1)
}

func applyNumbers(w *sqlWorld) {
	b := w.withUndistributed("b", 100, 1)
	ref := b.Buckets[0].Ref()
	book := w.book(ref)
	for n := range int64(5) {
		order := must(w.db.Apply(w.ctx, b.ID, bucket.Want{Ref: ref, Need: 1, Units: n + 1}))(w)
		equal(w, "number", order.Number, n+2)
	}
	w.deliver()
	w.commit(book)
	equal(w, "pending", len(must(w.db.Unfinished(w.ctx, 10))(w).Grants), 0)
	granted, deducted, err := w.db.Prefix(w.ctx, ref, 6, 6)
	w.ok(err)
	equal(w, "granted", granted, 1+1+2+3+4+5)
	equal(w, "deducted", deducted, 0)
	equal(w, "status", w.epoch(ref).Status, ledger.Open)
}
