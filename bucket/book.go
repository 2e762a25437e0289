package bucket

import (
	"time"

	"github.com/budgetd/budgetd/budget"
	"github.com/budgetd/budgetd/ledger"
)

// Book is a budget's columns in one snapshot, for passes over all budgets.
type Book struct {
	// Definition lacks the limits and the rule.
	budget.Definition
	Figures ledger.Figures
	// Adjusted is the sum of the completed adjustments. Shrinks is the sum of the pending shrinks, as
	// a positive number. Both are in minor units.
	Adjusted, Shrinks int64
	// Halted is the number of halted epochs, HaltedUnits what they hold in minor units.
	Halted      int
	HaltedUnits int64
	// Entries grows with every entry of the budget's feed, and with every epoch.
	Entries int64
}

// Remaining returns what deductions can take at an instant, in minor units; nothing of an unlimited
// budget, which has no total.
func (b *Book) Remaining(now time.Time) int64 {
	units, _ := Remaining(&b.Definition, b.Figures.Period.Start, b.Figures.Available(), now)
	return units
}
