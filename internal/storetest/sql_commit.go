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
		Budget: b.ID, Bucket: ref.Bucket, Number: 1, Status: ledger.Open, Activation: 1,
		Outstanding: 20, Used: 30, NextGrant: 2, NextEntry: 2,
		DrainedSeq: 2, DrainedChain: book.entries[2].Chain,
	})
	equal(w, "epoch read", w.epoch(ref), report.Row)
	equal(w, "close", report.Close, nil)
	equal(w, "figures", w.figures(b.ID), ledger.Figures{Total: 100, Remaining: 70, Used: 30, Online: 2})
	grants := must(w.db.Unfinished(w.ctx, 10))(w).Grants // the log showed bucket 0's
	if len(grants) != 1 || grants[0].Order.Ref != b.Buckets[1].Ref() {
		w.Errorf("pending grants %+v, want bucket 1's", grants)
	}
}

func inUTC(d ledger.Deduction) ledger.Deduction {
	d.CountedAt = d.CountedAt.UTC()
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

// distinctIDs are as many request ids as there are texts.
var distinctIDs = []string{
	"a", "A", "a ", " a", "á", "a\u0301", "7", "007", "7.0", "1e3", "1000", "0x10", "true", "null",
	"ß", "ss", "ａ", "%", "_", "a%", `a\`, "'", `"`, "' OR '1'='1", "'; DROP TABLE deduction;--",
	"${jndi:x}", "%s%n", "]] redis.call('FLUSHALL')", "{a}", "a:b", "*?[", "../../admin", "😀",
}

func commitBytes(w *sqlWorld) {
	b := w.create("b", 10_000, 2)
	ref := b.Buckets[0].Ref()
	for i, id := range distinctIDs {
		d := w.use(ref, id, int64(i)+1)
		equal(w, "id", d.RequestID, id)
	}
	for i, id := range distinctIDs {
		d, found := w.recorded(b.ID, id)
		if !found || d.Amount != int64(i)+1 || d.RequestID != id {
			w.Errorf("%q: %+v", id, d)
		}
		d, _, err := w.db.Rollback(w.ctx, bucket.RollbackOrder{
			Budget: b.ID, RequestID: id, RollbackID: "r", Amount: 1})
		w.ok(err)
		equal(w, "rolled back of "+id, d.RolledBack, 1)
	}
	equal(w, "rolled back", w.figures(b.ID).Returning, int64(len(distinctIDs)))
	for _, rollbackID := range []string{"x", "X", "x "} {
		_, replayed, err := w.db.Rollback(w.ctx, bucket.RollbackOrder{
			Budget: b.ID, RequestID: distinctIDs[9], RollbackID: rollbackID, Amount: 1})
		if err != nil || replayed {
			w.Errorf("rollback %q: replayed %v, %v", rollbackID, replayed, err)
		}
	}
	for _, id := range []string{"s", "S", "s "} {
		_, replayed, err := w.db.Adjust(w.ctx, bucket.Adjustment{Budget: b.ID, RequestID: id, Quantity: 1})
		if err != nil || replayed {
			w.Errorf("adjustment %q: replayed %v, %v", id, replayed, err)
		}
	}
}

func commitTexts(w *sqlWorld) {
	b := w.create("b", 100, 1)
	book := w.book(b.Buckets[0].Ref())
	every := make([]byte, 256)
	for i := range every {
		every[i] = byte(i)
	}
	request := ledger.Request{
		ID: strings.Repeat("é", budget.MaxRequestIDBytes/2), Nonce: "\x00\xff'\\\"\n\x1a`",
		Fingerprint: string(every[240:]), Reference: strings.Repeat("漢", 85) + "x",
		Dimensions: `{"k":"` + strings.Repeat("v", 9_000) + `"}`,
	}
	book.admit(7, request)
	zero := ledger.Request{ID: "\u00a0", Nonce: strings.Repeat("\x00", 8), Fingerprint: strings.Repeat("\x00", 16)}
	book.admit(8, zero)
	w.commit(book)
	for _, want := range []ledger.Request{request, zero} {
		d, found := w.recorded(b.ID, want.ID)
		got := ledger.Request{ID: d.RequestID, Fingerprint: d.Fingerprint, Nonce: d.Nonce,
			Reference: d.Reference, Dimensions: d.Dimensions}
		if !found || got != want {
			w.Errorf("%q: found %v, %+q", want.ID, found, got)
		}
	}
	w.ok(w.db.Fence(w.ctx, book.ref, strings.Repeat("x", 2_000)))
	if w.epoch(book.ref).Fenced == "" {
		w.Error("a long reason did not fence")
	}
}

func commitTwiceInLog(w *sqlWorld) {
	b := w.create("b", 100, 1)
	book := w.book(b.Buckets[0].Ref())
	first, second := book.deduct("order", 10), book.deduct("order", 10)
	report := w.commit(book)[0]
	equal(w, "outcomes", len(report.Outcomes), 2)
	accepted, refused := report.Outcomes[0], report.Outcomes[1]
	equal(w, "nonce", accepted.Deduction.Nonce, first.Request.Nonce)
	if refused.Duplicate == nil || refused.Deduction == nil {
		w.Fatalf("second %+v", refused)
	}
	equal(w, "duplicate", *refused.Duplicate, ledger.Duplicate{
		Budget: b.ID, RequestID: "order", Amount: 10, Nonce: second.Request.Nonce,
		Position: ledger.Position{Bucket: book.ref.Bucket, Epoch: 1, Seq: 3},
		Reason:   ledger.ReasonDuplicate,
	})
	equal(w, "recorded beside it", inUTC(*refused.Deduction), inUTC(*accepted.Deduction))
	row := w.epoch(book.ref)
	equal(w, "used", row.Used, 10)
	equal(w, "returning", row.Returning, 10)
	equal(w, "outstanding", row.Outstanding, 80)
	equal(w, "next entry", row.NextEntry, 2) // duplicates are not in the feed
}

func commitTwoLogs(w *sqlWorld) {
	b := w.create("b", 100, 3)
	var books []*sqlBook
	for i := range 3 {
		book := w.book(b.Buckets[i].Ref())
		book.deduct("order", 5)
		book.deduct(fmt.Sprintf("own-%d", i), 1)
		books = append(books, book)
	}
	accepted, duplicates := 0, 0
	for _, r := range w.commit(books...) {
		for _, o := range r.Outcomes {
			switch {
			case o.Duplicate == nil:
				accepted++
			case o.Deduction != nil && o.Deduction.RequestID == "order":
				duplicates++
			}
		}
	}
	equal(w, "accepted", accepted, 4)
	equal(w, "duplicates", duplicates, 2)
	f := w.figures(b.ID)
	equal(w, "used", f.Used, 8)
	equal(w, "returning", f.Returning, 10)
}

func commitKnown(w *sqlWorld) {
	b := w.create("b", 100, 2)
	there, here := b.Buckets[0].Ref(), w.book(b.Buckets[1].Ref())
	first := w.use(there, "order", 5)
	w.clock.Advance(time.Minute)
	_, _, err := w.db.Rollback(w.ctx, bucket.RollbackOrder{Budget: b.ID, RequestID: "order", Amount: 2})
	w.ok(err)
	here.deduct("order", 5)
	o := w.commit(here)[0].Outcomes[0]
	if o.Duplicate == nil || o.Deduction == nil {
		w.Fatalf("outcome %+v", o)
	}
	equal(w, "reason", o.Duplicate.Reason, ledger.ReasonDuplicate)
	first.RolledBack = 2
	equal(w, "recorded", inUTC(*o.Deduction), inUTC(first))
	_, err = w.db.Cancel(w.ctx, b.ID, "order")
	w.ok(err)
	here.deduct("order", 5)
	o = w.commit(here)[0].Outcomes[0]
	equal(w, "reason after it was rolled back", o.Duplicate.Reason, ledger.ReasonDuplicate)
	equal(w, "state", o.Deduction.State, ledger.StateRolledBack)
	equal(w, "used", w.figures(b.ID).Used, 0)
}

func commitVoid(w *sqlWorld) {
	b := w.create("b", 100, 1)
	book := w.book(b.Buckets[0].Ref())
	book.deduct("order", 5)
	tombstone := must(w.db.Cancel(w.ctx, b.ID, "order"))(w)
	equal(w, "state", tombstone.State, ledger.StateVoid)
	o := w.commit(book)[0].Outcomes[0]
	if o.Duplicate == nil || o.Deduction == nil {
		w.Fatalf("outcome %+v", o)
	}
	equal(w, "reason", o.Duplicate.Reason, ledger.ReasonVoid)
	equal(w, "recorded", inUTC(*o.Deduction), inUTC(tombstone))
	f := w.figures(b.ID)
	equal(w, "used", f.Used, 0)
	equal(w, "returning", f.Returning, 5)
}

func commitOtherPayload(w *sqlWorld) {
	b := w.create("b", 100, 1)
	ref := b.Buckets[0].Ref()
	first := w.use(ref, "order", 5)
	w.book(ref).deduct("order", 6)
	o := w.commit(w.book(ref))[0].Outcomes[0]
	equal(w, "amount returned", o.Duplicate.Amount, 6)
	equal(w, "recorded", inUTC(*o.Deduction), inUTC(first)) // the caller compares the fingerprints
	equal(w, "used", w.figures(b.ID).Used, 5)
}

func commitExpired(w *sqlWorld) {
	end := w.db.Now().Add(time.Minute)
	b := w.create("b", 100, 2, func(d *budget.Definition) { d.EndAt = end })
	ref := b.Buckets[0].Ref()
	book := w.book(ref)
	w.clock.Advance(time.Minute - time.Millisecond)
	w.use(ref, "in time", 1)
	w.clock.Advance(time.Millisecond)
	book.deduct("late", 5)
	book.deduct("in time", 1)
	book.deduct("late", 5)
	outcomes := w.commit(book)[0].Outcomes
	for i, reason := range []ledger.Reason{ledger.ReasonExpired, ledger.ReasonDuplicate, ledger.ReasonExpired} {
		equal(w, "reason", outcomes[i].Duplicate.Reason, reason)
		equal(w, "has a recorded row", outcomes[i].Deduction != nil, reason == ledger.ReasonDuplicate)
	}
	if _, found := w.recorded(b.ID, "late"); found {
		w.Error("the late id is recorded")
	}
	equal(w, "returning", w.figures(b.ID).Returning, 11)
	never := time.Time{}
	must(w.db.Change(w.ctx, b.ID, bucket.Change{EndAt: &never}))(w)
	equal(w, "amount once the end was moved", w.use(ref, "late", 5).Amount, 5) // the id stayed free
	at := ledger.Position{Bucket: ref.Bucket, Epoch: 1, Seq: 3}
	o := must(w.db.At(w.ctx, []ledger.Position{at}))(w)[at]
	if o.Duplicate == nil || o.Duplicate.Reason != ledger.ReasonExpired || o.Deduction != nil {
		w.Errorf("at the expired entry: %+v", o)
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
