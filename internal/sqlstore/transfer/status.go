package transfer

import (
	"context"

	"github.com/budgetd/budgetd/internal/sqlstore/engine"
	"github.com/budgetd/budgetd/internal/sqlstore/rows"
)

const (
	selectStatusDue = `SELECT id FROM budget_management_bucket /*by budget_management_bucket_status*/
		WHERE status_due_ms > 0 AND status_due_ms <= ? ORDER BY status_due_ms, id LIMIT ?`
	restate = `UPDATE budget_management_bucket SET status = ?, status_due_ms = ? WHERE id = ?`
)

// Restate updates the status of at most limit budgets whose row differs from SQL's clock, each in a
// transaction of its own. If another node was faster, nothing changes.
func (p *Part) Restate(ctx context.Context, limit int) error {
	var ids []int64
	now := engine.ToMS(p.db.Now())
	err := p.db.Read(ctx, "restate", func(r *engine.Reader) error {
		ids = nil
		return r.List(&ids, selectStatusDue, now, limit)
	})
	if err != nil {
		return err
	}
	for _, id := range ids {
		err := p.db.Write(ctx, "restate", func(t *engine.Tx) error {
			b, err := rows.LockBudget(t, "restate", id)
			if err != nil {
				return err
			}
			status, due := rows.StatusOf(b.Definition(), t.Now)
			_, err = t.Exec(restate, status, due, id)
			return err
		})
		if err != nil {
			return err
		}
	}
	return nil
}
