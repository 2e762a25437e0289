package storetest

import (
	"errors"
	"fmt"
	"slices"

	"github.com/budgetd/budgetd/bucket"
	"github.com/budgetd/budgetd/budget"
	"github.com/budgetd/budgetd/ledger"
)

var closingTests = []sqlTest{
	{"close/to the total", closeToTotal},
	{"close/with grants that never arrived", closeMissing},
	{"close/with another number of grants than the log showed", closeNumbers},
	{"close/into a target", closeTarget},
	{"close/into a target, in part", closePart},
	{"close/into a target that cannot take it", closeTargetGone},
	{"close/that does not agree", closeMismatch},
	{"close/repeated and stale", closeStale},
	{"lose/in each status", loseEach},
	{"lose/with deductions and pending grants", loseUnits},
	{"fence/stops an epoch", fenceStops},
}

func closeToTotal(w *sqlWorld) {
	b := w.create("b", 30, 2)
	ref := b.Buckets[0].Ref()
	w.use(ref, "order", 4)
	w.book(ref).deduct("order", 1) // returns
	must(w.db.Ending(w.ctx, b.ID, ref, bucket.ByOperator, false))(w)
	w.book(ref).deduct("late but admitted", 2)
	entry := w.closing(ref)
	before := w.read(b.ID)
	order := must(w.db.CloseEpoch(w.ctx, b.ID, ref, entry, nil))(w)
	equal(w, "grant", order, nil)
	row := w.epoch(ref)
	equal(w, "status", row.Status, ledger.Closed)
	equal(w, "outstanding", row.Outstanding, 0)
	equal(w, "used", row.Used, 6)
	equal(w, "returning", row.Returning, 1)
	equal(w, "figures", w.figures(b.ID), ledger.Figures{
		Total: 30, Undistributed: 8, Remaining: 15, Used: 6, Returning: 1, Online: 1, Offline: 1})
	if after := w.read(b.ID); after.ListVersion <= before.ListVersion {
		w.Errorf("list version %d became %d", before.ListVersion, after.ListVersion)
	}
}

func closeMissing(w *sqlWorld) {
	b := w.withUndistributed("b", 100, 2)
	ref := b.Buckets[0].Ref()
	book := w.book(ref)
	w.apply(b.ID, bucket.Want{Ref: ref, Need: 5, Units: 5})
	w.deliver()
	w.apply(b.ID, bucket.Want{Ref: ref, Need: 7, Units: 7}) // never arrives
	w.apply(b.ID, bucket.Want{Ref: ref, Need: 11, Units: 11})
	must(w.db.Ending(w.ctx, b.ID, ref, bucket.ByService, false))(w)
	entry := book.close()
	equal(w, "balance", entry.Amount, 6)
	equal(w, "grants that arrived", entry.Number, 2)
	w.commit(book)
	must(w.db.CloseEpoch(w.ctx, b.ID, ref, entry, nil))(w)
	equal(w, "undistributed", w.figures(b.ID).Undistributed, 77+6+18)
	for _, g := range must(w.db.Unfinished(w.ctx, 10))(w).Grants {
		if g.Order.Ref == ref {
			w.Errorf("grant %+v is still pending", g)
		}
	}
}

// closeNumbers: a grant that no log showed is missing only if it comes after what the store knew of,
// and one that a log showed never is.
func closeNumbers(w *sqlWorld) {
	b := w.withUndistributed("b", 100, 2)
	ref := b.Buckets[0].Ref()
	book := w.book(ref)
	w.apply(b.ID, bucket.Want{Ref: ref, Need: 5, Units: 5})
	w.deliver()
	w.commit(book)                                          // shows grants 1 and 2
	w.apply(b.ID, bucket.Want{Ref: ref, Need: 7, Units: 7}) // 3 never arrives
	equal(w, "ended", w.ends(b.ID, ref, false), true)
	entry := func(balance int64, grants string) ledger.Entry {
		forged := *book
		forged.entries = slices.Clone(book.entries)
		return forged.append(ledger.Line(ledger.KindClose, balance, grants))
	}
	w.unchanged(b.ID, "a close that knows of a grant that no log showed", func() {
		_, err := w.db.CloseEpoch(w.ctx, b.ID, ref, entry(6, "3"), nil)
		w.mismatch("number 3", err)
	})
	must(w.db.CloseEpoch(w.ctx, b.ID, ref, entry(6, "1"), nil))(w)
	equal(w, "undistributed", w.figures(b.ID).Undistributed, 88+6+7)
}

func closeTarget(w *sqlWorld) {
	b := w.create("b", 30, 2, func(d *budget.Definition) { d.ShardingQuantity, d.AdjustCnt = 1, 1 })
	from, to := b.Buckets[0].Ref(), b.Buckets[1].Ref()
	w.use(from, "order", 4)
	must(w.append(b.ID, "more", 5))(w)
	equal(w, "shrink", must(w.append(b.ID, "less", -20))(w), bucket.AdjustmentPending)
	order := w.offline(b.ID, from, bucket.ByService, false, &bucket.Target{Ref: to})
	if order == nil {
		w.Fatal("no grant of the target")
	}
	equal(w, "grant", *order, bucket.GrantOrder{Ref: to, Number: 2, Amount: 11})
	read := w.read(b.ID)
	equal(w, "out_cnt of the target", read.Buckets[1].OutCnt, 1)
	equal(w, "out_cnt of the donor, whose epoch ended", read.Buckets[0].OutCnt, 0)
	equal(w, "out_quantity of the target", read.Buckets[1].OutQuantity, 26)
	equal(w, "outstanding", read.Buckets[1].Epoch.Outstanding, 26)
	equal(w, "undistributed", w.figures(b.ID).Undistributed, 5)
	grants := must(w.db.Unfinished(w.ctx, 10))(w).Grants
	if n := len(grants); n == 0 || grants[n-1].Order != *order {
		w.Errorf("pending %+v, want the target's last", grants)
	}
	w.deliver()
	w.use(to, "another", 26)
}

// closePart: a target gets at most what it is to have, and the total the rest.
func closePart(w *sqlWorld) {
	for i, tc := range []struct{ atMost, granted, back int64 }{{4, 4, 7}, {11, 11, 0}, {12, 11, 0}} {
		b := w.create(fmt.Sprint("b", i), 30, 2)
		from, to := b.Buckets[0].Ref(), b.Buckets[1].Ref()
		w.use(from, "order", 4)
		order := w.offline(b.ID, from, bucket.ByService, true, &bucket.Target{Ref: to, AtMost: tc.atMost})
		if order == nil {
			w.Fatal("no grant of the target")
		}
		equal(w, "grant", *order, bucket.GrantOrder{Ref: to, Number: 2, Amount: tc.granted})
		equal(w, "figures", w.figures(b.ID), ledger.Figures{
			Total: 30, Undistributed: tc.back, Remaining: 26 - tc.back, Used: 4, Online: 2})
		equal(w, "outstanding", w.epoch(to).Outstanding, 15+tc.granted)
		w.deliver()
		w.use(to, "another", 15+tc.granted)
	}
}

func closeTargetGone(w *sqlWorld) {
	b := w.create("b", 80, 8)
	other := w.create("other", 10, 1)
	opening := w.createOnly(definition("opening", 10, 1))
	refs := make([]bucket.Ref, 8)
	for i := range refs {
		refs[i] = b.Buckets[i].Ref()
	}
	w.ok(w.db.Fence(w.ctx, refs[5], "broken"))
	must(w.db.Ending(w.ctx, b.ID, refs[6], bucket.ByService, false))(w)
	must(w.db.Lose(w.ctx, refs[7]))(w)
	want := int64(10)
	for i, target := range []bucket.Ref{
		refs[5], refs[6], refs[7], {Bucket: 1 << 40, Epoch: 1, Activation: 1},
	} {
		if order := w.offline(b.ID, refs[i], bucket.ByService, false, &bucket.Target{Ref: target}); order != nil {
			w.Errorf("target %+v got %+v", target, *order)
		}
		want += 10
		equal(w, "undistributed", w.figures(b.ID).Undistributed, want)
	}
	must(w.db.Reopen(w.ctx, b.ID, refs[0].Bucket))(w)
	w.open(bucket.Ref{Bucket: refs[0].Bucket, Epoch: 2, Activation: 1})
	for _, target := range []bucket.Ref{other.Buckets[0].Ref(), opening.Buckets[0].Ref()} {
		ref := w.read(b.ID).Buckets[0].Ref()
		must(w.db.Apply(w.ctx, b.ID, bucket.Want{Ref: ref, Need: 5, Units: 5}))(w)
		w.deliver()
		if order := w.offline(b.ID, ref, bucket.ByService, false, &bucket.Target{Ref: target}); order != nil {
			w.Errorf("another budget's bucket got %+v", *order)
		}
		equal(w, "undistributed", w.figures(b.ID).Undistributed, want)
		w.open(must(w.db.Reopen(w.ctx, b.ID, ref.Bucket))(w).Opened[0].Ref())
	}
	ref := w.read(b.ID).Buckets[0].Ref()
	if order := w.offline(b.ID, ref, bucket.ByService, false, &bucket.Target{Ref: refs[4]}); order != nil {
		w.Errorf("an empty bucket gave %+v", *order)
	}
}

func closeMismatch(w *sqlWorld) {
	b := w.create("b", 30, 2)
	ref := b.Buckets[0].Ref()
	book := w.book(ref)
	w.use(ref, "order", 4)
	open := *book
	w.unchanged(b.ID, "closing an open epoch", func() {
		_, err := w.db.CloseEpoch(w.ctx, b.ID, ref, open.close(), nil)
		w.mismatch("an open epoch", err)
	})
	must(w.db.Ending(w.ctx, b.ID, ref, bucket.ByService, false))(w)
	line := func(balance int64) ledger.Entry {
		forged := *book
		return forged.append(ledger.Line(ledger.KindClose, balance, "1"))
	}
	later := *book
	later.deduct("not drained", 1)
	chained := book.entries[len(book.entries)-1].Chain
	unchained := line(11)
	unchained.Chain = chained
	w.unchanged(b.ID, "a close that does not agree", func() {
		for name, entry := range map[string]ledger.Entry{
			"one unit more": line(12), "one unit less": line(10), "nothing": line(0),
			"a position too far": later.close(), "another chain": unchained,
		} {
			_, err := w.db.CloseEpoch(w.ctx, b.ID, ref, entry, nil)
			w.mismatch(name, err)
		}
	})
	w.ok(w.db.Fence(w.ctx, ref, "close mismatch"))
	w.unchanged(b.ID, "closing a fenced epoch", func() {
		_, err := w.db.CloseEpoch(w.ctx, b.ID, ref, line(11), nil)
		if !errors.Is(err, ledger.ErrFenced) {
			w.Errorf("fenced: %v", err)
		}
	})
}

func (w *sqlWorld) mismatch(what string, err error) {
	w.Helper()
	var m *ledger.Mismatch
	if !errors.As(err, &m) {
		w.Errorf("%s: %v, want a mismatch", what, err)
	}
}

func closeStale(w *sqlWorld) {
	b, other := w.create("b", 30, 3), w.create("other", 30, 2)
	ref, to := b.Buckets[0].Ref(), b.Buckets[1].Ref()
	must(w.db.Ending(w.ctx, b.ID, ref, bucket.ByService, true))(w)
	entry := w.closing(ref)
	w.unchanged(b.ID, "a close under another budget's id", func() {
		order, err := w.db.CloseEpoch(w.ctx, other.ID, ref, entry, nil)
		if order != nil || err != nil && !errors.Is(err, ledger.ErrEnded) {
			w.Errorf("grant %v, %v", order, err)
		}
	})
	must(w.db.CloseEpoch(w.ctx, b.ID, ref, entry, nil))(w)
	again := func() {
		order, err := w.db.CloseEpoch(w.ctx, b.ID, ref, entry, &bucket.Target{Ref: to})
		equal(w, "grant", order, nil)
		equal(w, "ended", errors.Is(err, ledger.ErrEnded), true)
	}
	w.unchanged(b.ID, "a repeated close", again)
	must(w.db.Reopen(w.ctx, b.ID, ref.Bucket))(w)
	w.unchanged(b.ID, "a close of an earlier epoch", again)
	must(w.db.Lose(w.ctx, b.Buckets[2].Ref()))(w)
	w.unchanged(b.ID, "a close of a lost epoch", func() {
		book := w.book(b.Buckets[2].Ref())
		_, err := w.db.CloseEpoch(w.ctx, b.ID, book.ref, book.close(), nil)
		equal(w, "ended", errors.Is(err, ledger.ErrEnded), true)
	})
}

func loseEach(w *sqlWorld) {
	b := w.create("b", 60, 6)
	opening := w.createOnly(definition("opening", 10, 1))
	refs := make([]bucket.Ref, 6)
	for i := range refs {
		refs[i] = b.Buckets[i].Ref()
	}
	must(w.db.Ending(w.ctx, b.ID, refs[1], bucket.ByOperator, false))(w)
	w.offline(b.ID, refs[2], bucket.ByOperator, false, nil)
	w.ok(w.db.Fence(w.ctx, refs[3], "broken"))
	for i, want := range []bool{true, true, false, true} {
		before := w.read(b.ID)
		equal(w, "lost", must(w.db.Lose(w.ctx, refs[i]))(w), want)
		after := w.read(b.ID)
		equal(w, "still in the list", after.Buckets[i].Online, before.Buckets[i].Online)
		equal(w, "list version grew", after.ListVersion > before.ListVersion, want)
		w.unchanged(b.ID, "losing it again", func() {
			equal(w, "lost again", must(w.db.Lose(w.ctx, refs[i]))(w), false)
		})
	}
	equal(w, "undistributed", w.figures(b.ID).Undistributed, 40)
	equal(w, "opening", must(w.db.Lose(w.ctx, opening.Buckets[0].Ref()))(w), true)
	equal(w, "undistributed", w.figures(opening.ID).Undistributed, 10)
	for _, ref := range []bucket.Ref{
		{Bucket: refs[5].Bucket, Epoch: 2, Activation: 1}, {Bucket: 1 << 40, Epoch: 1, Activation: 1},
	} {
		equal(w, "one that does not exist", must(w.db.Lose(w.ctx, ref))(w), false)
	}
	equal(w, "remaining", w.figures(b.ID).Remaining, 20)
}

func loseUnits(w *sqlWorld) {
	b := w.withUndistributed("b", 100, 2)
	ref := b.Buckets[0].Ref()
	w.apply(b.ID, bucket.Want{Ref: ref, Need: 30, Units: 30})
	w.deliver()
	w.use(ref, "order", 4)
	w.gives(b.ID, "order", "part", 1, 1, false)
	w.apply(b.ID, bucket.Want{Ref: ref, Need: 5, Units: 5}) // pending
	w.book(ref).deduct("never acknowledged", 9)
	equal(w, "lost", must(w.db.Lose(w.ctx, ref))(w), true)
	row := w.epoch(ref)
	equal(w, "status", row.Status, ledger.Lost)
	equal(w, "outstanding", row.Outstanding, 0)
	equal(w, "used", row.Used, 3)
	equal(w, "returning", row.Returning, 1)
	f := w.figures(b.ID)
	equal(w, "undistributed", f.Undistributed, 65+1+30-4+5)
	for _, g := range must(w.db.Unfinished(w.ctx, 10))(w).Grants {
		equal(w, "bucket of a pending grant", g.Order.Ref, b.Buckets[1].Ref())
	}
	d, found := w.recorded(b.ID, "never acknowledged")
	if found {
		w.Errorf("recorded: %+v", d)
	}
	w.use(b.Buckets[1].Ref(), "never acknowledged", 1)
}

func fenceStops(w *sqlWorld) {
	b := w.create("b", 30, 3)
	ref := b.Buckets[0].Ref()
	w.ok(w.db.Fence(w.ctx, ref, "the log is a list"))
	equal(w, "why", w.epoch(ref).Fenced, "the log is a list")
	w.unchanged(b.ID, "another fence", func() {
		w.ok(w.db.Fence(w.ctx, ref, "the log is a list, too"))
	})
	equal(w, "status", w.epoch(ref).Status, ledger.Open)
	equal(w, "outstanding", w.epoch(ref).Outstanding, 10)
	equal(w, "of another", w.epoch(b.Buckets[1].Ref()).Fenced, "")
	w.offline(b.ID, b.Buckets[1].Ref(), bucket.ByOperator, false, nil)
	w.unchanged(b.ID, "fencing what does not live", func() {
		for _, ref := range []bucket.Ref{b.Buckets[1].Ref(), {Bucket: 1 << 40, Epoch: 1, Activation: 1}} {
			if err := w.db.Fence(w.ctx, ref, "late"); err != nil {
				w.Errorf("%+v: %v", ref, err)
			}
		}
	})
	equal(w, "lost", must(w.db.Lose(w.ctx, ref))(w), true)
	equal(w, "undistributed", w.figures(b.ID).Undistributed, 20)
}
