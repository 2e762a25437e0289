package redisstore_test

import (
	"fmt"
	"reflect"
	"testing"

	"github.com/budgetd/budgetd/bucket"
	"github.com/budgetd/budgetd/budget"
	"github.com/budgetd/budgetd/internal/storetest"
	"github.com/budgetd/budgetd/ledger"
)

// TestAppendedTogether: what a call appends to a log shares entries of the stream, 128 at most each, and is read from
// any position to any length; trimming keeps what shares one with the first that stays.
func TestAppendedTogether(t *testing.T) {
	_, store, raw := serving(t)
	ctx, at := t.Context(), bucket.Ref{Bucket: 5, Epoch: 1, Activation: 1}
	fill(t, store, at, 1000) // entries 0 and 1
	const last = 1 + 300 + 1
	for _, n := range []int{300, 1} {
		operations := make([]bucket.Operation, n)
		for i := range operations {
			operations[i] = storetest.Deduction(at, 1, fmt.Sprintf("r-%d-%d", n, i))
		}
		replies, err := store.Deduct(ctx, lane0, operations)
		must(t, err)
		for i, r := range replies {
			if r.Verdict != bucket.OK {
				t.Fatalf("%d of %d: %+v", i, n, r)
			}
		}
	}
	if n := raw.XLen(ctx, tamperedLog).Val(); n != 2+3+1 {
		t.Errorf("the stream has %d entries, want 6", n)
	}
	read := func(from int64, limit int) []ledger.Entry {
		t.Helper()
		got, err := store.Read(ctx, lane0, []bucket.Cursor{{Ref: at, From: from}}, limit)
		must(t, err)
		must(t, got[0].Err)
		return got[0].Entries
	}
	all := read(0, 1000)
	for i, e := range all {
		if e.Seq != int64(i) || (i > 0 && e.Chain != ledger.Chain(all[i-1].Chain, e.Line)) {
			t.Fatalf("entry %d: %+v", i, e)
		}
	}
	if len(all) != last+1 {
		t.Fatalf("%d entries, want %d", len(all), last+1)
	}
	for from := range int64(last + 2) {
		for _, limit := range []int{1, 2, 32, 127, 128, 129, 1000} {
			got, want := read(from, limit), all[from:min(int(from)+limit, len(all))]
			if len(got) != len(want) || (len(got) > 0 && (got[0] != want[0] || got[len(got)-1] != want[len(want)-1])) {
				t.Fatalf("from %d, at most %d: %d entries, want %d", from, limit, len(got), len(want))
			}
		}
	}
	must(t, store.Trim(ctx, lane0, []bucket.Cursor{{Ref: at, From: 140}})) // of 130 to 257
	if got := read(0, 1000); len(got) != last+1-130 || got[0] != all[130] {
		t.Errorf("trimmed below 140: %d entries from %d, want %d from 130", len(got), got[0].Seq, last+1-130)
	}
}

// TestReadWhileAppended: a log that grows by more than is read at once while it is being read has no gap.
func TestReadWhileAppended(t *testing.T) {
	_, store, _ := serving(t)
	ctx, at := t.Context(), bucket.Ref{Bucket: 5, Epoch: 1, Activation: 1}
	const calls, size = 100, 512
	fill(t, store, at, calls*size)
	done := make(chan error, 1)
	go func() {
		for call := range calls {
			operations := make([]bucket.Operation, size)
			for i := range operations {
				operations[i] = storetest.Deduction(at, 1, fmt.Sprintf("r-%d-%d", call, i))
			}
			if _, err := store.Deduct(ctx, lane0, operations); err != nil {
				done <- err
				return
			}
		}
		done <- nil
	}()
	cursors := make([]bucket.Cursor, 1000) // more than a server takes from a connection at once
	for len(done) == 0 {
		balances, err := store.Balances(ctx, lane0, []bucket.Ref{at})
		must(t, err)
		for i := range cursors {
			cursors[i] = bucket.Cursor{Ref: at, From: balances[0].Seq}
		}
		got, err := store.Read(ctx, lane0, cursors, 2)
		must(t, err)
		for _, extract := range got {
			must(t, extract.Err)
			if n := len(extract.Entries); n == 0 || extract.Entries[0].Seq != balances[0].Seq {
				t.Fatalf("%d entries from %d on", n, balances[0].Seq)
			}
		}
	}
	must(t, <-done)
}

// TestManyInOneCall: more operations, values and counts than a script takes at once, some of them repetitions, are
// answered like few: each with balance, seq, sum and counters as they were left by those before it.
func TestManyInOneCall(t *testing.T) {
	_, store, _ := serving(t)
	ctx, at := t.Context(), bucket.Ref{Bucket: 5, Epoch: 1, Activation: 1}
	const size, values, total = 5000, 3000, 1_000_000
	fill(t, store, at, total)
	other := aCount
	other.Limit, other.Window = "per-user-day", bucket.CountWindow{Kind: budget.WindowCalendar, End: budget.MaxAmount}
	used, taken := make([]int64, values), int64(0)
	for call := range 2 {
		operations := make([]bucket.Operation, size)
		for i := range operations {
			one, two := aCount, other
			one.Value = fmt.Sprint("v", i%values)
			one.Max, two.Max, two.Value, two.Add = bucket.NoMax, bucket.NoMax, one.Value, 3
			id := fmt.Sprintf("r-%d-%d", call, i-i%10/9) // every tenth is that of the one before
			operations[i] = storetest.Limited(at, id, 0, one, two)
		}
		replies, err := store.Deduct(ctx, lane0, operations)
		must(t, err)
		for i, r := range replies {
			if i%10 == 9 {
				if r.Verdict != bucket.Recorded || r.Record.Seq != 1+taken || r.Counted != nil {
					t.Fatalf("call %d, %d: %+v, %+v", call, i, r, r.Record)
				}
			} else {
				taken++
				used[i%values]++
				n := used[i%values]
				want := bucket.Counted{Now: r.Counted.Now, Over: -1, Limits: []bucket.CountState{{Used: n},
					{Used: 3 * n, Reset: budget.MaxAmount}}}
				if r.Verdict != bucket.OK || r.Deducted != taken || !reflect.DeepEqual(*r.Counted, want) {
					t.Fatalf("call %d, %d: %+v, %+v, want %+v", call, i, r, r.Counted, want)
				}
			}
			if r.Balance != total-taken || r.Seq != 1+taken {
				t.Fatalf("call %d, %d: %+v, want balance %d", call, i, r, total-taken)
			}
		}
	}
}
