package redisstore_test

import (
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/budgetd/budgetd/internal/memstore"
	"github.com/budgetd/budgetd/internal/redisstore"
	"github.com/budgetd/budgetd/internal/storetest"
	"github.com/budgetd/budgetd/internal/testservers"
)

// installations numbers the stores that tests make on shared servers.
var installations atomic.Int64

// subject is an empty store on a server.
func subject(t *testing.T, server *testservers.RedisServer) storetest.Subject {
	c := config(server)
	c.InstallationID, c.RecordWindow = fmt.Sprint("i", installations.Add(1)), storetest.Window
	return storetest.Subject{Store: connect(t, c), Name: instance, Wait: time.Sleep,
		LoseEntry: func(bucketID int64) {
			key := "budgetd:" + c.InstallationID + ":{r1/0}:epoch"
			if err := raw(t, server).HDel(t.Context(), key, fmt.Sprint(bucketID)).Err(); err != nil {
				t.Fatal(err)
			}
		}}
}

// raw returns a connection that bypasses the store, for what no store would do.
func raw(t testing.TB, server *testservers.RedisServer) *redis.Client {
	t.Helper()
	c := redis.NewClient(&redis.Options{Addr: server.Addr(), MaxRetries: -1, Protocol: 2})
	t.Cleanup(func() { _ = c.Close() })
	return c
}

// TestConformance checks a standalone Redis against the contract.
func TestConformance(t *testing.T) {
	server := testservers.Redis(t)
	storetest.Run(t, func(t *testing.T) storetest.Subject { return subject(t, server) })
}

var _ storetest.Store = (*redisstore.Store)(nil)

// TestDifferential checks that a Redis and the store in memory give the same answers to the same
// random calls.
func TestDifferential(t *testing.T) {
	now := time.UnixMilli(1_800_000_000_000)
	memory := memstore.New(memstore.Config{Name: "m", Partitions: 2, Installation: "test", Window: storetest.Window,
		Now: func() time.Time { return now }})
	storetest.Differential(t, storetest.Subject{Store: memory, Name: "m",
		LoseEntry: func(bucketID int64) { memory.Forget(0, bucketID) }}, subject(t, testservers.Redis(t)))
}
