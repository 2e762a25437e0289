package sqlstore

import (
	"bytes"
	"context"
	"slices"
	"time"

	"github.com/budgetd/budgetd/allocation"
	"github.com/budgetd/budgetd/bucket"
	"github.com/budgetd/budgetd/budget"
	"github.com/budgetd/budgetd/limit"
)

const (
	updateBudget = `UPDATE budget_management_bucket SET status = ?, sharding_quantity = ?,
		adjust_cnt = ?, end_ms = ?, type_rule = ?, unused = ?, late_refund = ?, resize_quantity = ?,
		version = version + 1, updated_at = ? WHERE id = ? AND version = ?`
	movePeriodEnd = `UPDATE budget_management_bucket SET period_end_ms = ?, roll_over_ms = ?,
		list_version = list_version + 1 WHERE id = ?`
	moveEndOfPeriod     = `UPDATE budget_period SET end_ms = ? WHERE budget_id = ? AND number = ?`
	selectLivePositions = `SELECT e.bucket_id, e.epoch FROM sharding_budget_management_bucket b
		JOIN bucket_epoch e ON e.bucket_id = b.id AND e.epoch = b.epoch
		WHERE b.budget_id = ? AND e.status IN ('opening', 'open', 'closing')` + inKeyOrder
	selectLate = `SELECT e.bucket_id, e.epoch FROM bucket_epoch e
		WHERE e.budget_id = ? AND e.has_returns = 1 AND e.late_quantity > 0 AND e.period = ?` + inKeyOrder
	setPeriodEnd = `UPDATE bucket_epoch /*by PRIMARY*/ SET period_end_ms = ? WHERE `
	setInTime    = `UPDATE bucket_epoch /*by PRIMARY*/ SET late_quantity = 0 WHERE `
)

// Change changes a definition and its version. A new end is copied to the live epochs under their
// locks, so every commit that follows obeys it (I8). Errors: VersionConflict, Invalid.
func (db *DB) Change(ctx context.Context, id int64, change bucket.Change) (
	d budget.Definition, err error) {
	tried := budget.Definition{} // what an earlier attempt wrote, committed or not
	err = db.write(ctx, "change", func(t *tx) error {
		row, err := t.lockBudget("change", id)
		if err != nil {
			return err
		}
		before, err := t.withLimits(row)
		if err != nil {
			return err
		}
		if t.unsure && tried.ID != 0 && sameChange(before, tried) {
			d = before
			return nil
		}
		if change.IfVersion != 0 && change.IfVersion != before.Version {
			return budget.Refuse(budget.VersionConflict, "change",
				"budget %q is at version %d, not %d", before.Name, before.Version, change.IfVersion)
		}
		d = change.Of(before)
		resize := row.Resize
		if change.BucketQuantity != nil {
			d.BucketQuantity = *change.BucketQuantity
			if resize > 0 || d.BucketQuantity != before.BucketQuantity {
				resize = d.BucketQuantity
			}
		}
		faults := append(allocation.CheckDefinition(d), limit.CheckDefinition(d)...)
		if faults != nil {
			return &budget.Error{Code: budget.Invalid, Op: "change", Fields: faults}
		}
		d.BucketQuantity = before.BucketQuantity // until Resize has done it
		d.EndAt = fromMS(endMS(d.EndAt))
		d.Version, d.UpdatedAt = before.Version+1, t.now
		if change.Limits != nil {
			d.Limits = limit.Change(before.Limits, *change.Limits, t.now)
			if err := t.changeLimits(d); err != nil {
				return err
			}
		}
		tried = d
		return t.writeChange(row, before, d, resize)
	})
	if err != nil {
		return budget.Definition{}, err
	}
	return d, nil
}

// sameChange reports whether what is recorded is what was tried: same version, same values.
func sameChange(recorded, tried budget.Definition) bool {
	return recorded.Version == tried.Version && recorded.Paused == tried.Paused &&
		recorded.ShardingQuantity == tried.ShardingQuantity && recorded.AdjustCnt == tried.AdjustCnt &&
		recorded.EndAt.Equal(tried.EndAt) && recorded.LateRefund == tried.LateRefund &&
		bytes.Equal(writeRule(recorded.Rule), writeRule(tried.Rule)) && recorded.UpdatedAt.Equal(tried.UpdatedAt) &&
		limit.EncodeAll(recorded.Limits) == limit.EncodeAll(tried.Limits)
}

func (t *tx) writeChange(row *budgetRow, before, after budget.Definition, resize int) error {
	status := statusActive
	if after.Paused {
		status = statusPaused
	}
	err := t.hit(1, updateBudget, status, after.ShardingQuantity, after.AdjustCnt, endMS(after.EndAt),
		writeRule(after.Rule), unusedColumn(after), string(after.LateRefund), resize,
		toMS(after.UpdatedAt), after.ID, before.Version)
	if err != nil {
		return err
	}
	p, err := t.openPeriodOf(row)
	if err != nil {
		return err
	}
	end, due := allocation.Change(before, after, p, t.now)
	was := row.PeriodEndMS
	row.PeriodEndMS = endMS(end)
	if err := t.topUp(row, after); err != nil {
		return err
	}
	if row.PeriodEndMS == was && toMS(due) == row.RollOverMS {
		return nil
	}
	if err := t.hit(1, movePeriodEnd, endMS(end), toMS(due), row.ID); err != nil {
		return err
	}
	if row.IsOver == 1 {
		return nil
	}
	if err := t.hit(1, moveEndOfPeriod, endMS(end), row.ID, row.Period); err != nil {
		return err
	}
	return t.moveEndOfEpochs(row, end)
}

// moveEndOfEpochs copies the end of the open period to its live epochs, under their locks; in store mode the nodes
// send it with each operation. What was given back after an end that has moved on is not late.
func (t *tx) moveEndOfEpochs(b *budgetRow, end time.Time) error {
	var live, late []position
	if b.Durability != string(budget.Store) {
		if err := t.listPositions(&live, selectLivePositions, b.ID); err != nil {
			return err
		}
	}
	if last := endMS(end); last == 0 || toMS(t.now) < last {
		if err := t.listPositions(&late, selectLate, b.ID, b.Period); err != nil {
			return err
		}
	}
	rows, err := t.lockEpochs(append(slices.Clone(live), late...)...)
	if err != nil {
		return err
	}
	var ends, inTime []any
	for _, p := range live {
		if row := rows[p]; row != nil && row.Period == b.Period {
			ends = append(ends, p.bucket, p.epoch)
		}
	}
	for _, p := range late {
		inTime = append(inTime, p.bucket, p.epoch)
	}
	const which = `(bucket_id = ? AND epoch = ?)`
	if err := t.hitAll(setPeriodEnd, []any{endMS(end)}, which, ends); err != nil {
		return err
	}
	return t.hitAll(setInTime, nil, which, inTime)
}

func (t *tx) listPositions(to *[]position, query string, args ...any) error {
	var found []struct {
		Bucket int64 `db:"bucket_id"`
		Epoch  int64 `db:"epoch"`
	}
	if err := t.list(&found, query, args...); err != nil {
		return err
	}
	for _, f := range found {
		*to = append(*to, position{f.Bucket, f.Epoch})
	}
	return nil
}
