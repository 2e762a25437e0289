package sqlstore

import (
	"context"

	"github.com/budgetd/budgetd/bucket"
	"github.com/budgetd/budgetd/budget"
)

const (
	updateBudget = `UPDATE budget_management_bucket SET status = ?, sharding_quantity = ?,
		adjust_cnt = ?, end_ms = ?, version = version + 1, updated_at = ? WHERE id = ? AND version = ?`
	selectLivePositions = `SELECT e.bucket_id, e.epoch FROM sharding_budget_management_bucket b
		JOIN bucket_epoch e ON e.bucket_id = b.id AND e.epoch = b.epoch
		WHERE b.budget_id = ? AND e.status IN ('opening', 'open', 'closing')` + inKeyOrder
	setPeriodEnd = `UPDATE bucket_epoch /*by PRIMARY*/ SET period_end_ms = ? WHERE `
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
		before := row.definition()
		if t.unsure && tried.ID != 0 && sameChange(before, tried) {
			d = before
			return nil
		}
		if change.IfVersion != 0 && change.IfVersion != before.Version {
			return budget.Refuse(budget.VersionConflict, "change",
				"budget %q is at version %d, not %d", before.Name, before.Version, change.IfVersion)
		}
		d = changed(before, change)
		if faults := d.Check(); faults != nil {
			return &budget.Error{Code: budget.Invalid, Op: "change", Fields: faults}
		}
		d.EndAt = fromMS(endMS(d.EndAt))
		d.Version, d.UpdatedAt = before.Version+1, t.now
		tried = d
		return t.writeChange(before, d)
	})
	if err != nil {
		return budget.Definition{}, err
	}
	return d, nil
}

// changed returns a definition after a change.
func changed(d budget.Definition, change bucket.Change) budget.Definition {
	if change.Paused != nil {
		d.Paused = *change.Paused
	}
	if change.ShardingQuantity != nil {
		d.ShardingQuantity = *change.ShardingQuantity
	}
	if change.AdjustCnt != nil {
		d.AdjustCnt = *change.AdjustCnt
	}
	if change.EndAt != nil {
		d.EndAt = *change.EndAt
	}
	return d
}

// sameChange reports whether what is recorded is what was tried: same version, same values.
func sameChange(recorded, tried budget.Definition) bool {
	return recorded.Version == tried.Version && recorded.Paused == tried.Paused &&
		recorded.ShardingQuantity == tried.ShardingQuantity && recorded.AdjustCnt == tried.AdjustCnt &&
		recorded.EndAt.Equal(tried.EndAt) && recorded.UpdatedAt.Equal(tried.UpdatedAt)
}

func (t *tx) writeChange(before, after budget.Definition) error {
	status := statusActive
	if after.Paused {
		status = statusPaused
	}
	err := t.hit(1, updateBudget, status, after.ShardingQuantity, after.AdjustCnt, endMS(after.EndAt),
		toMS(after.UpdatedAt), after.ID, before.Version)
	if err != nil || before.EndAt.Equal(after.EndAt) {
		return err
	}
	var live []struct {
		Bucket int64 `db:"bucket_id"`
		Epoch  int64 `db:"epoch"`
	}
	if err := t.list(&live, selectLivePositions, after.ID); err != nil {
		return err
	}
	positions := make([]position, len(live))
	for i, p := range live {
		positions[i] = position{p.Bucket, p.Epoch}
	}
	if _, err := t.lockEpochs(positions...); err != nil {
		return err
	}
	var keys []any
	for _, p := range positions {
		keys = append(keys, p.bucket, p.epoch)
	}
	return t.hitAll(setPeriodEnd, []any{endMS(after.EndAt)}, `(bucket_id = ? AND epoch = ?)`, keys)
}
