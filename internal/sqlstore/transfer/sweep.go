package transfer

import (
	"context"
	"maps"
	"slices"
	"time"

	"github.com/budgetd/budgetd/bucket/transfer"
	"github.com/budgetd/budgetd/internal/sqlstore/engine"
	"github.com/budgetd/budgetd/internal/sqlstore/moves"
	"github.com/budgetd/budgetd/internal/sqlstore/rows"
)

const (
	selectReturning = `SELECT DISTINCT budget_id FROM bucket_epoch /*by bucket_epoch_returns*/
		WHERE has_returns = 1 ORDER BY budget_id LIMIT ?`
	selectReturns = `SELECT e.bucket_id, e.epoch, e.budget_id
		FROM bucket_epoch e /*by bucket_epoch_returns*/
		WHERE e.has_returns = 1 AND e.budget_id IN (`
	// clocksApart is the most by which the clocks of two nodes differ, each at most 1 s off SQL's.
	clocksApart = 2 * time.Second
)

// Returning lists budgets with units on their way back to the total.
func (p *Part) Returning(ctx context.Context, limit int) (ids []int64, err error) {
	err = p.db.Read(ctx, "sweep", func(r *engine.Reader) error {
		ids = nil
		return r.List(&ids, selectReturning, limit)
	})
	if err != nil {
		return nil, err
	}
	return ids, nil
}

// Sweep moves R of budgets to where the period's rule says. See transfer.Periods. It locks at most
// transfer.MaxEpochs budgets and epochs at a time.
func (p *Part) Sweep(ctx context.Context, budgetIDs []int64) (moved int64, err error) {
	for chunk := range slices.Chunk(budgetIDs, transfer.MaxEpochs) {
		for after := (rows.Position{}); ; {
			units, next, err := p.sweepStep(ctx, chunk, after)
			moved += units
			if err != nil {
				return moved, err
			}
			if next == (rows.Position{}) {
				break
			}
			after = next
		}
	}
	return moved, nil
}

// sweepStep sweeps the next epochs after a position; next is where to continue, zero at the end.
func (p *Part) sweepStep(ctx context.Context, budgetIDs []int64, after rows.Position) (
	moved int64, next rows.Position, err error) {
	var found []returning
	err = p.db.Read(ctx, "sweep", func(r *engine.Reader) error {
		found = nil
		s := r.Statement()
		s.SQL(selectReturns)
		for i, id := range budgetIDs {
			if i > 0 {
				s.SQL(",")
			}
			s.Number(id)
		}
		s.SQL(`) AND (e.bucket_id > `)
		s.Number(after.Bucket)
		s.SQL(` OR e.bucket_id = `)
		s.Number(after.Bucket)
		s.SQL(` AND e.epoch > `)
		s.Number(after.Epoch)
		s.SQL(`) ORDER BY e.bucket_id, e.epoch LIMIT `)
		s.Number(transfer.MaxEpochs)
		return r.RowsOf(&found, s)
	})
	if err != nil || len(found) == 0 {
		return 0, rows.Position{}, err
	}
	if len(found) == transfer.MaxEpochs {
		next = found[len(found)-1].position()
	}
	err = p.db.Write(ctx, "sweep", func(t *engine.Tx) (err error) {
		moved, err = sweep(t, found)
		return err
	})
	if err != nil {
		return 0, rows.Position{}, err
	}
	return moved, next, nil
}

// returning identifies an epoch that had units on their way back.
type returning struct {
	Bucket int64 `db:"bucket_id"`
	Epoch  int64 `db:"epoch"`
	Budget int64 `db:"budget_id"`
}

func (r *returning) position() rows.Position {
	return rows.Position{Bucket: r.Bucket, Epoch: r.Epoch}
}

// sweep locks the budgets by id, then the epochs, and moves what they return.
func sweep(t *engine.Tx, found []returning) (moved int64, err error) {
	budgets := map[int64]*rows.Budget{}
	positions := make([]rows.Position, len(found))
	for i := range found {
		budgets[found[i].Budget] = nil
		positions[i] = found[i].position()
	}
	for _, id := range slices.Sorted(maps.Keys(budgets)) {
		if budgets[id], err = rows.LockBudget(t, "sweep", id); err != nil {
			return 0, err
		}
	}
	epochs, err := rows.LockEpochs(t, positions)
	if err != nil {
		return 0, err
	}
	back := map[int64][]*rows.Epoch{}
	for _, at := range positions {
		row := epochs[at]
		if row != nil && row.Halted == "" && !waits(t, budgets[row.Budget], row) {
			back[row.Budget] = append(back[row.Budget], row)
		}
	}
	for _, id := range slices.Sorted(maps.Keys(back)) {
		units, err := moves.Sweep(t, budgets[id], back[id]...)
		if err != nil {
			return 0, err
		}
		moved += units
	}
	return moved, nil
}

// waits reports whether units that came back late must wait for a rollover: one that is due,
// because they do not belong to the period that it ends, or the one that ends their own period,
// which was over by the clock of the node that gave them back.
func waits(t *engine.Tx, b *rows.Budget, row *rows.Epoch) bool {
	if row.Late == 0 {
		return false
	}
	if b.Due(t.Now) {
		return true
	}
	soon := engine.ToMS(t.Now.Add(clocksApart))
	return row.Period == b.Period && b.IsOver == 0 && b.PeriodEndMS != 0 && b.PeriodEndMS <= soon
}
