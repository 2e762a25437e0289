package partitions

import (
	"context"

	"github.com/budgetd/budgetd/bucket/counter"
	"github.com/budgetd/budgetd/internal/sqlstore/bookkeeper"
	"github.com/budgetd/budgetd/internal/sqlstore/engine"
)

const selectOver = `SELECT id FROM budget_management_bucket
	/*by budget_management_bucket_roll_over*/
	WHERE roll_over_ms > 0 AND roll_over_ms <= ? AND durability = 'store'
	ORDER BY roll_over_ms, id LIMIT ?`

// Over lists budgets in store mode whose rollover is due. See counter.Periods.
func (p *Part) Over(ctx context.Context, limit int) (ids []int64, err error) {
	now := engine.ToMS(p.db.Now())
	err = p.db.Read(ctx, "roll over", func(r *engine.Reader) error {
		ids = nil
		return r.List(&ids, selectOver, now, limit)
	})
	return ids, err
}

// RollOver sets epochs of a period that is over to closing, or opens the period that contains the
// present instant. See counter.Periods and books.RollOver. Keeps I1.
func (p *Part) RollOver(ctx context.Context, budgetID int64) (counter.Rollover, error) {
	out, err := bookkeeper.Whole(ctx, p.db, "roll over", budgetID, bookkeeper.WholeBudget(budgetID),
		nil, nil)
	if err != nil {
		return counter.Rollover{}, err
	}
	return counter.Rollover{Closing: out.Closing, Begun: out.Granted}, nil
}
