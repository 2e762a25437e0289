// Package storetest holds the suites that every store passes: RunStore and RunSQL for one at a time,
// and differential tests that give several of them the same operations and compare all they say.
package storetest

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/budgetd/budgetd/bucket"
	"github.com/budgetd/budgetd/budget"
	"github.com/budgetd/budgetd/ledger"
)

// StoreUnderTest is a store as RunStore gets it: empty, and not activated.
type StoreUnderTest struct {
	Store bucket.Instance
	Lane  bucket.Lane
	// AnotherNode returns a second node's view of the same memory, not activated.
	AnotherNode func() bucket.Instance
	// LoseMemory makes the store forget everything as a restart without data does; nil for one that
	// cannot: it keeps its rows in the database.
	LoseMemory func()
}

// RunStore is the conformance suite of bucket.Instance: whatever serves as a store passes it. fresh
// makes an empty store for a group of tests.
func RunStore(t *testing.T, fresh func(t *testing.T) StoreUnderTest) {
	shared := newBench(t, fresh(t))
	shared.activate(t, 1)
	for _, test := range []struct {
		name string
		run  func(*testing.T, *bench)
	}{
		{"open", testOpen},
		{"grant", testGrant},
		{"deduct", testDeduct},
		{"close", testClose},
		{"late messages", testLate},
		{"the log", testLog},
		{"read from and limit", testRead},
		{"trim", testTrim},
		{"forget", testForget},
		{"leave", testLeave},
		{"large amounts", testLargeAmounts},
		{"hostile texts", testHostileTexts},
		{"a batch is one by one", testBatch},
		{"malformed operations", testMalformed},
		{"nothing to do", testNothing},
		{"other lanes", testOtherLanes},
		{"cancelled", testCancelled},
		{"concurrent deductions", testConcurrent},
	} {
		t.Run(test.name, func(t *testing.T) { test.run(t, shared) })
	}
	t.Run("records", func(t *testing.T) { testRecords(t, shared) })
	t.Run("limits", func(t *testing.T) { testLimits(t, shared) })
	t.Run("activation", func(t *testing.T) { testActivation(t, newBench(t, fresh(t))) })
	t.Run("two nodes", func(t *testing.T) { testTwoNodes(t, newBench(t, fresh(t))) })
	if under := fresh(t); under.LoseMemory != nil {
		t.Run("memory lost", func(t *testing.T) { testMemoryLost(t, newBench(t, under)) })
	}
}

// RunStoreLimits runs the part of RunStore that is about limits.
func RunStoreLimits(t *testing.T, fresh func(t *testing.T) StoreUnderTest) {
	b := newBench(t, fresh(t))
	b.activate(t, 1)
	testLimits(t, b)
}

// bench is a store with what the tests need around it. Every test takes buckets of its own.
type bench struct {
	StoreUnderTest
	activation int64
	buckets    int64
}

func newBench(_ *testing.T, under StoreUnderTest) *bench { return &bench{StoreUnderTest: under} }

func (b *bench) activate(t *testing.T, activation int64) {
	t.Helper()
	who, err := b.Store.Identity(t.Context(), b.Lane)
	if err != nil {
		t.Fatal(err)
	}
	if err := b.Store.Activate(t.Context(), b.Lane, who, activation); err != nil {
		t.Fatal(err)
	}
	b.activation = activation
}

// bucket returns the first epoch of a bucket that nobody has used.
func (b *bench) bucket() bucket.Ref {
	b.buckets++
	return bucket.Ref{Bucket: 1_000_000*b.activation + b.buckets, Epoch: 1, Activation: b.activation}
}

// filled returns an open bucket with one grant.
func (b *bench) filled(t *testing.T, amount int64) bucket.Ref {
	t.Helper()
	ref := b.bucket()
	b.open(t, ref, bucket.Reply{Verdict: bucket.OK})
	b.grant(t, ref, 1, amount, bucket.Reply{Verdict: bucket.OK, Balance: amount, Seq: 1})
	return ref
}

func nextEpoch(ref bucket.Ref) bucket.Ref { ref.Epoch++; return ref }

// sameReply compares an answer with what is wanted; of a Broken only that it says why, and of EpochGone
// not where the log ends: stores that only budgetd can write to do not say.
func sameReply(t *testing.T, what string, got, want bucket.Reply) {
	t.Helper()
	if want.Verdict == bucket.Broken && got.Why != "" {
		got.Why, want.Why = "", ""
	}
	if want.Verdict == bucket.EpochGone {
		got.Why = ""
	}
	gotRecord, wantRecord := got.Record, want.Record
	got.Record, want.Record = nil, nil
	got.Counted, want.Counted = nil, nil // see wantLimited
	if got != want {
		t.Errorf("%s: answered %+v, want %+v", what, got, want)
	}
	if (gotRecord == nil) != (wantRecord == nil) || gotRecord != nil && *gotRecord != *wantRecord {
		t.Errorf("%s: the record is %+v, want %+v", what, gotRecord, wantRecord)
	}
}

func only[T any](t *testing.T, what string, got []T, err error) T {
	t.Helper()
	if err != nil {
		t.Fatalf("%s: %v", what, err)
	}
	if len(got) != 1 {
		t.Fatalf("%s: %d answers to one operation", what, len(got))
	}
	return got[0]
}

func (b *bench) open(t *testing.T, ref bucket.Ref, want bucket.Reply) {
	t.Helper()
	got, err := b.Store.Open(t.Context(), b.Lane, []bucket.Ref{ref})
	sameReply(t, "open", only(t, "open", got, err), want)
}

func (b *bench) grant(t *testing.T, ref bucket.Ref, number, amount int64, want bucket.Reply) {
	t.Helper()
	got, err := b.Store.Grant(t.Context(), b.Lane,
		[]bucket.GrantOrder{{Ref: ref, Number: number, Amount: amount}})
	sameReply(t, fmt.Sprintf("grant %d of %d", number, amount), only(t, "grant", got, err), want)
}

func (b *bench) deduct(t *testing.T, ref bucket.Ref, amount int64, want bucket.Reply) {
	t.Helper()
	b.order(t, Deduction(ref, amount, fmt.Sprintf("request %d", amount)), want)
}

func (b *bench) order(t *testing.T, o bucket.Operation, want bucket.Reply) {
	t.Helper()
	got, err := b.Store.Deduct(t.Context(), b.Lane, []bucket.Operation{o})
	sameReply(t, fmt.Sprintf("deduct %d", o.Amount), only(t, "deduct", got, err), want)
}

func (b *bench) close(t *testing.T, ref bucket.Ref, want bucket.Reply) {
	t.Helper()
	got, err := b.Store.Close(t.Context(), b.Lane, []bucket.Ref{ref})
	sameReply(t, "close", only(t, "close", got, err), want)
}

func (b *bench) balance(t *testing.T, ref bucket.Ref, want bucket.Balance) {
	t.Helper()
	got, err := b.Store.Balances(t.Context(), b.Lane, []bucket.Ref{ref})
	if answer := only(t, "balances", got, err); answer != want {
		t.Errorf("balance is %+v, want %+v", answer, want)
	}
}

// untouched fails unless the bucket is as filled made it.
func (b *bench) untouched(t *testing.T, ref bucket.Ref, amount int64) {
	t.Helper()
	b.balance(t, ref,
		bucket.Balance{Verdict: bucket.OK, Seq: 1, GrantSeq: 1, Balance: amount, Granted: amount})
}

func (b *bench) read(t *testing.T, ref bucket.Ref, from int64, limit int) []ledger.Entry {
	t.Helper()
	got, err := b.Store.Read(t.Context(), b.Lane, []bucket.Cursor{{Ref: ref, From: from}}, limit)
	extract := only(t, "read", got, err)
	if extract.Err != nil {
		t.Fatalf("read: %v", extract.Err)
	}
	return extract.Entries
}

// seqs returns the positions that a read from `from` finds.
func (b *bench) seqs(t *testing.T, ref bucket.Ref, from int64, limit int) string {
	t.Helper()
	var out []string
	for _, e := range b.read(t, ref, from, limit) {
		out = append(out, fmt.Sprint(e.Seq))
	}
	return strings.Join(out, " ")
}

func (b *bench) wantSeqs(t *testing.T, ref bucket.Ref, from int64, limit int, want string) {
	t.Helper()
	if got := b.seqs(t, ref, from, limit); got != want {
		t.Errorf("epoch %d from %d, at most %d: entries %q, want %q", ref.Epoch, from, limit, got, want)
	}
}

// Deduction makes an operation whose nonce and fingerprint hold every kind of byte.
func Deduction(ref bucket.Ref, amount int64, id string) bucket.Operation {
	return bucket.Operation{Ref: ref, Amount: amount, Request: ledger.Request{ID: id,
		Fingerprint: ledger.Fingerprint(amount, id, "", ""), Nonce: "\x00\r\n\xff{}:|"}}
}

// wantError fails unless err is of that code.
func wantError(t *testing.T, what string, err error, code budget.Code) {
	t.Helper()
	if !budget.Is(err, code) {
		t.Errorf("%s: error %v, want code %s", what, err, code)
	}
}

// everything calls every verb with one operation and returns their errors by verb.
func (b *bench) everything(ctx context.Context, store bucket.Instance, lane bucket.Lane,
	ref bucket.Ref) map[string]error {
	refs, cursors := []bucket.Ref{ref}, []bucket.Cursor{{Ref: ref, From: 1}}
	errs := make(map[string]error)
	_, errs["open"] = store.Open(ctx, lane, refs)
	_, errs["grant"] = store.Grant(ctx, lane, []bucket.GrantOrder{{Ref: ref, Number: 1, Amount: 1}})
	_, errs["deduct"] = store.Deduct(ctx, lane, []bucket.Operation{Deduction(ref, 1, "x")})
	_, errs["close"] = store.Close(ctx, lane, refs)
	_, errs["read"] = store.Read(ctx, lane, cursors, 10)
	_, errs["balances"] = store.Balances(ctx, lane, refs)
	_, errs["discard"] = store.Discard(ctx, lane, []bucket.LogEnd{{Ref: ref, Last: "9-9"}})
	errs["trim"] = store.Trim(ctx, lane, cursors)
	errs["leave"] = store.Leave(ctx, lane, refs)
	errs["forget"] = store.Forget(ctx, lane, refs)
	if records, keeps := store.(bucket.Records); keeps {
		_, errs["void"] = records.Void(ctx, lane, []bucket.VoidOrder{{Ref: ref, RequestID: "x"}})
	}
	return errs
}

// wantLost fails unless every verb answers ErrMemoryLost.
func (b *bench) wantLost(t *testing.T, store bucket.Instance, ref bucket.Ref) {
	t.Helper()
	for verb, err := range b.everything(t.Context(), store, b.Lane, ref) {
		if !errors.Is(err, bucket.ErrMemoryLost) {
			t.Errorf("%s: error %v, want ErrMemoryLost", verb, err)
		}
	}
}
