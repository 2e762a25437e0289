package storetest_test

import (
	"path/filepath"
	"testing"
	"time"

	"github.com/budgetd/budgetd/bucket"
	"github.com/budgetd/budgetd/internal/memstore"
	"github.com/budgetd/budgetd/internal/redisstore"
	"github.com/budgetd/budgetd/internal/sqlstore"
	"github.com/budgetd/budgetd/internal/storetest"
	"github.com/budgetd/budgetd/internal/testservers"
)

// redisUnderTest connects to a server of its own. Its record window is so long that no record is
// forgotten meanwhile: two clocks do not agree to the operation on when that is.
func redisUnderTest(t *testing.T) bucket.Instance {
	redis, err := redisstore.New(redisstore.Config{Name: "redis", Addr: testservers.Redis(t).Addr(),
		Lanes: 1, InstallationID: "differential", ReadTimeout: 30 * time.Second,
		RecordWindow: redisstore.MostRecordWindow})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := redis.Disconnect(); err != nil {
			t.Error(err)
		}
	})
	return redis
}

// TestStoresAgreeOnRecords: memory, the readable specification, and every store that keeps records.
func TestStoresAgreeOnRecords(t *testing.T) {
	server := memstore.NewServer("memory", 1)
	server.RecordWindow = redisstore.MostRecordWindow
	storetest.Differential(t, 2, 100_000, map[string]bucket.Instance{
		"memory": server.Connect(), "redis": redisUnderTest(t)})
}

// TestStoresAgree: memory, the readable specification, and every real store answer alike and hold
// alike.
func TestStoresAgree(t *testing.T) {
	rows := func(name, driver, dsn string) bucket.Instance {
		db, err := sqlstore.Open(t.Context(), sqlstore.Config{Driver: driver, DSN: dsn})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() {
			if err := db.Close(); err != nil {
				t.Error(err)
			}
		})
		return db.Rows(name, 1)
	}
	storetest.Differential(t, 1, 100_000, map[string]bucket.Instance{
		"memory":  memstore.NewServer("memory", 1).Connect(),
		"redis":   redisUnderTest(t),
		"sqlite":  rows("sqlite", "sqlite", filepath.Join(t.TempDir(), "rows.db")),
		"mariadb": rows("mariadb", "mysql", testservers.SharedMariaDB(t).NewDatabase(t)),
	})
}
