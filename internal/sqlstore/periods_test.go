package sqlstore

import (
	"sync/atomic"
	"testing"
	"time"

	"github.com/budgetd/budgetd/bucket"
	"github.com/budgetd/budgetd/budget"
	"github.com/budgetd/budgetd/internal/testservers"
)

// TestNoRollOverByAWrongClock: SQL's clock decides; a node whose idea of it is more than a second off rolls
// nothing over (I8).
func TestNoRollOverByAWrongClock(t *testing.T) {
	var ahead atomic.Int64
	db := mustOpen(t, Config{Driver: "mysql", DSN: testservers.SharedMariaDB(t).NewDatabase(t),
		Clock: func() time.Time { return time.Now().Add(time.Duration(ahead.Load())) }})
	v, _ := filled(t, db, "b", 1)
	end := db.Now().Add(time.Hour)
	setEnd(t, db, v.ID, end)
	ahead.Store(int64(2 * time.Hour))
	done, err := db.RollOver(t.Context(), v.ID)
	if !budget.Is(err, budget.Unavailable) || done.Done {
		t.Fatalf("an hour too early: %+v, %v", done, err)
	}
	ahead.Store(0)
	if done, err = db.RollOver(t.Context(), v.ID); err != nil || done.Done {
		t.Fatalf("not over yet: %+v, %v", done, err)
	}
	setEnd(t, db, v.ID, db.Now().Add(time.Millisecond))
	for deadline := time.Now().Add(30 * time.Second); !done.Done; time.Sleep(time.Millisecond) {
		if done, err = db.RollOver(t.Context(), v.ID); err != nil || time.Now().After(deadline) {
			t.Fatalf("over: %+v, %v", done, err)
		}
	}
}

func setEnd(t *testing.T, db *DB, id int64, end time.Time) {
	t.Helper()
	if _, err := db.Change(t.Context(), id, bucket.Change{EndAt: &end}); err != nil {
		t.Fatal(err)
	}
}
