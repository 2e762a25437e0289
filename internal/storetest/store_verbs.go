package storetest

import (
	"testing"

	"github.com/budgetd/budgetd/bucket"
	"github.com/budgetd/budgetd/budget"
	"github.com/budgetd/budgetd/ledger"
)

func testOpen(t *testing.T, b *bench) {
	ref := b.bucket()
	b.open(t, ref, bucket.Reply{Verdict: bucket.OK})
	b.balance(t, ref, bucket.Balance{Verdict: bucket.OK})
	b.open(t, ref, bucket.Reply{Verdict: bucket.Already})
	b.grant(t, ref, 1, 5, bucket.Reply{Verdict: bucket.OK, Balance: 5, Seq: 1})
	b.open(t, ref, bucket.Reply{Verdict: bucket.Already, Balance: 5, Seq: 1})
	b.wantSeqs(t, ref, 0, 10, "0 1")

	other := ref
	other.Activation++
	b.open(t, other, bucket.Reply{Verdict: bucket.WrongActivation})
	unborn := b.bucket()
	unborn.Activation++ // the lane does not serve it, so nothing may begin under it
	b.open(t, unborn, bucket.Reply{Verdict: bucket.WrongActivation})
	b.wantSeqs(t, unborn, 0, 10, "")

	b.close(t, ref, bucket.Reply{Verdict: bucket.OK, Seq: 2})
	b.open(t, ref, bucket.Reply{Verdict: bucket.EpochClosed, Seq: 2})
	b.open(t, other, bucket.Reply{Verdict: bucket.EpochClosed, Seq: 2})

	later := nextEpoch(nextEpoch(ref)) // epochs may be left out
	b.open(t, later, bucket.Reply{Verdict: bucket.OK})
	b.open(t, nextEpoch(ref), bucket.Reply{Verdict: bucket.EpochGone})
	b.balance(t, nextEpoch(ref), bucket.Balance{Verdict: bucket.EpochGone})
	b.open(t, ref, bucket.Reply{Verdict: bucket.EpochClosed, Seq: 2})
	b.wantSeqs(t, later, 0, 10, "0")
	b.wantSeqs(t, nextEpoch(ref), 0, 10, "")
	b.wantSeqs(t, ref, 0, 10, "0 1 2")
}

func testGrant(t *testing.T, b *bench) {
	ref := b.bucket()
	b.grant(t, ref, 1, 5, bucket.Reply{Verdict: bucket.EpochGone})
	b.open(t, ref, bucket.Reply{Verdict: bucket.OK})
	b.grant(t, ref, 2, 5, bucket.Reply{Verdict: bucket.Gap})
	b.grant(t, ref, 1, 5, bucket.Reply{Verdict: bucket.OK, Balance: 5, Seq: 1})
	b.grant(t, ref, 1, 5, bucket.Reply{Verdict: bucket.Already, Balance: 5, Seq: 1})
	b.grant(t, ref, 1, 7, bucket.Reply{Verdict: bucket.Already, Balance: 5, Seq: 1})
	b.grant(t, ref, 2, 7, bucket.Reply{Verdict: bucket.OK, Balance: 12, Seq: 2})
	b.grant(t, ref, 1, 5, bucket.Reply{Verdict: bucket.Already, Balance: 12, Seq: 2})
	b.grant(t, ref, 4, 5, bucket.Reply{Verdict: bucket.Gap, Balance: 12, Seq: 2})
	b.balance(t, ref,
		bucket.Balance{Verdict: bucket.OK, Seq: 2, GrantSeq: 2, Balance: 12, Granted: 12})

	stranger := ref
	stranger.Activation++
	b.grant(t, stranger, 3, 5, bucket.Reply{Verdict: bucket.WrongActivation})
	b.close(t, ref, bucket.Reply{Verdict: bucket.OK, Seq: 3})
	b.grant(t, ref, 3, 5, bucket.Reply{Verdict: bucket.EpochClosed, Seq: 3})
	b.grant(t, ref, 1, 5, bucket.Reply{Verdict: bucket.EpochClosed, Seq: 3})
	b.grant(t, stranger, 3, 5, bucket.Reply{Verdict: bucket.WrongActivation})
	b.grant(t, nextEpoch(ref), 1, 5, bucket.Reply{Verdict: bucket.EpochGone})
	b.wantSeqs(t, ref, 0, 10, "0 1 2 3")
}

func testDeduct(t *testing.T, b *bench) {
	ref := b.bucket()
	b.deduct(t, ref, 1, bucket.Reply{Verdict: bucket.EpochGone})
	b.open(t, ref, bucket.Reply{Verdict: bucket.OK})
	b.deduct(t, ref, 1, bucket.Reply{Verdict: bucket.Insufficient})
	b.grant(t, ref, 1, 10, bucket.Reply{Verdict: bucket.OK, Balance: 10, Seq: 1})
	b.deduct(t, ref, 11, bucket.Reply{Verdict: bucket.Insufficient, Balance: 10, Seq: 1})
	b.deduct(t, ref, 4, bucket.Reply{Verdict: bucket.OK, Balance: 6, Seq: 2})
	// The same request again: the ledger tells duplicates, a store does not.
	b.deduct(t, ref, 4, bucket.Reply{Verdict: bucket.OK, Balance: 2, Seq: 3})
	b.deduct(t, ref, 3, bucket.Reply{Verdict: bucket.Insufficient, Balance: 2, Seq: 3})

	seen := Deduction(ref, 1, "seen")
	seen.MinSeq = 3
	b.order(t, seen, bucket.Reply{Verdict: bucket.OK, Balance: 1, Seq: 4})
	seen.MinSeq = 5
	b.order(t, seen, bucket.Reply{Verdict: bucket.WentBack, Balance: 1, Seq: 4})
	seen.Amount, seen.MinSeq = 100, budget.MaxAmount
	b.order(t, seen, bucket.Reply{Verdict: bucket.WentBack, Balance: 1, Seq: 4})
	b.deduct(t, ref, 1, bucket.Reply{Verdict: bucket.OK, Seq: 5})
	b.deduct(t, ref, 1, bucket.Reply{Verdict: bucket.Insufficient, Seq: 5})
	b.balance(t, ref,
		bucket.Balance{Verdict: bucket.OK, Seq: 5, GrantSeq: 1, Granted: 10, Deducted: 10})

	stranger := ref
	stranger.Activation++
	b.deduct(t, stranger, 1, bucket.Reply{Verdict: bucket.WrongActivation})
	b.close(t, ref, bucket.Reply{Verdict: bucket.OK, Seq: 6})
	b.deduct(t, ref, 1, bucket.Reply{Verdict: bucket.EpochClosed, Seq: 6})
	b.order(t, bucket.Operation{Ref: ref, MinSeq: 50, Amount: 1, Request: seen.Request},
		bucket.Reply{Verdict: bucket.EpochClosed, Seq: 6})
	b.deduct(t, nextEpoch(ref), 1, bucket.Reply{Verdict: bucket.EpochGone})
	b.wantSeqs(t, ref, 0, 10, "0 1 2 3 4 5 6")
}

func testClose(t *testing.T, b *bench) {
	ref := b.bucket()
	b.close(t, ref, bucket.Reply{Verdict: bucket.EpochGone})
	b.open(t, ref, bucket.Reply{Verdict: bucket.OK})
	b.grant(t, ref, 1, 10, bucket.Reply{Verdict: bucket.OK, Balance: 10, Seq: 1})
	b.grant(t, ref, 2, 10, bucket.Reply{Verdict: bucket.OK, Balance: 20, Seq: 2})
	b.deduct(t, ref, 3, bucket.Reply{Verdict: bucket.OK, Balance: 17, Seq: 3})
	stranger := ref
	stranger.Activation++
	b.close(t, stranger, bucket.Reply{Verdict: bucket.WrongActivation})
	b.close(t, ref, bucket.Reply{Verdict: bucket.OK, Seq: 4})
	b.close(t, ref, bucket.Reply{Verdict: bucket.Already, Seq: 4})
	b.close(t, stranger, bucket.Reply{Verdict: bucket.WrongActivation})
	b.balance(t, ref, bucket.Balance{Verdict: bucket.OK, Closed: true, Seq: 4, GrantSeq: 2,
		Granted: 20, Deducted: 3})
	entries := b.read(t, ref, 4, 10)
	if len(entries) != 1 || entries[0].Kind != ledger.KindClose || entries[0].Amount != 17 ||
		entries[0].Number != 2 {
		t.Errorf("the close entry is %+v, want 17 units after 2 grants", entries)
	}

	empty := b.bucket()
	b.open(t, empty, bucket.Reply{Verdict: bucket.OK})
	b.close(t, empty, bucket.Reply{Verdict: bucket.OK, Seq: 1})
	b.close(t, empty, bucket.Reply{Verdict: bucket.Already, Seq: 1})
}

// testLate sends what a stopped node may send at any later time.
func testLate(t *testing.T, b *bench) {
	late := func(name string, ref bucket.Ref, open, grant, deduct, closed bucket.Reply) {
		t.Helper()
		t.Run(name, func(t *testing.T) {
			for range 2 {
				b.open(t, ref, open)
				b.grant(t, ref, 1, 5, grant)
				b.grant(t, ref, 2, 5, grant)
				b.deduct(t, ref, 1, deduct)
				b.close(t, ref, closed)
			}
		})
	}
	gone := bucket.Reply{Verdict: bucket.EpochGone}
	ended := bucket.Reply{Verdict: bucket.EpochClosed, Seq: 2}

	ref := b.filled(t, 5)
	b.close(t, ref, bucket.Reply{Verdict: bucket.OK, Seq: 2})
	closed := bucket.Reply{Verdict: bucket.Already, Seq: 2}
	late("after close", ref, ended, ended, ended, closed)
	b.open(t, nextEpoch(ref), bucket.Reply{Verdict: bucket.OK})
	late("after a newer epoch", ref, ended, ended, ended, closed)
	b.forget(t, ref)
	late("after forget and a newer epoch", ref, gone, gone, gone, gone)
	b.wantSeqs(t, ref, 0, 10, "0 1 2")
	b.wantSeqs(t, nextEpoch(ref), 0, 10, "0")

	forgotten := b.filled(t, 5)
	b.close(t, forgotten, bucket.Reply{Verdict: bucket.OK, Seq: 2})
	b.forget(t, forgotten)
	late("after forget", forgotten, gone, gone, gone, gone)
	b.trim(t, forgotten, 2)
	late("after forget and trim", forgotten, gone, gone, gone, gone)
	b.wantSeqs(t, forgotten, 0, 10, "2")

	// An epoch that SQL gave up while the store still had it open: its units are elsewhere by now.
	lost := b.filled(t, 5)
	b.open(t, nextEpoch(lost), bucket.Reply{Verdict: bucket.OK})
	t.Run("open, but a newer epoch exists", func(t *testing.T) {
		b.open(t, lost, bucket.Reply{Verdict: bucket.Already, Balance: 5, Seq: 1})
		b.grant(t, lost, 1, 5, bucket.Reply{Verdict: bucket.Already, Balance: 5, Seq: 1})
		b.grant(t, lost, 2, 5, gone)
		b.grant(t, lost, 2, budget.MaxAmount, bucket.Reply{Verdict: bucket.Broken})
		b.grant(t, lost, 3, 5, bucket.Reply{Verdict: bucket.Gap, Balance: 5, Seq: 1})
		b.deduct(t, lost, 6, bucket.Reply{Verdict: bucket.Insufficient, Balance: 5, Seq: 1})
		b.deduct(t, lost, 5, gone)
		b.close(t, lost, gone)
		b.untouched(t, lost, 5)
		b.wantSeqs(t, lost, 0, 10, "0 1")
	})
}

func (b *bench) forget(t *testing.T, refs ...bucket.Ref) {
	t.Helper()
	if err := b.Store.Forget(t.Context(), b.Lane, refs); err != nil {
		t.Fatal(err)
	}
}

func (b *bench) trim(t *testing.T, ref bucket.Ref, from int64) {
	t.Helper()
	if err := b.Store.Trim(t.Context(), b.Lane, []bucket.Cursor{{Ref: ref, From: from}}); err != nil {
		t.Fatal(err)
	}
}

func testLargeAmounts(t *testing.T, b *bench) {
	const most = budget.MaxAmount
	ref := b.filled(t, most)
	b.grant(t, ref, 2, 1, bucket.Reply{Verdict: bucket.Broken}) // 2^53 is no amount
	b.grant(t, ref, 2, most, bucket.Reply{Verdict: bucket.Broken})
	b.deduct(t, ref, 1, bucket.Reply{Verdict: bucket.OK, Balance: most - 1, Seq: 2})
	b.deduct(t, ref, most, bucket.Reply{Verdict: bucket.Insufficient, Balance: most - 1, Seq: 2})
	b.grant(t, ref, 2, 1, bucket.Reply{Verdict: bucket.OK, Balance: most, Seq: 3})
	b.deduct(t, ref, most, bucket.Reply{Verdict: bucket.OK, Seq: 4})
	want := bucket.Balance{Verdict: bucket.OK, Seq: 4, GrantSeq: 2, Granted: most + 1,
		Deducted: most + 1}
	b.balance(t, ref, want)
	// The sums leave what a Lua number or a float64 holds exactly, digit by digit.
	for range 9 {
		units := most - want.Balance
		b.grant(t, ref, want.GrantSeq+1, units,
			bucket.Reply{Verdict: bucket.OK, Balance: most, Seq: want.Seq + 1})
		b.deduct(t, ref, most-2, bucket.Reply{Verdict: bucket.OK, Balance: 2, Seq: want.Seq + 2})
		want.Seq, want.GrantSeq, want.Balance = want.Seq+2, want.GrantSeq+1, 2
		want.Granted, want.Deducted = want.Granted+units, want.Deducted+most-2
		b.balance(t, ref, want)
	}
	// Many in one call: the sums of the call must not be rounded either.
	var orders []bucket.GrantOrder
	for i := range int64(3) {
		orders = append(orders,
			bucket.GrantOrder{Ref: ref, Number: want.GrantSeq + 1 + i, Amount: most / 4})
	}
	got, err := b.Store.Grant(t.Context(), b.Lane, orders)
	if err != nil || len(got) != 3 {
		t.Fatalf("grants: %v, %v", got, err)
	}
	sameReply(t, "the last grant", got[2],
		bucket.Reply{Verdict: bucket.OK, Balance: 2 + 3*(most/4), Seq: want.Seq + 3})
	want.Seq, want.GrantSeq, want.Balance = want.Seq+3, want.GrantSeq+3, 2+3*(most/4)
	want.Granted += 3 * (most / 4)
	b.balance(t, ref, want)
	b.close(t, ref, bucket.Reply{Verdict: bucket.OK, Seq: want.Seq + 1})
	last := b.read(t, ref, want.Seq+1, 1)
	if len(last) != 1 || last[0].Amount != want.Balance {
		t.Errorf("the close entry is %+v, want %d units", last, want.Balance)
	}
}
