package storetest

import (
	"fmt"
	"time"

	"github.com/budgetd/budgetd/bucket"
	"github.com/budgetd/budgetd/budget"
	"github.com/budgetd/budgetd/ledger"
)

var adjustmentTests = []sqlTest{
	{"append/at once", appendOnce},
	{"append/out of range", appendRange},
	{"shrink/at once", shrinkOnce},
	{"shrink/waits for units", shrinkWaits},
	{"shrink/more than the budget can give", shrinkRefused},
	{"shrink/other shrinks are waiting", shrinkOthers},
	{"shrink/must leave a valid total", shrinkRange},
	{"shrink/past its deadline", shrinkDeadline},
	{"shrink/refused once its units are used", shrinkUsedMeanwhile},
	{"adjust/a refused id may be used again", adjustReuse},
}

func (w *sqlWorld) adjust(a bucket.Adjustment) (bucket.AdjustmentState, bool, error) {
	return w.db.Adjust(w.ctx, a)
}

// adjusts adjusts and compares the answer.
func (w *sqlWorld) adjusts(a bucket.Adjustment, want bucket.AdjustmentState, replayed bool) {
	w.Helper()
	state, again, err := w.adjust(a)
	if err != nil || state != want || again != replayed {
		w.Fatalf("%+v: %s, replayed %v, %v; want %s, %v", a, state, again, err, want, replayed)
	}
}

// exceeds adjusts and expects a refusal with the figure.
func (w *sqlWorld) exceeds(a bucket.Adjustment, available int64) {
	w.Helper()
	state, replayed, err := w.adjust(a)
	e := w.refused(err, budget.AmountExceedsRemaining)
	if e.Available == nil || *e.Available != available || state == bucket.AdjustmentDone ||
		state == bucket.AdjustmentPending || replayed {
		w.Errorf("%+v: state %s, replayed %v, %+v; want %d available", a, state, replayed, e, available)
	}
}

func (w *sqlWorld) adjustment(b bucket.Budget, id string, quantity int64) bucket.Adjustment {
	return bucket.Adjustment{Budget: b.ID, RequestID: id, Quantity: quantity,
		Deadline: w.db.Now().Add(time.Minute)}
}

func appendOnce(w *sqlWorld) {
	b, other := w.create("b", 30, 1), w.create("other", 30, 1)
	a := w.adjustment(b, "more", 20)
	w.clock.Advance(time.Second)
	w.adjusts(a, bucket.AdjustmentDone, false)
	read := w.read(b.ID)
	equal(w, "total", read.TotalQuantity, 50)
	if !read.UpdatedAt.Equal(w.db.Now()) || read.Version <= b.Version {
		w.Errorf("updated at %v, version %d", read.UpdatedAt, read.Version)
	}
	f := w.figures(b.ID)
	equal(w, "undistributed", f.Undistributed, 20)
	equal(w, "total", f.Total, 50)
	w.unchanged(b.ID, "a repeated append", func() {
		w.adjusts(a, bucket.AdjustmentDone, true)
		w.clock.Advance(time.Hour)
		a.Deadline = w.db.Now()
		w.adjusts(a, bucket.AdjustmentDone, true) // the deadline is no part of the request
		for _, quantity := range []int64{19, 21, -20} {
			_, _, err := w.adjust(w.adjustment(b, "more", quantity))
			w.refused(err, budget.RequestConflict)
		}
	})
	own := w.adjustment(b, "own", 1)
	own.Nonce = "nonce-01"
	w.adjusts(own, bucket.AdjustmentDone, false)
	w.unchanged(b.ID, "an append that its call tries again", func() {
		w.adjusts(own, bucket.AdjustmentDone, false)
		own.Nonce = "nonce-02"
		w.adjusts(own, bucket.AdjustmentDone, true)
	})
	w.adjusts(w.adjustment(other, "more", 1), bucket.AdjustmentDone, false) // another request there
	w.adjusts(w.adjustment(b, "More", 1), bucket.AdjustmentDone, false)
	_, _, err := w.adjust(bucket.Adjustment{Budget: other.ID + 1, RequestID: "more", Quantity: 1})
	w.refused(err, budget.BudgetNotFound)
}

func appendRange(w *sqlWorld) {
	b := w.create("b", 30, 1)
	w.unchanged(b.ID, "an append out of range", func() {
		for _, quantity := range []int64{
			budget.MaxAmount - 29, budget.MaxAmount, 1<<63 - 1, -30, -31, -budget.MaxAmount,
		} {
			_, _, err := w.adjust(w.adjustment(b, fmt.Sprint("q", quantity), quantity))
			if e := w.refused(err, budget.Invalid); len(e.Fields) != 1 || e.Fields[0].Field != "quantity" {
				w.Errorf("%d: faults %+v", quantity, e.Fields)
			}
		}
	})
	w.adjusts(w.adjustment(b, "to the largest", budget.MaxAmount-30), bucket.AdjustmentDone, false)
	equal(w, "total", w.figures(b.ID).Total, budget.MaxAmount)
	_, _, err := w.adjust(w.adjustment(b, "one more", 1))
	w.refused(err, budget.Invalid)
}

func shrinkOnce(w *sqlWorld) {
	b := w.withUndistributed("b", 20, 1) // T 21, U 20
	a := w.adjustment(b, "less", -20)
	w.adjusts(a, bucket.AdjustmentDone, false)
	equal(w, "figures", w.figures(b.ID), ledger.Figures{Total: 1, Remaining: 1, Online: 1})
	equal(w, "total", w.read(b.ID).TotalQuantity, 1)
	w.unchanged(b.ID, "a repeated shrink", func() {
		w.adjusts(a, bucket.AdjustmentDone, true)
		_, _, err := w.adjust(w.adjustment(b, "less", -19))
		w.refused(err, budget.RequestConflict)
	})
}

func shrinkWaits(w *sqlWorld) {
	b := w.create("b", 40, 4)
	ref := b.Buckets[0].Ref()
	w.use(ref, "order", 8)
	w.gives(b.ID, "order", "", 0, 8, false) // R 8, O 32
	a := w.adjustment(b, "less", -17)
	w.adjusts(a, bucket.AdjustmentPending, false)
	waiting := w.figures(b.ID)
	equal(w, "pending", waiting.PendingShrink, 17)
	equal(w, "total", waiting.Total, 40)
	equal(w, "version", w.read(b.ID).Version, b.Version)
	shrinks := must(w.db.Unfinished(w.ctx, 10))(w).Shrinks
	if len(shrinks) != 1 || shrinks[0].Budget != b.ID || shrinks[0].RequestID != "less" ||
		shrinks[0].Quantity != -17 || !shrinks[0].Deadline.Equal(a.Deadline) {
		w.Errorf("unfinished %+v, want %+v", shrinks, a)
	}
	w.unchanged(b.ID, "a repetition while it waits", func() {
		w.adjusts(a, bucket.AdjustmentPending, false)
		_, _, err := w.adjust(w.adjustment(b, "less", -16))
		w.refused(err, budget.RequestConflict)
	})
	must(w.db.Sweep(w.ctx, b.ID))(w) // U 8
	w.adjusts(a, bucket.AdjustmentPending, false)
	w.offline(b.ID, b.Buckets[1].Ref(), bucket.ByService, true, nil) // U 18
	w.adjusts(a, bucket.AdjustmentDone, false)
	after := w.figures(b.ID)
	equal(w, "total", after.Total, 23)
	equal(w, "undistributed", after.Undistributed, 1)
	equal(w, "pending", after.PendingShrink, 0)
	w.adjusts(a, bucket.AdjustmentDone, true)
	equal(w, "unfinished", len(must(w.db.Unfinished(w.ctx, 10))(w).Shrinks), 0)
}

func shrinkRefused(w *sqlWorld) {
	b := w.create("b", 40, 4)
	ref := b.Buckets[0].Ref()
	w.use(ref, "order", 8)
	w.gives(b.ID, "order", "", 3, 3, false)
	must(w.append(b.ID, "more", 2))(w) // T 42: U 2, O 32, R 3, S 5
	must(w.db.Ending(w.ctx, b.ID, b.Buckets[1].Ref(), bucket.ByService, false))(w)
	w.unchanged(b.ID, "a refused shrink", func() {
		w.exceeds(w.adjustment(b, "too much", -38), 37)
		w.exceeds(w.adjustment(b, "too much", -38), 37)
	})
	equal(w, "unfinished", len(must(w.db.Unfinished(w.ctx, 10))(w).Shrinks), 0)
	w.adjusts(w.adjustment(b, "exactly", -37), bucket.AdjustmentPending, false)
}

func shrinkOthers(w *sqlWorld) {
	b := w.create("b", 40, 2)
	w.use(b.Buckets[0].Ref(), "order", 5)
	must(w.append(b.ID, "more", 3))(w) // U 3, O 35, S 5
	w.adjusts(w.adjustment(b, "first", -30), bucket.AdjustmentPending, false)
	w.exceeds(w.adjustment(b, "second", -9), 8)
	w.adjusts(w.adjustment(b, "third", -2), bucket.AdjustmentDone, false) // U covers it
	w.adjusts(w.adjustment(b, "second", -6), bucket.AdjustmentPending, false)
	equal(w, "pending", w.figures(b.ID).PendingShrink, 36)
	w.offline(b.ID, b.Buckets[0].Ref(), bucket.ByService, true, nil) // U 16
	w.adjusts(w.adjustment(b, "first", -30), bucket.AdjustmentPending, false)
	w.adjusts(w.adjustment(b, "second", -6), bucket.AdjustmentDone, false)
	w.offline(b.ID, b.Buckets[1].Ref(), bucket.ByService, true, nil) // U 30
	w.adjusts(w.adjustment(b, "first", -30), bucket.AdjustmentDone, false)
	equal(w, "figures", w.figures(b.ID), ledger.Figures{Total: 5, Used: 5, Online: 2})
}

// shrinkRange: what is left once all pending shrinks are done must be a valid total.
func shrinkRange(w *sqlWorld) {
	b := w.create("b", 40, 2)
	w.adjusts(w.adjustment(b, "first", -30), bucket.AdjustmentPending, false)
	must(w.append(b.ID, "more", 10))(w) // T 50, U 10
	w.unchanged(b.ID, "a shrink below 1", func() {
		for _, quantity := range []int64{-20, -25} {
			_, _, err := w.adjust(w.adjustment(b, "second", quantity))
			w.refused(err, budget.Invalid)
		}
		_, _, err := w.adjust(w.adjustment(b, "nothing", 0))
		w.refused(err, budget.Invalid)
	})
	w.adjusts(w.adjustment(b, "second", -19), bucket.AdjustmentPending, false)
	for i := range b.Buckets {
		w.offline(b.ID, b.Buckets[i].Ref(), bucket.ByService, true, nil)
	}
	w.adjusts(w.adjustment(b, "second", -19), bucket.AdjustmentDone, false)
	w.adjusts(w.adjustment(b, "first", -30), bucket.AdjustmentDone, false)
	equal(w, "total", w.figures(b.ID).Total, 1)
}

func shrinkDeadline(w *sqlWorld) {
	b := w.create("b", 40, 2)
	a := w.adjustment(b, "less", -10)
	w.adjusts(a, bucket.AdjustmentPending, false)
	w.clock.Advance(time.Minute - time.Millisecond)
	again := w.adjustment(b, "less", -10) // with a later deadline; the one in the row counts
	w.adjusts(again, bucket.AdjustmentPending, false)
	w.clock.Advance(time.Millisecond)
	w.exceeds(again, 40)
	equal(w, "pending", w.figures(b.ID).PendingShrink, 0)
	equal(w, "total", w.figures(b.ID).Total, 40)
	equal(w, "unfinished", len(must(w.db.Unfinished(w.ctx, 10))(w).Shrinks), 0)
	late := w.adjustment(b, "late", -10)
	late.Deadline = w.db.Now()
	w.exceeds(late, 40)
}

func shrinkUsedMeanwhile(w *sqlWorld) {
	b := w.create("b", 40, 2)
	a := w.adjustment(b, "less", -35)
	w.adjusts(a, bucket.AdjustmentPending, false)
	w.use(b.Buckets[0].Ref(), "order", 6)
	w.exceeds(a, 34)
	equal(w, "pending", w.figures(b.ID).PendingShrink, 0)
	must(w.append(b.ID, "more", 1))(w)
	w.adjusts(a, bucket.AdjustmentPending, false) // begun anew
}

func adjustReuse(w *sqlWorld) {
	b := w.create("b", 40, 2)
	w.use(b.Buckets[0].Ref(), "order", 10)
	w.exceeds(w.adjustment(b, "id", -31), 30)
	w.adjusts(w.adjustment(b, "id", 7), bucket.AdjustmentDone, false) // another quantity even
	w.adjusts(w.adjustment(b, "id", 7), bucket.AdjustmentDone, true)
	_, _, err := w.adjust(w.adjustment(b, "id", -31))
	w.refused(err, budget.RequestConflict)
	equal(w, "total", w.figures(b.ID).Total, 47)
	_, _, err = w.adjust(w.adjustment(b, "out of range", -47))
	w.refused(err, budget.Invalid)
	w.adjusts(w.adjustment(b, "out of range", 1), bucket.AdjustmentDone, false)
}
