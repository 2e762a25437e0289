package redisstore_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/redis/go-redis/v9"

	"github.com/budgetd/budgetd/bucket"
	"github.com/budgetd/budgetd/internal/redisstore"
	"github.com/budgetd/budgetd/internal/storetest"
	"github.com/budgetd/budgetd/ledger"
)

const (
	tamperedBalance = "budgetd:test:{r1/0}:5:1:balance:1"
	tamperedLog     = "budgetd:test:{r1/0}:5:log:1"
)

// TestTampered: one bucket's broken key is that bucket's answer, in every verb, and no other's.
func TestTampered(t *testing.T) {
	type keys = redis.Client
	hash := func(field string, value any) func(context.Context, *keys) error {
		return func(ctx context.Context, c *keys) error {
			return c.HSet(ctx, tamperedBalance, field, value).Err()
		}
	}
	replaced := func(key string, with ...any) func(context.Context, *keys) error {
		return func(ctx context.Context, c *keys) error {
			return errors.Join(c.Del(ctx, key).Err(), c.Do(ctx, with...).Err())
		}
	}
	// rewritten replaces the log by its last entry in other fields.
	rewritten := func(fields func(text any) []any) func(context.Context, *keys) error {
		return func(ctx context.Context, c *keys) error {
			last, err := c.XRange(ctx, tamperedLog, "1-1", "1-1").Result()
			if err != nil || len(last) != 1 {
				return errors.Join(err, errors.New("there is no entry 1"))
			}
			return errors.Join(c.Del(ctx, tamperedLog).Err(), c.XAdd(ctx, &redis.XAddArgs{
				Stream: tamperedLog, ID: "1-1", Values: fields(last[0].Values["e"])}).Err())
		}
	}
	const all = "open grant deduct close balances"
	tests := []struct {
		name   string
		tamper func(context.Context, *keys) error
		// broken are the verbs that answer Broken, or for read a Mismatch; the others answer as if
		// nothing were wrong.
		broken string
	}{
		{"nothing", func(context.Context, *keys) error { return nil }, ""},
		{"balance is abc", hash("balance", "abc"), all},
		{"balance is empty", hash("balance", ""), all},
		{"balance is negative", hash("balance", "-1"), all},
		{"balance is a fraction", hash("balance", "99.5"), all},
		{"balance is a float", hash("balance", "1e2"), all},
		{"balance is hexadecimal", hash("balance", "0x10"), all},
		{"balance begins with 0", hash("balance", "0100"), all},
		{"balance begins with a space", hash("balance", " 100"), all},
		{"balance is 2^53", hash("balance", "9007199254740992"), all},
		{"balance is long", hash("balance", strings.Repeat("9", 400)), all},
		{"balance is inf", hash("balance", "inf"), all},
		{"seq is nan", hash("seq", "nan"), all},
		{"grant_seq is abc", hash("grant_seq", "abc"), all},
		{"granted is abc", hash("granted", "abc"), all},
		{"granted is 10^18", hash("granted", "1"+strings.Repeat("0", 18)), all},
		{"deducted is a float", hash("deducted", "0.0"), all},
		{"state is unknown", hash("state", "half open"), all},
		{"activation is abc", hash("activation", "abc"), all},
		{"chain is short", hash("chain", "abc"), all},
		{"limits is abc", hash("limits", "abc"), "open grant deduct close"},
		{"a field is missing", func(ctx context.Context, c *keys) error {
			return c.HDel(ctx, tamperedBalance, "deducted").Err()
		}, all},
		{"balance is a string", replaced(tamperedBalance, "SET", tamperedBalance, "100"), all},
		{"balance is a stream", replaced(tamperedBalance, "XADD", tamperedBalance, "*", "a", "b"), all},
		{"log is a list", replaced(tamperedLog, "RPUSH", tamperedLog, "x"), "grant deduct close read"},
		{"log is a string", replaced(tamperedLog, "SET", tamperedLog, "x"), "grant deduct close read"},
		{"log is ahead", func(ctx context.Context, c *keys) error {
			return c.Do(ctx, "XADD", tamperedLog, "1-2", "e", "x").Err()
		}, "grant deduct close read"},
		{"log is far ahead", func(ctx context.Context, c *keys) error {
			return c.Do(ctx, "XADD", tamperedLog, "1-18446744073709551615", "e", "x").Err()
		}, "grant deduct close read"},
		{"log lost its end", func(ctx context.Context, c *keys) error {
			return errors.Join(c.Do(ctx, "XADD", tamperedLog, "1-2", "e", "x").Err(),
				c.XDel(ctx, tamperedLog, "1-2").Err())
		}, "grant close"}, // two deductions are appended as 1-3
		{"log with another field", rewritten(func(text any) []any { return []any{"f", text} }), "read"},
		{"log with another second field",
			rewritten(func(text any) []any { return []any{"e", text, "f", text} }), "read"},
		{"log with an entry before the first",
			rewritten(func(text any) []any { return []any{"e", text, "e", text, "e", text} }), "read"},
		{"log with a foreign entry", replaced(tamperedLog, "XADD", tamperedLog, "1-1", "e", "x"), "read"},
	}
	_, store, raw := serving(t)
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			ctx := t.Context()
			got := make(map[string]string)
			for _, verb := range strings.Fields(all + " read") {
				must(t, raw.FlushAll(ctx).Err())
				for _, id := range []int64{4, 5, 6} {
					fill(t, store, bucket.Ref{Bucket: id, Epoch: 1, Activation: 1}, 100)
				}
				must(t, test.tamper(ctx, raw))
				got[verb] = tampered(ctx, t, store, verb)
			}
			for verb, answer := range got {
				want := "fine"
				if strings.Contains(" "+test.broken+" ", " "+verb+" ") {
					want = "broken"
				}
				if answer != want {
					t.Errorf("%s: %s, want %s", verb, answer, want)
				}
			}
		})
	}
}

// tampered sends one call of a verb to the buckets 4, 5, 6 and 5 again, and returns what bucket 5
// answered, which must be the same twice. The others must answer as always.
func tampered(ctx context.Context, t *testing.T, store *redisstore.Store, verb string) string {
	t.Helper()
	var refs []bucket.Ref
	var orders []bucket.GrantOrder
	var operations []bucket.Operation
	var cursors []bucket.Cursor
	for _, id := range []int64{4, 5, 6, 5} {
		ref := bucket.Ref{Bucket: id, Epoch: 1, Activation: 1}
		refs = append(refs, ref)
		orders = append(orders, bucket.GrantOrder{Ref: ref, Number: 2, Amount: 1})
		operations = append(operations, storetest.Deduction(ref, 1, "x"))
		cursors = append(cursors, bucket.Cursor{Ref: ref, From: 1})
	}
	// once: the second time it is Already, not OK.
	replies, once := []bucket.Reply(nil), false
	var err error
	switch verb {
	case "open":
		replies, err = store.Open(ctx, lane0, refs)
		for i := range replies {
			if replies[i].Verdict == bucket.Already {
				replies[i].Verdict = bucket.OK
			}
		}
	case "grant":
		replies, err = store.Grant(ctx, lane0, orders)
		once = true
	case "deduct":
		replies, err = store.Deduct(ctx, lane0, operations)
	case "close":
		replies, err = store.Close(ctx, lane0, refs)
		once = true
	case "balances":
		var balances []bucket.Balance
		balances, err = store.Balances(ctx, lane0, refs)
		for _, b := range balances {
			replies = append(replies, bucket.Reply{Verdict: b.Verdict, Why: b.Why})
		}
	case "read":
		var extracts []bucket.Extract
		extracts, err = store.Read(ctx, lane0, cursors, 10)
		for _, e := range extracts {
			reply := bucket.Reply{Verdict: bucket.OK}
			var mismatch *ledger.Mismatch
			if errors.As(e.Err, &mismatch) {
				reply = bucket.Reply{Verdict: bucket.Broken, Why: mismatch.Why}
			} else if e.Err != nil || len(e.Entries) != 1 || e.Entries[0].Seq != 1 {
				t.Errorf("read: %+v", e)
			}
			replies = append(replies, reply)
		}
	}
	if err != nil {
		t.Fatalf("%s: %v", verb, err)
	}
	if replies[0].Verdict != bucket.OK || replies[2].Verdict != bucket.OK {
		t.Errorf("%s: the others answered %+v and %+v", verb, replies[0], replies[2])
	}
	switch first, second := replies[1], replies[3]; {
	case first.Verdict == bucket.Broken && second == first && first.Why != "":
		return "broken"
	case first.Verdict == bucket.OK && second.Verdict == bucket.OK && !once,
		first.Verdict == bucket.OK && second.Verdict == bucket.Already && once:
		return "fine"
	default:
		t.Errorf("%s: %+v, then %+v", verb, first, second)
		return "strange"
	}
}

// TestLogGap: an entry that is missing in the middle ends the extract; what precedes it is given.
func TestLogGap(t *testing.T) {
	_, store, raw := serving(t)
	for range 3 {
		_, err := deduct(t.Context(), store)
		must(t, err)
	}
	must(t, raw.XDel(t.Context(), "budgetd:test:{r1/0}:1:log:1", "1-3").Err())
	got, err := store.Read(t.Context(), lane0, []bucket.Cursor{{Ref: ref1, From: 1}}, 10)
	must(t, err)
	var mismatch *ledger.Mismatch
	if !errors.As(got[0].Err, &mismatch) || len(got[0].Entries) != 2 {
		t.Errorf("read %+v", got[0])
	}
}

// TestLogReplaced: a log that is none does not keep its bucket from a new life.
func TestLogReplaced(t *testing.T) {
	_, store, raw := serving(t)
	old := bucket.Ref{Bucket: 5, Epoch: 1, Activation: 1}
	fill(t, store, old, 100)
	must(t, errors.Join(raw.Del(t.Context(), tamperedLog).Err(),
		raw.RPush(t.Context(), tamperedLog, "x").Err()))
	ref := old
	ref.Epoch++
	fill(t, store, ref, 7)
	got, err := store.Read(t.Context(), lane0, []bucket.Cursor{{Ref: ref}, {Ref: old}}, 10)
	must(t, err)
	if len(got[0].Entries) != 2 || got[0].Err != nil || len(got[1].Entries) != 0 || got[1].Err != nil {
		t.Errorf("the log after its replacement: %+v", got)
	}
	replies, err := store.Deduct(t.Context(), lane0,
		[]bucket.Operation{storetest.Deduction(old, 1, "x")})
	must(t, err)
	if replies[0].Verdict != bucket.EpochGone {
		t.Errorf("the old life answers %+v", replies[0])
	}
}

// TestDiscard: a log that ends beyond the epoch to be opened is deleted, if it still ends there, and the
// epoch can be opened then; any other log stays.
func TestDiscard(t *testing.T) {
	_, store, raw := serving(t)
	ctx := t.Context()
	next := bucket.Ref{Bucket: 5, Epoch: 2, Activation: 1}
	open := func() bucket.Reply {
		t.Helper()
		replies, err := store.Open(ctx, lane0, []bucket.Ref{next})
		must(t, err)
		return replies[0]
	}
	discard := func(ref bucket.Ref, last string) bool {
		t.Helper()
		gone, err := store.Discard(ctx, lane0, []bucket.LogEnd{{Ref: ref1, Last: "1-1"}, {Ref: ref, Last: last}})
		must(t, err)
		if len(gone) != 2 || gone[0] {
			t.Fatalf("%v: a log that ends in its epoch was deleted", gone)
		}
		return gone[1]
	}
	for _, forged := range []string{"3-0", "1790000000000-0", "9007199254740991-7", "18446744073709551615-18446744073709551615"} {
		must(t, raw.Del(ctx, tamperedLog).Err())
		fill(t, store, bucket.Ref{Bucket: 5, Epoch: 1, Activation: 1}, 100)
		must(t, raw.XAdd(ctx, &redis.XAddArgs{Stream: tamperedLog, ID: forged, Values: []string{"e", "x"}}).Err())
		if r := open(); r != (bucket.Reply{Verdict: bucket.EpochGone, Why: forged}) {
			t.Errorf("open with a log up to %s: %+v", forged, r)
		}
		if discard(next, "3-1") || discard(bucket.Ref{Bucket: 5, Epoch: 1 << 52, Activation: 1}, "3-0") {
			t.Error("a log that ends elsewhere was deleted")
		}
		if !discard(next, forged) || discard(next, forged) {
			t.Errorf("a log up to %s was not deleted once", forged)
		}
		if r := open(); r.Verdict != bucket.OK || r.Why != "" {
			t.Errorf("open afterwards: %+v", r)
		}
		if r := open(); r.Verdict != bucket.Already {
			t.Errorf("open again: %+v", r)
		}
		if discard(next, "2-0") || discard(next, forged) {
			t.Error("the log of a life was deleted")
		}
		must(t, store.Forget(ctx, lane0, []bucket.Ref{next, {Bucket: 5, Epoch: 1, Activation: 1}}))
	}
	if r := open(); r != (bucket.Reply{Verdict: bucket.EpochGone}) {
		t.Errorf("open of an epoch that the log holds: %+v", r)
	}
	must(t, raw.Del(ctx, tamperedLog).Err())
	must(t, raw.Set(ctx, tamperedLog, "x", 0).Err())
	if discard(next, "x") {
		t.Error("what is no log was deleted")
	}
}

// TestTrimLeavesBroken: trimming a log that is none changes nothing, and neither that nor a log
// with strange ids fails the others.
func TestTrimLeavesBroken(t *testing.T) {
	_, store, raw := serving(t)
	ctx := t.Context()
	must(t, raw.Set(ctx, tamperedLog, "x", 0).Err())
	cursors := []bucket.Cursor{{Ref: bucket.Ref{Bucket: 5, Epoch: 1, Activation: 1}, From: 1}}
	for i, id := range []string{"1-18446744073709551615", "0-18446744073709551615",
		"18446744073709551615-18446744073709551615"} {
		other := bucket.Ref{Bucket: int64(6 + i), Epoch: 1, Activation: 1}
		key := strings.Replace(tamperedLog, ":5:", fmt.Sprintf(":%d:", other.Bucket), 1)
		must(t, raw.Do(ctx, "XADD", key, id, "e", "x").Err())
		cursors = append(cursors, bucket.Cursor{Ref: other, From: 1})
	}
	must(t, store.Trim(ctx, lane0, append(cursors, bucket.Cursor{Ref: ref1, From: 1})))
	if v := raw.Get(ctx, tamperedLog).Val(); v != "x" {
		t.Errorf("the broken log is %q", v)
	}
	got, err := store.Read(ctx, lane0, []bucket.Cursor{{Ref: ref1}}, 10)
	must(t, err)
	if len(got[0].Entries) != 1 {
		t.Errorf("%d entries stay, want 1", len(got[0].Entries))
	}
}
