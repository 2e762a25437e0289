package driver_test

import (
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/budgetd/budgetd/bucket"
	"github.com/budgetd/budgetd/internal/proof/testservers"
	"github.com/budgetd/budgetd/internal/redisstore/driver"
)

const instance = "r1"

var partition0 = bucket.Partition{Instance: instance}

// config returns the configuration to reach a test server.
func config(server *testservers.RedisServer) driver.Config {
	return driver.Config{Name: instance, Addr: server.Addr(), Partitions: 2, InstallationID: "test",
		DialTimeout: 5 * time.Second, ReadTimeout: 10 * time.Second}
}

// connect returns an instance that is closed with the test.
func connect(t testing.TB, c driver.Config) *driver.Instance {
	t.Helper()
	i, err := driver.New(c)
	must(t, err)
	t.Cleanup(func() { must(t, i.Disconnect()) })
	return i
}

// client returns a connection that bypasses the driver.
func client(t testing.TB, server *testservers.RedisServer) *redis.Client {
	t.Helper()
	c := redis.NewClient(&redis.Options{Addr: server.Addr(), MaxRetries: -1, Protocol: 2})
	t.Cleanup(func() { _ = c.Close() })
	return c
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
