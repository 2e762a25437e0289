package transfer

import (
	"context"
	"time"

	"github.com/budgetd/budgetd/bucket"
	"github.com/budgetd/budgetd/internal/sqlstore/engine"
	"github.com/budgetd/budgetd/internal/sqlstore/rows"
)

const (
	recycleColumns = `SELECT budget_id, number, cause, is_open, next_ordinal, buckets,
		buckets_skipped, moved, units_before, stranded_before, units_after, stranded_after,
		created_at, touched_ms, ended_at FROM recycle_run `
	selectOpenRun = recycleColumns + `WHERE budget_id = ? AND is_open = 1`
	selectRun     = recycleColumns + `WHERE budget_id = ? AND number = ?`
	// selectSince finds a recycle of a cause that began at an instant or later.
	selectSince = recycleColumns + `/*by PRIMARY*/ WHERE budget_id = ? AND cause = ?
		AND created_at >= ? ORDER BY number DESC LIMIT 1`
	selectRuns = recycleColumns + `/*by PRIMARY*/ WHERE budget_id = ? AND number < ?
		ORDER BY number DESC LIMIT ?`
	selectOpenRuns = recycleColumns + `/*by recycle_run_open*/ WHERE is_open = 1
		ORDER BY created_at, budget_id LIMIT ?`
	selectNextRun = `SELECT next_run FROM budget_management_bucket WHERE id = ?`
	takeRunNumber = `UPDATE budget_management_bucket SET next_run = next_run + 1 WHERE id = ?`
	insertRun     = `INSERT INTO recycle_run (budget_id, number, cause, is_open, units_before,
		stranded_before, created_at, touched_ms) VALUES (?, ?, ?, 1, ?, ?, ?, ?)`
	advanceRun = `UPDATE recycle_run SET next_ordinal = ?, buckets = ?, buckets_skipped = ?,
		moved = ?, touched_ms = ? WHERE budget_id = ? AND number = ? AND is_open = 1`
	endRun = `UPDATE recycle_run SET is_open = NULL, units_after = ?, stranded_after = ?,
		ended_at = ? WHERE budget_id = ? AND number = ? AND is_open = 1`
)

// runRow is a row of recycle_run.
type runRow struct {
	Budget         int64  `db:"budget_id"`
	Number         int64  `db:"number"`
	Cause          string `db:"cause"`
	IsOpen         *int64 `db:"is_open"`
	Next           int    `db:"next_ordinal"`
	Buckets        int    `db:"buckets"`
	Skipped        int    `db:"buckets_skipped"`
	Moved          int64  `db:"moved"`
	UnitsBefore    int64  `db:"units_before"`
	StrandedBefore int64  `db:"stranded_before"`
	UnitsAfter     int64  `db:"units_after"`
	StrandedAfter  int64  `db:"stranded_after"`
	CreatedAt      int64  `db:"created_at"`
	TouchedMS      int64  `db:"touched_ms"`
	EndedAt        int64  `db:"ended_at"`
}

// recycle converts the row.
func (r *runRow) recycle() bucket.Recycle {
	return bucket.Recycle{
		Budget: r.Budget, Number: r.Number, Cause: bucket.RecycleCause(r.Cause),
		Buckets: r.Buckets, Skipped: r.Skipped, Moved: r.Moved,
		Before:  bucket.Spread{Units: r.UnitsBefore, Stranded: r.StrandedBefore},
		After:   bucket.Spread{Units: r.UnitsAfter, Stranded: r.StrandedAfter},
		BeganAt: engine.FromMS(r.CreatedAt), TouchedAt: engine.FromMS(r.TouchedMS),
		EndedAt: engine.FromMS(r.EndedAt),
	}
}

// oneRun reads at most one run.
func oneRun(t *engine.Tx, query string, args ...any) (*runRow, error) {
	row := &runRow{}
	found, err := t.Get(row, query, args...)
	if err != nil || !found {
		return nil, err
	}
	return row, nil
}

// BeginRecycle begins a recycle of a budget. See transfer.Recycles.
func (p *Part) BeginRecycle(ctx context.Context, budgetID int64, cause bucket.RecycleCause,
	since time.Time) (run bucket.Recycle, began bool, err error) {
	layout, err := p.Layout(ctx, budgetID)
	if err != nil {
		return bucket.Recycle{}, false, err
	}
	before, tried := layout.Spread(), int64(0)
	err = p.db.Write(ctx, "recycle", func(t *engine.Tx) error {
		began = false
		if _, err := rows.LockBudget(t, "recycle", budgetID); err != nil {
			return err
		}
		found, err := oneRun(t, selectOpenRun, budgetID)
		if err == nil && found == nil && !since.IsZero() {
			found, err = oneRun(t, selectSince, budgetID, string(cause), engine.ToMS(since))
		}
		if err != nil {
			return err
		}
		if found != nil {
			run, began = found.recycle(), t.Unsure && tried == found.Number
			return nil
		}
		number := int64(0)
		if _, err := t.Get(&number, selectNextRun, budgetID); err != nil {
			return err
		}
		if err := t.Hit(1, takeRunNumber, budgetID); err != nil {
			return err
		}
		now := engine.ToMS(t.Now)
		err = t.Hit(1, insertRun, budgetID, number, string(cause), before.Units, before.Stranded,
			now, now)
		began, tried = true, number
		run = bucket.Recycle{Budget: budgetID, Number: number, Cause: cause, Before: before,
			BeganAt: engine.FromMS(now), TouchedAt: engine.FromMS(now)}
		return err
	})
	if err != nil {
		return bucket.Recycle{}, false, err
	}
	return run, began, nil
}

// RecycleHistory reads a budget's recycles, the newest first. See transfer.Recycles.
func (p *Part) RecycleHistory(ctx context.Context, budgetID, before int64, limit int) (
	[]bucket.Recycle, error) {
	if before <= 0 {
		before = 1 << 62
	}
	return p.runs(ctx, selectRuns, budgetID, before, limit)
}

// OpenRecycles lists runs that have not ended. See transfer.Recycles.
func (p *Part) OpenRecycles(ctx context.Context, limit int) ([]bucket.Recycle, error) {
	return p.runs(ctx, selectOpenRuns, limit)
}

func (p *Part) runs(ctx context.Context, query string, args ...any) (
	out []bucket.Recycle, err error) {
	err = p.db.Read(ctx, "recycles", func(r *engine.Reader) error {
		var read []runRow
		if err := r.List(&read, query, args...); err != nil {
			return err
		}
		out = make([]bucket.Recycle, len(read))
		for i := range read {
			out[i] = read[i].recycle()
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	return out, nil
}
