// Package sample keeps budgets' figures over time, once a minute where something changed, and shows
// them as series with a projection.
package sample

import (
	"context"
	"time"

	"github.com/budgetd/budgetd/bucket"
	"github.com/budgetd/budgetd/ledger"
)

// Ledger keeps samples. Errors: Unavailable, and OutcomeUnknown of what writes, which may be
// repeated. Safe for concurrent use.
type Ledger interface {
	// AddSamples keeps samples; of a budget and minute that has one, the first one stays.
	AddSamples(ctx context.Context, list []bucket.Sample) error
	// LastSamples reads the newest sample of each budget from first to last; one without is
	// missing.
	LastSamples(ctx context.Context, first, last int64) (map[int64]bucket.Sample, error)
	// SamplesOf reads a budget's samples of a span in the order of time, at most limit, and before
	// them the one that was valid at its beginning.
	SamplesOf(ctx context.Context, budgetID int64, from, to time.Time, limit int) (
		[]bucket.Sample, error)
	// DropSamples forgets at most limit samples from before an instant, and returns how many it
	// found.
	DropSamples(ctx context.Context, before time.Time, limit int) (int, error)
	// Holdings reads what the epochs of the budgets from first to last hold.
	Holdings(ctx context.Context, first, last int64) ([]bucket.Holding, error)
}

// Figures reads a budget's figures in one snapshot. Errors: BudgetNotFound, Unavailable.
type Figures interface {
	Figures(ctx context.Context, budgetID int64) (ledger.Figures, error)
}

// Budgets finds definitions that are at most a second old: bucket.Budgets.
type Budgets interface {
	Find(ctx context.Context, ref bucket.BudgetRef) (*bucket.Budget, error)
}
