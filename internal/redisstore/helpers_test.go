package redisstore_test

import (
	"context"
	"testing"

	"github.com/redis/go-redis/v9"

	"github.com/budgetd/budgetd/bucket"
	"github.com/budgetd/budgetd/internal/redisstore"
	"github.com/budgetd/budgetd/internal/testservers"
)

// client is a connection past the store, for what no store would do.
func client(t testing.TB, server *testservers.RedisServer) *redis.Client {
	t.Helper()
	c := redis.NewClient(&redis.Options{Addr: server.Addr(), MaxRetries: -1, Protocol: 2})
	t.Cleanup(func() { _ = c.Close() })
	return c
}

// activate gives lane 0 to the store as it finds it.
func activate(t testing.TB, store *redisstore.Store, activation int64) {
	t.Helper()
	ctx := context.Background()
	who, err := store.Identity(ctx, lane0)
	if err != nil {
		t.Fatal(err)
	}
	if err := store.Activate(ctx, lane0, who, activation); err != nil {
		t.Fatal(err)
	}
}

// fill opens a bucket with one grant.
func fill(t testing.TB, store *redisstore.Store, ref bucket.Ref, amount int64) {
	t.Helper()
	ctx := context.Background()
	opened, err := store.Open(ctx, lane0, []bucket.Ref{ref})
	if err != nil || opened[0].Verdict != bucket.OK {
		t.Fatal(opened, err)
	}
	granted, err := store.Grant(ctx, lane0, []bucket.GrantOrder{{Ref: ref, Number: 1, Amount: amount}})
	if err != nil || granted[0].Verdict != bucket.OK {
		t.Fatal(granted, err)
	}
}
