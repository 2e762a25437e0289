package transfer

import (
	"context"
	"slices"

	"github.com/budgetd/budgetd/bucket"
	"github.com/budgetd/budgetd/bucket/transfer"
	"github.com/budgetd/budgetd/budget"
	"github.com/budgetd/budgetd/internal/sqlstore/engine"
	"github.com/budgetd/budgetd/internal/sqlstore/moves"
	"github.com/budgetd/budgetd/internal/sqlstore/rows"
)

const (
	changePartition = `UPDATE sharding_budget_management_bucket SET instance = ?, partition_number = ?,
		updated_at = ? WHERE id = ? AND instance = ? AND partition_number = ?`
	// raiseFills makes every content of the buckets too old, including that in the store they
	// leave.
	raiseFills = `UPDATE bucket_epoch /*by PRIMARY*/ SET fill = fill + 1 WHERE `
)

// Move moves ledger-mode buckets of a budget to other partitions. See transfer.Partitions. It takes
// one transaction per transfer.MaxEpochs buckets. It is idempotent.
func (p *Part) Move(ctx context.Context, budgetID int64, list []transfer.Placement) (
	out transfer.Moved, moved int, err error) {
	for chunk := range slices.Chunk(list, transfer.MaxEpochs) {
		levels, err := p.moveStep(ctx, budgetID, chunk)
		if err != nil {
			return out, moved, err
		}
		out.Levels, moved = append(out.Levels, levels...), moved+len(levels)
	}
	return out, moved, nil
}

// moveStep moves the buckets of one transaction.
func (p *Part) moveStep(ctx context.Context, budgetID int64, list []transfer.Placement) (
	levels []bucket.Level, err error) {
	to := make(map[int64]transfer.Placement, len(list))
	for _, one := range list {
		to[one.Bucket] = one
	}
	err = p.db.Write(ctx, "move", func(t *engine.Tx) error {
		levels = nil
		b, err := rows.LockBudget(t, "move", budgetID)
		if err != nil || b.Durability != string(budget.Ledger) {
			return err
		}
		all, err := rows.Buckets(&t.Reader, b.ID)
		if err != nil {
			return err
		}
		drained, err := moves.Drained(t)
		if err != nil {
			return err
		}
		movers := pointers(all, func(row *rows.Bucket) bool {
			one, asked := to[row.Epoch.Bucket]
			return asked && row.Partition() == one.From && one.From != one.To && !drained[one.To]
		})
		if len(movers) == 0 {
			return nil
		}
		if err := rows.LockNewest(t, movers); err != nil {
			return err
		}
		if err := changePartitions(t, b, movers, to); err != nil {
			return err
		}
		levels, err = beginIdle(t, b, movers)
		return err
	})
	if err != nil {
		return nil, err
	}
	return levels, nil
}

// changePartitions writes the new partitions of buckets, and raises the fills of their newest
// epochs.
func changePartitions(t *engine.Tx, b *rows.Budget, movers []*rows.Bucket,
	to map[int64]transfer.Placement) error {
	now := engine.ToMS(t.Now)
	var epochs []any
	for _, row := range movers {
		one := to[row.Epoch.Bucket]
		err := t.Hit(1, changePartition, []byte(one.To.Instance), one.To.Index, now, row.Epoch.Bucket,
			[]byte(one.From.Instance), one.From.Index)
		if err != nil {
			return err
		}
		row.Instance, row.PartitionIndex, row.UpdatedAt = one.To.Instance, one.To.Index, now
		row.Fill++
		epochs = append(epochs, row.Epoch.Bucket, row.Number)
	}
	if err := t.HitAll(raiseFills, nil, `(bucket_id = ? AND epoch = ?)`, epochs); err != nil {
		return err
	}
	return moves.ListChanged(t, b.ID, len(movers))
}

// beginIdle begins the next epochs of moved buckets that are in the list without a live epoch: on a
// drained partition they could not begin. It returns the levels of all moved buckets.
func beginIdle(t *engine.Tx, b *rows.Budget, movers []*rows.Bucket) ([]bucket.Level, error) {
	if b.IsOver == 0 && !b.PeriodNow().OverAt(t.Now) {
		var ended []*rows.Bucket
		for _, row := range movers {
			if idle(row) {
				ended = append(ended, row)
			}
		}
		if _, err := moves.Begin(t, "move", b, ended...); err != nil {
			return nil, err
		}
	}
	return moves.Levels(movers...), nil
}
