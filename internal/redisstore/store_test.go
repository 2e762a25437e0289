package redisstore_test

import (
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/budgetd/budgetd/bucket"
	"github.com/budgetd/budgetd/internal/proof/testservers"
	"github.com/budgetd/budgetd/internal/redisstore"
)

const instance = "r1"

var partition0 = bucket.Partition{Instance: instance}

// config returns the configuration to reach a test server.
func config(server *testservers.RedisServer) redisstore.Config {
	return redisstore.Config{Name: instance, Addr: server.Addr(), Partitions: 2, InstallationID: "test",
		DialTimeout: 5 * time.Second, ReadTimeout: 10 * time.Second}
}

// connect returns a store that is closed with the test.
func connect(t testing.TB, c redisstore.Config) *redisstore.Store {
	t.Helper()
	store, err := redisstore.New(c)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := store.Disconnect(); err != nil {
			t.Error(err)
		}
	})
	return store
}

// raw returns a connection that bypasses the store, for what no store would do.
func raw(t testing.TB, server *testservers.RedisServer) *redis.Client {
	t.Helper()
	c := redis.NewClient(&redis.Options{Addr: server.Addr(), MaxRetries: -1, Protocol: 2})
	t.Cleanup(func() { _ = c.Close() })
	return c
}

// adopt marks a partition with an incarnation.
func adopt(t testing.TB, store *redisstore.Store, partition bucket.Partition, incarnation int64) bucket.Memory {
	t.Helper()
	who, err := store.Identity(t.Context(), partition)
	if err != nil {
		t.Fatal(err)
	}
	m := bucket.Memory{Partition: partition, Incarnation: incarnation, Identity: who}
	if err := store.Mark(t.Context(), m, incarnation); err != nil {
		t.Fatal(err)
	}
	return m
}
