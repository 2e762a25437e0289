package sqlstore

import (
	"testing"
	"time"

	"github.com/budgetd/budgetd/internal/testservers"
)

// TestAdvanceOnce: what was decided from an epoch row as it was before another commit advances
// nothing: the locks make that unlikely, the compare-and-set impossible (I4, I7).
func TestAdvanceOnce(t *testing.T) {
	bothEngines(t, func(t *testing.T, db *DB) {
		v, logs := filled(t, db, "b", 1)
		err := db.write(t.Context(), "test", func(tx *tx) error {
			rows, err := tx.lockEpochs(at(v.Buckets[0].Ref()))
			if err != nil {
				return err
			}
			first, err := tx.drainLocked(logs, rows)
			if err != nil {
				return err
			}
			second, err := tx.drainLocked(logs, rows)
			if err != nil {
				return err
			}
			if err := tx.writeDrained(first); err != nil {
				return err
			}
			if err := tx.advance(second.changed); err == nil {
				t.Error("a row that had moved on was advanced")
			}
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
		wantUsed(t, db, v.ID, 1)
	})
}

// TestDoneAgainFromTheStart: what a transaction wrote before it had to be done again is gone, also
// where the server undid only the last statement (1205) (I1).
func TestDoneAgainFromTheStart(t *testing.T) {
	const useOne = `UPDATE bucket_epoch SET used_quantity = used_quantity + 1`
	t.Run("sqlite", func(t *testing.T) {
		db := openFile(t, time.Now)
		v, _ := filled(t, db, "b", 1)
		attempts := 0
		err := db.write(t.Context(), "test", func(tx *tx) error {
			if _, err := tx.exec(useOne); err != nil {
				return err
			}
			if attempts++; attempts == 1 {
				return errAgain
			}
			return nil
		})
		if err != nil || attempts != 2 {
			t.Fatalf("%d attempts, %v", attempts, err)
		}
		wantUsed(t, db, v.ID, 1)
	})
	t.Run("mariadb", func(t *testing.T) {
		dsn := testservers.SharedMariaDB(t).NewDatabase(t)
		p := &patient{}
		db := mustOpen(t, Config{Driver: "mysql", DSN: dsn, Sleep: p.sleep})
		v, _ := filled(t, db, "b", 1)
		other := foreign(t, "mysql", dsn)
		do(t, other, "BEGIN", "SELECT 1 FROM budget_management_bucket FOR UPDATE")
		p.then = func() { do(t, other, "ROLLBACK") }
		err := db.write(t.Context(), "test", func(tx *tx) error {
			if _, err := tx.exec(useOne); err != nil {
				return err
			}
			_, err := tx.lockBudget("test", v.ID)
			return err
		})
		if err != nil || p.pauses.Load() != 1 {
			t.Fatalf("done again %d times, want once: %v", p.pauses.Load(), err)
		}
		wantUsed(t, db, v.ID, 1)
	})
}
