package returns

import (
	"context"
	"fmt"

	"github.com/budgetd/budgetd/bucket"
	"github.com/budgetd/budgetd/bucket/hold"
	"github.com/budgetd/budgetd/internal/sqlstore/engine"
	"github.com/budgetd/budgetd/ledger"
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
	var due []struct {
		Budget    int64  `db:"budget_id"`
		RequestID string `db:"request_id"`
	}
	redo := &redo{}
	err = p.db.Write(ctx, "expire", func(t *engine.Tx) error {
		s := p.begin(t, redo)
		due = due[:0]
		if err := t.List(&due, selectDue, engine.ToMS(t.Now), limit, skip); err != nil {
			return err
		}
		out = hold.Expired{Found: len(due)}
		ids := make([]bucket.ID, len(due))
		for i, row := range due {
			ids[i] = bucket.ID{Budget: row.Budget, RequestID: row.RequestID}
		}
		locked, err := s.lock(ids)
		if err != nil {
			return err
		}
		for _, d := range locked {
			if !ledger.DueHold(d.Deduction, t.Now) {
				continue
			}
			end := ledger.Expire(d.Deduction)
			s.endHold(d, end)
			out.Holds++
			out.Units += end.Returned
		}
		if len(s.changed) > 0 {
			if err := t.CheckClock("expire"); err != nil {
				return err
			}
		}
		return s.write()
	})
	if err != nil && len(due) == 1 {
		err = fmt.Errorf("hold %q of budget %d: %w", due[0].RequestID, due[0].Budget, err)
	}
	if err != nil {
		return hold.Expired{}, err
	}
	return out, nil
}

// OpenHolds counts open holds by their index: see hold.DueHolds.
func (p *Part) OpenHolds(ctx context.Context, limit int) (n int, err error) {
	err = p.db.Read(ctx, "count holds", func(r *engine.Reader) error {
		_, err := r.Get(&n, countOpen, limit)
		return err
	})
	return n, err
}
