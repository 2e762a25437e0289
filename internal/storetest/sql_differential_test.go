package storetest_test

import (
	"context"
	"flag"
	"fmt"
	"path/filepath"
	"testing"
	"time"

	"github.com/budgetd/budgetd/bucket"
	"github.com/budgetd/budgetd/internal/memstore"
	"github.com/budgetd/budgetd/internal/sqlstore"
	"github.com/budgetd/budgetd/internal/storetest"
	"github.com/budgetd/budgetd/internal/testservers"
)

func openMemory(_ *testing.T, clock func() time.Time) bucket.SQL { return memstore.NewSQL(clock) }

// openSQL opens a database that guesses again after so many transactions: sqlstore.Config.
func openSQL(t *testing.T, driver, dsn string, clock func() time.Time, after int) bucket.SQL {
	t.Helper()
	db, err := sqlstore.Open(context.Background(), sqlstore.Config{Driver: driver, DSN: dsn, Clock: clock,
		ClockTolerance: 100 * 365 * 24 * time.Hour, GuessAgainAfter: after})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := db.Close(); err != nil {
			t.Error(err)
		}
	})
	return db
}

var sets = flag.Uint64("differential.sets", 2, "on how many sets of databases TestSQLDatabasesAgree does 20,000 operations each")

func TestSQLDatabasesAgree(t *testing.T) {
	// 20,000 operations on each set of databases: what has to be compared grows with each budget. Every other set guesses in
	// each transaction.
	for seed := range *sets {
		after := -int(seed % 2)
		t.Run(fmt.Sprint("seed ", seed+1), func(t *testing.T) {
			storetest.DifferentialSQL(t, seed+1, 20_000, openMemory, map[string]storetest.SQLOpener{
				"SQLite": func(t *testing.T, clock func() time.Time) bucket.SQL {
					return openSQL(t, "sqlite", filepath.Join(t.TempDir(), "budgetd.db"), clock, after)
				},
				"MariaDB": func(t *testing.T, clock func() time.Time) bucket.SQL {
					return openSQL(t, "mysql", testservers.SharedMariaDB(t).NewDatabase(t), clock, after)
				},
			})
		})
	}
}
