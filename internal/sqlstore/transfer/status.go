package transfer

import (
	"context"

	"github.com/budgetd/budgetd/internal/sqlstore/bookkeeper"
	"github.com/budgetd/budgetd/internal/sqlstore/engine"
	"github.com/budgetd/budgetd/ledger/books"
)

const (
	selectStatusDue = `SELECT id FROM budget_management_bucket /*by budget_management_bucket_status*/
		WHERE status_due_ms > 0 AND status_due_ms <= ? ORDER BY status_due_ms, id LIMIT ?`
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
		err := bookkeeper.Do(ctx, p.db, "restate", bookkeeper.WholeBudget(id)[:1],
			func(b *books.Books) ([]bookkeeper.Query, error) {
				if u := b.Budgets.Get(id); u != nil {
					b.Restate(u)
				}
				return nil, nil
			})
		if err != nil {
			return err
		}
	}
	return nil
}
