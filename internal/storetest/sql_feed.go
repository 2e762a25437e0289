package storetest

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/budgetd/budgetd/bucket"
	"github.com/budgetd/budgetd/budget"
	"github.com/budgetd/budgetd/ledger"
)

var feedTests = []sqlTest{
	{"feed/deductions and rollbacks", feedRows},
	{"feed/texts byte by byte", feedTexts},
	{"feed/over epochs", feedEpochs},
	{"feed/duplicates and tombstones have no number", feedNoNumber},
	{"feed/spans", feedSpans},
	{"feed/of many buckets", feedMany},
	{"feed/of a budget that does not exist", feedNoBudget},
	{"feed/under load", feedUnderLoad},
}

// sqlReader follows the feed of a budget as the service does: bounds, then the rows up to them.
type sqlReader struct {
	budget int64
	// limit is the most entries read of one bucket at a time.
	limit int64
	read  map[int64]int64 // bucket -> last entry
	got   []ledger.FeedEntry
}

func newSQLReader(budgetID, limit int64) *sqlReader {
	return &sqlReader{budget: budgetID, limit: limit, read: map[int64]int64{}}
}

// next reads what is new, at most limit entries of each bucket, and returns how many there were. It
// fails where a number below the bound has no row, or a row is not the one that was asked for.
func (r *sqlReader) next(w *sqlWorld) (int, error) {
	bounds, err := w.db.FeedBounds(w.ctx, r.budget)
	if err != nil {
		return 0, err
	}
	var spans []bucket.FeedSpan
	want := 0
	for _, b := range bounds {
		if up := min(b.Last, r.read[b.Bucket]+r.limit); up > r.read[b.Bucket] {
			spans = append(spans, bucket.FeedSpan{Bucket: b.Bucket, After: r.read[b.Bucket], UpTo: up})
			want += int(up - r.read[b.Bucket])
		}
	}
	entries, err := w.db.FeedEntries(w.ctx, spans)
	if err != nil {
		return 0, err
	}
	for _, e := range entries {
		if e.Entry != r.read[e.Bucket]+1 {
			return 0, fmt.Errorf("entry %d of bucket %d follows entry %d", e.Entry, e.Bucket, r.read[e.Bucket])
		}
		r.read[e.Bucket] = e.Entry
	}
	if len(entries) != want {
		return 0, fmt.Errorf("%d entries of %+v", len(entries), spans)
	}
	r.got = append(r.got, entries...)
	return len(entries), nil
}

// rest reads until nothing is new and returns all that was read.
func (r *sqlReader) rest(w *sqlWorld) []ledger.FeedEntry {
	w.Helper()
	for {
		n, err := r.next(w)
		w.ok(err)
		if n == 0 {
			return r.got
		}
	}
}

// feed reads the whole feed of a budget with a new reader.
func (w *sqlWorld) feed(budgetID int64) []ledger.FeedEntry {
	w.Helper()
	return newSQLReader(budgetID, 1000).rest(w)
}

func feedRows(w *sqlWorld) {
	b, other := w.create("b", 100, 1), w.create("other", 100, 1)
	ref := b.Buckets[0].Ref()
	w.use(other.Buckets[0].Ref(), "elsewhere", 1)
	request := sqlRequest("order", 30, "n")
	request.Reference, request.Dimensions = "for Ann", `{"user":"u1"}`
	w.book(ref).admit(30, request)
	w.commit(w.book(ref))
	first := w.db.Now().UTC()
	w.clock.Advance(time.Minute)
	w.gives(b.ID, "order", "part", 4, 4, false)
	w.use(ref, "second", 5)
	must(w.db.Cancel(w.ctx, b.ID, "order"))(w)
	w.gives(b.ID, "second", "", 0, 5, false)
	w.gives(b.ID, "second", "", 0, 5, true) // replayed: no entry
	later := w.db.Now().UTC()
	entry := func(kind ledger.FeedKind, n int64, id, rollbackID string, amount int64) ledger.FeedEntry {
		e := ledger.FeedEntry{Kind: kind, Bucket: ref.Bucket, Entry: n, Epoch: 1, RequestID: id,
			RollbackID: rollbackID, Amount: amount, At: later}
		if id == "order" {
			e.Reference, e.Dimensions = "for Ann", `{"user":"u1"}`
		}
		return e
	}
	want := []ledger.FeedEntry{
		entry(ledger.FeedDeduct, 1, "order", "", 30), entry(ledger.FeedRollback, 2, "order", "part", 4),
		entry(ledger.FeedDeduct, 3, "second", "", 5), entry(ledger.FeedRollback, 4, "order", ledger.CancelID, 26),
		entry(ledger.FeedRollback, 5, "second", "", 5),
	}
	want[0].At = first
	got := w.feed(b.ID)
	for i := range got {
		got[i].At = got[i].At.UTC()
	}
	if !slices.Equal(got, want) {
		w.Errorf("feed\n%+v, want\n%+v", got, want)
	}
	equal(w, "entries of the other budget", len(w.feed(other.ID)), 1)
}

func feedTexts(w *sqlWorld) {
	b := w.create("b", 100, 1)
	ref := b.Buckets[0].Ref()
	ids := []string{"007", "7", "Order", "order", "order ", "é", "e\u0301", strings.Repeat("i", 128)}
	for _, id := range ids {
		request := sqlRequest(id, 1, id)
		request.Reference, request.Dimensions = id+"\xff", `{"user":"`+strings.Repeat("u", 60_000)+`"}`
		w.book(ref).admit(1, request)
		w.commit(w.book(ref))
		w.gives(b.ID, id, id, 1, 1, false)
	}
	got := w.feed(b.ID)
	equal(w, "entries", len(got), 2*len(ids))
	for i, e := range got {
		id := ids[i/2]
		if e.RequestID != id || e.Reference != id+"\xff" || len(e.Dimensions) != 60_011 ||
			e.Kind == ledger.FeedRollback && e.RollbackID != id {
			w.Errorf("entry %d: %q, %q, %q, %d bytes", i, e.RequestID, e.RollbackID, e.Reference, len(e.Dimensions))
		}
	}
}

// feedEpochs: the numbers go on over a bucket's epochs, whatever ended them, and rollbacks of finished
// ones stand among the newest.
func feedEpochs(w *sqlWorld) {
	b := w.create("b", 100, 1)
	ref := b.Buckets[0].Ref()
	reader := newSQLReader(b.ID, 2)
	for round := range 4 {
		id := fmt.Sprint("order-", round)
		w.use(ref, id, 2)
		if round > 0 {
			w.gives(b.ID, fmt.Sprint("order-", round-1), "late", 1, 2, false)
		}
		if round%2 == 0 {
			w.offline(b.ID, ref, bucket.ByService, true, nil)
		} else {
			must(w.db.Lose(w.ctx, ref))(w)
		}
		w.gives(b.ID, id, "between", 1, 1, false)
		ref = must(w.db.Reopen(w.ctx, b.ID, ref.Bucket))(w).Opened[0].Ref()
		w.open(ref)
		must(w.db.Apply(w.ctx, b.ID, bucket.Want{Ref: ref, Need: 10, Units: 10}))(w)
		w.deliver()
		_, err := reader.next(w)
		w.ok(err)
	}
	var got []string
	for _, e := range reader.rest(w) {
		got = append(got, fmt.Sprint(e.Entry, " ", e.RequestID, " ", e.RollbackID))
	}
	want := []string{"1 order-0 ", "2 order-0 between", "3 order-1 ", "4 order-0 late",
		"5 order-1 between", "6 order-2 ", "7 order-1 late", "8 order-2 between", "9 order-3 ",
		"10 order-2 late", "11 order-3 between"}
	if !slices.Equal(got, want) {
		w.Errorf("feed %q, want %q", got, want)
	}
}

func feedNoNumber(w *sqlWorld) {
	b := w.create("b", 100, 1)
	book := w.book(b.Buckets[0].Ref())
	w.use(book.ref, "a", 1)
	book.deduct("a", 1)
	must(w.db.Cancel(w.ctx, b.ID, "void"))(w)
	book.deduct("void", 1)
	w.commit(book)
	w.unchanged(b.ID, "a refused rollback", func() {
		_, _, err := w.give(b.ID, "a", "more", 2)
		w.refused(err, budget.AmountExceedsRemaining)
		_, _, err = w.give(b.ID, "void", "", 0)
		w.refused(err, budget.RequestVoid)
	})
	w.use(book.ref, "b", 1)
	got := w.feed(b.ID)
	if len(got) != 2 || got[0].RequestID != "a" || got[1].RequestID != "b" || got[1].Entry != 2 {
		w.Errorf("feed %+v", got)
	}
}

func feedSpans(w *sqlWorld) {
	b := w.create("b", 100, 2)
	first, second := b.Buckets[0].Ref(), b.Buckets[1].Ref()
	for n := range 5 {
		w.use(first, fmt.Sprint("f", n), 1)
	}
	w.use(second, "s0", 1)
	w.gives(b.ID, "f0", "", 0, 1, false)
	key := func(i int) string { return b.Buckets[i].Key }
	if got, want := must(w.db.FeedBounds(w.ctx, b.ID))(w), []bucket.FeedBound{
		{Bucket: first.Bucket, Key: key(0), Last: 6}, {Bucket: second.Bucket, Key: key(1), Last: 1},
	}; !slices.Equal(got, want) {
		w.Errorf("bounds %+v, want %+v", got, want)
	}
	span := func(ref bucket.Ref, after, upTo int64) bucket.FeedSpan {
		return bucket.FeedSpan{Bucket: ref.Bucket, After: after, UpTo: upTo}
	}
	for _, test := range []struct {
		spans []bucket.FeedSpan
		want  []string
	}{
		{nil, nil},
		{[]bucket.FeedSpan{span(first, 1, 3)}, []string{"f1", "f2"}},
		{[]bucket.FeedSpan{span(second, 0, 9), span(first, 4, 6)}, []string{"s0", "f4", "f0"}},
		{[]bucket.FeedSpan{span(first, 6, 99)}, nil},
		{[]bucket.FeedSpan{span(first, 3, 3)}, nil},
		{[]bucket.FeedSpan{{Bucket: second.Bucket + 1000, UpTo: 9}}, nil},
	} {
		var got []string
		for _, e := range must(w.db.FeedEntries(w.ctx, test.spans))(w) {
			got = append(got, e.RequestID)
		}
		if !slices.Equal(got, test.want) {
			w.Errorf("%+v: %q, want %q", test.spans, got, test.want)
		}
	}
}

func feedMany(w *sqlWorld) {
	const buckets = 140 // more than one statement reads
	b := w.create("b", 10*buckets, buckets)
	books := make([]*sqlBook, buckets)
	for i := range buckets {
		books[i] = w.book(b.Buckets[i].Ref())
		books[i].deduct(fmt.Sprint("order-", i), int64(i%9+1))
	}
	w.commit(books...)
	w.gives(b.ID, "order-130", "", 0, 130%9+1, false)
	got := w.feed(b.ID)
	equal(w, "entries", len(got), buckets+1)
	at := 0
	for i := range buckets { // by ordinal, as the bounds are
		if got[at].RequestID != fmt.Sprint("order-", i) || got[at].Bucket != b.Buckets[i].ID {
			w.Fatalf("entry %d: %+v", at, got[at])
		}
		if at++; i == 130 {
			equal(w, "its rollback", got[at].Kind, ledger.FeedRollback)
			at++
		}
	}
}

func feedNoBudget(w *sqlWorld) {
	b := w.create("b", 10, 1)
	_, err := w.db.FeedBounds(w.ctx, b.ID+1)
	w.refused(err, budget.BudgetNotFound)
}
