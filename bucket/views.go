package bucket

import (
	"time"

	"github.com/budgetd/budgetd/budget"
	"github.com/budgetd/budgetd/ledger"
	"github.com/budgetd/budgetd/series"
)

// SeriesRequest asks for a budget's figures over time. Zero fields: see series.Choose.
type SeriesRequest struct {
	Budget BudgetRef
	Span   series.Span
}

// SeriesAnswer is a budget's figures over time.
type SeriesAnswer struct {
	Span   series.Span
	Points []series.Point
	// Now are the present figures, which the projection starts from.
	Now        series.Point
	Projection series.Projection
}

// Sample is a budget's figures as kept for its series.
type Sample struct {
	Budget int64
	series.Point
}

// Holding is what an epoch holds, and where.
type Holding struct {
	Budget int64
	Lane   Lane
	// Outstanding is O, above 0.
	Outstanding int64
	// Open: units can be deducted from it; else it is opening or closing.
	Open, Fenced bool
}

// UsageRequest asks what was counted for values of dimensions.
type UsageRequest struct {
	Budget BudgetRef
	// Dimensions are the values that a deduction must carry, at least one.
	Dimensions map[string]string
	// From is the first instant that counts, To the first one that does not; zero: no bound.
	From, To time.Time
}

// Usage is what the ledger counts for values of dimensions in a span of time.
type Usage struct {
	// Calls is the number of deductions, Amount what they took and RolledBack what of that came
	// back, in minor units.
	Calls, Amount, RolledBack int64
}

// CheckRequest asks whether a budget would be deducted from now. The caller has validated the texts
// (budget.CheckKey) and the amounts.
type CheckRequest struct {
	Budget BudgetRef
	// Amount is in minor units, 1 … budget.MaxAmount.
	Amount     int64
	Dimensions map[string]string
	// Counts are own amounts for single limits, by their names.
	Counts map[string]int64
}

// CheckAnswer is what a deduct would be answered now: accepted, unless Err says otherwise.
type CheckAnswer struct {
	Amount int64
	// BudgetRemaining is what the whole budget covers, in minor units; Unlimited: no figure for
	// callers.
	BudgetRemaining int64
	Unlimited       bool
	// PeriodRemaining is what the open period of a daily budget covers; nil for promo.
	PeriodRemaining *int64
	// Limits are those that it would count for, as they are now: without it.
	Limits []budget.LimitState
	// Recorded is what the request id would be answered as a replay; nil: it is new, or there is
	// none.
	Recorded *DeductAnswer
	// Err is the refusal, or why it cannot be said.
	Err error
}

// BudgetFigures are a budget's figures, for metrics.
type BudgetFigures struct {
	Tenant, Name string
	Figures      ledger.Figures
}

// DeductResult is what became of one request of DeductAll: an answer, or an error as of Deduct.
type DeductResult struct {
	Answer DeductAnswer
	Err    error
}

// AdjustmentState is where an adjustment stands.
type AdjustmentState string

// The states of an adjustment.
const (
	AdjustmentPending AdjustmentState = "pending"
	AdjustmentDone    AdjustmentState = "done"
	AdjustmentRefused AdjustmentState = "refused"
)
