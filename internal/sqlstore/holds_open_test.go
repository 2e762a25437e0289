package sqlstore

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/budgetd/budgetd/ledger"
)

// The rows by which holds are found that contradict their deductions, and the deductions without one.
const (
	countWrongHolds = `SELECT COUNT(*) FROM open_hold h LEFT JOIN deduction d
		ON d.budget_id = h.budget_id AND d.request_id = h.request_id AND d.state = 'held'
		AND d.hold_until_ms = h.due_ms AND d.bucket_id = h.bucket_id AND d.epoch = h.epoch
		WHERE d.request_id IS NULL`
	countMissingHolds = `SELECT COUNT(*) FROM deduction d LEFT JOIN open_hold h
		ON h.budget_id = d.budget_id AND h.request_id = d.request_id
		WHERE d.state = 'held' AND h.request_id IS NULL`
	countWrongMembers = `SELECT COUNT(*) FROM group_member m LEFT JOIN deduction d
		ON d.budget_id = m.budget_id AND d.request_id = m.request_id AND d.hold_group = m.hold_group
		WHERE d.request_id IS NULL`
	countMissingMembers = `SELECT COUNT(*) FROM deduction d LEFT JOIN group_member m
		ON m.budget_id = d.budget_id AND m.request_id = d.request_id AND m.hold_group = d.hold_group
		WHERE d.hold_group IS NOT NULL AND m.request_id IS NULL`
)

// checkHolds checks at the end of a test that holds and members of groups are found by exactly their rows.
func checkHolds(t *testing.T, db *DB) *DB {
	t.Helper()
	t.Cleanup(func() {
		for _, query := range []string{countWrongHolds, countMissingHolds, countWrongMembers, countMissingMembers} {
			n := 0
			err := db.read(context.Background(), "check", func(r *reader) error {
				_, err := r.get(&n, query)
				return err
			})
			if n != 0 || err != nil {
				t.Errorf("%d rows, %v: %s", n, err, query)
			}
		}
	})
	return db
}

// TestHoldWithoutAnEpoch: a hold whose rows are not what they must be is named when it is the only one asked for, so
// that who mends it finds it, and those behind it can be ended.
func TestHoldWithoutAnEpoch(t *testing.T) {
	db, dsn, ahead := movable(t)
	hold := func(r *ledger.Request) { r.HoldTTL = time.Second.Milliseconds() }
	ahead.Store(-int64(2 * time.Hour))
	granted(openBudget(t, db, "a", 1000, 1)).commits(t, db, "torn", hold)
	ahead.Store(-int64(time.Hour))
	granted(openBudget(t, db, "b", 1000, 1)).commits(t, db, "whole", hold)
	ahead.Store(0)
	do(t, foreign(t, "mysql", dsn), "DELETE FROM bucket_epoch WHERE bucket_id = 1")
	for _, limit := range []int{1, 10} {
		_, err := db.ExpireHolds(t.Context(), limit, 0)
		if err == nil || strings.Contains(err.Error(), `hold "torn" of budget 1`) != (limit == 1) {
			t.Errorf("%d: %v", limit, err)
		}
	}
	if got, err := db.ExpireHolds(t.Context(), 10, 1); err != nil || got.Holds != 1 {
		t.Errorf("behind it: %+v, %v", got, err)
	}
}
