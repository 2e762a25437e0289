// Package warn watches the thresholds of all budgets and lets package alert decide about them. It
// costs little: the figures come from the minute's samples and from the audit's pass over all
// books, which reads them anyway. Nothing here is on the path of a deduction.
package warn

import (
	"context"
	"time"

	"github.com/budgetd/budgetd/alert"
	"github.com/budgetd/budgetd/bucket"
)

// Ledger stores thresholds and states. Error of each: Unavailable, and for writes OutcomeUnknown.
// It is safe for concurrent use.
type Ledger interface {
	// Thresholds returns the thresholds of the budgets from first to last that have their own.
	Thresholds(ctx context.Context, first, last int64) (map[int64][]alert.Threshold, error)
	// SetThresholds replaces the thresholds of a budget; nil restores the defaults.
	SetThresholds(ctx context.Context, budgetID int64, tenant, name string,
		list []alert.Threshold) error
	// Firing returns the firing states of the budgets from first to last.
	Firing(ctx context.Context, first, last int64) (map[int64][]alert.State, error)
	// PeriodSpent returns what is used and held of the open period of budgets. Budgets that have used
	// nothing may be omitted.
	PeriodSpent(ctx context.Context, budgets []int64) (map[int64]PeriodSpent, error)
	// Evaluate decides by the states under their locks, and writes transitions and messages in one
	// transaction. It is idempotent.
	Evaluate(ctx context.Context, subjects []alert.Subject) (map[int64][]alert.Transition, error)
	// Alerts lists alerts, the newest first.
	Alerts(ctx context.Context, q alert.Query) ([]alert.View, error)
}

// Samples reads stored samples. Each method may return Unavailable. Budgets without samples are
// omitted.
type Samples interface {
	// Last returns the newest sample of each budget from first to last.
	Last(ctx context.Context, first, last int64) (map[int64]bucket.Sample, error)
	// At returns the sample that was valid at an instant, or the first one after it.
	At(ctx context.Context, first, last int64, at time.Time) (map[int64]bucket.Sample, error)
}

// Budgets finds definitions that are at most a second old. bucket.Budgets implements it.
type Budgets interface {
	Find(ctx context.Context, ref bucket.BudgetRef) (*bucket.Budget, error)
}

// Observer receives counts for metrics. It is safe for concurrent use, and its methods return at
// once.
type Observer interface {
	// AlertsEvaluated reports how many thresholds of each kind were compared with their figures.
	AlertsEvaluated(thresholds map[alert.Kind]int)
	// AlertsFiring reports how many alerts of each kind fire, after a pass over all budgets.
	AlertsFiring(alerts map[alert.Kind]int)
}

// PeriodSpent is what is used and held of a period, in minor units.
type PeriodSpent struct{ Period, Units int64 }
