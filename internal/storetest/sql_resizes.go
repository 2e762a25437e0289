package storetest

import (
	"errors"
	"fmt"
	"slices"

	"github.com/budgetd/budgetd/bucket"
	"github.com/budgetd/budgetd/budget"
	"github.com/budgetd/budgetd/ledger"
)

var resizeTests = []sqlTest{
	{"resize/more buckets", resizeMore},
	{"resize/fewer buckets, and more again", resizeFewer},
	{"resize/an effective budget keeps a bucket", resizeKeepsOne},
	{"resize/store mode ends every epoch first", resizeInStoreMode},
	{"resize/what is asked for", resizeAsked},
	{"resize/opening epochs are lost", resizeOpening},
	{"resize/lanes that are being drained", resizeDraining},
}

// want asks for another number of buckets.
func (w *sqlWorld) want(id int64, buckets int) budget.Definition {
	w.Helper()
	return must(w.db.Change(w.ctx, id, bucket.Change{BucketQuantity: &buckets}))(w)
}

func (w *sqlWorld) resize(id int64, buckets int) bucket.Resizing {
	w.Helper()
	return must(w.db.Resize(w.ctx, id, w.lanes(buckets)))(w)
}

func (w *sqlWorld) resizes() []int64 {
	w.Helper()
	return must(w.db.Unfinished(w.ctx, 10))(w).Resizes
}

func resizeMore(w *sqlWorld) {
	b := w.create("b", 90, 2)
	d := w.want(b.ID, 4)
	equal(w, "version", d.Version, 2)
	equal(w, "until it is done", d.BucketQuantity, 2)
	if got := w.resizes(); !slices.Equal(got, []int64{b.ID}) {
		w.Fatalf("to do: %v", got)
	}
	w.unchanged(b.ID, "too few lanes", func() { equal(w, "target", w.resize(b.ID, 3).Target, 4) })
	r := w.resize(b.ID, 4)
	equal(w, "target", r.Target, 0)
	equal(w, "ending", len(r.Ending), 0)
	equal(w, "opened", len(r.Opened), 2)
	after := w.read(b.ID)
	equal(w, "ring", len(after.Ring()), 4)
	equal(w, "bucket_quantity", after.BucketQuantity, 4)
	equal(w, "version when done", after.Version, 3)
	for i, shard := range after.Buckets {
		equal(w, "ordinal", shard.Ordinal, i)
		equal(w, "online", shard.Online, true)
		if i >= 2 {
			equal(w, "opened as read", r.Opened[i-2], shard)
			equal(w, "lane", shard.Lane, laneOf(i))
			equal(w, "key", shard.Key, "b:bucket-"+string(rune('0'+i)))
			equal(w, "epoch: ids may have been accepted before it", shard.Epoch.Number, 2)
			w.open(shard.Ref())
		}
	}
	equal(w, "to do", len(w.resizes()), 0)
	w.unchanged(b.ID, "once more", func() { equal(w, "target", w.resize(b.ID, 4).Target, 0) })
	w.apply(b.ID, bucket.Want{Ref: after.Buckets[3].Ref(), Need: 1, Units: 1}) // there is nothing in U
	equal(w, "figures", w.figures(b.ID).Online, 4)
	same := after.BucketQuantity
	must(w.db.Change(w.ctx, b.ID, bucket.Change{BucketQuantity: &same}))(w)
	equal(w, "as many as there are: to do", len(w.resizes()), 0)
}

func resizeFewer(w *sqlWorld) {
	b := w.create("b", 90, 3)
	w.use(b.Buckets[2].Ref(), "a", 4)
	w.want(b.ID, 1)
	r := w.resize(b.ID, 1)
	equal(w, "target", r.Target, 0)
	equal(w, "ending", len(r.Ending), 2)
	equal(w, "opened", len(r.Opened), 0)
	after := w.read(b.ID)
	equal(w, "ring", len(after.Ring()), 1)
	equal(w, "rows", len(after.Buckets), 3)
	equal(w, "by", after.Buckets[2].OfflineBy, bucket.ByResize)
	equal(w, "offline ones that count", w.figures(b.ID).Offline, 0)
	equal(w, "the one that stays", after.Buckets[0].Epoch.Status, ledger.Open)
	for _, e := range r.Ending {
		ref := bucket.Ref{Bucket: e.Row.Bucket, Epoch: e.Row.Number, Activation: e.Row.Activation}
		equal(w, "status", e.Row.Status, ledger.Closing)
		must(w.db.CloseEpoch(w.ctx, b.ID, ref, w.closing(ref), nil))(w)
	}
	equal(w, "returned", w.figures(b.ID).Undistributed, 56)
	w.unchanged(b.ID, "reopening a retired one", func() {
		equal(w, "opened", len(must(w.db.Reopen(w.ctx, b.ID, b.Buckets[2].ID))(w).Opened), 0)
	})
	equal(w, "handed out to one", len(must(w.db.HandOut(w.ctx, b.ID))(w).Grants), 1)
	w.deliver()
	if d, _, err := w.db.Rollback(w.ctx, bucket.RollbackOrder{Budget: b.ID, RequestID: "a"}); err != nil || d.RolledBack != 4 {
		w.Fatalf("rollback in a retired bucket: %+v, %v", d, err)
	}
	bounds := must(w.db.FeedBounds(w.ctx, b.ID))(w)
	equal(w, "bounds of the feed", len(bounds), 3)
	equal(w, "entries of the retired one", bounds[2].Last, 2)

	w.want(b.ID, 3)
	r = w.resize(b.ID, 3)
	equal(w, "opened again", len(r.Opened), 2)
	after = w.read(b.ID)
	equal(w, "the same bucket", after.Buckets[2].ID, b.Buckets[2].ID)
	equal(w, "epoch", after.Buckets[2].Epoch.Number, 2)
	equal(w, "next entry", after.Buckets[2].Epoch.NextEntry, 3)
	equal(w, "ring", len(after.Ring()), 3)
}

// resizeKeepsOne: where all buckets that stay were taken offline by an operator, the first one comes back while the
// budget is in effect, and not otherwise.
func resizeKeepsOne(w *sqlWorld) {
	for _, paused := range []bool{false, true} {
		b := w.create(fmt.Sprint("b", paused), 90, 3)
		for i := range 2 {
			w.offline(b.ID, b.Buckets[i].Ref(), bucket.ByOperator, false, nil)
		}
		if paused {
			must(w.db.Change(w.ctx, b.ID, bucket.Change{Paused: &paused}))(w)
		}
		w.want(b.ID, 2)
		r := w.resize(b.ID, 2)
		equal(w, "ending", len(r.Ending), 1)
		after := w.read(b.ID)
		equal(w, "the second", after.Buckets[1].OfflineBy, bucket.ByOperator)
		equal(w, "the third", after.Buckets[2].OfflineBy, bucket.ByResize)
		if paused {
			equal(w, "the first", after.Buckets[0].OfflineBy, bucket.ByOperator)
			equal(w, "opened", len(r.Opened), 0)
			continue
		}
		equal(w, "the first", after.Buckets[0].Online, true)
		equal(w, "opened", len(r.Opened), 1)
		w.open(after.Buckets[0].Ref())
		equal(w, "covered", must(w.db.Covers(w.ctx, []int64{b.ID}))(w)[b.ID].Undistributed, 60)
	}
}

func resizeInStoreMode(w *sqlWorld) {
	b := w.create("b", 90, 2, func(d *budget.Definition) { d.Durability = budget.Store })
	w.use(b.Buckets[1].Ref(), "a", 5)
	w.want(b.ID, 3)
	r := w.resize(b.ID, 3)
	equal(w, "target", r.Target, 3)
	equal(w, "ending", len(r.Ending), 2)
	equal(w, "opened", len(r.Opened), 0)
	read := w.read(b.ID)
	equal(w, "ring", len(read.Ring()), 2)
	first := b.Buckets[0].Ref()
	must(w.db.CloseEpoch(w.ctx, b.ID, first, w.closing(first), nil))(w)
	w.unchanged(b.ID, "reopening before all have ended", func() {
		equal(w, "opened", len(must(w.db.Reopen(w.ctx, b.ID, first.Bucket))(w).Opened), 0)
		h := must(w.db.HandOut(w.ctx, b.ID))(w)
		equal(w, "handed out", len(h.Opened)+len(h.Grants), 0)
		h = must(w.db.Settle(w.ctx, []int64{b.ID}))(w)
		equal(w, "settled", len(h.Opened)+len(h.Grants), 0)
	})
	equal(w, "one is left", len(w.resize(b.ID, 3).Ending), 1)
	second := b.Buckets[1].Ref()
	must(w.db.CloseEpoch(w.ctx, b.ID, second, w.closing(second), nil))(w)
	r = w.resize(b.ID, 3)
	equal(w, "target, all have ended", r.Target, 0)
	equal(w, "opened, all have ended", len(r.Opened), 3)
	for _, shard := range w.read(b.ID).Buckets {
		equal(w, "epoch", shard.Epoch.Number, 2)
		equal(w, "counters", shard.CountersFrom, 2)
		equal(w, "status", shard.Epoch.Status, ledger.Opening)
	}
	equal(w, "units", w.figures(b.ID).Undistributed, 85)
}

func resizeAsked(w *sqlWorld) {
	b := w.create("b", 90, 2)
	for _, n := range []int{0, -1, budget.MaxBuckets + 1} {
		w.unchanged(b.ID, "a number out of range", func() {
			_, err := w.db.Change(w.ctx, b.ID, bucket.Change{BucketQuantity: &n})
			w.refused(err, budget.Invalid)
		})
	}
	equal(w, "to do", len(w.resizes()), 0)
	w.want(b.ID, 3)
	w.want(b.ID, 2) // back, before anything was done
	equal(w, "target", w.resize(b.ID, 4).Target, 2)
	w.resize(b.ID, 2)
	equal(w, "buckets", len(w.read(b.ID).Buckets), 2)
	_, err := w.db.Resize(w.ctx, b.ID+100, nil)
	w.refused(err, budget.BudgetNotFound)
}

func resizeOpening(w *sqlWorld) {
	b := w.createOnly(definition("b", 90, 3))
	w.want(b.ID, 2)
	r := w.resize(b.ID, 2)
	equal(w, "target", r.Target, 0)
	equal(w, "ending", len(r.Ending), 0)
	after := w.read(b.ID)
	equal(w, "the third", after.Buckets[2].Epoch.Status, ledger.Lost)
	equal(w, "the second", after.Buckets[1].Epoch.Status, ledger.Opening)
	equal(w, "returned", w.figures(b.ID).Undistributed, 30)
}

func resizeDraining(w *sqlWorld) {
	b := w.create("b", 90, 2)
	w.lanes(3)
	w.drain(laneOf(2))
	w.want(b.ID, 3)
	w.unchanged(b.ID, "a new bucket on a lane that is being drained", func() {
		_, err := w.db.Resize(w.ctx, b.ID, w.lanes(3))
		w.refused(err, budget.Unavailable)
		if !errors.Is(err, bucket.ErrDraining) {
			w.Errorf("resize: %v", err)
		}
	})
	equal(w, "to do", len(w.resizes()), 1)
	lanes := w.lanes(3)
	lanes[2] = laneOf(0)
	equal(w, "elsewhere", must(w.db.Resize(w.ctx, b.ID, lanes))(w).Target, 0)
}
