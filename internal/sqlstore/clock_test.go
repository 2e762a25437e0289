package sqlstore

import (
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	"github.com/budgetd/budgetd/bucket"
	"github.com/budgetd/budgetd/budget"
	"github.com/budgetd/budgetd/internal/testservers"
	"github.com/budgetd/budgetd/ledger"
)

// movable opens an empty MariaDB on a node whose clock can be moved against the database's.
func movable(t *testing.T) (db *DB, dsn string, ahead *atomic.Int64) {
	ahead, dsn = &atomic.Int64{}, testservers.SharedMariaDB(t).NewDatabase(t)
	return mustOpen(t, Config{Driver: "mysql", DSN: dsn,
		Clock: func() time.Time { return time.Now().Add(time.Duration(ahead.Load())) }}), dsn, ahead
}

// commits commits one deduction, that carries what edit adds.
func (l *testLog) commits(t *testing.T, db *DB, id string, edit func(*ledger.Request)) {
	t.Helper()
	r := request(1, id)
	edit(&r)
	from := int64(len(l.entries)) - 1 // what is drained, to match
	if from == 1 {
		from = 0
	}
	l.add(ledger.Line(ledger.KindDeduct, 1, ledger.EncodeRequest(r)))
	report, err := db.Commit(t.Context(), []ledger.Log{l.log(from)})
	if err != nil || report.Epochs[0].Err != nil || report.Epochs[0].Outcomes[0].Duplicate != nil {
		t.Fatalf("%s: %+v, %v", id, report, err)
	}
}

// granted is the log of a budget's only bucket.
func granted(v bucket.Budget) *testLog {
	l := newLog(v.Buckets[0].Ref())
	l.grant(v.Buckets[0].Epoch.Outstanding, 1)
	return l
}

// TestNothingExpiresByAWrongClock: SQL's clock decides; a node whose idea of it is two hours ahead ends no hold and
// removes no counter, and says so. When it agrees, what is over by SQL's clock goes, and nothing else (I8).
func TestNothingExpiresByAWrongClock(t *testing.T) {
	const early = -2 * time.Hour // what is made by it is over by SQL's clock
	t.Run("holds", func(t *testing.T) {
		db, _, ahead := movable(t)
		log := granted(openBudget(t, db, "b", 1000, 1))
		hold := func(r *ledger.Request) { r.HoldTTL = time.Hour.Milliseconds() }
		ahead.Store(int64(early))
		log.commits(t, db, "over", hold)
		ahead.Store(0)
		log.commits(t, db, "held", hold)
		ahead.Store(-int64(early))
		if got, err := db.ExpireHolds(t.Context(), 10, 0); !budget.Is(err, budget.Unavailable) || got.Holds != 0 {
			t.Errorf("two hours ahead: %+v, %v", got, err)
		}
		if n, err := db.OpenHolds(t.Context(), 10); n != 2 || err != nil {
			t.Errorf("%d holds are open, %v", n, err)
		}
		ahead.Store(0)
		if got, err := db.ExpireHolds(t.Context(), 10, 0); err != nil || got.Holds != 1 || got.Units != 1 {
			t.Errorf("by the right clock: %+v, %v", got, err)
		}
		if n, err := db.OpenHolds(t.Context(), 10); n != 1 || err != nil {
			t.Errorf("%d holds are open, %v", n, err)
		}
	})
	t.Run("uses", func(t *testing.T) {
		db, _, ahead := movable(t)
		openBudget(t, db, "b", 1000, 1)
		lane := bucket.Lane{Instance: "sql", Index: 0}
		if got, err := db.UseLane(t.Context(), "n1", lane, 1, time.Minute); got != bucket.UseNoted || err != nil {
			t.Fatalf("%v, %v", got, err)
		}
		ahead.Store(-int64(early))
		use := bucket.LaneUse{Node: "n1", Lane: lane, Activation: 1}
		if err := db.EndSilent(t.Context(), use, time.Second); !budget.Is(err, budget.Unavailable) {
			t.Errorf("two hours ahead: %v", err)
		}
		ahead.Store(0)
		if uses, err := db.SeeUses(t.Context(), "n1", time.Minute); len(uses) != 1 || err != nil {
			t.Errorf("uses %+v, %v", uses, err)
		}
	})
	t.Run("counters", func(t *testing.T) {
		db, _, ahead := movable(t)
		ahead.Store(int64(early))
		log := granted(openDefined(t, db, budget.Definition{Tenant: "default", Name: "b", Unit: budget.Count,
			Durability: budget.Ledger, Type: budget.Promo, TotalQuantity: 1000, BucketQuantity: 1,
			Limits: &budget.Limits{List: []budget.Limit{{Name: "burst", Dimension: "user", Max: 9, Enforce: true,
				Measure: budget.MeasureCount, Window: budget.LimitWindow{Kind: budget.WindowFirstHit, Length: time.Second}}}}}))
		of := func(user string) func(*ledger.Request) {
			return func(r *ledger.Request) { r.Dimensions = ledger.Dimensions(map[string]string{"user": user}) }
		}
		log.commits(t, db, "over", of("u"))
		ahead.Store(0)
		log.commits(t, db, "young", of("v"))
		ahead.Store(-int64(early))
		if n, err := db.ExpireCounters(t.Context(), 10); !budget.Is(err, budget.Unavailable) || n != 0 {
			t.Errorf("two hours ahead: %d, %v", n, err)
		}
		ahead.Store(0)
		for i, want := range []int{1, 0} {
			if n, err := db.ExpireCounters(t.Context(), 10); err != nil || n != want {
				t.Errorf("look %d by the right clock: %d, %v", i, n, err)
			}
		}
	})
}

// TestLateUnitsOfAnEndThatMovedOn: units came back late by the end that their period had then, and it has moved on beside
// that. They wait for no roll-over, which is far away, but are of their period, and a sweep brings them to U.
func TestLateUnitsOfAnEndThatMovedOn(t *testing.T) {
	db, dsn, _ := movable(t)
	v := openBudget(t, db, "b", 1000, 1)
	granted(v).commits(t, db, "x", func(*ledger.Request) {})
	setEnd(t, db, v.ID, db.Now().Add(time.Hour))
	if _, _, err := db.Rollback(t.Context(), bucket.RollbackOrder{Budget: v.ID, RequestID: "x"}); err != nil {
		t.Fatal(err)
	}
	do(t, foreign(t, "mysql", dsn), // as a rollback writes it that does not see the new end
		fmt.Sprintf("UPDATE bucket_epoch SET late_quantity = returning_quantity WHERE budget_id = %d", v.ID))
	if moved, err := db.Sweep(t.Context(), v.ID); err != nil || moved != 1 {
		t.Errorf("swept %d, %v", moved, err)
	}
	a, err := db.Accounts(t.Context(), v.ID)
	if err != nil || a.Figures.Undistributed != 1 || a.Figures.Returning != 0 || a.Check() != nil {
		t.Errorf("%+v, %v, %v", a.Figures, a.Check(), err)
	}
}
