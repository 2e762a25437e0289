package storetest_test

import (
	"testing"
	"time"

	"github.com/budgetd/budgetd/bucket"
	"github.com/budgetd/budgetd/internal/memstore"
	"github.com/budgetd/budgetd/internal/redisstore"
	"github.com/budgetd/budgetd/internal/storetest"
	"github.com/budgetd/budgetd/internal/testservers"
)

// TestStoresAgree: memory, the readable specification, and every real store answer alike and hold
// alike.
func TestStoresAgree(t *testing.T) {
	redis, err := redisstore.New(redisstore.Config{Name: "redis", Addr: testservers.Redis(t).Addr(),
		Lanes: 1, InstallationID: "differential", ReadTimeout: 30 * time.Second})
	if err != nil {
		t.Fatal(err)
	}
	defer redis.Disconnect()
	storetest.Differential(t, 1, 100_000, map[string]bucket.Instance{
		"memory": memstore.NewServer("memory", 1).Connect(),
		"redis":  redis,
	})
}
