package storetest

import (
	"fmt"
	"strings"
	"time"

	"github.com/budgetd/budgetd/bucket"
	"github.com/budgetd/budgetd/budget"
	"github.com/budgetd/budgetd/ledger"
)

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
		_, replayed, err := w.adjust(w.adjustment(b, id, 1))
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
	zero := ledger.Request{ID: "\u00a0", Nonce: strings.Repeat("\x00", 8),
		Fingerprint: strings.Repeat("\x00", 16)}
	book.admit(8, zero)
	w.commit(book)
	for _, want := range []ledger.Request{request, zero} {
		d, found := w.recorded(b.ID, want.ID)
		got := ledger.Request{ID: d.RequestID, Fingerprint: d.Fingerprint, Nonce: d.Nonce,
			Reference: d.Reference, Dimensions: d.Dimensions}
		if !found || got != want {
			w.Errorf("%q: found %v, %#v", want.ID, found, got)
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
	w.gives(b.ID, "order", "part", 2, 2, false)
	here.deduct("order", 5)
	o := w.commit(here)[0].Outcomes[0]
	if o.Duplicate == nil || o.Deduction == nil {
		w.Fatalf("outcome %+v", o)
	}
	equal(w, "reason", o.Duplicate.Reason, ledger.ReasonDuplicate)
	first.RolledBack = 2
	equal(w, "recorded", inUTC(*o.Deduction), inUTC(first))
	must(w.db.Cancel(w.ctx, b.ID, "order"))(w)
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
	for i, reason := range []ledger.Reason{
		ledger.ReasonExpired, ledger.ReasonDuplicate, ledger.ReasonExpired,
	} {
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
