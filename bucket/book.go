package bucket

import (
	"time"

	"github.com/budgetd/budgetd/budget"
	"github.com/budgetd/budgetd/ledger"
)

// Book is a budget's columns in one snapshot, for passes over all budgets.
type Book struct {
	Budget       int64
	Tenant, Name string
	Durability   budget.Durability
	Type         budget.Type
	Unit         budget.Unit
	// StartAt and EndAt bound it as its definition does; Paused: an operator paused it;
	// Archived: lists leave it out.
	StartAt, EndAt   time.Time
	Paused, Archived bool
	Unlimited        bool
	Figures          ledger.Figures
	// Adjusted is the sum of the adjustments that are done, Shrinks that of the shrinks that wait;
	// both in minor units, Shrinks positive.
	Adjusted, Shrinks int64
	// Fenced is how many of its epochs are fenced, FencedUnits what these hold in minor units.
	Fenced      int
	FencedUnits int64
	// Entries grows with everything that the budget's feed tells, and with each epoch.
	Entries int64
}
