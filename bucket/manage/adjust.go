package manage

import (
	"context"
	"errors"
	"fmt"

	"github.com/budgetd/budgetd/auditlog"
	"github.com/budgetd/budgetd/bucket"
	"github.com/budgetd/budgetd/budget"
	"github.com/budgetd/budgetd/internal/sql/bookkeeper"
	"github.com/budgetd/budgetd/internal/sql/engine"
	"github.com/budgetd/budgetd/internal/sql/rows"
	"github.com/budgetd/budgetd/ledger/books"
)

// Adjust appends units to a budget, or shrinks it, once per request id, in one transaction of two
// round trips: see books.Adjust. In store mode a shrink may stay pending. What a child gets its
// parent gives, and the reverse: see books.AdjustChild.
//
// Errors: BudgetNotFound; RequestConflict; Invalid; AmountExceedsRemaining, with the units that can
// be taken back; those of books.AdjustChild; Unavailable; OutcomeUnknown. A refused id may be used
// again. Keeps I1, I2, I10.
func (l *Ledger) Adjust(ctx context.Context, order Adjustment) (
	out Adjusted, err error) {
	id := order.Budget
	o := books.Order{RequestID: order.RequestID, Nonce: order.Nonce, Quantity: order.Quantity,
		DeadlineMS: engine.ToMS(order.Deadline), Continue: order.Continue}
	load := append(bookkeeper.WholeBudget(id), bookkeeper.Adjustment(id, order.RequestID))
	var done books.Adjusted
	parent := int64(0)
	var looked *books.Books // those of the attempt that has looked twice
	read := viewing{Reading: rows.Reading{Ref: bucket.BudgetRef{ID: id}, ListLess: true}}
	decide := func(b *books.Books) ([]bookkeeper.Query, error) {
		u := b.Budgets.Get(id)
		if u == nil {
			return nil, budget.Refuse(budget.BudgetNotFound, "adjust", "there is no budget %d", id)
		}
		if parent = u.Parent; parent != 0 {
			return nil, errIsChild
		}
		was := u.Total
		done, err = b.Adjust(u, o)
		if budget.Is(err, budget.AmountExceedsRemaining) && looked != b {
			looked = b // rollbacks may have brought units into epochs that had none
			return append(bookkeeper.WholeBudget(id), bookkeeper.Ended(id)...), nil
		}
		auditlog.FromContext(ctx).Change(u.Tenant, u.Name, totalOf(was), totalOf(u.Total))
		return nil, err
	}
	err = bookkeeper.DoAndLook(ctx, l.db, "adjust", load, decide, read.Queries)
	if errors.Is(err, errIsChild) {
		done, err = l.adjustChild(ctx, parent, id, o, read.Queries)
	}
	if err == nil {
		err = done.Refusal
	}
	if err == nil {
		_, out.View, err = read.view("adjust", l.db.Now())
	}
	if err != nil {
		return Adjusted{}, err
	}
	out.State, out.Replayed = bucket.AdjustmentState(done.State), done.Replayed
	return out, nil
}

// totalOf encodes the total of an adjusted budget for the audit log.
func totalOf(units int64) []byte { return fmt.Appendf(nil, `{"total_quantity":%d}`, units) }

const selectShrinks = `SELECT budget_id, request_id, quantity, nonce, deadline_ms
	FROM adjustment /*by adjustment_status*/ WHERE status = 'pending'
	ORDER BY budget_id, request_id LIMIT ?`

// Shrinks lists pending shrinks, for Adjust with Continue.
func (l *Ledger) Shrinks(ctx context.Context, limit int) (out []Adjustment, err error) {
	err = l.db.Read(ctx, "shrinks", func(r *engine.Reader) error {
		out = nil
		var read []struct {
			Budget     int64  `db:"budget_id"`
			RequestID  []byte `db:"request_id"`
			Quantity   int64  `db:"quantity"`
			Nonce      []byte `db:"nonce"`
			DeadlineMS int64  `db:"deadline_ms"`
		}
		if err := r.List(&read, selectShrinks, limit); err != nil {
			return err
		}
		for _, row := range read {
			out = append(out, Adjustment{Budget: row.Budget, RequestID: string(row.RequestID),
				Nonce: string(row.Nonce), Quantity: row.Quantity,
				Deadline: engine.FromMS(row.DeadlineMS), Continue: true})
		}
		return nil
	})
	return out, err
}
