package hold

import (
	"context"
	"fmt"

	"github.com/budgetd/budgetd/internal/sql/bookkeeper"
	"github.com/budgetd/budgetd/internal/sql/engine"
	"github.com/budgetd/budgetd/ledger"
	"github.com/budgetd/budgetd/ledger/books"
)

const (
	selectDue = `SELECT h.budget_id, h.request_id FROM hold h /*by hold_due*/
		WHERE h.due_ms <= ? ORDER BY h.due_ms LIMIT ? OFFSET ?`
	selectOpen = `SELECT h.due_ms FROM hold h /*by hold_due*/ WHERE h.due_ms > 0 LIMIT ?`
	countOpen  = `SELECT COUNT(*) FROM (` + selectOpen + `) o`
)

// Expired is the result of one step of the expiry.
type Expired struct {
	// Found is how many holds were due at the beginning of the step. Other nodes may have ended some
	// of them.
	Found int
	// Holds is how many holds this step ended.
	Holds int
	// Units is how many units were given back, in minor units.
	Units int64
}

// ExpireHolds ends at most limit holds of all budgets whose time is up: the oldest first, but
// without the skip oldest ones. It finds them without locks and decides under locks, so one that
// was confirmed or extended meanwhile stays unchanged. Any number of nodes may call it at the same
// time. Keeps I1, I5.
func (l *Ledger) ExpireHolds(ctx context.Context, limit, skip int) (
	out Expired, err error) {
	due, err := l.due(ctx, limit, skip)
	if err != nil || len(due) == 0 {
		return Expired{}, err
	}
	m := l.ofOrders(due)
	m.first = append(m.first, bookkeeper.Clock)
	err = m.do(ctx, "expire", func(b *books.Books) error {
		out = Expired{Found: len(due)}
		if _, err := b.Return(due, m.sets); err != nil {
			return err
		}
		for _, g := range b.GiveBacks.All() {
			out.Holds++
			out.Units += g.Amount
		}
		if out.Holds == 0 {
			return nil
		}
		return l.db.CheckClock("expire", engine.FromMS(b.ClockMS))
	})
	switch {
	case err != nil && len(due) == 1:
		return Expired{}, fmt.Errorf("hold %q of budget %d: %w", due[0].RequestID,
			due[0].Budget, err)
	case err != nil:
		return Expired{}, err
	}
	return out, nil
}

// due lists holds whose time is over.
func (l *Ledger) due(ctx context.Context, limit, skip int) (out []ledger.Order, err error) {
	var found []struct {
		Budget    int64  `db:"budget_id"`
		RequestID string `db:"request_id"`
	}
	err = l.db.Read(ctx, "expire", func(r *engine.Reader) error {
		found = nil
		return r.List(&found, selectDue, engine.ToMS(l.db.Now()), limit, skip)
	})
	for _, row := range found {
		out = append(out, ledger.Order{Kind: ledger.OrderExpire, Budget: row.Budget,
			RequestID: row.RequestID})
	}
	return out, err
}

// OpenHolds counts the open holds of all budgets, up to limit.
func (l *Ledger) OpenHolds(ctx context.Context, limit int) (n int, err error) {
	err = l.db.Read(ctx, "count holds", func(r *engine.Reader) error {
		_, err := r.Get(&n, countOpen, limit)
		return err
	})
	return n, err
}
