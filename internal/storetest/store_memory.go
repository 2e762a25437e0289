package storetest

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"

	"github.com/budgetd/budgetd/bucket"
	"github.com/budgetd/budgetd/budget"
	"github.com/budgetd/budgetd/ledger"
)

// testMalformed sends what budgetd never lets through: the call is refused, and so is what stands
// beside it.
func testMalformed(t *testing.T, b *bench) {
	ref := b.filled(t, 100)
	ctx := t.Context()
	good := Deduction(ref, 1, "good")
	deduct := func(what string, change func(*bucket.Operation)) {
		t.Helper()
		bad := good
		change(&bad)
		_, err := b.Store.Deduct(ctx, b.Lane, []bucket.Operation{good, bad})
		wantError(t, what, err, budget.Invalid)
	}
	for _, amount := range []int64{0, -1, budget.MaxAmount + 1, -1 << 63, 1<<63 - 1} {
		deduct(fmt.Sprint("amount ", amount), func(o *bucket.Operation) { o.Amount = amount })
		_, err := b.Store.Grant(ctx, b.Lane, []bucket.GrantOrder{{Ref: ref, Number: 2, Amount: 1},
			{Ref: ref, Number: 3, Amount: amount}})
		wantError(t, fmt.Sprint("grant of ", amount), err, budget.Invalid)
		_, err = b.Store.Grant(ctx, b.Lane, []bucket.GrantOrder{{Ref: ref, Number: 2, Amount: 1},
			{Ref: ref, Number: amount, Amount: 1}})
		wantError(t, fmt.Sprint("grant number ", amount), err, budget.Invalid)
	}
	deduct("nonce", func(o *bucket.Operation) { o.Request.Nonce = "1234567" })
	deduct("no nonce", func(o *bucket.Operation) { o.Request.Nonce = "" })
	deduct("fingerprint", func(o *bucket.Operation) { o.Request.Fingerprint += "x" })
	deduct("position", func(o *bucket.Operation) { o.MinSeq = -1 })
	deduct("ceiling", func(o *bucket.Operation) { o.Record, o.Ceiling = true, -1 })
	deduct("large ceiling", func(o *bucket.Operation) { o.Record, o.Ceiling = true, 1<<53 })
	deduct("ceiling without a record", func(o *bucket.Operation) { o.Ceiling = 1 })
	for _, bad := range []bucket.Ref{{}, {Bucket: -1, Epoch: 1, Activation: 1},
		{Bucket: 1, Epoch: 0, Activation: 1}, {Bucket: 1, Epoch: 1, Activation: 0},
		{Bucket: 1, Epoch: 1 << 53, Activation: 1}, {Bucket: 1, Epoch: 1, Activation: 1 << 53}} {
		deduct("ref", func(o *bucket.Operation) { o.Ref = bad })
		for verb, err := range b.everything(ctx, b.Store, b.Lane, bad) {
			wantError(t, fmt.Sprintf("%s of %+v", verb, bad), err, budget.Invalid)
		}
	}
	_, err := b.Store.Read(ctx, b.Lane, []bucket.Cursor{{Ref: ref, From: -1}}, 1)
	wantError(t, "read from -1", err, budget.Invalid)
	err = b.Store.Trim(ctx, b.Lane, []bucket.Cursor{{Ref: ref, From: -1}})
	wantError(t, "trim to -1", err, budget.Invalid)
	b.untouched(t, ref, 100)
}

func testNothing(t *testing.T, b *bench) {
	ctx := t.Context()
	wantNone := func(verb string, n int, err error) {
		t.Helper()
		if n != 0 || err != nil {
			t.Errorf("%s of nothing: %d answers, error %v", verb, n, err)
		}
	}
	opened, err := b.Store.Open(ctx, b.Lane, nil)
	wantNone("open", len(opened), err)
	granted, err := b.Store.Grant(ctx, b.Lane, nil)
	wantNone("grant", len(granted), err)
	deducted, err := b.Store.Deduct(ctx, b.Lane, nil)
	wantNone("deduct", len(deducted), err)
	closed, err := b.Store.Close(ctx, b.Lane, nil)
	wantNone("close", len(closed), err)
	read, err := b.Store.Read(ctx, b.Lane, nil, 10)
	wantNone("read", len(read), err)
	balances, err := b.Store.Balances(ctx, b.Lane, nil)
	wantNone("balances", len(balances), err)
	discarded, err := b.Store.Discard(ctx, b.Lane, nil)
	wantNone("discard", len(discarded), err)
	wantNone("trim", 0, b.Store.Trim(ctx, b.Lane, nil))
	wantNone("leave", 0, b.Store.Leave(ctx, b.Lane, nil))
	wantNone("forget", 0, b.Store.Forget(ctx, b.Lane, nil))
	if records, keeps := b.Store.(bucket.Records); keeps {
		voided, err := records.Void(ctx, b.Lane, nil)
		wantNone("void", len(voided), err)
	}
}

func testOtherLanes(t *testing.T, b *bench) {
	ref := b.filled(t, 5)
	for _, lane := range []bucket.Lane{{Instance: b.Lane.Instance, Index: -1},
		{Instance: b.Lane.Instance, Index: 1 << 20}, {Instance: "nobody", Index: b.Lane.Index}} {
		for verb, err := range b.everything(t.Context(), b.Store, lane, ref) {
			wantError(t, fmt.Sprintf("%s on lane %+v", verb, lane), err, budget.Unavailable)
		}
		_, err := b.Store.Identity(t.Context(), lane)
		wantError(t, "identity", err, budget.Unavailable)
		wantError(t, "activate", b.Store.Activate(t.Context(), lane, "x", 1), budget.Unavailable)
	}
}

func testCancelled(t *testing.T, b *bench) {
	ref := b.filled(t, 5)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	for verb, err := range b.everything(ctx, b.Store, b.Lane, ref) {
		wantError(t, verb, err, budget.Unavailable)
	}
	b.untouched(t, ref, 5)
}

// testConcurrent lets many callers deduct from the same buckets at once: no unit twice (I2), and
// one chain.
func testConcurrent(t *testing.T, b *bench) {
	const callers, calls, units = 8, 12, 40
	refs := []bucket.Ref{b.filled(t, units), b.filled(t, units)}
	var mu sync.Mutex
	seen := make(map[ledger.Position]bool)
	var all sync.WaitGroup
	for caller := range callers {
		all.Go(func() {
			for call := range calls {
				o := Deduction(refs[call%2], 1, fmt.Sprint(caller, "/", call))
				got, err := b.Store.Deduct(t.Context(), b.Lane, []bucket.Operation{o, o})
				if err != nil {
					t.Error(err)
					return
				}
				mu.Lock()
				for _, reply := range got {
					at := ledger.Position{Bucket: o.Ref.Bucket, Epoch: 1, Seq: reply.Seq}
					if reply.Verdict == bucket.OK && seen[at] {
						t.Errorf("position %+v was given to two", at)
					}
					if reply.Verdict == bucket.OK {
						seen[at] = true
					}
				}
				mu.Unlock()
			}
		})
	}
	all.Wait()
	if len(seen) != 2*units {
		t.Errorf("%d deductions of 1 were accepted out of %d units", len(seen), 2*units)
	}
	for _, ref := range refs {
		b.balance(t, ref, bucket.Balance{Verdict: bucket.OK, Seq: units + 1, GrantSeq: 1,
			Granted: units, Deducted: units})
		chain := ""
		for _, e := range b.read(t, ref, 0, units+2) {
			chain = ledger.Chain(chain, e.Line)
			if e.Chain != chain {
				t.Errorf("entry %d does not continue the chain", e.Seq)
			}
		}
	}
}

// testActivation: before the first there is nothing, and a new one ends the epochs of the old.
func testActivation(t *testing.T, b *bench) {
	ref := bucket.Ref{Bucket: 1, Epoch: 1, Activation: 1}
	b.wantLost(t, b.Store, ref)
	err := b.Store.Activate(t.Context(), b.Lane, "somebody else", 1)
	if !errors.Is(err, bucket.ErrMemoryLost) {
		t.Errorf("activated for somebody else: %v", err)
	}
	b.wantLost(t, b.Store, ref)
	b.activate(t, 1)
	b.activate(t, 1) // again
	ref = b.filled(t, 5)
	idle := b.bucket()
	b.open(t, idle, bucket.Reply{Verdict: bucket.OK})
	b.close(t, idle, bucket.Reply{Verdict: bucket.OK, Seq: 1})

	b.activate(t, 2)
	// Whatever is late, and whoever holds a Ref with the new number: the hash has the old one.
	for _, activation := range []int64{1, 2, 3} {
		for _, old := range []bucket.Ref{ref, idle} {
			old.Activation = activation
			wrong := bucket.Reply{Verdict: bucket.WrongActivation}
			switch {
			case old.Bucket == idle.Bucket:
				b.open(t, old, bucket.Reply{Verdict: bucket.EpochClosed, Seq: 1})
			case activation == 2: // the number is taken by another life
				b.open(t, old, bucket.Reply{Verdict: bucket.EpochClosed, Balance: 5, Seq: 1})
			default:
				b.open(t, old, wrong)
			}
			b.grant(t, old, 1, 5, wrong)
			b.grant(t, old, 2, 5, wrong)
			b.deduct(t, old, 1, wrong)
			b.close(t, old, wrong)
		}
	}
	b.untouched(t, ref, 5)
	b.wantSeqs(t, ref, 0, 10, "0 1")

	late := bucket.Ref{Bucket: ref.Bucket, Epoch: 2, Activation: 1}
	b.open(t, late, bucket.Reply{Verdict: bucket.WrongActivation})
	b.grant(t, late, 1, 5, bucket.Reply{Verdict: bucket.EpochGone})
	late.Activation = 2
	b.open(t, late, bucket.Reply{Verdict: bucket.OK})
	b.grant(t, late, 1, 5, bucket.Reply{Verdict: bucket.OK, Balance: 5, Seq: 1})
	b.deduct(t, late, 5, bucket.Reply{Verdict: bucket.OK, Seq: 2})

	// Two activations in one call.
	got, err := b.Store.Deduct(t.Context(), b.Lane, []bucket.Operation{Deduction(ref, 1, "old"),
		Deduction(late, 1, "new"), Deduction(ref, 1, "old")})
	if err != nil {
		t.Fatal(err)
	}
	wrong := bucket.Reply{Verdict: bucket.WrongActivation}
	sameReply(t, "old", got[0], wrong)
	sameReply(t, "new", got[1], bucket.Reply{Verdict: bucket.Insufficient, Seq: 2})
	sameReply(t, "old", got[2], wrong)
}

// testTwoNodes: a node that has not heard of the new activation can do nothing on its epochs.
func testTwoNodes(t *testing.T, b *bench) {
	b.activate(t, 1)
	other := b.AnotherNode()
	ref := b.filled(t, 5)
	b.wantLost(t, other, ref)
	who, err := other.Identity(t.Context(), b.Lane)
	if err != nil {
		t.Fatal(err)
	}
	if err := other.Activate(t.Context(), b.Lane, who, 1); err != nil {
		t.Fatal(err)
	}
	slow := &bench{StoreUnderTest: b.StoreUnderTest, activation: 1}
	slow.Store = other
	slow.deduct(t, ref, 2, bucket.Reply{Verdict: bucket.OK, Balance: 3, Seq: 2})
	b.deduct(t, ref, 1, bucket.Reply{Verdict: bucket.OK, Balance: 2, Seq: 3})

	b.activate(t, 2)
	young := b.filled(t, 5)
	wrong := bucket.Reply{Verdict: bucket.WrongActivation}
	slow.open(t, young, wrong)
	slow.grant(t, young, 2, 5, wrong)
	slow.deduct(t, young, 1, wrong)
	slow.close(t, young, wrong)
	b.untouched(t, young, 5)

	slow.activate(t, 2)
	slow.deduct(t, young, 1, bucket.Reply{Verdict: bucket.OK, Balance: 4, Seq: 2})
	slow.deduct(t, ref, 1, wrong)
}

// testMemoryLost: a lane that forgot everything says so to every verb, until it is activated for
// who it is now.
func testMemoryLost(t *testing.T, b *bench) {
	b.activate(t, 1)
	before, err := b.Store.Identity(t.Context(), b.Lane)
	if err != nil {
		t.Fatal(err)
	}
	other := &bench{StoreUnderTest: b.StoreUnderTest}
	other.Store = b.AnotherNode()
	other.activate(t, 1)
	ref := b.filled(t, 5)
	b.LoseMemory()
	b.wantLost(t, b.Store, ref)
	b.wantLost(t, b.Store, ref)
	after, err := b.Store.Identity(t.Context(), b.Lane)
	if err != nil {
		t.Fatal(err)
	}
	if after == before {
		t.Errorf("the identity is still %s", after)
	}
	err = b.Store.Activate(t.Context(), b.Lane, before, 2)
	if !errors.Is(err, bucket.ErrMemoryLost) {
		t.Errorf("activated for who it was: %v", err)
	}
	// A node that has just started takes the new memory for activation 1: that is its business.
	young := &bench{StoreUnderTest: b.StoreUnderTest}
	young.Store = b.AnotherNode()
	young.activate(t, 1)
	b.wantLost(t, b.Store, ref)
	b.wantLost(t, b.Store, ref)
	b.activate(t, 2)
	b.wantLost(t, other.Store, ref) // nobody activated for the old memory goes on with the new one

	gone := bucket.Reply{Verdict: bucket.EpochGone}
	b.grant(t, ref, 2, 5, gone)
	b.deduct(t, ref, 1, gone)
	b.close(t, ref, gone)
	b.open(t, ref, bucket.Reply{Verdict: bucket.WrongActivation})
	reborn := bucket.Ref{Bucket: ref.Bucket, Epoch: 2, Activation: 2}
	b.open(t, reborn, bucket.Reply{Verdict: bucket.OK})
	b.grant(t, reborn, 1, 3, bucket.Reply{Verdict: bucket.OK, Balance: 3, Seq: 1})
	b.open(t, ref, bucket.Reply{Verdict: bucket.WrongActivation})
	b.wantLost(t, other.Store, ref)
	other.activate(t, 2)
	other.deduct(t, reborn, 1, bucket.Reply{Verdict: bucket.OK, Balance: 2, Seq: 2})
}
