package storetest

import (
	"fmt"
	"sync/atomic"
	"time"

	"github.com/budgetd/budgetd/bucket"
	"github.com/budgetd/budgetd/budget"
	"github.com/budgetd/budgetd/ledger"
)

var archiveTests = []sqlTest{
	{"archive/tombstones replay", archiveReplays},
	{"archive/rollbacks of tombstones", archiveRollbacks},
	{"archive/bounds", archiveBounds},
	{"archive/one plan for all", archivePlan},
	{"archive/the feed goes on behind it", archiveFeed},
	{"archive/many rows", archiveMany},
	{"archive/against rollbacks and other archivers", archiveRace},
}

// archives takes the entries of a bucket after one number up to another out of the feed.
func (w *sqlWorld) archives(ref bucket.Ref, after, upTo int64) {
	w.Helper()
	equal(w, "noted", must(w.db.BeginArchive(w.ctx, ref.Bucket, after, upTo))(w), upTo)
	equal(w, "archived", must(w.db.EndArchive(w.ctx, bucket.FeedSpan{Bucket: ref.Bucket, After: after, UpTo: upTo}))(w), true)
}

// archivedOne deducts 30 units with reference and dimensions and archives that.
func (w *sqlWorld) archivedOne() (b bucket.Budget, before ledger.Deduction) {
	w.Helper()
	b = w.create("b", 100, 1)
	book := w.book(b.Buckets[0].Ref())
	request := sqlRequest("order", 30, "n")
	request.Reference, request.Dimensions = "for Ann", `{"user":"u1"}`
	book.admit(30, request)
	w.commit(book)
	before, _ = w.recorded(b.ID, "order")
	w.archives(book.ref, 0, 1)
	return b, before
}

func archiveReplays(w *sqlWorld) {
	b, want := w.archivedOne()
	ref := b.Buckets[0].Ref()
	want.Nonce, want.Reference, want.Dimensions, want.Entry = "", "", "", 0
	check := func() {
		w.Helper()
		d, _ := w.recorded(b.ID, "order")
		equal(w, "row", inUTC(d), inUTC(want))
		judged := must(w.db.Judge(w.ctx, b.ID, []string{"order"}))(w)
		equal(w, "judged", inUTC(judged.Recorded["order"]), inUTC(want))
		at := must(w.db.At(w.ctx, []ledger.Position{want.Position}))(w)
		equal(w, "at its position", inUTC(*at[want.Position].Deduction), inUTC(want))
	}
	check()
	// A repeated call is a duplicate, in this epoch and in the next.
	book := w.book(ref)
	book.deduct("order", 7)
	reports := w.commit(book)
	if o := reports[0].Outcomes[0]; o.Duplicate == nil || o.Deduction.Amount != 30 {
		w.Errorf("a repetition: %+v", o)
	}
	w.offline(b.ID, ref, bucket.ByService, true, nil)
	next := must(w.db.Reopen(w.ctx, b.ID, ref.Bucket))(w).Opened[0].Ref()
	w.open(next)
	must(w.db.Apply(w.ctx, b.ID, bucket.Want{Ref: next, Need: 10, Units: 10}))(w)
	w.deliver()
	w.book(next).deduct("order", 7)
	w.commit(w.book(next))
	check()
	equal(w, "used", w.figures(b.ID).Used, 30)
}

func archiveRollbacks(w *sqlWorld) {
	b := w.create("b", 100, 1)
	ref := b.Buckets[0].Ref()
	for _, id := range []string{"part", "whole", "cancelled"} {
		w.use(ref, id, 10)
	}
	w.gives(b.ID, "part", "p1", 4, 4, false)
	w.gives(b.ID, "whole", "", 0, 10, false)
	must(w.db.Cancel(w.ctx, b.ID, "cancelled"))(w)
	w.offline(b.ID, ref, bucket.ByService, true, nil)
	w.archives(ref, 0, 6)
	old := must(w.db.FeedEntries(w.ctx, []bucket.FeedSpan{{Bucket: ref.Bucket, UpTo: 6}}))(w)
	equal(w, "archived entries in the feed", len(old), 0)
	w.unchanged(b.ID, "repeated rollbacks", func() {
		w.gives(b.ID, "part", "p1", 4, 4, true)
		w.gives(b.ID, "whole", "", 0, 10, true)
		_, _, err := w.give(b.ID, "part", "p1", 5)
		w.refused(err, budget.RequestConflict)
		_, _, err = w.give(b.ID, "cancelled", "", 0)
		w.refused(err, budget.AlreadyRolledBack)
		_, _, err = w.give(b.ID, "part", "p2", 7)
		w.refused(err, budget.AmountExceedsRemaining)
		must(w.db.Cancel(w.ctx, b.ID, "cancelled"))(w)
	})
	next := must(w.db.Reopen(w.ctx, b.ID, ref.Bucket))(w).Opened[0].Ref()
	w.gives(b.ID, "part", "p2", 1, 5, false)
	must(w.db.Cancel(w.ctx, b.ID, "part"))(w)
	equal(w, "returning of its own epoch", w.epoch(ref).Returning, 30)
	equal(w, "next entry", w.epoch(next).NextEntry, 9)
	reader := newSQLReader(b.ID, 9)
	reader.read[ref.Bucket] = 6
	got := reader.rest(w)
	if len(got) != 2 || got[0].RollbackID != "p2" || got[0].Entry != 7 || got[1].RollbackID != ledger.CancelID || got[1].Amount != 5 {
		w.Errorf("feed behind the archive: %+v", got)
	}
	w.archives(ref, 6, 8)
	w.gives(b.ID, "part", "p2", 1, 10, true)
}

func archiveBounds(w *sqlWorld) {
	b, other := w.create("b", 100, 2), w.create("other", 10, 1)
	first, second := b.Buckets[0].Ref(), b.Buckets[1].Ref()
	w.use(first, "a", 1)
	w.use(first, "b", 1)
	w.archives(first, 0, 1)
	w.offline(b.ID, second, bucket.ByOperator, false, nil)
	must(w.db.BeginArchive(w.ctx, second.Bucket, 0, 5))(w)
	all := must(w.db.ArchiveBounds(w.ctx, 0, 10))(w)
	if len(all) != 3 {
		w.Fatalf("bounds %+v", all)
	}
	equal(w, "first", all[0], bucket.ArchiveBound{Budget: b.ID, Tenant: "default", Name: "b", Bucket: first.Bucket,
		Archived: 1, Archiving: 1, Last: 2})
	equal(w, "second", all[1], bucket.ArchiveBound{Budget: b.ID, Tenant: "default", Name: "b", Bucket: second.Bucket,
		Ordinal: 1, Archiving: 5, Ended: 1})
	equal(w, "third", all[2], bucket.ArchiveBound{Budget: other.ID, Tenant: "default", Name: "other",
		Bucket: other.Buckets[0].ID})
	page := must(w.db.ArchiveBounds(w.ctx, first.Bucket, 1))(w)
	if len(page) != 1 || page[0] != all[1] {
		w.Errorf("page %+v", page)
	}
}

// archivePlan: whoever comes later does what was begun, and what was done is not done again.
func archivePlan(w *sqlWorld) {
	b := w.create("b", 100, 1)
	ref := b.Buckets[0].Ref()
	for n := range 5 {
		w.use(ref, fmt.Sprint("o", n), 1)
	}
	begin := func(archived, upTo, want int64) {
		w.Helper()
		equal(w, fmt.Sprintf("begin %d-%d", archived, upTo), must(w.db.BeginArchive(w.ctx, ref.Bucket, archived, upTo))(w), want)
	}
	end := func(after, upTo int64, want bool) {
		w.Helper()
		span := bucket.FeedSpan{Bucket: ref.Bucket, After: after, UpTo: upTo}
		equal(w, fmt.Sprintf("end %d-%d", after, upTo), must(w.db.EndArchive(w.ctx, span))(w), want)
	}
	w.unchanged(b.ID, "an end without a beginning", func() { end(0, 3, false) })
	begin(1, 3, 0)
	begin(0, 3, 3)
	begin(0, 5, 3)
	begin(0, 2, 3)
	end(0, 2, false)
	end(0, 5, false)
	equal(w, "entries", len(w.feed(b.ID)), 5)
	end(0, 3, true)
	end(0, 3, false)
	begin(0, 3, 0)
	begin(3, 3, 0)
	begin(3, 4, 4)
	end(3, 4, true)
	equal(w, "of a bucket that does not exist", must(w.db.BeginArchive(w.ctx, ref.Bucket+99, 0, 1))(w), 0)
	bounds := must(w.db.FeedBounds(w.ctx, b.ID))(w)
	equal(w, "bound", bounds[0], bucket.FeedBound{Bucket: ref.Bucket, Key: b.Buckets[0].Key, Archived: 4, Last: 5})
}

func archiveFeed(w *sqlWorld) {
	b := w.create("b", 100, 1)
	ref := b.Buckets[0].Ref()
	w.use(ref, "a", 1)
	w.use(ref, "b", 1)
	w.archives(ref, 0, 2)
	w.use(ref, "c", 1)
	w.gives(b.ID, "a", "", 0, 1, false)
	all := must(w.db.FeedEntries(w.ctx, []bucket.FeedSpan{{Bucket: ref.Bucket, UpTo: 9}}))(w)
	if len(all) != 2 || all[0].Entry != 3 || all[0].RequestID != "c" || all[1].Entry != 4 || all[1].RequestID != "a" {
		w.Errorf("feed %+v", all)
	}
	bounds := must(w.db.FeedBounds(w.ctx, b.ID))(w)
	equal(w, "bound", bounds[0], bucket.FeedBound{Bucket: ref.Bucket, Key: b.Buckets[0].Key, Archived: 2, Last: 4})
}

func archiveMany(w *sqlWorld) {
	const rows = 700
	b := w.create("b", 10_000, 1)
	book := w.book(b.Buckets[0].Ref())
	for n := range rows {
		book.deduct(fmt.Sprint("order-", n), 1)
	}
	w.commit(book)
	w.gives(b.ID, "order-3", "", 0, 1, false)
	w.archives(book.ref, 0, rows-1)
	got := must(w.db.FeedEntries(w.ctx, []bucket.FeedSpan{{Bucket: book.ref.Bucket, UpTo: rows + 9}}))(w)
	equal(w, "entries left", len(got), 2)
	for _, n := range []int{0, 1, rows - 2, rows - 1} {
		d, found := w.recorded(b.ID, fmt.Sprint("order-", n))
		if !found || d.Amount != 1 || (d.Entry == 0) != (n < rows-1) {
			w.Errorf("order %d: %+v, %v", n, d, found)
		}
	}
}

// archiveRace: archivers, rollbacks, repetitions and commits run side by side; each span is archived by
// one, and what a rollback was told stays true.
func archiveRace(w *sqlWorld) {
	const orders = 40
	b := w.create("b", 10_000, 1)
	ref := b.Buckets[0].Ref()
	for n := range orders {
		w.use(ref, fmt.Sprint("order-", n), 10)
	}
	book := w.book(ref)
	from := w.epoch(ref).DrainedSeq
	for n := range orders { // repetitions
		book.deduct(fmt.Sprint("order-", n), 10)
	}
	log := book.log(from)
	var archived atomic.Int64
	together(12, func(i int) {
		switch {
		case i < 4:
			for after := int64(0); after < orders; after += 10 {
				noted, err := w.db.BeginArchive(w.ctx, ref.Bucket, after, after+10)
				if err != nil || noted == 0 {
					if err != nil {
						w.Errorf("begin: %v", err)
					}
					continue
				}
				done, err := w.db.EndArchive(w.ctx, bucket.FeedSpan{Bucket: ref.Bucket, After: after, UpTo: noted})
				if err != nil {
					w.Errorf("end: %v", err)
				}
				if done {
					archived.Add(noted - after)
				}
			}
		case i == 4:
			report, err := w.db.Commit(w.ctx, []ledger.Log{log})
			if err != nil || report.Epochs[0].Err != nil || len(report.Epochs[0].Outcomes) != orders {
				w.Errorf("commit: %+v, %v", report, err)
			}
		default:
			for n := range orders {
				if n%7 != i%7 {
					continue
				}
				d, _, err := w.give(b.ID, fmt.Sprint("order-", n), "back", 3)
				if err != nil || d.RolledBack != 3 {
					w.Errorf("rollback: %+v, %v", d, err)
				}
			}
		}
	})
	equal(w, "archived", archived.Load(), orders)
	f := w.figures(b.ID)
	equal(w, "used", f.Used, orders*7)
	equal(w, "returning", f.Returning, orders*13)
	w.clock.Advance(time.Second)
	reader := newSQLReader(b.ID, 100)
	reader.read[ref.Bucket] = orders
	equal(w, "entries left", len(reader.rest(w)), orders)
}
