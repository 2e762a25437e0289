package transfer

import (
	"context"

	"github.com/budgetd/budgetd/bucket/transfer"
	"github.com/budgetd/budgetd/budget"
	"github.com/budgetd/budgetd/internal/sqlstore/bookkeeper"
	"github.com/budgetd/budgetd/ledger/books"
)

// HandOut spreads U over the buckets, as bringing one of them online does.
func (p *Part) HandOut(ctx context.Context, budgetID int64) (out transfer.Moved, err error) {
	load := append(bookkeeper.WholeBudget(budgetID), bookkeeper.Applied(budgetID))
	err = bookkeeper.Do(ctx, p.db, "hand out", load,
		func(b *books.Books) ([]bookkeeper.Query, error) {
			u := b.Budgets.Get(budgetID)
			if u == nil {
				return nil, budget.Refuse(budget.BudgetNotFound, "hand out", "there is no budget %d", budgetID)
			}
			out = transfer.Moved{Units: b.Distribute(u), Buckets: len(b.Grants.All())}
			return nil, nil
		})
	return out, err
}
