package store

import (
	"context"

	"github.com/budgetd/budgetd/internal/sql/bookkeeper"
	"github.com/budgetd/budgetd/internal/sql/engine"
)

const selectOver = `SELECT id FROM budget_management_bucket
	/*by budget_management_bucket_roll_over*/
	WHERE roll_over_ms > 0 AND roll_over_ms <= ? AND durability = 'store'
	ORDER BY roll_over_ms, id LIMIT ?`

// Over lists budgets in store mode whose rollover is due.
func (l *Ledger) Over(ctx context.Context, limit int) (ids []int64, err error) {
	now := engine.ToMS(l.db.Now())
	err = l.db.Read(ctx, "roll over", func(r *engine.Reader) error {
		ids = nil
		return r.List(&ids, selectOver, now, limit)
	})
	return ids, err
}

// RollOver ends a period that is over, as books.RollOver does. While epochs are open, it sets them
// to closing. Once no epoch is open, it opens the next period, begins the epochs of that and hands
// out their units. Epochs that are still closing stay so, and their units go where the rule says.
func (l *Ledger) RollOver(ctx context.Context, budgetID int64) (Rollover, error) {
	out, err := bookkeeper.Whole(ctx, l.db, "roll over", budgetID, bookkeeper.WholeBudget(budgetID),
		nil, nil)
	if err != nil {
		return Rollover{}, err
	}
	return Rollover{Closing: out.Closing, Begun: out.Granted}, nil
}
