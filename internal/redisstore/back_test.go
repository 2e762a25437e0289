package redisstore_test

import (
	"testing"

	"github.com/budgetd/budgetd/bucket"
	"github.com/budgetd/budgetd/internal/storetest"
	"github.com/budgetd/budgetd/internal/testservers"
)

// wentBack serves a bucket of 100 units that was saved, makes a deduction of each kind, and lets the server go back
// by a command that keeps its run id and its scripts. It returns a next deduction of each kind, from a caller who
// knows the end of the log.
func wentBack(t *testing.T, command ...any) (bucket.Instance, []bucket.Operation) {
	t.Helper()
	_, store, raw := serving(t, testservers.RedisArgs("--enable-debug-command", "yes"))
	ctx := t.Context()
	must(t, raw.Save(ctx).Err())
	kinds := func(id string) []bucket.Operation { // in this order: limits, once known, outdate a record without them
		return []bucket.Operation{storetest.Deduction(ref1, 1, id), storetest.Recorded(ref1, 1, id+", recorded"),
			storetest.Limited(ref1, id+", limited", 0, aCount)}
	}
	seq := int64(1) // of the grant
	for _, o := range kinds("before") {
		got, err := store.Deduct(ctx, lane0, []bucket.Operation{o})
		if seq++; err != nil || got[0].Verdict != bucket.OK || got[0].Seq != seq {
			t.Fatalf("%s: %+v, %v", o.Request.ID, got, err)
		}
	}
	who, err := store.Identity(ctx, lane0)
	must(t, err)
	must(t, raw.Do(ctx, command...).Err())
	if now, err := store.Identity(ctx, lane0); err != nil || now != who {
		t.Fatalf("identity %q, before %q; %v", now, who, err)
	}
	next := kinds("after")
	for i := range next {
		next[i].MinSeq = seq
	}
	return store, next
}

// TestReload: a server that goes back to what it had saved, and is the same in every other way, takes no deduction
// from a caller who knows more of the log.
func TestReload(t *testing.T) {
	store, next := wentBack(t, "DEBUG", "RELOAD", "NOSAVE")
	for _, o := range next {
		got, err := store.Deduct(t.Context(), lane0, []bucket.Operation{o})
		if err != nil || got[0].Verdict != bucket.WentBack || got[0].Seq != 1 {
			t.Errorf("%s: %+v, %v", o.Request.ID, got, err)
		}
	}
	want := bucket.Balance{Verdict: bucket.OK, Seq: 1, GrantSeq: 1, Balance: 100, Granted: 100}
	if got, err := store.Balances(t.Context(), lane0, []bucket.Ref{ref1}); err != nil || got[0] != want {
		t.Errorf("%+v, %v", got, err)
	}
}

// TestFlushAll: a server that was emptied, and is the same in every other way, knows no epoch: it takes, gives and
// closes nothing.
func TestFlushAll(t *testing.T) {
	store, next := wentBack(t, "FLUSHALL")
	ctx := t.Context()
	gone := func(what string, got []bucket.Reply, err error) {
		t.Helper()
		if err != nil || got[0].Verdict != bucket.EpochGone {
			t.Errorf("%s: %+v, %v", what, got, err)
		}
	}
	for _, o := range next {
		got, err := store.Deduct(ctx, lane0, []bucket.Operation{o})
		gone(o.Request.ID, got, err)
	}
	got, err := store.Grant(ctx, lane0, []bucket.GrantOrder{{Ref: ref1, Number: 2, Amount: 1}})
	gone("grant", got, err)
	got, err = store.Close(ctx, lane0, []bucket.Ref{ref1})
	gone("close", got, err)
	got, err = store.(bucket.Records).Void(ctx, lane0, []bucket.VoidOrder{{Ref: ref1, RequestID: "x"}})
	gone("void", got, err)
	balances, err := store.Balances(ctx, lane0, []bucket.Ref{ref1})
	if err != nil || balances[0].Verdict != bucket.EpochGone {
		t.Errorf("balance: %+v, %v", balances, err)
	}
}
