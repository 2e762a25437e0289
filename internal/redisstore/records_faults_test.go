package redisstore_test

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"github.com/redis/go-redis/v9"

	"github.com/budgetd/budgetd/bucket"
	"github.com/budgetd/budgetd/budget"
	"github.com/budgetd/budgetd/internal/redisstore"
	"github.com/budgetd/budgetd/internal/storetest"
)

// TestRecordsTampered: a record key that is none, a slice that is none: Broken for every id, a
// record that is none for its id; before anything is written, in both verbs, and in no other bucket.
// What needs no records is done as ever.
func TestRecordsTampered(t *testing.T) {
	key := func(key string, command ...any) func(context.Context, *redis.Client) error {
		return func(ctx context.Context, c *redis.Client) error {
			if err := c.Del(ctx, key).Err(); err != nil {
				return err
			}
			return c.Do(ctx, command...).Err()
		}
	}
	slice := func(text string) func(context.Context, *redis.Client) error {
		return func(ctx context.Context, c *redis.Client) error {
			return c.HSet(ctx, balanceKey1, "slice", text).Err()
		}
	}
	record := func(text string) func(context.Context, *redis.Client) error {
		return func(ctx context.Context, c *redis.Client) error {
			for _, key := range []string{r0, r1} {
				if err := c.HSet(ctx, key, "a", text).Err(); err != nil {
					return err
				}
			}
			return nil
		}
	}
	tests := []struct {
		name   string
		tamper func(context.Context, *redis.Client) error
		// known and unknown are the verdicts on an id that is recorded and on one that is not.
		known, unknown bucket.Verdict
	}{
		{"nothing", slice1, bucket.Recorded, bucket.OK},
		{"r0 is a string", key(r0, "SET", r0, "x"), bucket.Broken, bucket.Broken},
		{"r1 is a string", key(r1, "SET", r1, "x"), bucket.Broken, bucket.Broken},
		{"r0 is a stream", key(r0, "XADD", r0, "*", "a", "b"), bucket.Broken, bucket.Broken},
		{"r1 is a set", key(r1, "SADD", r1, "a"), bucket.Broken, bucket.Broken},
		{"v is a string", key(voids, "SET", voids, "x"), bucket.Broken, bucket.Broken},
		{"v is a list", key(voids, "RPUSH", voids, "x"), bucket.Broken, bucket.Broken},
		{"v holds another format", key(voids, "HSET", voids, "a", "2"), bucket.Broken, bucket.OK},
		{"slice is empty", slice(""), bucket.Broken, bucket.Broken},
		{"slice is abc", slice("abc"), bucket.Broken, bucket.Broken},
		{"slice without a window", slice("5"), bucket.Broken, bucket.Broken},
		{"slice with a window of 0", slice("5/0"), bucket.Broken, bucket.Broken},
		{"slice is negative", slice("-5/1000"), bucket.Broken, bucket.Broken},
		{"slice is a fraction", slice("5.5/1000"), bucket.Broken, bucket.Broken},
		{"slice begins with 0", slice("05/1000"), bucket.Broken, bucket.Broken},
		{"slice is 2^53", slice("9007199254740992/1000"), bucket.Broken, bucket.Broken},
		{"slice with a window of 2^53", slice("5/9007199254740992"), bucket.Broken, bucket.Broken},
		{"record is empty", record(""), bucket.Broken, bucket.OK},
		{"record is short", record("1" + strings.Repeat("x", 24)), bucket.Broken, bucket.OK},
		{"record is long", record("1" + strings.Repeat("x", 33)), bucket.Broken, bucket.OK},
		{"record of another format", record("2" + strings.Repeat("x", 29)), bucket.Broken, bucket.OK},
		{"void of another format", record("2"), bucket.Broken, bucket.OK},
	}
	_, store, raw := serving(t)
	for _, test := range tests {
		for _, verb := range []string{"deduct", "void"} {
			t.Run(test.name+", "+verb, func(t *testing.T) {
				ctx := t.Context()
				must(t, raw.FlushAll(ctx).Err())
				other := bucket.Ref{Bucket: 2, Epoch: 1, Activation: 1}
				fill(t, store, ref1, 100)
				fill(t, store, other, 100)
				_, err := recorded(ctx, store, "a")
				must(t, err)
				must(t, test.tamper(ctx, raw))
				got := tamperedRecords(ctx, t, store, verb, other)
				if got[0].Verdict != bucket.OK || got[3].Verdict != bucket.OK {
					t.Errorf("the other bucket answers %+v and %+v", got[0], got[3])
				}
				for i, want := range map[int]bucket.Verdict{1: test.known, 2: test.unknown} {
					if got[i].Verdict != want || (got[i].Why == "") == (want == bucket.Broken) {
						t.Errorf("operation %d is answered %+v, want verdict %d", i, got[i], want)
					}
				}
				left := int64(99)
				if verb == "deduct" && test.unknown == bucket.OK {
					left--
				}
				wantUnits(t, store, left)
				_, err = deduct(ctx, store) // without a record
				must(t, err)
				wantUnits(t, store, left-1)
			})
		}
	}
}

// slice1 is no tampering.
func slice1(context.Context, *redis.Client) error { return nil }

// tamperedRecords sends one call: another bucket, the known id, an unknown one, and the other bucket.
func tamperedRecords(ctx context.Context, t *testing.T, store *redisstore.Store, verb string,
	other bucket.Ref) []bucket.Reply {
	t.Helper()
	var got []bucket.Reply
	var err error
	if verb == "deduct" {
		got, err = store.Deduct(ctx, lane0, []bucket.Operation{storetest.Recorded(other, 1, "p"),
			storetest.Recorded(ref1, 1, "a"), storetest.Recorded(ref1, 1, "b"),
			storetest.Recorded(other, 1, "q")})
	} else {
		got, err = store.Void(ctx, lane0, []bucket.VoidOrder{{Ref: other, RequestID: "p"},
			{Ref: ref1, RequestID: "a"}, {Ref: ref1, RequestID: "b"}, {Ref: other, RequestID: "q"}})
	}
	must(t, err)
	return got
}

// TestRefusedRecords: a server that may not write or may not be asked says so before anything is
// written: no deduction, no record.
func TestRefusedRecords(t *testing.T) {
	allow := []any{"ACL", "SETUSER", "default", "+@all"}
	for name, commands := range map[string][2][]any{
		"too few replicas": {{"CONFIG", "SET", "min-replicas-to-write", "1"},
			{"CONFIG", "SET", "min-replicas-to-write", "0"}},
		"no memory": {{"CONFIG", "SET", "maxmemory", "1"}, {"CONFIG", "SET", "maxmemory", "0"}},
		"no INFO":   {{"ACL", "SETUSER", "default", "-info"}, allow},
		"no TIME":   {{"ACL", "SETUSER", "default", "-time"}, allow},
		"no HMGET":  {{"ACL", "SETUSER", "default", "-hmget"}, allow},
	} {
		t.Run(name, func(t *testing.T) {
			_, store, raw := serving(t)
			must(t, raw.Do(t.Context(), commands[0]...).Err())
			errs := make(map[string]error)
			_, errs["deduct"] = recorded(t.Context(), store, "a")
			_, errs["void"] = voided(t.Context(), store, "b")
			wantCodes(t, errs, budget.Unavailable)
			if strings.HasPrefix(name, "no ") && name != "no memory" &&
				!strings.Contains(fmt.Sprint(errs), "docs/OPERATIONS.md") {
				t.Errorf("the errors do not say that it is the ACL: %v", errs)
			}
			must(t, raw.Do(t.Context(), commands[1]...).Err())
			wantUnits(t, store, 100)
			if n := raw.Exists(t.Context(), r0, r1, voids).Val(); n != 0 {
				t.Errorf("%d record keys exist", n)
			}
		})
	}
}

// TestHalfDoneRecords: an ACL that allows the append and not what follows: the outcome is unknown,
// and the deduction is in the log.
func TestHalfDoneRecords(t *testing.T) {
	for _, command := range []string{"hset", "hincrby", "pexpire", "unlink"} {
		t.Run(command, func(t *testing.T) {
			_, store, raw := serving(t)
			ctx := t.Context()
			if command == "hincrby" { // a sum that a Lua number cannot hold
				must(t, raw.HSet(ctx, balanceKey1, "deducted", budget.MaxAmount).Err())
			}
			if command == "unlink" { // a slice that has to go
				must(t, raw.HSet(ctx, balanceKey1, "slice", "5/600000").Err())
			}
			must(t, raw.Do(ctx, "ACL", "SETUSER", "default", "-"+command).Err())
			_, err := recorded(ctx, store, "a")
			wantCodes(t, map[string]error{"deduct": err}, budget.OutcomeUnknown)
			must(t, raw.Do(ctx, "ACL", "SETUSER", "default", "+@all").Err())
			log, err := store.Read(ctx, lane0, []bucket.Cursor{{Ref: ref1, From: 2}}, 10)
			must(t, err)
			if len(log[0].Entries) != 1 {
				t.Errorf("the log has %d entries from 2, want 1", len(log[0].Entries))
			}
		})
	}
}

// TestStrangeRecordReplies: as TestStrangeReplies, for void.
func TestStrangeRecordReplies(t *testing.T) {
	for answer, want := range map[string]budget.Code{
		"*4\r\n:1\r\n:1\r\n:1\r\n:1\r\n":          "",
		"*4\r\n:10\r\n:1\r\n:1\r\n$1\r\n1\r\n":    "",
		"*4\r\n:11\r\n:1\r\n:1\r\n:1\r\n":         "",
		"*4\r\n:12\r\n:1\r\n:1\r\n:0\r\n":         "",
		"*3\r\n:1\r\n:1\r\n:1\r\n":                budget.OutcomeUnknown,
		"*5\r\n:1\r\n:1\r\n:1\r\n:1\r\n:1\r\n":    budget.OutcomeUnknown,
		"*4\r\n:13\r\n:1\r\n:1\r\n:0\r\n":         budget.OutcomeUnknown, // outdated: only a deduction can be
		"*4\r\n:14\r\n:1\r\n:1\r\n:1\r\n":         budget.OutcomeUnknown,
		"*4\r\n:0\r\n:1\r\n:1\r\n:1\r\n":          budget.OutcomeUnknown,
		"*4\r\n:10\r\n:1\r\n:1\r\n:1\r\n":         budget.OutcomeUnknown,
		"*4\r\n:1\r\n:1\r\n:1\r\n$1\r\n1\r\n":     budget.OutcomeUnknown,
		"*4\r\n:11\r\n:1\r\n:1\r\n$1\r\n1\r\n":    budget.OutcomeUnknown,
		"*4\r\n:9\r\n:1\r\n:1\r\n:1\r\n":          budget.OutcomeUnknown,
		"*4\r\n:1\r\n$1\r\n1\r\n:1\r\n:1\r\n":     budget.OutcomeUnknown,
		"*4\r\n:1\r\n:1\r\n$1\r\n1\r\n:1\r\n":     budget.OutcomeUnknown,
		"-NOTDONE REPLACED REPLACED the data\r\n": lost,
	} {
		f := newFakeRedis(t)
		f.set(func(f *fakeRedis) { f.answer = answer })
		_, err := voided(t.Context(), fakeStore(t, f), "x")
		wantCodes(t, map[string]error{"void " + answer: err}, want)
	}
	f := newFakeRedis(t)
	f.set(func(f *fakeRedis) { f.answer = "-NOTDONE REPLACED REPLACED the data\r\n" })
	_, err := recorded(t.Context(), fakeStore(t, f), "x")
	wantCodes(t, map[string]error{"deduct": err}, lost)
}
