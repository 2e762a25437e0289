package bookkeeper

import (
	"context"

	"github.com/budgetd/budgetd/budget"
	"github.com/budgetd/budgetd/internal/sql/engine"
	"github.com/budgetd/budgetd/ledger/books"
)

// mostTurns bounds the transactions of one movement. All but the last end books.PeriodsAtOnce
// periods each: a century of hours takes 877.
const mostTurns = 1000

// Movement is a movement of one budget. It may run several times.
type Movement func(b *books.Books, u *books.Budget) error

// Whole runs a movement of a whole budget, whose rows load loads, after a rollover if that is due,
// in one transaction. do may be nil, and so may look,
// which reads what was left. If epochs in stores must be closed first, only that is done.
// Errors: BudgetNotFound; Unavailable also if this node's clock and SQL's disagree about a
// rollover; that of do.
func Whole(ctx context.Context, db *engine.DB, op string, id int64, load []Query, do Movement,
	look engine.Looks) (out books.RolledOver, err error) {
	load = append(load, Clock)
	for range mostTurns {
		var step books.RolledOver
		tried := int64(0) // the period that an earlier attempt opened, committed or not
		err = DoAndLook(ctx, db, op, load, func(b *books.Books) (more []Query, err error) {
			u := b.Budgets.Get(id)
			if u == nil {
				return nil, NoBudget(op, id)
			}
			done := b.Unsure && tried == u.Period
			step, more, err = rollOver(b, u, db.CheckClock(op, engine.FromMS(b.ClockMS)))
			if more != nil || err != nil || step.More || len(step.Closing) > 0 {
				return more, err
			}
			tried, step.Done = u.Period, step.Done || done
			if do == nil {
				return nil, nil
			}
			return nil, do(b, u)
		}, look)
		step.Done, step.Buckets = out.Done || step.Done, out.Buckets+step.Buckets
		step.Units += out.Units
		out = step
		if err != nil || !step.More {
			break
		}
	}
	return out, err
}

// rollOver rolls a budget over if that is due. It may need further rows.
func rollOver(b *books.Books, u *books.Budget, clocks error) (
	out books.RolledOver, more []Query, err error) {
	since := b.CountFrom(u)
	switch {
	case !b.Due(u):
		out.Period = b.PeriodOf(u)
		return out, nil, nil
	case clocks != nil:
		return out, nil, clocks
	case since != 0:
		return out, []Query{UsedSince(u.ID, since)}, nil
	}
	out, err = b.RollOver(u)
	return out, nil, err
}

// NoBudget is the refusal of a budget that does not exist.
func NoBudget(op string, id int64) error {
	return budget.Refuse(budget.BudgetNotFound, op, "there is no budget %d", id)
}
