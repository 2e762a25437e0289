package hold

import (
	"context"

	lru "github.com/hashicorp/golang-lru/v2"

	"github.com/budgetd/budgetd/bucket"
	"github.com/budgetd/budgetd/internal/sql/bookkeeper"
	"github.com/budgetd/budgetd/internal/sql/engine"
	"github.com/budgetd/budgetd/internal/sql/rows"
	"github.com/budgetd/budgetd/ledger"
	"github.com/budgetd/budgetd/ledger/books"
	"github.com/budgetd/budgetd/limit"
)

// Ledger changes deductions in the database. Each method is one transaction, by SQL's clock.
// Returned units go into O of the deduction's epoch while that is open, and into R otherwise (I5).
// Limits are lowered in the windows in which the deduction was counted. Errors, besides those in
// Result: Unavailable (nothing was changed), OutcomeUnknown, Internal. It is safe for concurrent
// use.
type Ledger struct {
	// Returned learns of which budgets units may have come back. It may be nil.
	Returned func(budgetID int64)

	db *engine.DB
	// sets caches compiled limits by budget: see movement.limits.
	sets *lru.Cache[int64, cachedSet]
}

// cachedSet is the limits of a budget as of a version of their overrides.
type cachedSet struct {
	*limit.Set
	overrides int64
}

// maxSets bounds the cached budgets.
const maxSets = 4096

// NewLedger returns the ledger of a database.
func NewLedger(db *engine.DB) *Ledger {
	sets, _ := lru.New[int64, cachedSet](maxSets) // fails for a size below 1 only
	return &Ledger{db: db, sets: sets}
}

// Execute carries out orders on single deductions, in the order given. A refused order changes
// nothing. Refusals are those of the decisions of package ledger, BudgetNotFound and
// DeductionNotFound. Keeps I1, I4, I5.
func (l *Ledger) Execute(ctx context.Context, orders []Order) (
	out []Result, err error) {
	if len(orders) == 0 {
		return nil, nil
	}
	out, err = l.execute(ctx, orders)
	for i := range out {
		if out[i].Err == books.ErrNeedsBudget { //nolint:errorlint // the very value
			out[i] = l.confirmAbove(ctx, orders[i])
		}
	}
	return out, err
}

// execute is Execute without the confirms above the hold that need the whole budget: their result
// is books.ErrNeedsBudget.
func (l *Ledger) execute(ctx context.Context, orders []Order) (out []Result, err error) {
	tried := make([]bool, len(orders)) // an earlier attempt wrote it, committed or not
	m := l.ofOrders(orders)
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

// ExecuteGroup carries out an order on a whole group or not at all. It returns one element per
// member, by request id. Refusals are returned as errors. Keeps I1, I5, I6.
func (l *Ledger) ExecuteGroup(ctx context.Context, order GroupOrder) (
	out []Result, err error) {
	tried := false // an earlier attempt wrote it, committed or not
	id := books.ID{Budget: order.Budget, RequestID: order.Group}
	m := &movement{ledger: l, isGroup: true, moves: order.Kind != ledger.OrderExtend}
	m.restart = func() { m.budgets, m.from = []int64{id.Budget}, bookkeeper.OfGroup(id) }
	m.restart()
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

// Recorded returns the deductions of request ids. Ids without a row are omitted.
func (l *Ledger) Recorded(ctx context.Context, ids []bucket.ID) (
	map[bucket.ID]ledger.Deduction, error) {
	return rows.Recorded(ctx, l.db, ids)
}
