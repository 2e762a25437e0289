package transfer

import (
	"time"

	"github.com/budgetd/budgetd/budget"
	"github.com/budgetd/budgetd/internal/sqlstore/engine"
	"github.com/budgetd/budgetd/internal/sqlstore/rows"
)

// A rule that is changed within a period may create a period that begins before the previous one
// has ended. What was used since then counts for both.
const (
	// selectUsedSince sums S and H of epochs whose periods began at an instant or later: all of it
	// was counted since then.
	selectUsedSince = `SELECT COALESCE(SUM(e.used_quantity + e.held_quantity), 0)
		FROM bucket_epoch e /*by bucket_epoch_units*/
		/*in order*/ JOIN budget_period p /*by PRIMARY*/
			ON p.budget_id = e.budget_id AND p.number = e.period
		WHERE e.budget_id = ? AND p.start_ms >= ? AND (p.end_ms = 0 OR p.end_ms > ?)`
	countStraddling = `SELECT COUNT(*) FROM budget_period p WHERE p.budget_id = ?
		AND p.start_ms < ? AND (p.end_ms = 0 OR p.end_ms > ?)`
	// ofStraddling finds the deductions of epochs whose periods began before that and ended later.
	ofStraddling = ` FROM deduction d
		JOIN bucket_epoch e ON e.bucket_id = d.bucket_id AND e.epoch = d.epoch
		JOIN budget_period p ON p.budget_id = e.budget_id AND p.number = e.period`
	sinceThen = ` WHERE d.budget_id = ? AND d.counted_at >= ? AND d.bucket_id > 0
		AND p.start_ms < ? AND (p.end_ms = 0 OR p.end_ms > ?)`
	selectDeducted  = `SELECT COALESCE(SUM(d.amount), 0)` + ofStraddling + sinceThen
	selectGivenBack = `SELECT COALESCE(SUM(g.amount), 0)` + ofStraddling + `
		JOIN give_back g ON g.budget_id = d.budget_id AND g.request_id = d.request_id` + sinceThen
)

// countedSince sums what was used and is held since the start of a period that begins before the
// previous one has ended; 0 if it does not. It reads rows of deductions only if an epoch has some
// from before the start and some since.
func countedSince(t *engine.Tx, b *rows.Budget, ended budget.Period, start time.Time) (
	units int64, err error) {
	if ended.End.IsZero() || !start.Before(ended.End) {
		return 0, nil
	}
	since := engine.ToMS(start)
	if _, err := t.Get(&units, selectUsedSince, b.ID, since, since); err != nil {
		return 0, err
	}
	var straddling, deducted, back int64
	if _, err := t.Get(&straddling, countStraddling, b.ID, since, since); err != nil {
		return 0, err
	}
	if straddling == 0 {
		return units, nil
	}
	if _, err := t.Get(&deducted, selectDeducted, b.ID, since, since, since); err != nil {
		return 0, err
	}
	if _, err := t.Get(&back, selectGivenBack, b.ID, since, since, since); err != nil {
		return 0, err
	}
	return units + deducted - back, nil
}
