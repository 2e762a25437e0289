package storetest

import (
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/budgetd/budgetd/bucket"
	"github.com/budgetd/budgetd/budget"
)

// testRecords is the conformance suite of bucket.Records. A store that keeps no records must not
// look at what is asked of them.
func testRecords(t *testing.T, b *bench) {
	if _, keeps := b.Store.(bucket.Records); !keeps {
		t.Run("none are kept", func(t *testing.T) { testNoRecords(t, b) })
		return
	}
	for _, test := range []struct {
		name string
		run  func(*testing.T, *bench)
	}{
		{"repetitions", testRepetitions},
		{"a refusal is not recorded", testRefusedNotRecorded},
		{"order of the verdicts", testRecordOrder},
		{"void, then deduct", testVoidThenDeduct},
		{"deduct, then void", testDeductThenVoid},
		{"order of a void's verdicts", testVoidOrder},
		{"closed epochs and new ones", testRecordEpochs},
		{"forgotten epochs", testRecordsForgotten},
		{"the end of a period", testPeriodEnd},
		{"ceiling, several calls", testCeiling},
		{"ceiling, one call", testCeilingOneCall},
		{"large sums", testCeilingLarge},
		{"hostile ids", testRecordIDs},
		{"the same id in one call", testSameIDInOneCall},
		{"with and without records in one call", testMixedCall},
		{"more than Lua's stack holds", testManyRecords},
		{"concurrent repetitions", testConcurrentRepetitions},
	} {
		t.Run(test.name, func(t *testing.T) { test.run(t, b) })
	}
}

// testNoRecords: an operation with a record is one without.
func testNoRecords(t *testing.T, b *bench) {
	ref := b.filled(t, 10)
	o := Recorded(ref, 4, "a")
	o.Ceiling = 1
	b.order(t, o, bucket.Reply{Verdict: bucket.OK, Balance: 6, Seq: 2})
	b.order(t, o, bucket.Reply{Verdict: bucket.OK, Balance: 2, Seq: 3})
	b.order(t, o, bucket.Reply{Verdict: bucket.Insufficient, Balance: 2, Seq: 3})
	o.Until = b.now(t)
	b.order(t, o, bucket.Reply{Verdict: bucket.PeriodOver, Balance: 2, Seq: 3})
}

// now is the instant that the lane's clock shows, ms since 1970.
func (b *bench) now(t *testing.T) int64 {
	t.Helper()
	at, err := b.Store.Time(t.Context(), b.Lane)
	if err != nil {
		t.Fatal(err)
	}
	return at.UnixMilli()
}

// testPeriodEnd: from its end on, by the lane's clock, nothing of a period is deducted and nothing recorded;
// what was recorded before is told.
func testPeriodEnd(t *testing.T, b *bench) {
	ref, now := b.filled(t, 10), b.now(t)
	const hour = 60 * 60 * 1000
	in, over := Recorded(ref, 4, "a"), Recorded(ref, 4, "b")
	in.Until, over.Until = now+hour, now
	b.order(t, in, bucket.Reply{Verdict: bucket.OK, Balance: 6, Seq: 2, Deducted: 4})
	b.order(t, over, bucket.Reply{Verdict: bucket.PeriodOver, Balance: 6, Seq: 2})
	over.Amount = 7 // before it is looked whether the balance covers it
	b.order(t, over, bucket.Reply{Verdict: bucket.PeriodOver, Balance: 6, Seq: 2})
	known := in
	known.Until = now
	b.order(t, known, bucket.Reply{Verdict: bucket.Recorded, Balance: 6, Seq: 2, Record: recordOf(in, 2)})
	over.Amount, over.Until = 4, now+hour
	b.order(t, over, bucket.Reply{Verdict: bucket.OK, Balance: 2, Seq: 3, Deducted: 8})
	b.wantSeqs(t, ref, 0, 10, "0 1 2 3")
}

// Recorded makes a Deduction that is to be recorded.
func Recorded(ref bucket.Ref, amount int64, id string) bucket.Operation {
	o := Deduction(ref, amount, id)
	o.Record = true
	return o
}

// recordOf is what a store remembers of an operation that got that position.
func recordOf(o bucket.Operation, seq int64) *bucket.Record {
	return &bucket.Record{Seq: seq, Nonce: o.Request.Nonce, Fingerprint: o.Request.Fingerprint}
}

func (b *bench) void(t *testing.T, ref bucket.Ref, id string, want bucket.Reply) {
	t.Helper()
	got, err := b.Store.(bucket.Records).Void(t.Context(), b.Lane,
		[]bucket.VoidOrder{{Ref: ref, RequestID: id}})
	sameReply(t, fmt.Sprintf("void %.40q", id), only(t, "void", got, err), want)
}

// voided is the answer to whoever meets a void record.
func voided(balance, seq int64) bucket.Reply {
	return bucket.Reply{Verdict: bucket.Recorded, Balance: balance, Seq: seq,
		Record: &bucket.Record{Void: true}}
}

// testRepetitions: whoever comes with a known id gets what is recorded, and nothing happens.
func testRepetitions(t *testing.T, b *bench) {
	ref := b.filled(t, 10)
	first := Recorded(ref, 3, "a")
	b.order(t, first, bucket.Reply{Verdict: bucket.OK, Balance: 7, Seq: 2, Deducted: 3})
	b.order(t, Recorded(ref, 1, "b"),
		bucket.Reply{Verdict: bucket.OK, Balance: 6, Seq: 3, Deducted: 4})
	known := bucket.Reply{Verdict: bucket.Recorded, Balance: 6, Seq: 3, Record: recordOf(first, 2)}
	for name, change := range map[string]func(*bucket.Operation){
		"same nonce":        func(*bucket.Operation) {},
		"other nonce":       func(o *bucket.Operation) { o.Request.Nonce = "12345678" },
		"other fingerprint": func(o *bucket.Operation) { o.Request.Fingerprint = "0123456789abcdef" },
		"other amount":      func(o *bucket.Operation) { o.Amount = 1 },
		"too much":          func(o *bucket.Operation) { o.Amount = 100 },
		"a ceiling":         func(o *bucket.Operation) { o.Ceiling = 1 },
		"a position ahead":  func(o *bucket.Operation) { o.MinSeq = 50 },
	} {
		t.Run(name, func(t *testing.T) {
			again := first
			change(&again)
			b.order(t, again, known)
		})
	}
	// Other ids.
	for i, id := range []string{"A", "a ", "aa"} {
		n := int64(i)
		b.order(t, Recorded(ref, 2, id),
			bucket.Reply{Verdict: bucket.OK, Balance: 4 - 2*n, Seq: 4 + n, Deducted: 6 + 2*n})
	}
	b.order(t, Recorded(ref, 2, ""), bucket.Reply{Verdict: bucket.Insufficient, Seq: 6})
	b.balance(t, ref,
		bucket.Balance{Verdict: bucket.OK, Seq: 6, GrantSeq: 1, Granted: 10, Deducted: 10})
	b.wantSeqs(t, ref, 0, 10, "0 1 2 3 4 5 6")
}

// testRefusedNotRecorded: an id that was refused is free.
func testRefusedNotRecorded(t *testing.T, b *bench) {
	ref := b.filled(t, 10)
	o := Recorded(ref, 11, "a")
	b.order(t, o, bucket.Reply{Verdict: bucket.Insufficient, Balance: 10, Seq: 1})
	o.Amount, o.Ceiling = 5, 4
	b.order(t, o, bucket.Reply{Verdict: bucket.Behind, Balance: 10, Seq: 1})
	o.MinSeq = 2
	b.order(t, o, bucket.Reply{Verdict: bucket.WentBack, Balance: 10, Seq: 1})
	b.untouched(t, ref, 10)
	o.MinSeq, o.Ceiling = 1, 5
	b.order(t, o, bucket.Reply{Verdict: bucket.OK, Balance: 5, Seq: 2, Deducted: 5})
}

// testRecordOrder breaks, for an id that is not recorded, one condition after the other, the last of
// the order first: each verdict wins over all those before.
func testRecordOrder(t *testing.T, b *bench) {
	ref := b.filled(t, 10)
	o := Recorded(ref, 6, "first")
	b.order(t, o, bucket.Reply{Verdict: bucket.OK, Balance: 4, Seq: 2, Deducted: 6})
	next := Recorded(ref, 2, "next")
	next.Ceiling = 7
	b.order(t, next, bucket.Reply{Verdict: bucket.Behind, Balance: 4, Seq: 2, Deducted: 6})
	next.Amount = 5
	b.order(t, next, bucket.Reply{Verdict: bucket.Insufficient, Balance: 4, Seq: 2})
	next.MinSeq = 3
	b.order(t, next, bucket.Reply{Verdict: bucket.WentBack, Balance: 4, Seq: 2})
	next.Until = 1
	b.order(t, next, bucket.Reply{Verdict: bucket.PeriodOver, Balance: 4, Seq: 2})
	b.close(t, ref, bucket.Reply{Verdict: bucket.OK, Seq: 3})
	next.MinSeq = 4
	b.order(t, next, bucket.Reply{Verdict: bucket.EpochClosed, Seq: 3})
	next.Ref.Activation++
	b.order(t, next, bucket.Reply{Verdict: bucket.WrongActivation})
	known := bucket.Reply{Verdict: bucket.Recorded, Seq: 3, Record: recordOf(o, 2)}
	next.Request.ID = "first"
	b.order(t, next, known)
	b.forget(t, ref)
	b.order(t, next, bucket.Reply{Verdict: bucket.EpochGone})

	// What is only found at the append.
	lost := b.filled(t, 10)
	b.open(t, nextEpoch(lost), bucket.Reply{Verdict: bucket.OK})
	last := Recorded(lost, 6, "a")
	last.Ceiling = 5
	b.order(t, last, bucket.Reply{Verdict: bucket.Behind, Balance: 10, Seq: 1})
	last.Ceiling = 6
	b.order(t, last, bucket.Reply{Verdict: bucket.EpochGone})
	b.order(t, last, bucket.Reply{Verdict: bucket.EpochGone}) // and nothing was recorded
	b.untouched(t, lost, 10)
}

func testVoidThenDeduct(t *testing.T, b *bench) {
	ref := b.filled(t, 10)
	b.void(t, ref, "a", bucket.Reply{Verdict: bucket.OK, Balance: 10, Seq: 1})
	b.order(t, Recorded(ref, 3, "a"), voided(10, 1))
	b.void(t, ref, "a", voided(10, 1))
	b.void(t, ref, "a", voided(10, 1))
	b.untouched(t, ref, 10)
	b.wantSeqs(t, ref, 0, 10, "0 1") // a void is no entry
	b.order(t, Recorded(ref, 3, "b"),
		bucket.Reply{Verdict: bucket.OK, Balance: 7, Seq: 2, Deducted: 3})
	b.order(t, Recorded(ref, 3, "a"), voided(7, 2))
	b.deduct(t, ref, 3, bucket.Reply{Verdict: bucket.OK, Balance: 4, Seq: 3})
}

func testDeductThenVoid(t *testing.T, b *bench) {
	ref := b.filled(t, 10)
	o := Recorded(ref, 3, "a")
	b.order(t, o, bucket.Reply{Verdict: bucket.OK, Balance: 7, Seq: 2, Deducted: 3})
	known := bucket.Reply{Verdict: bucket.Recorded, Balance: 7, Seq: 2, Record: recordOf(o, 2)}
	b.void(t, ref, "a", known)
	b.order(t, o, known) // the void changed nothing
	b.void(t, ref, "a", known)
	got, err := b.Store.(bucket.Records).Void(t.Context(), b.Lane, []bucket.VoidOrder{
		{Ref: ref, RequestID: "b"}, {Ref: ref, RequestID: "a"}, {Ref: ref, RequestID: "b"},
		{Ref: nextEpoch(ref), RequestID: "a"}, {Ref: ref, RequestID: "c"}})
	if err != nil || len(got) != 5 {
		t.Fatalf("void: %v, %v", got, err)
	}
	for i, want := range []bucket.Reply{{Verdict: bucket.OK, Balance: 7, Seq: 2}, known, voided(7, 2),
		{Verdict: bucket.EpochGone}, {Verdict: bucket.OK, Balance: 7, Seq: 2}} {
		sameReply(t, fmt.Sprintf("void %d of a call", i), got[i], want)
	}
}

// testVoidOrder: as testRecordOrder.
func testVoidOrder(t *testing.T, b *bench) {
	ref := b.filled(t, 10)
	b.void(t, nextEpoch(ref), "a", bucket.Reply{Verdict: bucket.EpochGone})
	b.void(t, ref, "a", bucket.Reply{Verdict: bucket.OK, Balance: 10, Seq: 1})
	stranger := ref
	stranger.Activation++
	b.void(t, stranger, "b", bucket.Reply{Verdict: bucket.WrongActivation})
	b.close(t, ref, bucket.Reply{Verdict: bucket.OK, Seq: 2})
	b.void(t, ref, "b", bucket.Reply{Verdict: bucket.EpochClosed, Seq: 2})
	b.void(t, stranger, "b", bucket.Reply{Verdict: bucket.WrongActivation})
	b.void(t, ref, "a", voided(0, 2))
	b.void(t, stranger, "a", voided(0, 2))
	b.forget(t, ref)
	b.void(t, ref, "a", bucket.Reply{Verdict: bucket.EpochGone})

	lost := b.filled(t, 10) // a void needs no entry, so it does not see the later epoch
	b.open(t, nextEpoch(lost), bucket.Reply{Verdict: bucket.OK})
	b.void(t, lost, "a", bucket.Reply{Verdict: bucket.OK, Balance: 10, Seq: 1})
	b.order(t, Recorded(lost, 1, "a"), voided(10, 1))
}

// testRecordEpochs: a closed epoch still knows; a new one starts with nothing.
func testRecordEpochs(t *testing.T, b *bench) {
	ref := b.filled(t, 10)
	o := Recorded(ref, 3, "a")
	b.order(t, o, bucket.Reply{Verdict: bucket.OK, Balance: 7, Seq: 2, Deducted: 3})
	b.void(t, ref, "v", bucket.Reply{Verdict: bucket.OK, Balance: 7, Seq: 2})
	b.close(t, ref, bucket.Reply{Verdict: bucket.OK, Seq: 3})
	known := bucket.Reply{Verdict: bucket.Recorded, Seq: 3, Record: recordOf(o, 2)}
	b.order(t, o, known)
	b.order(t, Recorded(ref, 1, "v"), voided(0, 3))
	b.order(t, Recorded(ref, 1, "b"), bucket.Reply{Verdict: bucket.EpochClosed, Seq: 3})

	next := nextEpoch(ref)
	b.open(t, next, bucket.Reply{Verdict: bucket.OK})
	b.grant(t, next, 1, 10, bucket.Reply{Verdict: bucket.OK, Balance: 10, Seq: 1})
	b.order(t, o, known)
	b.order(t, Recorded(next, 3, "a"),
		bucket.Reply{Verdict: bucket.OK, Balance: 7, Seq: 2, Deducted: 3})
	b.order(t, Recorded(next, 3, "v"),
		bucket.Reply{Verdict: bucket.OK, Balance: 4, Seq: 3, Deducted: 6})
	b.order(t, o, known)
}

// testRecordsForgotten: what is left of a forgotten epoch answers nothing.
func testRecordsForgotten(t *testing.T, b *bench) {
	ref, other := b.filled(t, 10), b.filled(t, 10)
	for _, r := range []bucket.Ref{ref, other} {
		b.order(t, Recorded(r, 3, "a"),
			bucket.Reply{Verdict: bucket.OK, Balance: 7, Seq: 2, Deducted: 3})
	}
	b.forget(t, ref)
	b.order(t, Recorded(ref, 3, "a"), bucket.Reply{Verdict: bucket.EpochGone})
	b.void(t, ref, "a", bucket.Reply{Verdict: bucket.EpochGone})
	b.order(t, Recorded(other, 3, "a"), bucket.Reply{Verdict: bucket.Recorded, Balance: 7, Seq: 2,
		Record: recordOf(Recorded(other, 3, "a"), 2)})
}

// testRecordIDs: ids are bytes; each is its own, in both verbs.
func testRecordIDs(t *testing.T, b *bench) {
	ids := append([]string{"", "\x00", "\x00\x00", "\xff", "\xff\x00", "1", "01", "a\r\nb", "{", "}",
		strings.Repeat("x", 127), strings.Repeat("x", 128), strings.Repeat("\x00", 128),
		strings.Repeat("\xff", 128), "__proto__", "-1", "e", "\xf0\x9f\x92\xb0"}, HostileTexts...)
	ref := b.filled(t, 1_000_000)
	slices.Sort(ids)
	ids = slices.Compact(ids)
	seen := make(map[string]int64)
	balance, seq := int64(1_000_000), int64(1)
	for i, id := range ids {
		if i%3 == 2 {
			b.void(t, ref, id, bucket.Reply{Verdict: bucket.OK, Balance: balance, Seq: seq})
			continue
		}
		o := Recorded(ref, int64(i+1), id)
		balance, seq = balance-o.Amount, seq+1
		seen[id] = seq
		b.order(t, o, bucket.Reply{Verdict: bucket.OK, Balance: balance, Seq: seq,
			Deducted: 1_000_000 - balance})
	}
	for i, id := range ids {
		o, want := Recorded(ref, int64(i+1), id), voided(balance, seq)
		if i%3 != 2 {
			want.Record = recordOf(o, seen[id])
		}
		b.order(t, o, want)
		b.void(t, ref, id, want)
	}
}

// testConcurrentRepetitions lets many callers send the same ids: each is deducted for once.
func testConcurrentRepetitions(t *testing.T, b *bench) {
	const callers, ids = 8, 30
	ref := b.filled(t, budget.MaxAmount)
	var mu sync.Mutex
	done := make(map[string]int)
	var all sync.WaitGroup
	for range callers {
		all.Go(func() {
			for i := range ids {
				id := fmt.Sprint("id ", i)
				got, err := b.Store.Deduct(t.Context(), b.Lane, []bucket.Operation{
					Recorded(ref, 1, id), Recorded(ref, 1, id)})
				if err != nil {
					t.Error(err)
					return
				}
				mu.Lock()
				for _, reply := range got {
					if reply.Verdict == bucket.OK {
						done[id]++
					} else if reply.Verdict != bucket.Recorded {
						t.Errorf("%s: %+v", id, reply)
					}
				}
				mu.Unlock()
			}
		})
	}
	all.Wait()
	for i := range ids {
		if id := fmt.Sprint("id ", i); done[id] != 1 {
			t.Errorf("%s was deducted for %d times", id, done[id])
		}
	}
	b.balance(t, ref, bucket.Balance{Verdict: bucket.OK, Seq: ids + 1, GrantSeq: 1,
		Balance: budget.MaxAmount - ids, Granted: budget.MaxAmount, Deducted: ids})
}
