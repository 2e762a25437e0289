package storetest

import (
	"slices"

	"github.com/budgetd/budgetd/bucket"
	"github.com/budgetd/budgetd/budget"
	"github.com/budgetd/budgetd/ledger"
)

var handOutTests = []sqlTest{
	{"hand out/evenly, remainders to the first", handOutEvenly},
	{"hand out/reopens what the service took offline", handOutReopens},
	{"hand out/leaves out what may not get units", handOutLeavesOut},
	{"hand out/leaves out lanes", handOutWithout},
	{"hand out/leaves out what its lane serves no more", handOutStale},
	{"hand out/keeps pending shrinks", handOutShrink},
	{"hand out/nothing", handOutNothing},
	{"reopen/after closed and lost", reopenEnded},
	{"reopen/not while an epoch lives", reopenLive},
	{"open/opening epochs only", markOpen},
}

// amounts lists what a hand-out granted to each bucket, by ordinal.
func amounts(b bucket.Budget, h bucket.Handout) []int64 {
	out := make([]int64, len(b.Buckets))
	for _, g := range h.Grants {
		for i := range b.Buckets {
			if b.Buckets[i].ID == g.Order.Ref.Bucket {
				out[i] += g.Order.Amount
			}
		}
	}
	return out
}

func handOutEvenly(w *sqlWorld) {
	b := w.withUndistributed("b", 11, 4)
	h := must(w.db.HandOut(w.ctx, b.ID))(w)
	if got, want := amounts(b, h), []int64{3, 3, 3, 2}; !slices.Equal(got, want) {
		w.Errorf("granted %v, want %v", got, want)
	}
	equal(w, "opened", len(h.Opened), 0)
	for _, g := range h.Grants {
		equal(w, "number", g.Order.Number, 2)
	}
	for i, g := range h.Grants {
		equal(w, "lane", g.Lane, laneOf(i))
	}
	read := w.read(b.ID)
	equal(w, "out_cnt", read.Buckets[0].OutCnt, 2)
	equal(w, "out_quantity", read.Buckets[0].OutQuantity, 4)
	equal(w, "list version", read.ListVersion, b.ListVersion)
	equal(w, "undistributed", w.figures(b.ID).Undistributed, 0)
	equal(w, "pending", len(must(w.db.Unfinished(w.ctx, 100))(w).Grants), 8)
	w.deliver()
	w.use(read.Buckets[3].Ref(), "order", 3)
}

func handOutReopens(w *sqlWorld) {
	b := w.create("b", 40, 4)
	refs := make([]bucket.Ref, 4)
	for i := range refs {
		refs[i] = b.Buckets[i].Ref()
	}
	w.use(refs[1], "order", 1)
	w.offline(b.ID, refs[1], bucket.ByService, false, nil)
	w.offline(b.ID, refs[3], bucket.ByService, false, nil)
	before := w.read(b.ID) // U is 19
	h := must(w.db.HandOut(w.ctx, b.ID))(w)
	if got, want := amounts(b, h), []int64{5, 5, 5, 4}; !slices.Equal(got, want) {
		w.Errorf("granted %v, want %v", got, want)
	}
	equal(w, "opened", len(h.Opened), 2)
	after := w.read(b.ID)
	for i, at := range []int{1, 3} {
		opened := h.Opened[i]
		equal(w, "opened bucket", opened.ID, refs[at].Bucket)
		equal(w, "lane", opened.Lane, laneOf(at))
		equal(w, "online", opened.Online, true)
		equal(w, "out_cnt", opened.OutCnt, 1)
		equal(w, "taken offline by", opened.OfflineBy, "")
		equal(w, "epoch", opened.Epoch, ledger.Epoch{
			Budget: b.ID, Bucket: refs[at].Bucket, Number: 2, Status: ledger.Opening, Activation: 1, Period: 1,
			Outstanding: []int64{5, 4}[i], NextGrant: 2, NextEntry: []int64{2, 1}[i],
			DrainedChain: ledger.OpenChain(refs[at].Bucket, 2, 1),
		})
		equal(w, "epoch read", after.Buckets[at].Epoch, opened.Epoch)
	}
	equal(w, "online", w.figures(b.ID).Online, 4)
	if after.ListVersion <= before.ListVersion {
		w.Errorf("list version %d became %d", before.ListVersion, after.ListVersion)
	}
	for i := range h.Opened {
		w.open(h.Opened[i].Ref())
	}
	w.deliver()
	w.use(h.Opened[1].Ref(), "another", 4)
}

func handOutLeavesOut(w *sqlWorld) {
	b := w.create("b", 70, 7)
	refs := make([]bucket.Ref, 7)
	for i := range refs {
		refs[i] = b.Buckets[i].Ref()
	}
	w.offline(b.ID, refs[1], bucket.ByOperator, false, nil)
	must(w.db.Ending(w.ctx, b.ID, refs[2], bucket.ByService, false))(w) // still closing
	w.ok(w.db.Fence(w.ctx, refs[3], "broken"))
	w.offline(b.ID, refs[4], bucket.ByService, true, nil) // its new epoch is Reopen's
	w.offline(b.ID, refs[5], bucket.ByService, false, nil)
	h := must(w.db.HandOut(w.ctx, b.ID))(w)
	if got, want := amounts(b, h), []int64{10, 0, 0, 0, 0, 10, 10}; !slices.Equal(got, want) {
		w.Errorf("granted %v, want %v", got, want)
	}
	if len(h.Opened) != 1 || h.Opened[0].ID != refs[5].Bucket {
		w.Errorf("opened %+v, want bucket 5", h.Opened)
	}
}

func handOutWithout(w *sqlWorld) {
	b := w.withUndistributed("b", 60, 4)
	w.offline(b.ID, b.Buckets[1].Ref(), bucket.ByService, false, nil) // U 61
	w.offline(b.ID, b.Buckets[2].Ref(), bucket.ByService, false, nil) // U 62
	elsewhere := bucket.Lane{Instance: laneOf(0).Instance, Index: 99}
	h := must(w.db.HandOut(w.ctx, b.ID, laneOf(0), laneOf(1), elsewhere))(w)
	if got, want := amounts(b, h), []int64{0, 0, 31, 31}; !slices.Equal(got, want) {
		w.Errorf("granted %v, want %v", got, want)
	}
	if len(h.Opened) != 1 || h.Opened[0].ID != b.Buckets[2].ID {
		w.Errorf("opened %+v, want bucket 2", h.Opened)
	}
	must(w.append(b.ID, "more", 9))(w)
	w.unchanged(b.ID, "a hand-out without any lane", func() {
		h := must(w.db.HandOut(w.ctx, b.ID, laneOf(0), laneOf(1), laneOf(2), laneOf(3)))(w)
		equal(w, "grants", len(h.Grants)+len(h.Opened), 0)
	})
}

func handOutStale(w *sqlWorld) {
	b := w.withUndistributed("b", 60, 4)
	must(w.db.NextActivation(w.ctx, laneOf(1), 1, "run-2"))(w)
	h := must(w.db.HandOut(w.ctx, b.ID))(w)
	if got, want := amounts(b, h), []int64{20, 0, 20, 20}; !slices.Equal(got, want) {
		w.Errorf("granted %v, want %v", got, want)
	}
	must(w.append(b.ID, "more", 9))(w)
	h = must(w.db.Settle(w.ctx, []int64{b.ID}))(w)
	if got, want := amounts(b, h), []int64{3, 0, 3, 3}; !slices.Equal(got, want) {
		w.Errorf("settled %v, want %v", got, want)
	}
}

func handOutShrink(w *sqlWorld) {
	b := w.create("b", 40, 2)
	w.offline(b.ID, b.Buckets[0].Ref(), bucket.ByService, false, nil)
	equal(w, "shrink", must(w.append(b.ID, "less", -25))(w), bucket.AdjustmentPending) // U 20
	w.unchanged(b.ID, "a hand-out of what is kept for a shrink", func() {
		h := must(w.db.HandOut(w.ctx, b.ID))(w)
		equal(w, "grants", len(h.Grants)+len(h.Opened), 0)
	})
	must(w.append(b.ID, "more", 8))(w)
	equal(w, "handed out", amounts(b, must(w.db.HandOut(w.ctx, b.ID))(w))[0], 2)
	f := w.figures(b.ID)
	equal(w, "undistributed", f.Undistributed, 25)
	equal(w, "not funded", f.Unfunded, 0)
}

func handOutNothing(w *sqlWorld) {
	b := w.create("b", 40, 2)
	w.unchanged(b.ID, "a hand-out of nothing", func() {
		h := must(w.db.HandOut(w.ctx, b.ID))(w)
		equal(w, "grants", len(h.Grants)+len(h.Opened), 0)
	})
	_, err := w.db.HandOut(w.ctx, b.ID+1)
	w.refused(err, budget.BudgetNotFound)
	paused := true
	must(w.db.Change(w.ctx, b.ID, bucket.Change{Paused: &paused}))(w)
	for i := range b.Buckets {
		w.offline(b.ID, b.Buckets[i].Ref(), bucket.ByOperator, false, nil)
	}
	w.unchanged(b.ID, "a hand-out to nobody", func() {
		h := must(w.db.HandOut(w.ctx, b.ID))(w)
		equal(w, "grants", len(h.Grants)+len(h.Opened), 0)
	})
	equal(w, "undistributed", w.figures(b.ID).Undistributed, 40)
}

func reopenEnded(w *sqlWorld) {
	b := w.create("b", 40, 4)
	refs := []bucket.Ref{b.Buckets[0].Ref(), b.Buckets[1].Ref(), b.Buckets[2].Ref()}
	w.offline(b.ID, refs[0], bucket.ByOperator, false, nil)
	must(w.db.Lose(w.ctx, refs[1]))(w)
	w.offline(b.ID, refs[2], bucket.ByService, true, nil)
	must(w.db.NextActivation(w.ctx, laneOf(1), 1, "run-2"))(w)
	for i, ref := range refs {
		before := w.read(b.ID)
		w.clock.Advance(1_000_000_000)
		h := must(w.db.Reopen(w.ctx, b.ID, ref.Bucket))(w)
		if len(h.Opened) != 1 || len(h.Grants) != 0 {
			w.Fatalf("handout %+v", h)
		}
		activation := []int64{1, 2, 1}[i]
		equal(w, "epoch", h.Opened[0].Epoch, ledger.Epoch{
			Budget: b.ID, Bucket: ref.Bucket, Number: 2, Status: ledger.Opening,
			Activation: activation, NextGrant: 1, NextEntry: 1, Period: 1,
			DrainedChain: ledger.OpenChain(ref.Bucket, 2, activation),
		})
		read := w.read(b.ID)
		equal(w, "online", read.Buckets[i].Online, true)
		equal(w, "taken offline by", read.Buckets[i].OfflineBy, "")
		equal(w, "epoch read", read.Buckets[i].Epoch, h.Opened[0].Epoch)
		if read.ListVersion <= before.ListVersion {
			w.Errorf("list version %d became %d", before.ListVersion, read.ListVersion)
		}
		w.unchanged(b.ID, "a repeated reopen", func() {
			again := must(w.db.Reopen(w.ctx, b.ID, ref.Bucket))(w)
			equal(w, "opened again", len(again.Opened)+len(again.Grants), 0)
		})
	}
	equal(w, "the earlier epoch", w.epoch(refs[0]).Status, ledger.Closed)
}

func reopenLive(w *sqlWorld) {
	b, other := w.create("b", 40, 4), w.create("other", 10, 1)
	opening := w.createOnly(definition("opening", 10, 1))
	must(w.db.Ending(w.ctx, b.ID, b.Buckets[1].Ref(), bucket.ByOperator, false))(w)
	w.ok(w.db.Fence(w.ctx, b.Buckets[2].Ref(), "broken"))
	must(w.db.Lose(w.ctx, other.Buckets[0].Ref()))(w)
	w.unchanged(b.ID, "a reopen that is not allowed", func() {
		for _, id := range []int64{b.Buckets[0].ID, b.Buckets[1].ID, b.Buckets[2].ID} {
			h := must(w.db.Reopen(w.ctx, b.ID, id))(w)
			equal(w, "opened", len(h.Opened), 0)
		}
		for _, id := range []int64{other.Buckets[0].ID, opening.Buckets[0].ID + 9} {
			h, err := w.db.Reopen(w.ctx, b.ID, id) // not a bucket of this budget
			if len(h.Opened) != 0 || err != nil && !budget.Is(err, budget.BucketNotFound) {
				w.Errorf("bucket %d: %+v, %v", id, h, err)
			}
		}
	})
	equal(w, "status of the other budget's", w.read(other.ID).Buckets[0].Epoch.Number, 1)
	h := must(w.db.Reopen(w.ctx, opening.ID, opening.Buckets[0].ID))(w)
	equal(w, "opened", len(h.Opened), 0)
}

func markOpen(w *sqlWorld) {
	b := w.createOnly(definition("b", 40, 4))
	refs := make([]bucket.Ref, 4)
	for i := range refs {
		refs[i] = b.Buckets[i].Ref()
	}
	w.ok(w.db.MarkOpen(w.ctx, nil))
	must(w.db.Lose(w.ctx, refs[3]))(w)
	none := bucket.Ref{Bucket: 1 << 40, Epoch: 1, Activation: 1}
	later := bucket.Ref{Bucket: refs[0].Bucket, Epoch: 2, Activation: 1}
	w.ok(w.db.MarkOpen(w.ctx, []bucket.Ref{refs[2], refs[0], later, none, refs[3]}))
	for i, want := range []ledger.Status{ledger.Open, ledger.Opening, ledger.Open, ledger.Lost} {
		equal(w, "status", w.epoch(refs[i]).Status, want)
	}
	equal(w, "remaining", w.figures(b.ID).Remaining, 20)
	equal(w, "unsettled", w.figures(b.ID).Unsettled, 10)
	must(w.db.Ending(w.ctx, b.ID, refs[0], bucket.ByService, false))(w)
	w.unchanged(b.ID, "a late call", func() {
		w.ok(w.db.MarkOpen(w.ctx, []bucket.Ref{refs[0], refs[2], refs[3]}))
	})
}
