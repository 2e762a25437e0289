package memstore_test

import (
	"testing"

	"github.com/budgetd/budgetd/bucket"
	"github.com/budgetd/budgetd/internal/memstore"
	"github.com/budgetd/budgetd/internal/storetest"
)

func TestStoreConformance(t *testing.T) {
	storetest.RunStore(t, func(*testing.T) storetest.StoreUnderTest {
		server := memstore.NewServer("memory", 2)
		return storetest.StoreUnderTest{
			Store:       server.Connect(),
			Lane:        bucket.Lane{Instance: "memory", Index: 1},
			AnotherNode: func() bucket.Instance { return server.Connect() },
			LoseMemory:  server.Lose,
		}
	})
}
