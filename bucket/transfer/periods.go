package transfer

import (
	"context"
	"slices"

	"github.com/budgetd/budgetd/bucket"
	"github.com/budgetd/budgetd/internal/sql/bookkeeper"
	"github.com/budgetd/budgetd/internal/sql/engine"
	"github.com/budgetd/budgetd/ledger/books"
)

const (
	selectOver = `SELECT id FROM budget_management_bucket
		/*by budget_management_bucket_roll_over*/
		WHERE roll_over_ms > 0 AND roll_over_ms <= ? AND durability = 'ledger'
		ORDER BY roll_over_ms, id LIMIT ?`
	selectReturning = `SELECT DISTINCT budget_id FROM bucket_epoch /*by bucket_epoch_returns*/
		WHERE has_returns = 1 ORDER BY budget_id LIMIT ?`
)

// Over lists ledger-mode budgets whose rollover is due by SQL's clock, the longest overdue first.
func (l *Ledger) Over(ctx context.Context, limit int) (ids []int64, err error) {
	return l.ids(ctx, "roll over", selectOver, engine.ToMS(l.db.Now()), limit)
}

// Returning lists budgets with units on their way back to the total.
func (l *Ledger) Returning(ctx context.Context, limit int) (ids []int64, err error) {
	return l.ids(ctx, "sweep", selectReturning, limit)
}

func (l *Ledger) ids(ctx context.Context, op, query string, args ...any) (ids []int64, err error) {
	err = l.db.Read(ctx, op, func(r *engine.Reader) error {
		ids = nil
		return r.List(&ids, query, args...)
	})
	if err != nil {
		return nil, err
	}
	return ids, nil
}

// RollOver ends a budget's period if it is over, and opens the one that contains the present
// instant: see books.RollOver. It takes a transaction, or one for each thousand periods that nobody
// opened, and returns the budget as it is then. Error: Unavailable while the clocks of this node
// and SQL disagree.
func (l *Ledger) RollOver(ctx context.Context, budgetID int64) (
	after bucket.Budget, out RolledOver, err error) {
	read := reading(budgetID)
	out, err = l.whole(ctx, "roll over", budgetID, bookkeeper.WholeBudget(budgetID), nil,
		read.Queries)
	if err != nil {
		return after, RolledOver{}, err
	}
	after, err = read.Budget("roll over")
	return after, out, err
}

// Settle moves at most limit parts of what budgets of families have left at their ends to their
// parents: see books.Settle. It returns whether there were any.
func (l *Ledger) Settle(ctx context.Context, limit int) (found bool, err error) {
	var left []books.Left
	err = bookkeeper.Look(ctx, l.db, "settle", []bookkeeper.Query{bookkeeper.AllLeft(
		engine.ToMS(l.db.Now()), limit, func(list []books.Left) { left = list })})
	if err != nil {
		return false, err
	}
	return len(left) > 0, bookkeeper.Settle(ctx, l.db, left, false)
}

// budgetsAtOnce bounds the budgets that one transaction of Sweep locks.
const budgetsAtOnce = 64

// Sweep moves R of budgets to where their periods say, and returns the units moved: see
// books.Sweep. Those whose rollover is due are rolled over first, in the same transaction.
func (l *Ledger) Sweep(ctx context.Context, budgetIDs []int64) (moved int64, err error) {
	budgetIDs = slices.Sorted(slices.Values(budgetIDs))
	for ids := range slices.Chunk(budgetIDs, budgetsAtOnce) {
		var after, next books.Position
		var due []int64
		for more := true; more; after = next {
			units := int64(0)
			err := bookkeeper.Do(ctx, l.db, "sweep", bookkeeper.Returning(ids, after),
				func(b *books.Books) ([]bookkeeper.Query, error) {
					units, due = 0, nil
					for _, u := range b.Budgets.All() {
						if b.Due(u) && u.Durability == "ledger" {
							due = append(due, u.ID)
							continue
						}
						units += b.Sweep(u)
					}
					all := b.Epochs.All()
					if more = len(all) == bookkeeper.MostReturns; more {
						next = all[len(all)-1].Position()
					}
					return nil, nil
				})
			if err != nil {
				return moved, err
			}
			moved += units
		}
		for _, id := range due {
			units := int64(0)
			_, err := l.whole(ctx, "sweep", id, bookkeeper.WholeBudget(id),
				func(b *books.Books, u *books.Budget) error {
					units = b.Sweep(u)
					return nil
				}, nil)
			if err != nil {
				return moved, err
			}
			moved += units
		}
	}
	return moved, nil
}
