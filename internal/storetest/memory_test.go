package storetest_test

import (
	"sync"
	"testing"
	"time"

	"github.com/budgetd/budgetd/internal/memstore"
	"github.com/budgetd/budgetd/internal/storetest"
)

// inMemory is a store in memory whose clock only Wait advances.
func inMemory() storetest.Subject {
	var mu sync.Mutex
	now := time.UnixMilli(1_800_000_000_000)
	store := memstore.New(memstore.Config{Name: "m", Partitions: 2, Installation: "test", Window: storetest.Window,
		Now: func() time.Time {
			mu.Lock()
			defer mu.Unlock()
			return now
		}})
	return storetest.Subject{Store: store, Name: "m",
		Wait: func(d time.Duration) {
			mu.Lock()
			defer mu.Unlock()
			now = now.Add(d)
		},
		LoseEntry: func(bucketID int64) { store.Forget(0, bucketID) },
	}
}

// TestDifferentialOfItself checks that Differential finds no difference between two stores in
// memory.
func TestDifferentialOfItself(t *testing.T) {
	storetest.Differential(t, inMemory(), inMemory())
}

// TestMemory checks the store in memory against the contract.
func TestMemory(t *testing.T) {
	storetest.Run(t, func(*testing.T) storetest.Subject { return inMemory() })
}
