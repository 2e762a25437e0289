package storetest

import (
	"fmt"
	"testing"

	"github.com/budgetd/budgetd/bucket"
	"github.com/budgetd/budgetd/budget"
)

// capped is a Recorded with a ceiling.
func capped(ref bucket.Ref, amount int64, id string, ceiling int64) bucket.Operation {
	o := Recorded(ref, amount, id)
	o.Ceiling = ceiling
	return o
}

func (b *bench) orders(t *testing.T, operations []bucket.Operation, want []bucket.Reply) {
	t.Helper()
	got, err := b.Store.Deduct(t.Context(), b.Lane, operations)
	if err != nil || len(got) != len(want) {
		t.Fatalf("deduct %d: %d answers, error %v", len(operations), len(got), err)
	}
	for i := range want {
		sameReply(t, fmt.Sprintf("deduction %d of a call", i), got[i], want[i])
	}
}

// testCeiling: the sum of deductions may reach the ceiling and not pass it, whatever the ceiling was
// before; it is the sum of all deductions, recorded or not.
func testCeiling(t *testing.T, b *bench) {
	ref := b.filled(t, 100)
	b.order(t, capped(ref, 11, "a", 10), bucket.Reply{Verdict: bucket.Behind, Balance: 100, Seq: 1})
	b.order(t, capped(ref, 10, "b", 10),
		bucket.Reply{Verdict: bucket.OK, Balance: 90, Seq: 2, Deducted: 10})
	b.order(t, capped(ref, 1, "c", 10),
		bucket.Reply{Verdict: bucket.Behind, Balance: 90, Seq: 2, Deducted: 10})
	b.order(t, capped(ref, 1, "c", 5),
		bucket.Reply{Verdict: bucket.Behind, Balance: 90, Seq: 2, Deducted: 10})
	b.order(t, capped(ref, 1, "c", 11),
		bucket.Reply{Verdict: bucket.OK, Balance: 89, Seq: 3, Deducted: 11})
	b.deduct(t, ref, 4, bucket.Reply{Verdict: bucket.OK, Balance: 85, Seq: 4})
	b.order(t, capped(ref, 2, "d", 16),
		bucket.Reply{Verdict: bucket.Behind, Balance: 85, Seq: 4, Deducted: 15})
	b.order(t, capped(ref, 1, "d", 16),
		bucket.Reply{Verdict: bucket.OK, Balance: 84, Seq: 5, Deducted: 16})
	b.order(t, Recorded(ref, 80, "e"), // no bound
		bucket.Reply{Verdict: bucket.OK, Balance: 4, Seq: 6, Deducted: 96})
	b.balance(t, ref, bucket.Balance{Verdict: bucket.OK, Seq: 6, GrantSeq: 1, Balance: 4, Granted: 100,
		Deducted: 96})
}

// testCeilingOneCall: every operation counts for those after it in the call; a refused one does not.
func testCeilingOneCall(t *testing.T, b *bench) {
	ref := b.filled(t, 100)
	b.orders(t, []bucket.Operation{
		capped(ref, 4, "a", 10), capped(ref, 5, "b", 10), capped(ref, 2, "c", 10),
		capped(ref, 200, "d", 500), capped(ref, 4, "a", 10), capped(ref, 1, "e", 10),
		capped(ref, 1, "f", 10), capped(ref, 1, "g", 11), Recorded(ref, 1, "h"),
		capped(ref, 1, "i", 11),
	}, []bucket.Reply{
		{Verdict: bucket.OK, Balance: 96, Seq: 2, Deducted: 4},
		{Verdict: bucket.OK, Balance: 91, Seq: 3, Deducted: 9},
		{Verdict: bucket.Behind, Balance: 91, Seq: 3, Deducted: 9},
		{Verdict: bucket.Insufficient, Balance: 91, Seq: 3},
		{Verdict: bucket.Recorded, Balance: 91, Seq: 3, Record: recordOf(capped(ref, 4, "a", 10), 2)},
		{Verdict: bucket.OK, Balance: 90, Seq: 4, Deducted: 10},
		{Verdict: bucket.Behind, Balance: 90, Seq: 4, Deducted: 10},
		{Verdict: bucket.OK, Balance: 89, Seq: 5, Deducted: 11},
		{Verdict: bucket.OK, Balance: 88, Seq: 6, Deducted: 12},
		{Verdict: bucket.Behind, Balance: 88, Seq: 6, Deducted: 12},
	})
	b.balance(t, ref, bucket.Balance{Verdict: bucket.OK, Seq: 6, GrantSeq: 1, Balance: 88,
		Granted: 100, Deducted: 12})
}

// testCeilingLarge: exact up to the largest amount; above it no ceiling admits anything.
func testCeilingLarge(t *testing.T, b *bench) {
	const most = budget.MaxAmount
	ref := b.filled(t, most)
	b.order(t, capped(ref, most, "a", most-1),
		bucket.Reply{Verdict: bucket.Behind, Balance: most, Seq: 1})
	b.order(t, capped(ref, most-1, "a", most-1),
		bucket.Reply{Verdict: bucket.OK, Balance: 1, Seq: 2, Deducted: most - 1})
	b.order(t, capped(ref, 1, "b", most-1),
		bucket.Reply{Verdict: bucket.Behind, Balance: 1, Seq: 2, Deducted: most - 1})
	b.grant(t, ref, 2, most-1, bucket.Reply{Verdict: bucket.OK, Balance: most, Seq: 3})
	b.order(t, capped(ref, most, "b", most),
		bucket.Reply{Verdict: bucket.Behind, Balance: most, Seq: 3, Deducted: most - 1})
	b.order(t, capped(ref, 2, "b", most),
		bucket.Reply{Verdict: bucket.Behind, Balance: most, Seq: 3, Deducted: most - 1})
	b.order(t, capped(ref, 1, "b", most),
		bucket.Reply{Verdict: bucket.OK, Balance: most - 1, Seq: 4, Deducted: most})
	for _, id := range []string{"c", "d"} {
		got, err := b.Store.Deduct(t.Context(), b.Lane, []bucket.Operation{capped(ref, 1, id, most),
			Recorded(ref, 1, id)})
		if err != nil || got[0].Verdict != bucket.Behind || got[0].Deducted < most ||
			got[1].Verdict != bucket.OK || got[1].Deducted < most {
			t.Errorf("beyond the largest amount: %+v, %v", got, err)
		}
	}
	b.balance(t, ref, bucket.Balance{Verdict: bucket.OK, Seq: 6, GrantSeq: 2, Balance: most - 3,
		Granted: 2*most - 1, Deducted: most + 2})
}

// testSameIDInOneCall: the second sees the record of the first, in its epoch.
func testSameIDInOneCall(t *testing.T, b *bench) {
	ref, other := b.filled(t, 10), b.filled(t, 10)
	first, second := Recorded(ref, 2, "a"), Recorded(ref, 5, "a")
	second.Request.Nonce = "another."
	elsewhere := Recorded(other, 3, "a")
	b.orders(t, []bucket.Operation{Recorded(ref, 11, "a"), first, elsewhere, second,
		Recorded(other, 1, "b"), elsewhere, first}, []bucket.Reply{
		{Verdict: bucket.Insufficient, Balance: 10, Seq: 1},
		{Verdict: bucket.OK, Balance: 8, Seq: 2, Deducted: 2},
		{Verdict: bucket.OK, Balance: 7, Seq: 2, Deducted: 3},
		{Verdict: bucket.Recorded, Balance: 8, Seq: 2, Record: recordOf(first, 2)},
		{Verdict: bucket.OK, Balance: 6, Seq: 3, Deducted: 4},
		{Verdict: bucket.Recorded, Balance: 6, Seq: 3, Record: recordOf(elsewhere, 2)},
		{Verdict: bucket.Recorded, Balance: 8, Seq: 2, Record: recordOf(first, 2)},
	})
	b.order(t, second, bucket.Reply{Verdict: bucket.Recorded, Balance: 8, Seq: 2,
		Record: recordOf(first, 2)})
}

// testMixedCall: operations with and without records, on the same epoch and on others, in one call:
// each is answered as if it were alone.
func testMixedCall(t *testing.T, b *bench) {
	store, plain := b.filled(t, 100), b.filled(t, 100)
	b.orders(t, []bucket.Operation{
		Deduction(plain, 1, "a"), Recorded(store, 2, "a"), Deduction(store, 3, "a"),
		Deduction(plain, 1, "a"), Recorded(store, 2, "a"), Deduction(nextEpoch(plain), 1, "a"),
		Deduction(store, 5, "b"), capped(store, 1, "b", 10), capped(store, 1, "c", 10),
		Recorded(nextEpoch(store), 1, "a"), Deduction(plain, 98, "b"), Deduction(plain, 99, "b"),
	}, []bucket.Reply{
		{Verdict: bucket.OK, Balance: 99, Seq: 2},
		{Verdict: bucket.OK, Balance: 98, Seq: 2, Deducted: 2},
		{Verdict: bucket.OK, Balance: 95, Seq: 3},
		{Verdict: bucket.OK, Balance: 98, Seq: 3},
		{Verdict: bucket.Recorded, Balance: 95, Seq: 3, Record: recordOf(Recorded(store, 2, "a"), 2)},
		{Verdict: bucket.EpochGone},
		{Verdict: bucket.OK, Balance: 90, Seq: 4},
		{Verdict: bucket.Behind, Balance: 90, Seq: 4, Deducted: 10},
		{Verdict: bucket.Behind, Balance: 90, Seq: 4, Deducted: 10},
		{Verdict: bucket.EpochGone},
		{Verdict: bucket.OK, Seq: 4},
		{Verdict: bucket.Insufficient, Seq: 4},
	})
	b.wantSeqs(t, store, 0, 10, "0 1 2 3 4")
	b.wantSeqs(t, plain, 0, 10, "0 1 2 3 4")
}

// testManyRecords: one call on one epoch with more ids than a script can unpack at once.
func testManyRecords(t *testing.T, b *bench) {
	const n = 9001
	ref, other := b.filled(t, n), b.filled(t, 1)
	operations, voids := make([]bucket.Operation, n), make([]bucket.VoidOrder, n)
	for i := range operations {
		operations[i] = Recorded(ref, 1, fmt.Sprint(i))
		voids[i] = bucket.VoidOrder{Ref: other, RequestID: fmt.Sprint(i)}
	}
	for again := range 2 {
		got, err := b.Store.Deduct(t.Context(), b.Lane, operations)
		if err != nil {
			t.Fatal(err)
		}
		gone, err := b.Store.(bucket.Records).Void(t.Context(), b.Lane, voids)
		if err != nil {
			t.Fatal(err)
		}
		for i := range operations {
			seq := int64(i + 2)
			want := bucket.Reply{Verdict: bucket.OK, Balance: n + 1 - seq, Seq: seq, Deducted: seq - 1}
			wantGone := bucket.Reply{Verdict: bucket.OK, Balance: 1, Seq: 1}
			if again > 0 {
				want = bucket.Reply{Verdict: bucket.Recorded, Seq: n + 1,
					Record: recordOf(operations[i], seq)}
				wantGone = voided(1, 1)
			}
			sameReply(t, fmt.Sprint("deduction ", i), got[i], want)
			sameReply(t, fmt.Sprint("void ", i), gone[i], wantGone)
			if t.Failed() {
				return
			}
		}
	}
}
