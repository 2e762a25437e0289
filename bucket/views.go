package bucket

import (
	"time"

	"github.com/budgetd/budgetd/budget"
	"github.com/budgetd/budgetd/ledger"
	"github.com/budgetd/budgetd/limit"
	"github.com/budgetd/budgetd/series"
)

// SeriesRequest asks for a budget's figures over time. series.Choose fills in zero fields.
type SeriesRequest struct {
	Budget BudgetRef
	Span   series.Span
}

// SeriesAnswer is a budget's figures over time.
type SeriesAnswer struct {
	Span series.Span
	// Unlimited says that there is no total, so that nothing of it is left or used up.
	Unlimited bool
	Points    []series.Point
	// Now are the present figures. The projection starts from them.
	Now        series.Point
	Projection series.Projection
}

// Sample is a budget's figures as stored for its series.
type Sample struct {
	Budget int64
	series.Point
}

// Charged is what one request counts against limits of a budget.
type Charged struct {
	Budget  int64
	Charges []limit.Charge
}

// UsageRequest asks for the sums of what was counted for values of dimensions.
type UsageRequest struct {
	Budget BudgetRef
	// Dimensions are the values that a deduction must carry, at least one.
	Dimensions map[string]string
	// From is inclusive, To exclusive. Zero means no bound.
	From, To time.Time
}

// Usage is the sum of what the ledger counts for values of dimensions in a span of time.
type Usage struct {
	// Calls is the number of deductions, Amount what they deducted and RolledBack what of that was
	// given back, in minor units.
	Calls, Amount, RolledBack int64
}

// MaxNearest is the most values that Nearest returns.
const MaxNearest = 1000

// NearestRequest asks for the values that are nearest their maximum of a limit.
type NearestRequest struct {
	Budget BudgetRef
	// Limit is the name of a limit of the budget.
	Limit string
	// Most is the most values to return, 1 … MaxNearest.
	Most int
}

// Nearest lists the values that have used the largest shares of their maximums.
type Nearest struct {
	// Values are sorted by share, the largest first. They leave out exempt values and those without
	// usage in the present window.
	Values []budget.LimitState
	// Read is how many values were read. Complete reports whether no other value has usage.
	Read     int
	Complete bool
}

// CheckRequest asks whether a deduct would be accepted now. The caller has validated the texts
// (budget.CheckKey) and the amounts.
type CheckRequest struct {
	Budget BudgetRef
	// Amount is in minor units, 1 … budget.MaxAmount.
	Amount     int64
	Dimensions map[string]string
	// Counts are separate amounts for single limits, by name.
	Counts map[string]int64
}

// CheckAnswer predicts the answer of a deduct: accepted, unless Err is set.
type CheckAnswer struct {
	Amount int64
	// BudgetRemaining is what the whole budget covers, in minor units. It means nothing if Unlimited
	// is set.
	BudgetRemaining int64
	Unlimited       bool
	// PeriodRemaining is what the open period of a daily budget covers. It is nil for promo.
	PeriodRemaining *int64
	// Limits are those that the deduct would count against, without it.
	Limits []budget.LimitState
	// Budget is the name of the budget of a leg, and Legs are those of a set.
	Budget string
	Legs   []CheckAnswer
	// Recorded is the answer to a replay of the request id. It is nil for a new id, and for a check.
	Recorded *DeductAnswer
	// Err is the refusal, or the reason why no prediction is possible.
	Err error
}

// BudgetFigures are a budget's figures, for metrics.
type BudgetFigures struct {
	Tenant, Name string
	Figures      ledger.Figures
	// Remaining is what deductions can take, in minor units.
	Remaining int64
}

// DeductResult is the result of one request of DeductAll: an answer, or an error as of Deduct.
type DeductResult struct {
	Answer DeductAnswer
	Err    error
}

// AdjustmentState is the state of an adjustment.
type AdjustmentState string

// The states of an adjustment.
const (
	AdjustmentPending AdjustmentState = "pending"
	AdjustmentDone    AdjustmentState = "done"
	AdjustmentRefused AdjustmentState = "refused"
)
