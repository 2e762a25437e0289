package returns

import (
	"context"
	"fmt"

	"github.com/budgetd/budgetd/bucket/hold"
	"github.com/budgetd/budgetd/internal/sqlstore/bookkeeper"
	"github.com/budgetd/budgetd/internal/sqlstore/engine"
	"github.com/budgetd/budgetd/ledger"
	"github.com/budgetd/budgetd/ledger/books"
)

const (
	selectDue = `SELECT h.budget_id, h.request_id FROM hold h /*by hold_due*/
		WHERE h.due_ms <= ? ORDER BY h.due_ms LIMIT ? OFFSET ?`
	selectOpen = `SELECT h.due_ms FROM hold h /*by hold_due*/ WHERE h.due_ms > 0 LIMIT ?`
	countOpen  = `SELECT COUNT(*) FROM (` + selectOpen + `) o`
)

// ExpireHolds ends holds that have expired: see hold.DueHolds. It finds them without locks and
// decides under locks, so one that was confirmed or extended meanwhile stays unchanged. Keeps I1,
// I5.
func (p *Part) ExpireHolds(ctx context.Context, limit, skip int) (
	out hold.Expired, err error) {
	due, err := p.due(ctx, limit, skip)
	if err != nil || len(due) == 0 {
		return hold.Expired{}, err
	}
	m := p.ofOrders(due)
	m.first = append(m.first, bookkeeper.Clock)
	err = m.do(ctx, "expire", func(b *books.Books) error {
		out = hold.Expired{Found: len(due)}
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
		return p.db.CheckClock("expire", engine.FromMS(b.ClockMS))
	})
	switch {
	case err != nil && len(due) == 1:
		return hold.Expired{}, fmt.Errorf("hold %q of budget %d: %w", due[0].RequestID,
			due[0].Budget, err)
	case err != nil:
		return hold.Expired{}, err
	}
	return out, nil
}

// due lists holds whose time is over.
func (p *Part) due(ctx context.Context, limit, skip int) (out []ledger.Order, err error) {
	var found []struct {
		Budget    int64  `db:"budget_id"`
		RequestID string `db:"request_id"`
	}
	err = p.db.Read(ctx, "expire", func(r *engine.Reader) error {
		found = nil
		return r.List(&found, selectDue, engine.ToMS(p.db.Now()), limit, skip)
	})
	for _, row := range found {
		out = append(out, ledger.Order{Kind: ledger.OrderExpire, Budget: row.Budget,
			RequestID: row.RequestID})
	}
	return out, err
}

// OpenHolds counts open holds by their index: see hold.DueHolds.
func (p *Part) OpenHolds(ctx context.Context, limit int) (n int, err error) {
	err = p.db.Read(ctx, "count holds", func(r *engine.Reader) error {
		_, err := r.Get(&n, countOpen, limit)
		return err
	})
	return n, err
}
