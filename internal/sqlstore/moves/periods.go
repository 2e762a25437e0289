package moves

import (
	"github.com/budgetd/budgetd/budget"
	"github.com/budgetd/budgetd/internal/sqlstore/engine"
	"github.com/budgetd/budgetd/internal/sqlstore/rows"
)

const (
	selectPeriod = `SELECT funded_quantity, carried_quantity, before_quantity FROM budget_period
		WHERE budget_id = ? AND number = ?`
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

// OneIf returns the column value of a bool.
func OneIf(is bool) int64 {
	if is {
		return 1
	}
	return 0
}
