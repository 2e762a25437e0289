package storetest

import (
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/budgetd/budgetd/bucket"
	"github.com/budgetd/budgetd/ledger"
)

var commitTests = []sqlTest{
	{"commit/a deduction", commitDeduction},
	{"commit/the same log again", commitAgain},
	{"commit/in any pieces", commitPieces},
	{"commit/nothing", commitNothing},
	{"commit/many entries of many buckets", commitMany},
	{"commit/reports in the order of the logs", commitOrder},
	{"commit/texts byte by byte", commitBytes},
	{"commit/the longest texts and any bytes", commitTexts},
	{"commit/an id twice in one log", commitTwiceInLog},
	{"commit/an id in two logs of one transaction", commitTwoLogs},
	{"commit/an id that is in the ledger", commitKnown},
	{"commit/an id that is void", commitVoid},
	{"commit/an id with another payload", commitOtherPayload},
	{"commit/an entry whose period is over", commitExpired},
	{"commit/at finds what became of entries", commitAt},
	{"commit/logs of several budgets", commitBudgets},
	{"commit/entries are numbered over epochs", commitEntries},
}

func commitDeduction(w *sqlWorld) {
	b := w.create("b", 100, 2)
	ref := b.Buckets[0].Ref()
	book := w.book(ref)
	w.clock.Advance(90 * time.Second)
	request := sqlRequest("order", 30, "n")
	request.Reference, request.Dimensions = "for Ann", `{"user":"u1"}`
	book.admit(30, request)
	report := w.commit(book)[0]
	want := ledger.Deduction{
		Budget: b.ID, RequestID: "order", Amount: 30, State: ledger.StateUsed,
		Fingerprint: request.Fingerprint, Nonce: request.Nonce, Reference: "for Ann",
		Dimensions: `{"user":"u1"}`, Position: ledger.Position{Bucket: ref.Bucket, Epoch: 1, Seq: 2},
		Entry: 1, CountedAt: w.db.Now().UTC(),
	}
	if len(report.Outcomes) != 1 || report.Outcomes[0].Duplicate != nil {
		w.Fatalf("outcomes %+v", report.Outcomes)
	}
	equal(w, "outcome", inUTC(*report.Outcomes[0].Deduction), want)
	equal(w, "position", report.Outcomes[0].Position, want.Position)
	recorded, _ := w.recorded(b.ID, "order")
	equal(w, "row", inUTC(recorded), want)
	equal(w, "epoch", report.Row, ledger.Epoch{
		Budget: b.ID, Bucket: ref.Bucket, Number: 1, Status: ledger.Open, Activation: 1, Period: 1,
		Outstanding: 20, Used: 30, NextGrant: 2, NextEntry: 2,
		DrainedSeq: 2, DrainedChain: book.entries[2].Chain,
	})
	equal(w, "epoch read", w.epoch(ref), report.Row)
	equal(w, "close", report.Close, nil)
	equal(w, "figures", w.figures(b.ID),
		ledger.Figures{Total: 100, Remaining: 70, Used: 30, Online: 2})
	grants := must(w.db.Unfinished(w.ctx, 10))(w).Grants // the log showed bucket 0's
	if len(grants) != 1 || grants[0].Order.Ref != b.Buckets[1].Ref() {
		w.Errorf("pending grants %+v, want bucket 1's", grants)
	}
}

func inUTC(d ledger.Deduction) ledger.Deduction {
	d.CountedAt = d.CountedAt.UTC()
	if !d.HoldUntil.IsZero() {
		d.HoldUntil = d.HoldUntil.UTC()
	}
	return d
}

func commitAgain(w *sqlWorld) {
	b := w.create("b", 100, 1)
	book := w.book(b.Buckets[0].Ref())
	book.deduct("a", 1)
	book.deduct("b", 2)
	first := w.commit(book)[0]
	equal(w, "outcomes", len(first.Outcomes), 2)
	w.clock.Advance(time.Hour)
	w.unchanged(b.ID, "a repeated commit", func() {
		for _, from := range []int64{0, 1, 3} {
			again := w.commitLogs(book.log(from))[0]
			if again.Err != nil || len(again.Outcomes) != 0 || again.Close != nil {
				w.Errorf("from %d: %+v", from, again)
			}
			equal(w, "row", again.Row, first.Row)
		}
	})
}

func commitPieces(w *sqlWorld) {
	var want string
	for i, pieces := range [][]int64{{8}, {1, 2, 3, 4, 5, 6, 7, 8}, {3, 3, 7, 8}, {2, 6, 5, 8}} {
		b := w.create(fmt.Sprintf("b%d", i), 100, 1)
		book := w.book(b.Buckets[0].Ref())
		for _, id := range []string{"a", "b", "a", "c", "b", "d"} {
			book.deduct(id, 5)
		}
		outcomes := 0
		for _, end := range pieces {
			for _, r := range w.commitLogs(book.upTo(0, end)) {
				if r.Err != nil && !errors.Is(r.Err, ledger.ErrReadAgain) {
					w.Fatal(r.Err)
				}
				outcomes += len(r.Outcomes)
			}
		}
		equal(w, "outcomes", outcomes, 6)
		f := w.figures(b.ID)
		row := w.epoch(book.ref)
		got := fmt.Sprintf("%+v %d %d", f, row.DrainedSeq, row.NextEntry)
		if want == "" {
			want = got
		}
		equal(w, fmt.Sprintf("in pieces %v", pieces), got, want)
	}
}

func commitNothing(w *sqlWorld) {
	equal(w, "reports", len(w.commitLogs()), 0)
	b := w.create("b", 10, 1)
	book := w.book(b.Buckets[0].Ref())
	r := w.commitLogs(book.upTo(0, 1))[0] // entry 0 only
	equal(w, "error", r.Err, nil)
	equal(w, "outcomes", len(r.Outcomes), 0)
	opening := w.createOnly(definition("opening", 10, 1))
	ref := opening.Buckets[0].Ref()
	w.unchanged(opening.ID, "a commit to an opening epoch", func() {
		r := w.commitLogs(newSQLBook(ref).log(0))[0]
		if r.Err != nil || len(r.Outcomes) != 0 || r.Row != opening.Buckets[0].Epoch {
			w.Errorf("opening: %+v", r)
		}
	})
}

func commitMany(w *sqlWorld) {
	const buckets, entries = 8, 300
	b := w.create("b", buckets*entries*2, buckets)
	var books []*sqlBook
	for i := range b.Buckets {
		book := w.book(b.Buckets[i].Ref())
		for n := range entries {
			book.deduct(fmt.Sprintf("%d-%d", i, n), 1)
		}
		for n := range entries { // the next bucket's ids, later or earlier in this transaction
			book.deduct(fmt.Sprintf("%d-%d", (i+1)%buckets, n), 1)
		}
		books = append(books, book)
	}
	for _, r := range w.commit(books...) {
		equal(w, "outcomes", len(r.Outcomes), 2*entries)
	}
	f := w.figures(b.ID)
	equal(w, "used", f.Used, buckets*entries)
	equal(w, "returning", f.Returning, buckets*entries)
	equal(w, "remaining", f.Remaining, 0)
}

func commitOrder(w *sqlWorld) {
	b := w.create("b", 40, 4)
	var books []*sqlBook
	for _, i := range []int{2, 0, 3, 1} {
		book := w.book(b.Buckets[i].Ref())
		for n := range i + 1 {
			book.deduct(fmt.Sprintf("%d-%d", i, n), 1)
		}
		books = append(books, book)
	}
	for i, r := range w.commit(books...) {
		equal(w, "epoch", r.Row.Bucket, books[i].ref.Bucket)
		equal(w, "outcomes", len(r.Outcomes), len(books[i].entries)-2)
		for n, o := range r.Outcomes {
			equal(w, "position", o.Position,
				ledger.Position{Bucket: books[i].ref.Bucket, Epoch: 1, Seq: int64(n) + 2})
		}
	}
}

func commitAt(w *sqlWorld) {
	b := w.create("b", 100, 2)
	book := w.book(b.Buckets[0].Ref())
	must(w.db.Cancel(w.ctx, b.ID, "void"))(w)
	for _, id := range []string{"a", "a", "void", "b"} {
		book.deduct(id, 3)
	}
	outcomes := w.commit(book)[0].Outcomes
	book.deduct("not committed", 1)
	positions := []ledger.Position{
		{Bucket: book.ref.Bucket, Epoch: 1, Seq: 0}, {Bucket: book.ref.Bucket, Epoch: 1, Seq: 1},
		{Bucket: book.ref.Bucket, Epoch: 1, Seq: 6}, {Bucket: book.ref.Bucket, Epoch: 2, Seq: 2},
		{Bucket: b.Buckets[1].ID, Epoch: 1, Seq: 2},
	}
	for _, o := range outcomes {
		positions = append(positions, o.Position)
	}
	found := must(w.db.At(w.ctx, positions))(w)
	equal(w, "found", len(found), 4)
	for _, o := range outcomes {
		equal(w, "at", describeOutcome(found[o.Position]), describeOutcome(o))
	}
	equal(w, "of none", len(must(w.db.At(w.ctx, nil))(w)), 0)
	must(w.db.Cancel(w.ctx, b.ID, "a"))(w)
	found = must(w.db.At(w.ctx, positions))(w)
	for _, o := range outcomes[:2] { // both show today's row
		equal(w, "state", found[o.Position].Deduction.State, ledger.StateRolledBack)
	}
}

func describeOutcome(o ledger.Outcome) string {
	text := fmt.Sprintf("%+v", o.Position)
	if o.Duplicate != nil {
		text += fmt.Sprintf(" duplicate %+v", *o.Duplicate)
	}
	if o.Deduction != nil {
		text += fmt.Sprintf(" deduction %+v", inUTC(*o.Deduction))
	}
	return text
}

func commitBudgets(w *sqlWorld) {
	one, two := w.create("one", 100, 1), w.create("two", 100, 1)
	books := []*sqlBook{w.book(two.Buckets[0].Ref()), w.book(one.Buckets[0].Ref())}
	books[0].deduct("order", 1)
	books[1].deduct("order", 2)
	for i, r := range w.commit(books...) {
		equal(w, "accepted", r.Outcomes[0].Duplicate == nil, true)
		equal(w, "budget", r.Outcomes[0].Deduction.Budget, []int64{two.ID, one.ID}[i])
	}
	rows := must(w.db.Recorded(w.ctx, []bucket.ID{
		{Budget: one.ID, RequestID: "order"}, {Budget: two.ID, RequestID: "order"},
		{Budget: one.ID, RequestID: "none"}, {Budget: two.ID + 1, RequestID: "order"}}))(w)
	equal(w, "found", len(rows), 2)
	equal(w, "amount", rows[bucket.ID{Budget: one.ID, RequestID: "order"}].Amount, 2)
	equal(w, "of none", len(must(w.db.Recorded(w.ctx, nil))(w)), 0)
}

func commitEntries(w *sqlWorld) {
	b := w.create("b", 100, 2)
	ref := b.Buckets[0].Ref()
	var entries []int64
	entries = append(entries, w.use(ref, "a", 1).Entry, w.use(ref, "b", 1).Entry)
	w.offline(b.ID, ref, bucket.ByOperator, false, nil)
	opened := must(w.db.Reopen(w.ctx, b.ID, ref.Bucket))(w).Opened[0].Ref()
	equal(w, "next entry", w.epoch(opened).NextEntry, 3)
	w.open(opened)
	must(w.db.Apply(w.ctx, b.ID, bucket.Want{Ref: opened, Need: 10, Units: 10}))(w)
	w.deliver()
	_, _, err := w.db.Rollback(w.ctx, bucket.RollbackOrder{Budget: b.ID, RequestID: "a"})
	w.ok(err) // of the closed epoch; its entry comes from the newest one
	equal(w, "next entry after a rollback", w.epoch(opened).NextEntry, 4)
	equal(w, "next entry of the closed epoch", w.epoch(ref).NextEntry, 3)
	entries = append(entries, w.use(opened, "c", 1).Entry)
	if want := []int64{1, 2, 4}; !slices.Equal(entries, want) {
		w.Errorf("entries %v, want %v", entries, want)
	}
}
