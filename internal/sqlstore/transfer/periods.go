package transfer

import (
	"context"

	"github.com/budgetd/budgetd/allocation"
	"github.com/budgetd/budgetd/bucket/transfer"
	"github.com/budgetd/budgetd/budget"
	"github.com/budgetd/budgetd/internal/sqlstore/engine"
	"github.com/budgetd/budgetd/internal/sqlstore/moves"
	"github.com/budgetd/budgetd/internal/sqlstore/rows"
	"github.com/budgetd/budgetd/ledger"
)

const (
	selectOver = `SELECT id FROM budget_management_bucket
		/*by budget_management_bucket_roll_over*/
		WHERE roll_over_ms > 0 AND roll_over_ms <= ? AND durability = 'ledger'
		ORDER BY roll_over_ms, id LIMIT ?`
	// keepDue makes a rollover with an open period due again, because buckets wait for their
	// epochs.
	keepDue = `UPDATE budget_management_bucket SET roll_over_ms = ? WHERE id = ?`
	// listOffline removes the buckets of a budget without an open period from the list.
	listOffline = `UPDATE sharding_budget_management_bucket SET status = 'offline',
		offline_by = 'service', updated_at = ? WHERE budget_id = ? AND status = 'online'`
)

// Over lists ledger-mode budgets whose rollover is due, by SQL's clock.
func (p *Part) Over(ctx context.Context, limit int) (ids []int64, err error) {
	now := engine.ToMS(p.db.Now())
	err = p.db.Read(ctx, "roll over", func(r *engine.Reader) error {
		ids = nil
		return r.List(&ids, selectOver, now, limit)
	})
	if err != nil {
		return nil, err
	}
	return ids, nil
}

// RollOver ends a budget's period if it is over, and opens the next. See transfer.Periods. With
// more than transfer.MaxEpochs buckets it takes several transactions: the first ones close epochs,
// one funds the period, and the last ones begin epochs. roll_over_ms stays due until all are done,
// so that any node can continue. Keeps I1.
func (p *Part) RollOver(ctx context.Context, budgetID int64) (out transfer.RolledOver, err error) {
	for range maxSteps {
		step, more, err := p.rollOverStep(ctx, budgetID)
		out.Buckets, out.Units = out.Buckets+step.Buckets, out.Units+step.Units
		if err != nil {
			return out, err
		}
		out.Period, out.Done = step.Period, out.Done || step.Done
		if !more {
			break
		}
	}
	return out, nil
}

// maxSteps bounds the transactions of one call: 1,024 buckets take 34, a century of hours 900.
const maxSteps = 2000

// rollOverStep is one transaction of a rollover; more means that another one must follow.
func (p *Part) rollOverStep(ctx context.Context, budgetID int64) (
	out transfer.RolledOver, more bool, err error) {
	tried := int64(0) // the period that an earlier attempt opened, committed or not
	err = p.db.Write(ctx, "roll over", func(t *engine.Tx) error {
		out, more = transfer.RolledOver{}, false
		b, err := rows.LockBudget(t, "roll over", budgetID)
		if err != nil {
			return err
		}
		out.Period = b.PeriodNow()
		out.Done = t.Unsure && tried == b.Period
		if !b.Due(t.Now) || b.Durability != string(budget.Ledger) {
			return nil
		}
		if err := moves.Turnable(t, b); err != nil {
			return err
		}
		turn := rollover{t: t, b: b}
		if turn.list, err = rows.Buckets(&t.Reader, b.ID); err != nil {
			return err
		}
		if b.IsOver == 1 || out.Period.OverAt(t.Now) {
			err = turn.end()
		}
		if err == nil && !turn.more {
			err = turn.begin()
		}
		tried, more = b.Period, turn.more
		out.Period, out.Moved = b.PeriodNow(), turn.moved
		out.Done = out.Done || turn.done
		return err
	})
	if err != nil {
		return transfer.RolledOver{}, false, err
	}
	return out, more, nil
}

// rollover is one transaction of a rollover. The budget is locked.
type rollover struct {
	t     *engine.Tx
	b     *rows.Budget
	list  []rows.Bucket // without locks, until they are in `locked`
	moved transfer.Moved
	// locked means that the epochs of all buckets are locked.
	locked bool
	// done means that a period ended, more that another transaction must follow.
	done, more bool
}

// end closes the epochs of the period that is over. Once none is left it opens the period that
// contains the present instant. Halted epochs stay unchanged.
func (r *rollover) end() error {
	live := pointers(r.list, func(row *rows.Bucket) bool { return row.Live() && row.Halted == "" })
	r.locked = len(r.list) <= transfer.MaxEpochs
	switch {
	case r.locked:
		all := pointers(r.list, func(*rows.Bucket) bool { return true })
		if err := rows.LockNewest(r.t, all); err != nil {
			return err
		}
		live = pointers(r.list, func(row *rows.Bucket) bool { return row.Live() && row.Halted == "" })
	case len(live) > 0:
		r.more = true
		live = live[:min(len(live), transfer.MaxEpochs)]
		if err := rows.LockNewest(r.t, live); err != nil {
			return err
		}
	}
	epochs := make([]*rows.Epoch, len(live))
	for i, row := range live {
		epochs[i] = &row.Epoch
	}
	held, err := moves.End(r.t, r.b, ledger.Closed, epochs...)
	if err != nil {
		return err
	}
	if r.more { // what they held waits in U: nobody can apply for it any more
		return moves.Units(r.t, r.b, allocation.Movement{Undistributed: held})
	}
	return r.turn(held)
}

// turn continues period by period to the one that contains the present instant. The units of
// periods that nobody opened go where the rule says, as if they had been open and unused.
func (r *rollover) turn(held int64) error {
	d, p := r.b.Definition(), r.b.PeriodNow()
	for range transfer.PeriodsAtOnce {
		next, ok := allocation.Next(d, p, r.t.Now)
		used := int64(0)
		if ok {
			var err error
			if used, err = countedSince(r.t, r.b, p, next.Start); err != nil {
				return err
			}
		}
		turn := allocation.RollOver(d, p, next, ok, allocation.Account{Unfunded: r.b.Unfunded,
			Undistributed: r.b.Undistributed, Held: held, Pending: r.b.PendingShrink, Used: used})
		if err := moves.Leave(r.t, r.b.ID, p.Number, turn.Left); err != nil {
			return err
		}
		if err := moves.Units(r.t, r.b, turn.Moved); err != nil {
			return err
		}
		held, p = 0, turn.Period
		if err := moves.InsertPeriod(r.t, r.b.ID, p); err != nil {
			return err
		}
		if p.Over || !p.OverAt(r.t.Now) {
			break
		}
	}
	r.done = true
	if err := moves.Turn(r.t, r.b, p); err != nil {
		return err
	}
	if p.Over {
		_, err := r.t.Exec(listOffline, engine.ToMS(r.t.Now), r.b.ID)
		return err
	}
	if p.OverAt(r.t.Now) { // after PeriodsAtOnce: the next transaction goes on from here
		r.more = true
		return nil
	}
	return moves.RestartCounts(r.t, pointers(r.list, func(*rows.Bucket) bool { return true })...)
}

// begin begins the epochs of the open period, at most transfer.MaxEpochs, and hands out its units.
func (r *rollover) begin() error {
	if r.b.IsOver == 1 {
		return nil
	}
	h := choose(r.b, r.list, firstIdle(r.list))
	if !r.locked {
		if err := h.lock(r.t, r.b); err != nil {
			return err
		}
	}
	moved, err := h.handOut(r.t, "roll over", r.b, moves.Apply)
	if err != nil {
		return err
	}
	r.moved, r.more = moved, firstIdle(r.list) > 0
	due := moves.RollOverMS(r.b.PeriodNow())
	if r.more {
		due = engine.ToMS(r.t.Now)
	}
	if due == r.b.RollOverMS {
		return nil
	}
	r.b.RollOverMS = due
	return r.t.Hit(1, keepDue, due, r.b.ID)
}

// firstIdle returns the ordinal of the first bucket in the list without an epoch; 0 if that is the
// first bucket, or if every bucket has one.
func firstIdle(list []rows.Bucket) int {
	for i := range list {
		if idle(&list[i]) {
			return list[i].Ordinal
		}
	}
	return 0
}
