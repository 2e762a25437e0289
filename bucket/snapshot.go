package bucket

import (
	"time"

	"github.com/budgetd/budgetd/budget"
	"github.com/budgetd/budgetd/ledger"
)

// Snapshot is a budget's columns as of one instant, for whatever reads all budgets.
type Snapshot struct {
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
func (s *Snapshot) Remaining(now time.Time) int64 {
	units, _ := Remaining(&s.Definition, s.Figures.Period.Start, s.Figures.Available(), now)
	return units
}
