package moves

import (
	"maps"
	"slices"

	"github.com/budgetd/budgetd/allocation"
	"github.com/budgetd/budgetd/internal/sqlstore/engine"
	"github.com/budgetd/budgetd/internal/sqlstore/rows"
)

const (
	moveUnits = `UPDATE budget_management_bucket SET unfunded_quantity = unfunded_quantity + ?,
		undistributed_quantity = undistributed_quantity + ?,
		forfeited_quantity = forfeited_quantity + ?, out_quantity = out_quantity - ? WHERE id = ?`
	carryInto = `UPDATE budget_period SET carried_quantity = carried_quantity + ?
		WHERE budget_id = ? AND number = ?`
	leavePeriod = `UPDATE budget_period SET returned_quantity = returned_quantity + ?,
		passed_quantity = passed_quantity + ?, forfeited_quantity = forfeited_quantity + ?
		WHERE budget_id = ? AND number = ?`
)

// Units changes F, U and X of a locked budget. Their total increase is taken from the units handed
// out.
func Units(t *engine.Tx, b *rows.Budget, m allocation.Movement) error {
	if m == (allocation.Movement{}) {
		return nil
	}
	b.Unfunded += m.Unfunded
	b.Undistributed += m.Undistributed
	b.Forfeited += m.Forfeited
	return t.Hit(1, moveUnits, m.Unfunded, m.Undistributed, m.Forfeited,
		m.Unfunded+m.Undistributed+m.Forfeited, b.ID)
}

// Coming is units that left a locked epoch unused.
type Coming struct {
	Row *rows.Epoch
	// Never were not used when the epoch's period ended; Late ones were used then and given back
	// later.
	Never, Late int64
}

// ComeBack moves units that left their epochs to where their periods say: to U if theirs is the
// open period, otherwise by the budget's rule to F, to U of the open period, or to X. The budget is
// locked. Those of an unlimited budget came from no total and go to none.
func ComeBack(t *engine.Tx, b *rows.Budget, all ...Coming) error {
	if b.Unlimited == 1 {
		return nil
	}
	var sum allocation.Movement
	d, current, carried := b.Definition(), b.PeriodNow(), int64(0)
	if d.Rule != nil && d.Rule.MaxRollover > 0 { // what was carried already counts
		var err error
		if current, err = OpenPeriod(t, b); err != nil {
			return err
		}
	}
	older := map[int64]allocation.Movement{}
	for _, c := range all {
		if c.Row.Period == b.Period && b.IsOver == 0 {
			sum.Undistributed += c.Never + c.Late
			continue
		}
		m := allocation.Return(d, current, c.Never, c.Late)
		sum, older[c.Row.Period] = sum.Plus(m), older[c.Row.Period].Plus(m)
		carried, current.Carried = carried+m.Undistributed, current.Carried+m.Undistributed
	}
	for _, number := range slices.Sorted(maps.Keys(older)) {
		if err := Leave(t, b.ID, number, older[number]); err != nil {
			return err
		}
	}
	if carried > 0 {
		if err := t.Hit(1, carryInto, carried, b.ID, b.Period); err != nil {
			return err
		}
	}
	return Units(t, b, sum)
}

// Leave records in a period's row where units that left it went: back to F, to the open period, or
// forfeited.
func Leave(t *engine.Tx, budgetID, period int64, m allocation.Movement) error {
	if m == (allocation.Movement{}) {
		return nil
	}
	return t.Hit(1, leavePeriod, m.Unfunded, m.Undistributed, m.Forfeited, budgetID, period)
}
