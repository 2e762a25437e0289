package redisstore_test

import (
	"testing"
	"time"

	"github.com/budgetd/budgetd/bucket"
	"github.com/budgetd/budgetd/internal/redisstore"
	"github.com/budgetd/budgetd/internal/storetest"
	"github.com/budgetd/budgetd/internal/testservers"
)

const instance = "r1"

var lane0 = bucket.Lane{Instance: instance}

// config is how the tests reach a server.
func config(server *testservers.RedisServer) redisstore.Config {
	return redisstore.Config{Name: instance, Addr: server.Addr(), Lanes: 2, InstallationID: "test",
		DialTimeout: 5 * time.Second, ReadTimeout: 10 * time.Second}
}

// connect makes a store that is closed with the test.
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

// TestSmallPages: counters of limits are the same when their pages are full.
func TestSmallPages(t *testing.T) {
	redisstore.SmallPages(t)
	storetest.RunStoreLimits(t, func(t *testing.T) storetest.StoreUnderTest {
		return storetest.StoreUnderTest{Store: connect(t, config(testservers.Redis(t))),
			Lane: bucket.Lane{Instance: instance, Index: 1}}
	})
}

func TestStoreConformance(t *testing.T) {
	storetest.RunStore(t, func(t *testing.T) storetest.StoreUnderTest {
		server := testservers.Redis(t)
		return storetest.StoreUnderTest{
			Store:       connect(t, config(server)),
			Lane:        bucket.Lane{Instance: instance, Index: 1},
			AnotherNode: func() bucket.Instance { return connect(t, config(server)) },
			LoseMemory: func() {
				if err := server.Kill(); err != nil {
					t.Fatal(err)
				}
				if err := server.Restart(); err != nil {
					t.Fatal(err)
				}
			},
		}
	})
}
