package redisstore_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/budgetd/budgetd/bucket"
	"github.com/budgetd/budgetd/budget"
	"github.com/budgetd/budgetd/internal/redisstore"
	"github.com/budgetd/budgetd/internal/storetest"
	"github.com/budgetd/budgetd/internal/testservers"
)

// TestReachedLimitWritesNothing: whoever hammers a reached limit makes the store read and nothing else. Its
// append-only file, where every write command ends up, does not grow by a byte, and the bucket stays as it was.
func TestReachedLimitWritesNothing(t *testing.T) {
	server := testservers.Redis(t, testservers.AppendOnly("always"))
	store, raw := connect(t, config(server)), client(t, server)
	activate(t, store, 1)
	ref := bucket.Ref{Bucket: 1, Epoch: 1, Activation: 1}
	fill(t, store, ref, budget.MaxAmount)
	for name, window := range map[string]bucket.CountWindow{
		"lifetime":  {Kind: budget.WindowLifetime},
		"calendar":  {Kind: budget.WindowCalendar, Begin: time.Now().Add(-time.Hour).UnixMilli(), End: time.Now().Add(time.Hour).UnixMilli()},
		"sliding":   {Kind: budget.WindowSliding, Length: 8 * 3600_000, Slot: 600_000},
		"first-hit": {Kind: budget.WindowFirstHit, Length: 3600_000},
	} {
		t.Run(name, func(t *testing.T) {
			ask := func(ids ...string) []bucket.Reply {
				operations := make([]bucket.Operation, len(ids))
				for i, id := range ids {
					operations[i] = storetest.Limited(ref, id, 0, bucket.Count{Limit: name, Changed: 1, Value: "ann", Add: 1,
						Max: 1, New: true, Window: window})
				}
				replies, err := store.Deduct(context.Background(), lane0, operations)
				if err != nil {
					t.Fatal(err)
				}
				return replies
			}
			empty := written(t, raw)
			wantVerdict(t, "the first", ask(name)[0], nil, bucket.OK)
			full, was := written(t, raw), balance(t, store, ref)
			if full <= empty {
				t.Fatalf("an accepted deduction wrote %d bytes", full-empty)
			}
			for i := range 200 {
				for _, reply := range ask(fmt.Sprint(name, " a", i), fmt.Sprint(name, " b", i)) {
					wantVerdict(t, "one more", reply, nil, bucket.OverLimit)
				}
			}
			if grown := written(t, raw) - full; grown != 0 {
				t.Errorf("400 refusals wrote %d bytes", grown)
			}
			if is := balance(t, store, ref); is != was {
				t.Errorf("the bucket is %+v, was %+v", is, was)
			}
		})
	}
}

// written is how many bytes of write commands the server has logged.
func written(t *testing.T, raw *redis.Client) int64 {
	t.Helper()
	info, err := raw.Info(t.Context(), "persistence").Result()
	if err != nil {
		t.Fatal(err)
	}
	return number(t, info, "aof_current_size:")
}

func balance(t *testing.T, store *redisstore.Store, ref bucket.Ref) bucket.Balance {
	t.Helper()
	got, err := store.Balances(t.Context(), lane0, []bucket.Ref{ref})
	if err != nil || len(got) != 1 {
		t.Fatal(got, err)
	}
	return got[0]
}
