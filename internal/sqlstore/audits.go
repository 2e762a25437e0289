package sqlstore

import (
	"context"

	"github.com/budgetd/budgetd/bucket"
	"github.com/budgetd/budgetd/budget"
	"github.com/budgetd/budgetd/ledger"
)

// selectFigures sums a budget's columns in one statement: one moment.
const selectFigures = `SELECT u.total_quantity, u.undistributed_quantity, u.quarantined_quantity,
	u.forfeited_quantity, u.pending_shrink_quantity, u.unfunded_quantity,
	u.period, u.period_start_ms, u.period_end_ms, u.is_over,
	(SELECT COALESCE(SUM(p.funded_quantity + p.carried_quantity), 0) FROM budget_period p
		WHERE p.budget_id = u.id AND p.number = u.period) AS period_units,
	COALESCE(s.period_used, 0) AS period_used,
	COALESCE(s.remaining, 0) AS remaining, COALESCE(s.unsettled, 0) AS unsettled,
	COALESCE(s.held, 0) AS held, COALESCE(s.used, 0) AS used, COALESCE(s.returned, 0) AS returned,
	(SELECT COUNT(*) FROM sharding_budget_management_bucket b
		WHERE b.budget_id = u.id AND b.status = 'online') AS online_buckets,
	(SELECT COUNT(*) FROM sharding_budget_management_bucket b
		WHERE b.budget_id = u.id AND b.status <> 'online' AND b.offline_by <> 'resize') AS offline_buckets
	FROM budget_management_bucket u LEFT JOIN (SELECT e.budget_id,
			SUM(CASE WHEN e.status = 'open' THEN e.outstanding_quantity ELSE 0 END) AS remaining,
			SUM(CASE WHEN e.status = 'open' THEN 0 ELSE e.outstanding_quantity END) AS unsettled,
			SUM(CASE WHEN e.period = (SELECT n.period FROM budget_management_bucket n WHERE n.id = e.budget_id)
				THEN e.used_quantity ELSE 0 END) AS period_used,
			SUM(e.held_quantity) AS held, SUM(e.used_quantity) AS used, SUM(e.returning_quantity) AS returned
		FROM bucket_epoch e /*by bucket_epoch_units*/
		WHERE e.budget_id = ? GROUP BY e.budget_id) s ON s.budget_id = u.id
	WHERE u.id = ?`

type figuresRow struct {
	Total         int64 `db:"total_quantity"`
	Undistributed int64 `db:"undistributed_quantity"`
	Quarantined   int64 `db:"quarantined_quantity"`
	Forfeited     int64 `db:"forfeited_quantity"`
	PendingShrink int64 `db:"pending_shrink_quantity"`
	Unfunded      int64 `db:"unfunded_quantity"`
	Period        int64 `db:"period"`
	PeriodStartMS int64 `db:"period_start_ms"`
	PeriodEndMS   int64 `db:"period_end_ms"`
	IsOver        int64 `db:"is_over"`
	PeriodUnits   int64 `db:"period_units"`
	PeriodUsed    int64 `db:"period_used"`
	Remaining     int64 `db:"remaining"`
	Unsettled     int64 `db:"unsettled"`
	Held          int64 `db:"held"`
	Used          int64 `db:"used"`
	Returning     int64 `db:"returned"`
	Online        int   `db:"online_buckets"`
	Offline       int   `db:"offline_buckets"`
}

// Figures reads a budget's figures from one statement. Error: BudgetNotFound.
func (db *DB) Figures(ctx context.Context, budgetID int64) (f ledger.Figures, err error) {
	err = db.read(ctx, "figures", func(r *reader) error {
		f, err = r.figures(budgetID)
		return err
	})
	return f, err
}

func (r *reader) figures(budgetID int64) (ledger.Figures, error) {
	var row figuresRow
	found, err := r.get(&row, selectFigures, budgetID, budgetID)
	if err == nil && !found {
		err = budget.Refuse(budget.BudgetNotFound, "read", "there is no budget %d", budgetID)
	}
	if err != nil {
		return ledger.Figures{}, err
	}
	return row.figures(), nil
}

func (row *figuresRow) figures() ledger.Figures {
	return ledger.Figures{
		Total: row.Total, Undistributed: row.Undistributed, Quarantined: row.Quarantined,
		Forfeited: row.Forfeited, Unfunded: row.Unfunded, PeriodUnits: row.PeriodUnits,
		PeriodUsed: row.PeriodUsed, PendingShrink: row.PendingShrink, Remaining: row.Remaining,
		Unsettled: row.Unsettled, Held: row.Held, Used: row.Used, Returning: row.Returning,
		Online: row.Online, Offline: row.Offline,
		Period: budget.Period{Number: row.Period, Over: row.IsOver == 1, Start: fromMS(row.PeriodStartMS),
			End: fromMS(row.PeriodEndMS)},
	}
}

const (
	selectAdjusted = `SELECT COALESCE(SUM(quantity), 0) FROM adjustment
		WHERE budget_id = ? AND status = 'done'`
	selectWaiting = `SELECT COALESCE(-SUM(quantity), 0) FROM adjustment
		WHERE budget_id = ? AND status = 'pending'`

	selectAllEpochs = `SELECT ` + epochColumns + `, b.sharding_bucket_key AS bucket_key
		FROM bucket_epoch e
		JOIN sharding_budget_management_bucket b ON b.id = e.bucket_id
		WHERE b.budget_id = ? ORDER BY b.ordinal, e.epoch`
	sumGrants = `SELECT g.bucket_id, g.epoch, SUM(g.amount) AS units, 0 AS noted FROM grant_log g
		JOIN sharding_budget_management_bucket b ON b.id = g.bucket_id
		WHERE b.budget_id = ? GROUP BY g.bucket_id, g.epoch`
	sumDeductions = `SELECT d.bucket_id, d.epoch, SUM(d.amount) AS units, SUM(d.rolled_back) AS noted
		FROM deduction d WHERE d.budget_id = ? AND d.bucket_id IS NOT NULL GROUP BY d.bucket_id, d.epoch`
	sumDuplicates = `SELECT d.bucket_id, d.epoch, SUM(d.amount) AS units, 0 AS noted FROM duplicate d
		JOIN sharding_budget_management_bucket b ON b.id = d.bucket_id
		WHERE b.budget_id = ? GROUP BY d.bucket_id, d.epoch`
	sumRollbacks = `SELECT r.bucket_id, r.epoch, SUM(r.amount) AS units, 0 AS noted FROM rollback_log r
		WHERE r.budget_id = ? GROUP BY r.bucket_id, r.epoch`
	sumHolds = `SELECT d.bucket_id, d.epoch, SUM(d.amount - d.rolled_back) AS units, 0 AS noted FROM deduction d
		WHERE d.budget_id = ? AND d.state = 'held' GROUP BY d.bucket_id, d.epoch`
	sumHoldEnds = `SELECT h.bucket_id, h.epoch, SUM(h.returned) AS units, 0 AS noted FROM hold_log h
		WHERE h.budget_id = ? GROUP BY h.bucket_id, h.epoch`
	sumQuarantines = `SELECT q.bucket_id, q.epoch, SUM(q.quantity) AS units,
		SUM(q.released_quantity) AS noted FROM quarantine q
		WHERE q.budget_id = ? GROUP BY q.bucket_id, q.epoch`
	sumReleases = `SELECT r.bucket_id, r.epoch, SUM(r.quantity) AS units, 0 AS noted
		FROM quarantine_release r WHERE r.budget_id = ? GROUP BY r.bucket_id, r.epoch`
)

// Accounts reads columns, rows and entries as of one moment, for the proof of I1. It reads every
// row of the budget's ledger.
func (db *DB) Accounts(ctx context.Context, budgetID int64) (out bucket.Accounts, err error) {
	err = db.snapshot(ctx, "audit", func(r *reader) error {
		if out.Figures, err = r.figures(budgetID); err != nil {
			return err
		}
		if _, err = r.get(&out.Adjusted, selectAdjusted, budgetID); err != nil {
			return err
		}
		if _, err = r.get(&out.Shrinks, selectWaiting, budgetID); err != nil {
			return err
		}
		if out.Epochs, err = r.epochFigures(budgetID); err != nil {
			return err
		}
		out.Current, out.Periods, err = r.periods(budgetID)
		return err
	})
	if err != nil {
		return bucket.Accounts{}, err
	}
	return out, nil
}

func (r *reader) epochFigures(budgetID int64) ([]ledger.EpochFigures, error) {
	var rows []struct {
		epochRow
		Key string `db:"bucket_key"`
	}
	if err := r.list(&rows, selectAllEpochs, budgetID); err != nil {
		return nil, err
	}
	out := make([]ledger.EpochFigures, len(rows))
	index := make(map[position]*ledger.EpochFigures, len(rows))
	for i := range rows {
		row := &rows[i]
		out[i] = ledger.EpochFigures{Bucket: row.Key, Row: row.epoch(), Closed: row.Closed}
		index[row.position()] = &out[i]
	}
	for _, sum := range []struct {
		query string
		add   func(e *ledger.EpochFigures, units, noted int64)
	}{
		{sumGrants, func(e *ledger.EpochFigures, units, _ int64) { e.Granted = units }},
		{sumDeductions, func(e *ledger.EpochFigures, units, noted int64) {
			e.Deducted, e.Noted = units, noted
		}},
		{sumDuplicates, func(e *ledger.EpochFigures, units, _ int64) { e.Duplicates = units }},
		{sumRollbacks, func(e *ledger.EpochFigures, units, _ int64) { e.RolledBack = units }},
		{sumHoldEnds, func(e *ledger.EpochFigures, units, _ int64) { e.RolledBack += units }},
		{sumHolds, func(e *ledger.EpochFigures, units, _ int64) { e.Held = units }},
		{sumQuarantines, func(e *ledger.EpochFigures, units, noted int64) {
			e.Quarantined, e.NotedRelease = units, noted
		}},
		{sumReleases, func(e *ledger.EpochFigures, units, _ int64) { e.Released = units }},
	} {
		var sums []struct {
			Bucket int64 `db:"bucket_id"`
			Epoch  int64 `db:"epoch"`
			Units  int64 `db:"units"`
			Noted  int64 `db:"noted"`
		}
		if err := r.list(&sums, sum.query, budgetID); err != nil {
			return nil, err
		}
		for _, s := range sums {
			e := index[position{s.Bucket, s.Epoch}]
			if e == nil {
				return nil, defect("rows of bucket %d, epoch %d, which does not exist", s.Bucket, s.Epoch)
			}
			sum.add(e, s.Units, s.Noted)
		}
	}
	return out, nil
}

// selectPrefix sums grants and entries of an epoch up to a position, as of one moment.
const selectPrefix = `SELECT
	(SELECT COALESCE(SUM(amount), 0) FROM grant_log
		WHERE bucket_id = ? AND epoch = ? AND number <= ?) AS granted,
	(SELECT COALESCE(SUM(amount), 0) FROM deduction
		WHERE bucket_id = ? AND epoch = ? AND seq <= ?) AS deducted,
	(SELECT COALESCE(SUM(amount), 0) FROM duplicate
		WHERE bucket_id = ? AND epoch = ? AND seq <= ?) AS duplicates`

// Prefix sums what the ledger holds of an epoch up to a log position: what a store that agrees
// shows.
func (db *DB) Prefix(ctx context.Context, ref bucket.Ref, seq, grantSeq int64) (
	granted, deducted int64, err error) {
	var row struct {
		Granted    int64 `db:"granted"`
		Deducted   int64 `db:"deducted"`
		Duplicates int64 `db:"duplicates"`
	}
	err = db.read(ctx, "audit", func(r *reader) error {
		_, err := r.get(&row, selectPrefix, ref.Bucket, ref.Epoch, grantSeq, ref.Bucket, ref.Epoch, seq,
			ref.Bucket, ref.Epoch, seq)
		return err
	})
	return row.Granted, row.Deducted + row.Duplicates, err
}
