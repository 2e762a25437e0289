package sqlstore

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/budgetd/budgetd/bucket"
)

const (
	recycleColumns = `SELECT r.budget_id, r.number, r.cause, r.holder, r.plan, r.buckets_done,
		r.buckets_skipped, r.moved, r.units_before, r.stranded_before, r.units_after, r.stranded_after,
		r.created_at, r.touched_ms, r.ended_at FROM run r `
	selectOpenRecycle = recycleColumns + `WHERE r.budget_id = ? AND r.active = 2`
	// selectSince finds a recycle of that cause that has begun since an instant.
	selectSince = recycleColumns + `/*by PRIMARY*/ WHERE r.budget_id = ? AND r.kind = 'recycle'
		AND r.cause = ? AND r.created_at >= ? ORDER BY r.number DESC LIMIT 1`
	selectRecycles = recycleColumns + `/*by PRIMARY*/ WHERE r.budget_id = ? AND r.number < ?
		AND r.kind = 'recycle' ORDER BY r.number DESC LIMIT ?`
	insertRecycle = `INSERT INTO run (budget_id, number, kind, status, active, target_bucket,
		target_epoch, target_activation, units, moved, cause, holder, plan, units_before,
		stranded_before, created_at, touched_ms, ended_at)`
	advanceRecycle = `UPDATE run SET buckets_done = ?, buckets_skipped = buckets_skipped + ?,
		moved = moved + ?, touched_ms = ? WHERE budget_id = ? AND number = ? AND active = 2`
	countCollects = `SELECT COUNT(*) FROM run WHERE budget_id = ? AND active = 1`
	takeRecycle   = `UPDATE run SET holder = ?, touched_ms = ?
		WHERE budget_id = ? AND number = ? AND active = 2 AND touched_ms = ?`
	endRecycle = `UPDATE run SET status = 'done', active = NULL, units_after = ?, stranded_after = ?,
		touched_ms = ?, ended_at = ? WHERE budget_id = ? AND number = ? AND active = 2 AND holder = ?`
	selectOpenRecycles = `SELECT budget_id, number, touched_ms, plan, buckets_done FROM run /*by run_active*/
		WHERE active = 2 ORDER BY touched_ms, budget_id LIMIT ?`
)

// recycleRow is a row of run that is a recycle.
type recycleRow struct {
	Budget         int64  `db:"budget_id"`
	Number         int64  `db:"number"`
	Cause          string `db:"cause"`
	Holder         string `db:"holder"`
	Plan           string `db:"plan"`
	Done           int    `db:"buckets_done"`
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

func (r *recycleRow) recycle() (bucket.Recycle, error) {
	plan, err := parsePlan(r.Plan)
	return bucket.Recycle{
		Budget: r.Budget, Number: r.Number, Cause: bucket.RecycleCause(r.Cause), Holder: r.Holder,
		Plan: plan, Done: r.Done, Skipped: r.Skipped, Moved: r.Moved,
		Before:  bucket.Spread{Units: r.UnitsBefore, Stranded: r.StrandedBefore},
		After:   bucket.Spread{Units: r.UnitsAfter, Stranded: r.StrandedAfter},
		BeganAt: fromMS(r.CreatedAt), TouchedAt: fromMS(r.TouchedMS), EndedAt: fromMS(r.EndedAt),
	}, err
}

// planText is a plan as run.plan holds it.
func planText(plan []bucket.Planned) []byte {
	words := make([]string, len(plan))
	for i, p := range plan {
		words[i] = fmt.Sprintf("%d:%d", p.Bucket, p.Epoch)
	}
	return []byte(strings.Join(words, " "))
}

func parsePlan(text string) ([]bucket.Planned, error) {
	var plan []bucket.Planned
	for word := range strings.FieldsSeq(text) {
		var p bucket.Planned
		if _, err := fmt.Sscanf(word, "%d:%d", &p.Bucket, &p.Epoch); err != nil {
			return nil, defect("run.plan has %q: %v", word, err)
		}
		plan = append(plan, p)
	}
	return plan, nil
}

// openRecycles reads at most limit recycles that go on.
func (r *reader) openRecycles(limit int) ([]bucket.OpenRun, error) {
	var rows []recycleRow
	if err := r.list(&rows, selectOpenRecycles, limit); err != nil {
		return nil, err
	}
	out := make([]bucket.OpenRun, len(rows))
	for i := range rows {
		run, err := rows[i].recycle()
		if err != nil {
			return nil, err
		}
		out[i] = run.Open()
	}
	return out, nil
}

// oneRecycle reads at most one recycle.
func (r *reader) oneRecycle(query string, args ...any) (out bucket.Recycle, found bool, err error) {
	var row recycleRow
	if found, err = r.get(&row, query, args...); err == nil && found {
		out, err = row.recycle()
	}
	return out, found, err
}

// BeginRecycle starts a recycle unless one is going on. See bucket.Recycles.
func (db *DB) BeginRecycle(ctx context.Context, order bucket.RecycleOrder) (out bucket.Recycle, err error) {
	err = db.write(ctx, "recycle", func(t *tx) error {
		if _, err := t.lockBudget("recycle", order.Budget); err != nil {
			return err
		}
		found := false
		if out, found, err = t.oneRecycle(selectOpenRecycle, order.Budget); err != nil || found {
			return err
		}
		if !order.Since.IsZero() {
			out, found, err = t.oneRecycle(selectSince, order.Budget, string(order.Cause), toMS(order.Since))
			if err != nil || found {
				return err
			}
		}
		now := toMS(t.now)
		out = bucket.Recycle{Budget: order.Budget, Cause: order.Cause, Holder: order.Holder, Plan: order.Plan,
			Before: order.Before, BeganAt: fromMS(now), TouchedAt: fromMS(now)}
		if _, err := t.get(&out.Number, selectNextRun, order.Budget); err != nil {
			return err
		}
		if err := t.hit(1, takeRunNumber, order.Budget); err != nil {
			return err
		}
		return t.insert(insertRecycle, 18, []any{order.Budget, out.Number, "recycle", "open", 2, 0, 0, 0, 0, 0,
			string(order.Cause), []byte(order.Holder), planText(order.Plan), order.Before.Units,
			order.Before.Stranded, now, now, 0})
	})
	if err != nil {
		return bucket.Recycle{}, err
	}
	return out, nil
}

// AdvanceRecycle notes how far a recycle has come. See bucket.Recycles.
func (db *DB) AdvanceRecycle(ctx context.Context, step bucket.RecycleStep) (ok, collecting bool, err error) {
	err = db.write(ctx, "recycle", func(t *tx) error {
		ok = false
		if _, err := t.lockBudget("recycle", step.Budget); err != nil {
			return err
		}
		open, found, err := t.oneRecycle(selectOpenRecycle, step.Budget)
		if err != nil {
			return err
		}
		var collects int
		if _, err := t.get(&collects, countCollects, step.Budget); err != nil {
			return err
		}
		collecting = collects > 0
		if !found || open.Number != step.Number || open.Holder != step.Holder || open.Done > step.Done {
			return nil
		}
		ok = true
		if open.Done == step.Done {
			step.Skipped, step.Moved = 0, 0
		}
		touched := max(toMS(t.now), toMS(open.TouchedAt)+1)
		return t.hit(1, advanceRecycle, step.Done, step.Skipped, step.Moved, touched, step.Budget, step.Number)
	})
	return ok && err == nil, collecting && err == nil, err
}

// TakeRecycle gives an open recycle to another holder. See bucket.Recycles.
func (db *DB) TakeRecycle(ctx context.Context, budgetID, number int64, seen time.Time, holder string) (
	out *bucket.Recycle, err error) {
	err = db.write(ctx, "recycle", func(t *tx) error {
		out = nil
		if _, err := t.lockBudget("recycle", budgetID); err != nil {
			return err
		}
		open, found, err := t.oneRecycle(selectOpenRecycle, budgetID)
		if err != nil || !found || open.Number != number {
			return err
		}
		if t.unsure && open.Holder == holder {
			out = &open
			return nil
		}
		if !open.TouchedAt.Equal(seen) {
			return nil
		}
		touched := max(toMS(t.now), toMS(seen)+1)
		open.Holder, open.TouchedAt = holder, fromMS(touched)
		out = &open
		return t.hit(1, takeRecycle, []byte(holder), touched, budgetID, number, toMS(seen))
	})
	if err != nil {
		return nil, err
	}
	return out, nil
}

// EndRecycle ends a recycle. See bucket.Recycles.
func (db *DB) EndRecycle(ctx context.Context, budgetID, number int64, holder string, after bucket.Spread) (
	ended bool, err error) {
	tried := false
	err = db.write(ctx, "recycle", func(t *tx) error {
		if _, err := t.lockBudget("recycle", budgetID); err != nil {
			return err
		}
		now := toMS(t.now)
		n, err := t.exec(endRecycle, after.Units, after.Stranded, now, now, budgetID, number, []byte(holder))
		ended = n == 1 || t.unsure && tried
		tried = tried || n == 1
		return err
	})
	return ended && err == nil, err
}

// RecycleHistory reads recycles of a budget. See bucket.Recycles.
func (db *DB) RecycleHistory(ctx context.Context, budgetID, before int64, limit int) (
	out []bucket.Recycle, err error) {
	if before <= 0 {
		before = 1 << 62
	}
	err = db.read(ctx, "recycles", func(r *reader) error {
		out = nil
		var rows []recycleRow
		if err := r.list(&rows, selectRecycles, budgetID, before, limit); err != nil {
			return err
		}
		for i := range rows {
			one, err := rows[i].recycle()
			if err != nil {
				return err
			}
			out = append(out, one)
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	return out, nil
}
