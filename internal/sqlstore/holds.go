package sqlstore

import (
	"context"
	"fmt"
	"time"

	"github.com/budgetd/budgetd/bucket"
	"github.com/budgetd/budgetd/budget"
	"github.com/budgetd/budgetd/ledger"
)

// held is what a transaction answers of one deduction.
func held(d ledger.Deduction, replayed bool) bucket.Held {
	return bucket.Held{Deduction: d, Replayed: replayed}
}

// Confirm uses held units. See bucket.Holds. Keeps I1, I5, I6.
func (db *DB) Confirm(ctx context.Context, order bucket.HoldOrder, amount int64) (out []bucket.Held, err error) {
	tried := false // an earlier attempt wrote it, committed or not
	err = db.write(ctx, "confirm", func(t *tx) error {
		out = nil
		replayed := func() bool { return !(t.unsure && tried) }
		if order.Group != "" {
			var wrote bool
			out, wrote, err = t.confirmGroup(order, replayed())
			tried = tried || wrote
			return err
		}
		found, err := t.lockHold("confirm", order)
		if err != nil {
			return err
		}
		earlier, err := t.holdEnd(found.deduction)
		if err != nil {
			return err
		}
		end, replay, err := ledger.DecideConfirm(found.deduction, earlier, amount, t.now)
		if err != nil {
			return err
		}
		if replay {
			out = []bucket.Held{held(found.deduction, replayed())}
			return nil
		}
		tried = true
		after, err := t.endHolds([]holdEnding{{found, end}})
		for _, d := range after {
			out = append(out, held(d, false))
		}
		return err
	})
	if err != nil {
		return nil, err
	}
	return out, nil
}

// confirmGroup is Confirm for a group. wrote: it was not done before.
func (t *tx) confirmGroup(order bucket.HoldOrder, replayed bool) (out []bucket.Held, wrote bool, err error) {
	members, locked, err := t.lockGroup("confirm", order)
	if err != nil {
		return nil, false, err
	}
	use, replay, err := members.Confirm(t.now)
	if err != nil {
		return nil, false, err
	}
	ended := map[string]ledger.Deduction{}
	if !replay {
		endings := make([]holdEnding, len(use))
		for i, end := range use {
			endings[i] = holdEnding{locked[end.RequestID], end}
		}
		if err := t.closeGroup(order, ledger.GroupUsed); err != nil {
			return nil, true, err
		}
		after, err := t.endHolds(endings)
		if err != nil {
			return nil, true, err
		}
		for _, d := range after {
			ended[d.RequestID] = d
		}
	}
	return answers(members, ended, replay && replayed), !replay, nil
}

// answers lists the members of a group as they are after it: those that the transaction has changed, and
// the others, in their order.
func answers(m *ledger.Members, changed map[string]ledger.Deduction, replayed bool) []bucket.Held {
	out := make([]bucket.Held, len(m.Deductions))
	for i, d := range m.Deductions {
		if after, found := changed[d.RequestID]; found {
			d = after
		}
		out[i] = held(d, replayed)
	}
	return out
}

const updateHoldUntil = `UPDATE deduction SET hold_until_ms = ?
	WHERE budget_id = ? AND request_id = ? AND state = 'held'`

// Extend makes holds last longer. See bucket.Holds.
func (db *DB) Extend(ctx context.Context, order bucket.HoldOrder, ttl time.Duration) (out []bucket.Held, err error) {
	err = db.write(ctx, "extend", func(t *tx) error {
		out = nil
		longer, err := t.extendable(order)
		if err != nil {
			return err
		}
		for _, d := range longer {
			d.HoldUntil = fromMS(toMS(t.now) + ttl.Milliseconds())
			if err := t.extendHold(d); err != nil {
				return err
			}
			out = append(out, held(d, false))
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	return out, nil
}

// extendable locks and lists what an extension is about.
func (t *tx) extendable(order bucket.HoldOrder) ([]ledger.Deduction, error) {
	if order.Group != "" {
		members, _, err := t.lockGroup("extend", order)
		if err != nil {
			return nil, err
		}
		return members.Extend(t.now)
	}
	found, err := t.lockHold("extend", order)
	if err != nil {
		return nil, err
	}
	return []ledger.Deduction{found.deduction}, ledger.DecideExtend(found.deduction, t.now)
}

// RollbackGroup gives back what is left of a group. See bucket.Holds. Keeps I1, I5, I6.
func (db *DB) RollbackGroup(ctx context.Context, budgetID int64, group string) (out []bucket.Held, err error) {
	order := bucket.HoldOrder{Budget: budgetID, Group: group}
	tried := false // an earlier attempt wrote it, committed or not
	err = db.write(ctx, "rollback", func(t *tx) error {
		members, locked, err := t.lockGroup("rollback", order)
		if err != nil {
			return err
		}
		back, replay, err := members.Rollback()
		if err != nil {
			return err
		}
		if replay {
			out = answers(members, nil, !(t.unsure && tried))
			return nil
		}
		tried = true
		if err := t.closeGroup(order, ledger.GroupRolledBack); err != nil {
			return err
		}
		changed, counts := map[string]ledger.Deduction{}, []countsBack(nil)
		for _, r := range back {
			l := locked[r.RequestID]
			after, err := t.writeRollback(l, r)
			if err != nil {
				return err
			}
			changed[r.RequestID] = after
			counts = append(counts, countsBack{l.deduction, after.RolledBack, l.newest.LimitsVersion})
		}
		out = answers(members, changed, false)
		return t.returnCounts(counts...)
	})
	if err != nil {
		return nil, err
	}
	return out, nil
}

const selectDueHolds = `SELECT h.budget_id, h.request_id FROM open_hold h /*by open_hold_due*/
	WHERE h.due_ms <= ? ORDER BY h.due_ms LIMIT ? OFFSET ?`

// ExpireHolds ends holds whose time is up. See bucket.Holds. They are found without locks and judged under
// them: who was confirmed or extended meanwhile is left alone. Keeps I1, I5.
func (db *DB) ExpireHolds(ctx context.Context, limit, skip int) (out bucket.Expired, err error) {
	var due []ledgerKey
	err = db.write(ctx, "expire", func(t *tx) error {
		out = bucket.Expired{}
		due = nil
		if err := t.list(&due, selectDueHolds, toMS(t.now), limit, skip); err != nil {
			return err
		}
		out.Found = len(due)
		ids := make([]bucket.ID, len(due))
		for i, row := range due {
			ids[i] = bucket.ID{Budget: row.Budget, RequestID: row.RequestID}
		}
		found, err := t.lockDeductions(ids)
		if err != nil {
			return err
		}
		var endings []holdEnding
		for _, l := range found {
			if ledger.DueHold(l.deduction, t.now) {
				endings = append(endings, holdEnding{l, ledger.Expire(l.deduction)})
			}
		}
		for _, e := range endings {
			out.Holds++
			out.Units += e.end.Returned
			if n := len(out.Budgets); n == 0 || out.Budgets[n-1] != e.end.Budget {
				out.Budgets = append(out.Budgets, e.end.Budget)
			}
		}
		if len(endings) == 0 {
			return nil
		}
		if err := t.checkClock("expire"); err != nil {
			return err
		}
		_, err = t.endHolds(endings)
		return err
	})
	if err != nil && len(due) == 1 {
		err = fmt.Errorf("hold %q of budget %d: %w", due[0].RequestID, due[0].Budget, err)
	}
	if err != nil {
		return bucket.Expired{}, err
	}
	return out, nil
}

const (
	selectOpenHolds = `SELECT o.due_ms FROM open_hold o /*by open_hold_due*/
		WHERE o.due_ms > 0 LIMIT ?`
	countOpenHolds = `SELECT COUNT(*) FROM (` + selectOpenHolds + `) h`
)

// OpenHolds counts holds by their index. See bucket.Holds.
func (db *DB) OpenHolds(ctx context.Context, limit int) (n int, err error) {
	err = db.read(ctx, "count holds", func(r *reader) error {
		_, err := r.get(&n, countOpenHolds, limit)
		return err
	})
	return n, err
}

// lockHold locks what an order for one request id is about. Errors: BudgetNotFound, DeductionNotFound.
func (t *tx) lockHold(op string, order bucket.HoldOrder) (*lockedDeduction, error) {
	found, err := t.lockDeduction(bucket.ID{Budget: order.Budget, RequestID: order.RequestID})
	if err != nil || found != nil {
		return found, err
	}
	if _, err := t.budget(op, order.Budget, ""); err != nil {
		return nil, err
	}
	return nil, budget.Refuse(budget.DeductionNotFound, op, "request %q has not been deducted", order.RequestID)
}
