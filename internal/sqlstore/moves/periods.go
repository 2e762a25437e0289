package moves

import (
	"github.com/budgetd/budgetd/budget"
	"github.com/budgetd/budgetd/internal/sqlstore/engine"
	"github.com/budgetd/budgetd/internal/sqlstore/rows"
)

const (
	insertPeriods = `INSERT INTO budget_period (budget_id, number, start_ms, end_ms, funded_quantity,
		carried_quantity, before_quantity, returned_quantity, passed_quantity, forfeited_quantity,
		created_at)`
	periodWidth  = 11
	selectPeriod = `SELECT funded_quantity, carried_quantity, before_quantity FROM budget_period
		WHERE budget_id = ? AND number = ?`
	turnPeriod = `UPDATE budget_management_bucket SET period = ?, period_start_ms = ?,
		period_end_ms = ?, is_over = ?, roll_over_ms = ?, list_version = list_version + 1
		WHERE id = ?`
)

// OpenPeriod reads the open or last period of a locked budget, with its units.
func OpenPeriod(t *engine.Tx, b *rows.Budget) (budget.Period, error) {
	p := b.PeriodNow()
	var row struct {
		Funded  int64 `db:"funded_quantity"`
		Carried int64 `db:"carried_quantity"`
		Before  int64 `db:"before_quantity"`
	}
	found, err := t.Get(&row, selectPeriod, b.ID, b.Period)
	if err == nil && !found {
		err = engine.Defect("period %d of budget %d is gone", b.Period, b.ID)
	}
	p.Funded, p.Carried, p.Before = row.Funded, row.Carried, row.Before
	return p, err
}

// InsertPeriod writes a period's row.
func InsertPeriod(t *engine.Tx, budgetID int64, p budget.Period) error {
	return t.Insert(insertPeriods, periodWidth, []any{budgetID, p.Number, engine.ToMS(p.Start),
		engine.EndMS(p.End), p.Funded, p.Carried, p.Before, 0, 0, 0, engine.ToMS(t.Now)})
}

// Turn makes a period, whose row is written, the open one of a locked budget; one that is Over
// means that none is open any more. The epochs of the previous period have ended.
func Turn(t *engine.Tx, b *rows.Budget, p budget.Period) error {
	b.Period, b.PeriodStartMS, b.PeriodEndMS = p.Number, engine.ToMS(p.Start), engine.EndMS(p.End)
	b.IsOver, b.RollOverMS = OneIf(p.Over), RollOverMS(p)
	return t.Hit(1, turnPeriod, b.Period, b.PeriodStartMS, b.PeriodEndMS, b.IsOver, b.RollOverMS,
		b.ID)
}

// RollOverMS returns when a period needs a rollover, as in roll_over_ms; 0 means never.
func RollOverMS(p budget.Period) int64 {
	if p.Over {
		return 0
	}
	return engine.EndMS(p.End)
}

// OneIf returns the column value of a bool.
func OneIf(is bool) int64 {
	if is {
		return 1
	}
	return 0
}
