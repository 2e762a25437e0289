package storetest

import (
	"errors"
	"fmt"
	"slices"

	"github.com/budgetd/budgetd/bucket"
	"github.com/budgetd/budgetd/budget"
	"github.com/budgetd/budgetd/ledger"
)

// matchGrantAmount: the amount in a log is compared with the grant that SQL made, to the unit.
func matchGrantAmount(w *sqlWorld) {
	b := w.withUndistributed("b", 100, 1)
	ref := b.Buckets[0].Ref()
	book := w.book(ref)
	order := must(w.db.Apply(w.ctx, b.ID, bucket.Want{Ref: ref, Need: 9, Units: 9}))(w)
	for _, amount := range []int64{8, 10} {
		forged := &sqlBook{ref: ref, entries: slices.Clone(book.entries)}
		forged.append(ledger.Line(ledger.KindGrant, amount, fmt.Sprint(order.Number)))
		w.unchanged(b.ID, "a forged grant", func() {
			var mismatch *ledger.Mismatch
			if r := w.commitLogs(forged.log(0))[0]; !errors.As(r.Err, &mismatch) || mismatch.Back {
				w.Errorf("a grant of 9 that arrived as %d: %+v, want a mismatch of this bucket", amount, r)
			}
		})
	}
	w.deliver()
	w.use(ref, "all", 10)
	equal(w, "pending", len(must(w.db.Unfinished(w.ctx, 10))(w).Grants), 0)
}

// rowsOfBoth makes a budget with rows of every kind: one epoch that has ended and one that is open.
func rowsOfBoth(w *sqlWorld) (b bucket.Budget, ended, open bucket.Ref) {
	b = w.withUndistributed("b", 100, 2) // T 102
	ended, open = b.Buckets[0].Ref(), b.Buckets[1].Ref()
	w.apply(b.ID, bucket.Want{Ref: ended, Need: 50, Units: 50})
	w.apply(b.ID, bucket.Want{Ref: open, Need: 20, Units: 20})
	w.deliver()
	for i, ref := range []bucket.Ref{ended, open} {
		book := w.book(ref)
		book.deduct(fmt.Sprint("a", i), 10) // 3
		book.deduct(fmt.Sprint("a", i), 3)  // 4, a duplicate
		book.deduct(fmt.Sprint("b", i), 5)  // 5
		w.commit(book)
		w.gives(b.ID, fmt.Sprint("a", i), "part", 4, 4, false)
		w.gives(b.ID, fmt.Sprint("b", i), "", 0, 5, false)
	}
	must(w.db.Sweep(w.ctx, b.ID))(w)
	w.gives(b.ID, "a1", "more", 2, 6, false)
	w.offline(b.ID, ended, bucket.ByOperator, false, nil)
	w.apply(b.ID, bucket.Want{Ref: open, Need: 7, Units: 7}) // pending
	return b, ended, open
}

func spansOfRows(w *sqlWorld) {
	_, ended, open := rowsOfBoth(w)
	none := bucket.Ref{Bucket: open.Bucket, Epoch: 2, Activation: 1}
	for _, test := range []struct {
		span bucket.Span
		want ledger.SpanFigures // without the row
	}{
		{bucket.Span{Ref: open}, ledger.SpanFigures{Swept: 12, GrantedAfter: 28, DeductedAfter: 18}},
		{bucket.Span{Ref: open, Seq: 5, GrantSeq: 2},
			ledger.SpanFigures{Swept: 12, Granted: 21, GrantedAfter: 7, Deducted: 18}},
		{bucket.Span{Ref: open, From: 3, Seq: 4, FromGrant: 1, GrantSeq: 3},
			ledger.SpanFigures{Swept: 12, Granted: 27, Deducted: 3, DeductedAfter: 5}},
		{bucket.Span{Ref: open, From: 4, Seq: 4, FromGrant: 2, GrantSeq: 2},
			ledger.SpanFigures{Swept: 12, GrantedAfter: 7, DeductedAfter: 5}},
		{bucket.Span{Ref: ended, Seq: 9, GrantSeq: 9},
			ledger.SpanFigures{Closed: 33, Swept: 12, Granted: 51, Deducted: 18}},
	} {
		got := must(w.db.Spans(w.ctx, []bucket.Span{test.span}))(w)
		test.want.Row = w.epoch(test.span.Ref)
		equal(w, fmt.Sprintf("%+v", test.span), got[test.span.Ref], test.want)
	}
	both := []bucket.Span{{Ref: ended, Seq: 3}, {Ref: none, Seq: 9}, {Ref: open, Seq: 4}}
	got := must(w.db.Spans(w.ctx, both))(w)
	equal(w, "found", len(got), 2)
	equal(w, "the first of several", got[ended].Deducted, 10)
	equal(w, "the last of several", got[open].Deducted, 13)
	equal(w, "of none", len(must(w.db.Spans(w.ctx, nil))(w)), 0)
}

func recountParts(w *sqlWorld) {
	_, ended, open := rowsOfBoth(w)
	count := func(part bucket.Part) bucket.Recounted {
		w.Helper()
		r, found, err := w.db.Recount(w.ctx, part)
		if err != nil || !found {
			w.Errorf("%+v: found %v, %v", part, found, err)
		}
		return r
	}
	recount := func(ref bucket.Ref, from, upTo int64) bucket.Recounted {
		w.Helper()
		return count(bucket.Part{Ref: ref, From: from, UpTo: upTo})
	}
	part := func(deducted, duplicates, noted int64) bucket.Recounted {
		return bucket.Recounted{Returned: noted, Figures: ledger.EpochFigures{Deducted: deducted,
			Duplicates: duplicates, Noted: noted}}
	}
	equal(w, "the first", recount(open, 0, 3), part(10, 0, 6))
	equal(w, "the duplicate", recount(open, 3, 4), part(0, 3, 0))
	equal(w, "the last", recount(open, 4, 9), part(5, 0, 5))
	equal(w, "nothing", recount(open, 5, 9), part(0, 0, 0))
	rest := part(5, 3, 5)
	rest.Figures.Row = w.epoch(open)
	rest.Figures.Granted, rest.Figures.RolledBack = 28, 11
	equal(w, "the end", count(bucket.Part{Ref: open, From: 3, UpTo: 9, End: true}), rest)
	early := rest // the rows up to 4, the columns of all
	early.Figures.Deducted, early.Figures.Noted, early.Returned = 0, 0, 0
	equal(w, "the end, counted up to an earlier row", count(bucket.Part{Ref: open, From: 3, UpTo: 4, End: true}), early)
	all := part(15, 3, 9)
	all.Figures.Row, all.Figures.Closed = w.epoch(ended), 33
	all.Figures.Granted, all.Figures.RolledBack = 51, 9
	equal(w, "all of an ended one", count(bucket.Part{Ref: ended, UpTo: 9, End: true}), all)
	if found := ledger.CheckEpoch(&all.Figures); found != nil {
		w.Error(found)
	}
	for _, end := range []bool{false, true} {
		none := bucket.Part{Ref: bucket.Ref{Bucket: open.Bucket, Epoch: 2}, UpTo: 5, End: end}
		if _, found, err := w.db.Recount(w.ctx, none); found || err != nil {
			w.Errorf("an epoch that does not exist: %v, %v", found, err)
		}
	}
}

func epochsAfter(w *sqlWorld) {
	b, ended, open := rowsOfBoth(w)
	must(w.db.Reopen(w.ctx, b.ID, ended.Bucket))(w)
	next := bucket.Ref{Bucket: ended.Bucket, Epoch: 2, Activation: 1}
	want := []bucket.Ref{ended, next, open}
	slices.SortFunc(want, func(x, y bucket.Ref) int {
		return int(x.Bucket-y.Bucket)*10 + int(x.Epoch-y.Epoch)
	})
	var got []bucket.Ref
	for after := (bucket.Ref{}); ; after = got[len(got)-1] {
		page := must(w.db.EpochsAfter(w.ctx, after, 2))(w)
		for _, e := range page {
			ref := bucket.Ref{Bucket: e.Row.Bucket, Epoch: e.Row.Number, Activation: e.Row.Activation}
			equal(w, "row", e.Row, w.epoch(ref))
			equal(w, "budget", e.Budget, b.ID)
			equal(w, "lane", e.Lane, laneOf(slices.IndexFunc(b.Buckets,
				func(bk bucket.Bucket) bool { return bk.ID == ref.Bucket })))
			got = append(got, ref)
		}
		if len(page) < 2 {
			break
		}
	}
	if !slices.Equal(got, want) {
		w.Errorf("epochs %v, want %v", got, want)
	}
}

func booksInOrder(w *sqlWorld) {
	first, _, _ := rowsOfBoth(w)
	w.adjusts(w.adjustment(first, "waits", -84), bucket.AdjustmentPending, false)
	second := w.create("c", 7, 1)
	third := w.create("d", 8, 3)
	w.adjusts(w.adjustment(third, "more", 5), bucket.AdjustmentDone, false)
	var got []bucket.Book
	for after := int64(0); ; after = got[len(got)-1].Budget {
		page := must(w.db.Books(w.ctx, after, 2))(w)
		got = append(got, page...)
		if len(page) < 2 {
			break
		}
	}
	if len(got) != 3 {
		w.Fatalf("%d books: %+v", len(got), got)
	}
	for i, b := range []bucket.Budget{first, second, third} {
		a := must(w.db.Accounts(w.ctx, b.ID))(w)
		equal(w, b.Name, got[i], bucket.Book{Budget: b.ID, Tenant: b.Tenant, Name: b.Name, Durability: b.Durability,
			Figures: must(w.db.Figures(w.ctx, b.ID))(w), Adjusted: a.Adjusted, Shrinks: a.Shrinks})
	}
	equal(w, "pending shrinks", got[0].Shrinks, 84)
	equal(w, "adjusted", got[2].Adjusted, 13)
}

func strandedUnits(w *sqlWorld) {
	b := w.create("b", 100, 6)                                                                                 // on six lanes: 17, 17, 17, 17, 16, 16
	unlimited := w.create("unlimited", budget.MaxAmount, 2, func(d *budget.Definition) { d.Unlimited = true }) // no part of it
	books := must(w.db.Books(w.ctx, 0, 5))(w)
	equal(w, "the first is unlimited", books[0].Unlimited, false)
	equal(w, "the second is unlimited", books[1].Unlimited, true)
	w.ok(w.db.Fence(w.ctx, unlimited.Buckets[0].Ref(), "broken"))
	stranded := func(want int64, lanes ...bucket.Lane) {
		w.Helper()
		equal(w, fmt.Sprintf("stranded, without %v", lanes),
			must(w.db.Stranded(w.ctx, lanes))(w), want)
	}
	stranded(0)
	stranded(33, laneOf(0), laneOf(4))
	w.use(b.Buckets[0].Ref(), "a", 2)
	stranded(31, laneOf(0), laneOf(4))
	w.ok(w.db.Fence(w.ctx, b.Buckets[1].Ref(), "broken"))
	stranded(17)
	stranded(17, laneOf(1))
	stranded(32, laneOf(0))
	w.ok(w.db.Fence(w.ctx, b.Buckets[0].Ref(), "broken"))
	stranded(32, laneOf(0))
	if lost := must(w.db.Lose(w.ctx, b.Buckets[1].Ref()))(w); !lost {
		w.Error("not lost")
	}
	stranded(15)
	stranded(0+15+16, laneOf(5), laneOf(1))
}
