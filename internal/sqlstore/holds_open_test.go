package sqlstore

import (
	"context"
	"testing"
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
