package sqlstore

import (
	"testing"
	"time"

	"github.com/budgetd/budgetd/bucket"
	"github.com/budgetd/budgetd/internal/storetest"
)

func TestSQLiteConforms(t *testing.T) {
	storetest.RunSQL(t, func(t *testing.T, clock func() time.Time) bucket.SQL {
		return checkHolds(t, openFile(t, clock))
	})
}

func TestMariaDBConforms(t *testing.T) {
	storetest.RunSQL(t, func(t *testing.T, clock func() time.Time) bucket.SQL {
		return checkHolds(t, openMariaDB(t, clock))
	})
}

// TestGuessingConforms: also where every transaction guesses, and on a server with only what MySQL has: it cannot list what
// it inserts, and has no lists of constants. There even two rows are changed by a join.
func TestGuessingConforms(t *testing.T) {
	t.Run("sqlite", func(t *testing.T) {
		storetest.RunSQLCommits(t, func(t *testing.T, clock func() time.Time) bucket.SQL {
			db := openFile(t, clock)
			db.guessAgainAfter = 0
			return checkHolds(t, db)
		})
	})
	t.Run("mariadb", func(t *testing.T) {
		storetest.RunSQLCommits(t, func(t *testing.T, clock func() time.Time) bucket.SQL {
			db := openMariaDB(t, clock)
			db.guessAgainAfter, db.dialect.joinRows = 0, 2
			return checkHolds(t, db)
		})
	})
	t.Run("as mysql", func(t *testing.T) {
		storetest.RunSQLCommits(t, func(t *testing.T, clock func() time.Time) bucket.SQL {
			db := openMariaDB(t, clock)
			db.guessAgainAfter, db.dialect.joinRows = 0, 2
			db.dialect.returning, db.dialect.valuesList = false, false
			return checkHolds(t, db)
		})
	})
}

// testRows runs the conformance suite of stores on rows of a database.
func testRows(t *testing.T, open func(t *testing.T) *DB) {
	storetest.RunStore(t, func(t *testing.T) storetest.StoreUnderTest {
		db := open(t)
		return storetest.StoreUnderTest{
			Store:       db.Rows("sql", 2),
			Lane:        bucket.Lane{Instance: "sql", Index: 1},
			AnotherNode: func() bucket.Instance { return db.Rows("sql", 2) },
		}
	})
}

func TestSQLiteRowsConform(t *testing.T) {
	testRows(t, func(t *testing.T) *DB { return openFile(t, time.Now) })
}

func TestMariaDBRowsConform(t *testing.T) {
	testRows(t, func(t *testing.T) *DB { return openMariaDB(t, time.Now) })
}
