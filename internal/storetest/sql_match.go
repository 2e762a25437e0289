package storetest

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/budgetd/budgetd/bucket"
	"github.com/budgetd/budgetd/budget"
	"github.com/budgetd/budgetd/ledger"
)

var matchTests = []sqlTest{
	{"match/logs that do not continue what was drained", matchLogs},
	{"match/the ledger is ahead of the read", matchAhead},
	{"match/a bad log spoils no other of its transaction", matchOthers},
	{"match/an id of a bad log stays free", matchIDStaysFree},
	{"match/an entry that no column can hold", matchUnfit},
	{"match/an ended epoch", matchEnded},
	{"match/a fenced epoch", matchFenced},
	{"match/an epoch that does not exist", matchUnknown},
	{"match/the close entry is reported, not drained", matchClose},
	{"epochs/those that exist", epochsExisting},
}

// forge returns a log whose last entry is replaced by another line, chained on.
func (b *sqlBook) forge(line string) ledger.Log {
	forged := &sqlBook{ref: b.ref, entries: slices.Clone(b.entries[:len(b.entries)-1])}
	forged.append(line)
	return forged.log(0)
}

func matchLogs(w *sqlWorld) {
	b := w.create("b", 100, 2)
	book := w.book(b.Buckets[0].Ref())
	w.use(book.ref, "a", 10) // drained: 0 open, 1 grant, 2 a
	book.deduct("b", 10)
	book.deduct("c", 10)
	edit := func(change func(*ledger.Log)) ledger.Log {
		log := book.log(0)
		log.Entries = slices.Clone(log.Entries)
		change(&log)
		return log
	}
	other := newSQLBook(book.ref)
	other.grant(bucket.GrantOrder{Number: 1, Amount: 50})
	other.deduct("fork", 10)
	other.deduct("d", 10)
	elsewhere := newSQLBook(bucket.Ref{Bucket: book.ref.Bucket, Epoch: 1, Activation: 2})
	for name, log := range map[string]ledger.Log{
		"empty":                  edit(func(l *ledger.Log) { l.From, l.Entries = 2, nil }),
		"behind the drained one": edit(func(l *ledger.Log) { l.From, l.Entries = 2, l.Entries[:2] }),
		"after the drained one":  edit(func(l *ledger.Log) { l.From, l.Entries = 3, l.Entries[3:] }),
		"a gap": edit(func(l *ledger.Log) {
			l.Entries = append(l.Entries[:3:3], l.Entries[4])
		}),
		"another entry at the position": edit(func(l *ledger.Log) { l.Entries = other.entries }),
		"another activation's log":      elsewhere.log(2),
		"an entry whose chain value is wrong": edit(func(l *ledger.Log) {
			l.Entries[4].Chain = strings.Repeat("0", ledger.ChainBytes)
		}),
		"an entry whose line is another's": edit(func(l *ledger.Log) { l.Entries[4].Line += " " }),
		"a grant that SQL never made":      book.forge(ledger.Line(ledger.KindGrant, 5, "2")),
		"a second opening":                 book.forge(ledger.OpenLine(book.ref.Bucket, 1, 1)),
		"more than is outstanding": book.forge(ledger.Line(ledger.KindDeduct, 31,
			ledger.EncodeRequest(sqlRequest("much", 31, "x")))),
	} {
		w.unchanged(b.ID, name, func() {
			r := w.commitLogs(log)[0]
			var mismatch *ledger.Mismatch
			if !errors.As(r.Err, &mismatch) || len(r.Outcomes) != 0 || r.Close != nil {
				w.Errorf("%s: %+v, want a mismatch", name, r)
			}
			equal(w, "row with "+name, r.Row, w.epoch(book.ref))
		})
	}
	equal(w, "outcomes of the true log", len(w.commit(book)[0].Outcomes), 2)
}

func matchAhead(w *sqlWorld) {
	b := w.create("b", 100, 1)
	book := w.book(b.Buckets[0].Ref())
	for i := range 5 {
		book.deduct(fmt.Sprint(i), 1)
	}
	w.commit(book)
	w.unchanged(b.ID, "an old read", func() {
		for _, end := range []int64{1, 2, 6} {
			if r := w.commitLogs(book.upTo(0, end))[0]; !errors.Is(r.Err, ledger.ErrReadAgain) {
				w.Errorf("a read up to %d: %v, want read again", end, r.Err)
			}
		}
	})
}

func matchOthers(w *sqlWorld) {
	b := w.create("b", 90, 3)
	books := []*sqlBook{}
	for i := range 3 {
		book := w.book(b.Buckets[i].Ref())
		book.deduct(fmt.Sprint(i), 1)
		books = append(books, book)
	}
	bad := books[1].log(5)
	reports := w.commitLogs(books[0].log(0), bad, books[2].log(0))
	for i, r := range reports {
		if i == 1 {
			var mismatch *ledger.Mismatch
			equal(w, "a mismatch", errors.As(r.Err, &mismatch), true)
			continue
		}
		if r.Err != nil || len(r.Outcomes) != 1 {
			w.Errorf("log %d: %+v", i, r)
		}
	}
	equal(w, "used", w.figures(b.ID).Used, 2)
}

// matchIDStaysFree: what a log would have inserted before its fault must not be seen by another
// log of the transaction.
func matchIDStaysFree(w *sqlWorld) {
	for i, order := range [][2]int{{0, 1}, {1, 0}} {
		b := w.create(fmt.Sprintf("b%d", i), 90, 2)
		bad, good := w.book(b.Buckets[order[0]].Ref()), w.book(b.Buckets[order[1]].Ref())
		bad.deduct("order", 3)
		bad.deduct("next", 1)
		good.deduct("order", 3)
		forged := bad.forge(ledger.Line(ledger.KindGrant, 1, "9"))
		reports := w.commitLogs(forged, good.log(0))
		if reports[0].Err == nil || reports[1].Err != nil {
			w.Fatalf("reports %+v", reports)
		}
		o := reports[1].Outcomes[0]
		if o.Duplicate != nil {
			w.Fatalf("the id counts as deducted: %+v", *o.Duplicate)
		}
		equal(w, "accepted at", o.Deduction.Position.Bucket, good.ref.Bucket)
		equal(w, "used", w.figures(b.ID).Used, 3)
	}
}

// matchUnfit: what a tampered store holds must stop its own bucket only, not the transaction.
func matchUnfit(w *sqlWorld) {
	b := w.create("b", 90, 2)
	bad, good := w.book(b.Buckets[0].Ref()), w.book(b.Buckets[1].Ref())
	bad.deduct("replaced below", 1)
	for i, edit := range []func(r *ledger.Request){
		func(r *ledger.Request) { r.ID = strings.Repeat("x", 129) },
		func(r *ledger.Request) { r.ID = "" },
		func(r *ledger.Request) { r.Reference = strings.Repeat("x", 257) },
		func(r *ledger.Request) { r.Dimensions = strings.Repeat("x", 1<<16) },
	} {
		request := sqlRequest("unfit", 1, "n")
		edit(&request)
		forged := bad.forge(ledger.Line(ledger.KindDeduct, 1, ledger.EncodeRequest(request)))
		good.deduct(fmt.Sprint("order-", i), 1)
		reports := w.commitLogs(forged, good.log(w.epoch(good.ref).DrainedSeq))
		w.mismatch(fmt.Sprint("entry ", i), reports[0].Err)
		if reports[1].Err != nil || len(reports[1].Outcomes) != 1 {
			w.Errorf("the other log: %+v", reports[1])
		}
	}
	equal(w, "used", w.figures(b.ID).Used, 4)

	limited := w.limited("limited", 2, daily("day", "user", 100))
	bad, good = w.book(limited.Buckets[0].Ref()), w.book(limited.Buckets[1].Ref())
	request := sqlRequest("unfit", 1, "n")
	request.Dimensions = ledger.Dimensions(map[string]string{"user": strings.Repeat("x", 10_000)})
	bad.append(ledger.Line(ledger.KindDeduct, 1, ledger.EncodeRequest(request)))
	good.deduct("beside", 1)
	if reports := w.commitLogs(bad.log(0), good.log(0)); reports[1].Err != nil || len(reports[1].Outcomes) != 1 {
		w.Errorf("the log beside a long value: %+v", reports[1])
	}
}

func matchEnded(w *sqlWorld) {
	b := w.create("b", 100, 3)
	closed, lost := w.book(b.Buckets[0].Ref()), w.book(b.Buckets[1].Ref())
	late := *closed
	late.deduct("late", 1)
	w.offline(b.ID, closed.ref, bucket.ByService, false, nil)
	lost.deduct("lost", 1)
	equal(w, "lost", must(w.db.Lose(w.ctx, lost.ref))(w), true)
	w.unchanged(b.ID, "a commit to an ended epoch", func() {
		for _, log := range []ledger.Log{late.log(0), closed.log(0), lost.log(0), lost.log(1)} {
			if r := w.commitLogs(log)[0]; !errors.Is(r.Err, ledger.ErrEnded) || len(r.Outcomes) != 0 {
				w.Errorf("%+v, want ended", r)
			}
		}
	})
	for _, id := range []string{"late", "lost"} {
		if _, found := w.recorded(b.ID, id); found {
			w.Errorf("%q is recorded", id)
		}
	}
}

func matchFenced(w *sqlWorld) {
	b := w.create("b", 100, 2)
	book := w.book(b.Buckets[0].Ref())
	book.deduct("order", 1)
	w.ok(w.db.Fence(w.ctx, book.ref, "its hash is a string"))
	w.unchanged(b.ID, "a commit to a fenced epoch", func() {
		r := w.commitLogs(book.log(0))[0]
		if !errors.Is(r.Err, ledger.ErrFenced) || r.Row.Fenced != "its hash is a string" {
			w.Errorf("%+v, want fenced", r)
		}
	})
	equal(w, "used elsewhere", w.use(b.Buckets[1].Ref(), "order", 1).Amount, 1)
}

func matchUnknown(w *sqlWorld) {
	b := w.create("b", 100, 1)
	good := w.book(b.Buckets[0].Ref())
	good.deduct("order", 1)
	second := newSQLBook(bucket.Ref{Bucket: good.ref.Bucket, Epoch: 2, Activation: 1})
	nobody := newSQLBook(bucket.Ref{Bucket: good.ref.Bucket + 100, Epoch: 1, Activation: 1})
	reports := w.commitLogs(second.log(0), good.log(0), nobody.log(0))
	if reports[0].Err == nil || reports[1].Err != nil || reports[2].Err == nil {
		w.Errorf("reports %+v", reports)
	}
	equal(w, "used", w.figures(b.ID).Used, 1)
}

func matchClose(w *sqlWorld) {
	b := w.create("b", 100, 2)
	ref := b.Buckets[0].Ref()
	book := w.book(ref)
	must(w.db.Ending(w.ctx, b.ID, ref, bucket.ByService, false))(w)
	book.deduct("admitted before the close", 7)
	entry := book.close()
	for range 2 {
		r := w.commit(book)[0]
		if r.Close == nil || *r.Close != entry {
			w.Fatalf("close %+v, want %+v", r.Close, entry)
		}
		equal(w, "status", r.Row.Status, ledger.Closing)
		equal(w, "drained", r.Row.DrainedSeq, entry.Seq-1)
		equal(w, "outstanding", r.Row.Outstanding, 43)
	}
	equal(w, "used", w.figures(b.ID).Used, 7)
}

func epochsExisting(w *sqlWorld) {
	b := w.create("b", 100, 2, func(d *budget.Definition) { d.EndAt = w.db.Now().Add(time.Hour) })
	first := b.Buckets[0].Ref()
	w.offline(b.ID, first, bucket.ByOperator, false, nil)
	must(w.db.Reopen(w.ctx, b.ID, first.Bucket))(w)
	second := bucket.Ref{Bucket: first.Bucket, Epoch: 2, Activation: 1}
	third := bucket.Ref{Bucket: first.Bucket, Epoch: 3, Activation: 1}
	none := bucket.Ref{Bucket: first.Bucket + 100, Epoch: 1, Activation: 1}
	rows := must(w.db.Epochs(w.ctx, []bucket.Ref{first, second, third, none, b.Buckets[1].Ref()}))(w)
	equal(w, "found", len(rows), 3)
	equal(w, "first", rows[first].Status, ledger.Closed)
	equal(w, "second", rows[second].Status, ledger.Opening)
	equal(w, "other", rows[b.Buckets[1].Ref()], w.read(b.ID).Buckets[1].Epoch)
	equal(w, "of none", len(must(w.db.Epochs(w.ctx, nil))(w)), 0)
}
