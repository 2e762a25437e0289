// Package returns gives units of deductions back: rollback, cancel, confirm, extend and expiry, for
// single deductions and for groups of holds. What they do is in ledger/books (Books.Return); this
// package says which rows they load.
//
// A deduction is its row, the row of its hold, and the sum of its give_back rows. All of them are
// written under the lock of the deduction's row. A transaction takes its locks in the order of
// schema.sql: deductions, group, limit rows, epochs. It locks no budget row, unless the budget has
// limits and the bucket is offline.
package returns

import (
	"context"

	lru "github.com/hashicorp/golang-lru/v2"

	"github.com/budgetd/budgetd/bucket"
	"github.com/budgetd/budgetd/bucket/hold"
	"github.com/budgetd/budgetd/internal/sqlstore/bookkeeper"
	"github.com/budgetd/budgetd/internal/sqlstore/engine"
	"github.com/budgetd/budgetd/internal/sqlstore/rows"
	"github.com/budgetd/budgetd/ledger"
	"github.com/budgetd/budgetd/ledger/books"
	"github.com/budgetd/budgetd/limit"
)

// Part gives units back in a database. It is safe for concurrent use.
type Part struct {
	db *engine.DB
	// sets caches compiled limits by budget: see movement.limits.
	sets *lru.Cache[int64, *limit.Set]
}

// maxSets bounds the cached budgets.
const maxSets = 4096

var (
	_ hold.Ledger   = (*Part)(nil)
	_ hold.DueHolds = (*Part)(nil)
)

// New returns the part of a database.
func New(db *engine.DB) *Part {
	sets, _ := lru.New[int64, *limit.Set](maxSets) // fails for a size below 1 only
	return &Part{db: db, sets: sets}
}

// Execute carries out orders on single deductions: see hold.Ledger. Keeps I1, I4, I5.
func (p *Part) Execute(ctx context.Context, orders []hold.Order) (
	out []hold.Result, err error) {
	if len(orders) == 0 {
		return nil, nil
	}
	tried := make([]bool, len(orders)) // an earlier attempt wrote it, committed or not
	m := p.ofOrders(orders)
	err = m.do(ctx, "return", func(b *books.Books) (err error) {
		out, err = b.Return(orders, m.sets)
		for i := range out {
			done := out[i].Err == nil && !out[i].Replayed
			if b.Unsure && tried[i] {
				out[i].Replayed = false // this call did it in an attempt whose reply was lost
			}
			tried[i] = tried[i] || done
		}
		return err
	})
	if err != nil {
		return nil, err
	}
	return out, nil
}

// ExecuteGroup executes an order on a group: see hold.Ledger. Keeps I1, I5, I6.
func (p *Part) ExecuteGroup(ctx context.Context, order hold.GroupOrder) (
	out []hold.Result, err error) {
	tried := false // an earlier attempt wrote it, committed or not
	id := books.ID{Budget: order.Budget, RequestID: order.Group}
	m := &movement{part: p, budgets: []int64{id.Budget}, from: bookkeeper.OfGroup(id), isGroup: true,
		moves: order.Kind != ledger.OrderExtend}
	m.first = append(bookkeeper.Members(id), bookkeeper.Given(m.from, nil)...)
	err = m.do(ctx, string(order.Kind)+" group", func(b *books.Books) (err error) {
		out, err = b.ReturnGroup(&order, m.sets)
		done := len(out) > 0 && !out[0].Replayed
		for i := range out {
			out[i].Replayed = out[i].Replayed && !(b.Unsure && tried)
		}
		tried = tried || done
		return err
	})
	if err != nil {
		return nil, err
	}
	return out, nil
}

// Recorded reads the state of request ids: see hold.Ledger.
func (p *Part) Recorded(ctx context.Context, ids []bucket.ID) (
	map[bucket.ID]ledger.Deduction, error) {
	return rows.Recorded(ctx, p.db, ids)
}
