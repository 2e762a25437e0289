package storetest

import (
	"fmt"
	"time"

	"github.com/budgetd/budgetd/bucket"
	"github.com/budgetd/budgetd/budget"
	"github.com/budgetd/budgetd/ledger"
)

var endingTests = []sqlTest{
	{"ending/takes a bucket out of the list", endingTakes},
	{"ending/leaves it there where it is kept", endingKeeps},
	{"ending/the last bucket of an effective budget", endingLast},
	{"ending/only an open epoch", endingOpenOnly},
	{"ending/an operator's claim on a bucket that is offline", endingClaim},
	{"ending/an operator's claim on a bucket that is online", endingClaimOnline},
}

// endingClaimOnline: a bucket whose epoch is closing, or has ended, and would have another, is the operator's.
func endingClaimOnline(w *sqlWorld) {
	b := w.create("b", 30, 3)
	for i, ended := range []bool{false, true} {
		ref := b.Buckets[i].Ref()
		equal(w, "ended", w.ends(b.ID, ref, true), true)
		closing := w.closing(ref)
		if ended {
			must(w.db.CloseEpoch(w.ctx, b.ID, ref, closing, nil))(w)
		}
		w.unchanged(b.ID, "the service ends it once more", func() { equal(w, "again", w.ends(b.ID, ref, false), false) })
		before := w.read(b.ID)
		equal(w, "open", must(w.db.Ending(w.ctx, b.ID, ref, bucket.ByOperator, false))(w), false)
		after := w.read(b.ID)
		equal(w, "online", after.Buckets[i].Online, false)
		equal(w, "taken offline by", after.Buckets[i].OfflineBy, bucket.ByOperator)
		if after.ListVersion <= before.ListVersion {
			w.Errorf("list version %d became %d", before.ListVersion, after.ListVersion)
		}
		w.unchanged(b.ID, "a repeated claim", func() {
			equal(w, "again", must(w.db.Ending(w.ctx, b.ID, ref, bucket.ByOperator, false))(w), false)
		})
		if !ended {
			must(w.db.CloseEpoch(w.ctx, b.ID, ref, closing, nil))(w)
		}
		equal(w, "renewed", len(must(w.db.Renew(w.ctx, bucket.Renewal{Budget: b.ID, Ref: ref, Units: 1}))(w).Opened), 0)
	}
	ref := b.Buckets[2].Ref()
	equal(w, "ended", w.ends(b.ID, ref, true), true)
	w.unchanged(b.ID, "the last one", func() {
		_, err := w.db.Ending(w.ctx, b.ID, ref, bucket.ByOperator, false)
		w.refused(err, budget.LastBucket)
	})
	equal(w, "to open", len(must(w.db.HandOut(w.ctx, b.ID))(w).Opened), 0)
}

// ends begins to end an epoch, and returns whether it did.
func (w *sqlWorld) ends(budgetID int64, ref bucket.Ref, keep bool) bool {
	w.Helper()
	return must(w.db.Ending(w.ctx, budgetID, ref, bucket.ByService, keep))(w)
}

func endingTakes(w *sqlWorld) {
	b := w.create("b", 30, 3)
	for i, by := range []bucket.OfflineBy{bucket.ByOperator, bucket.ByService} {
		before := w.read(b.ID)
		ref := b.Buckets[i].Ref()
		equal(w, "ended", must(w.db.Ending(w.ctx, b.ID, ref, by, false))(w), true)
		after := w.read(b.ID)
		equal(w, "online", after.Buckets[i].Online, false)
		equal(w, "taken offline by", after.Buckets[i].OfflineBy, by)
		equal(w, "status", after.Buckets[i].Epoch.Status, ledger.Closing)
		equal(w, "outstanding", after.Buckets[i].Epoch.Outstanding, 10)
		if after.ListVersion <= before.ListVersion {
			w.Errorf("list version %d became %d", before.ListVersion, after.ListVersion)
		}
		w.unchanged(b.ID, "a repeated ending", func() {
			equal(w, "again", must(w.db.Ending(w.ctx, b.ID, ref, by, false))(w), false)
			equal(w, "by the service", w.ends(b.ID, ref, false), false)
		})
	}
	equal(w, "figures", w.figures(b.ID),
		ledger.Figures{Total: 30, Remaining: 10, Unsettled: 20, Online: 1, Offline: 2})
}

func endingKeeps(w *sqlWorld) {
	b := w.create("b", 30, 1)
	ref := b.Buckets[0].Ref()
	equal(w, "ended", must(w.db.Ending(w.ctx, b.ID, ref, bucket.ByService, true))(w), true)
	after := w.read(b.ID)
	equal(w, "online", after.Buckets[0].Online, true)
	equal(w, "taken offline by", after.Buckets[0].OfflineBy, "")
	equal(w, "status", after.Buckets[0].Epoch.Status, ledger.Closing)
	if after.ListVersion <= b.ListVersion {
		w.Errorf("list version %d became %d", b.ListVersion, after.ListVersion)
	}
	must(w.db.CloseEpoch(w.ctx, b.ID, ref, w.closing(ref), nil))(w)
	equal(w, "online", w.figures(b.ID).Online, 1)
	equal(w, "undistributed", w.figures(b.ID).Undistributed, 30)
}

func endingLast(w *sqlWorld) {
	now := w.db.Now()
	paused := true
	for i, test := range []struct {
		name string
		edit func(d *budget.Definition)
		last bool
	}{
		{"effective", func(*budget.Definition) {}, true},
		{"begun", func(d *budget.Definition) { d.StartAt = now }, true},
		{"ends later", func(d *budget.Definition) { d.EndAt = now.Add(time.Millisecond) }, true},
		{"pending", func(d *budget.Definition) { d.StartAt = now.Add(time.Millisecond) }, false},
		{"expired", func(d *budget.Definition) { d.EndAt = now }, false},
		{"paused", nil, false},
	} {
		b := w.create(fmt.Sprintf("b%d", i), 30, 2, func(d *budget.Definition) {
			if test.edit != nil {
				test.edit(d)
			}
		})
		if test.edit == nil {
			must(w.db.Change(w.ctx, b.ID, bucket.Change{Paused: &paused}))(w)
		}
		first, last := b.Buckets[0].Ref(), b.Buckets[1].Ref()
		equal(w, test.name+": the first", w.ends(b.ID, first, false), true)
		if !test.last {
			equal(w, test.name, w.ends(b.ID, last, false), true)
			continue
		}
		w.unchanged(b.ID, "ending the last bucket", func() {
			_, err := w.db.Ending(w.ctx, b.ID, last, bucket.ByOperator, false)
			w.refused(err, budget.LastBucket)
			again, err := w.db.Ending(w.ctx, b.ID, first, bucket.ByService, false)
			if again || err != nil {
				w.Errorf("a repetition for the one that is closing: %v, %v", again, err)
			}
		})
		equal(w, test.name+", kept", w.ends(b.ID, last, true), true)
	}
}

func endingOpenOnly(w *sqlWorld) {
	b, other := w.create("b", 50, 5), w.create("other", 20, 2)
	opening := w.createOnly(definition("opening", 20, 2))
	refs := make([]bucket.Ref, 5)
	for i := range refs {
		refs[i] = b.Buckets[i].Ref()
	}
	w.offline(b.ID, refs[1], bucket.ByOperator, false, nil)
	must(w.db.Lose(w.ctx, refs[2]))(w)
	w.offline(b.ID, refs[3], bucket.ByOperator, false, nil)
	reopened := must(w.db.Reopen(w.ctx, b.ID, refs[3].Bucket))(w).Opened[0].Ref()
	w.unchanged(b.ID, "an ending that is not allowed", func() {
		for name, ref := range map[string]bucket.Ref{
			"closed": refs[1], "an earlier epoch": refs[3], "opening": reopened,
			"no such bucket":   {Bucket: 1 << 40, Epoch: 1, Activation: 1},
			"another budget's": other.Buckets[0].Ref(),
		} {
			equal(w, name, must(w.db.Ending(w.ctx, b.ID, ref, bucket.ByOperator, false))(w), false)
		}
		equal(w, "lost", w.ends(b.ID, refs[2], false), false)
	})
	equal(w, "opening", must(w.db.Ending(w.ctx, opening.ID, opening.Buckets[0].Ref(),
		bucket.ByOperator, false))(w), false)
	equal(w, "online of the other budget", w.figures(other.ID).Online, 2)
	_, err := w.db.Ending(w.ctx, opening.ID+1, refs[0], bucket.ByOperator, false)
	w.refused(err, budget.BudgetNotFound)
}

// endingClaim: what an operator takes offline stays so, also where the service was faster.
func endingClaim(w *sqlWorld) {
	b := w.create("b", 70, 7)
	refs := make([]bucket.Ref, 6)
	for i := range refs {
		refs[i] = b.Buckets[i].Ref()
	}
	equal(w, "closing", w.ends(b.ID, refs[0], false), true)
	w.offline(b.ID, refs[1], bucket.ByService, false, nil)
	w.offline(b.ID, refs[2], bucket.ByOperator, false, nil)
	must(w.db.Lose(w.ctx, refs[3]))(w) // it would get another epoch
	w.offline(b.ID, refs[4], bucket.ByService, false, nil)
	must(w.db.Reopen(w.ctx, b.ID, refs[4].Bucket))(w)
	w.offline(b.ID, refs[5], bucket.ByService, true, nil)
	again := must(w.db.Reopen(w.ctx, b.ID, refs[5].Bucket))(w).Opened[0].Ref()
	w.open(again)
	w.offline(b.ID, again, bucket.ByService, false, nil) // refs[5] is an earlier epoch of it
	for i, claimed := range []bool{true, true, false, true, false, false} {
		before := w.read(b.ID)
		w.clock.Advance(time.Second)
		claim := func() {
			ended := must(w.db.Ending(w.ctx, b.ID, refs[i], bucket.ByOperator, false))(w)
			equal(w, "ended", ended, false)
		}
		w.unchanged(b.ID, fmt.Sprintf("a call about bucket %d that is no claim", i), func() {
			equal(w, "by the service", w.ends(b.ID, refs[i], false), false)
			kept, err := w.db.Ending(w.ctx, b.ID, refs[i], bucket.ByOperator, true)
			equal(w, "kept", kept || err != nil, false)
		})
		if claimed {
			claim()
			after := w.read(b.ID)
			equal(w, "taken offline by", after.Buckets[i].OfflineBy, bucket.ByOperator)
			equal(w, "list version grew", after.ListVersion > before.ListVersion, true)
		}
		w.unchanged(b.ID, fmt.Sprintf("a claim on bucket %d", i), claim)
	}
	h := must(w.db.HandOut(w.ctx, b.ID))(w) // not to those an operator took offline
	if len(h.Opened) != 1 || h.Opened[0].ID != refs[5].Bucket {
		w.Errorf("opened %+v, want bucket 5", h.Opened)
	}
}
