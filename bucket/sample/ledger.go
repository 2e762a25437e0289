// Package sample stores budgets' figures over time, once a minute if something changed, and returns
// them as series with a projection.
package sample

import (
	"context"
	"time"

	"github.com/budgetd/budgetd/bucket"
	"github.com/budgetd/budgetd/ledger"
)

// Ledger stores samples. Errors: Unavailable, and for writes OutcomeUnknown; they are idempotent.
// It is safe for concurrent use.
type Ledger interface {
	// AddSamples stores samples. The first sample of a budget and minute stays.
	AddSamples(ctx context.Context, list []bucket.Sample) error
	// LastSamples returns the newest sample of each budget from first to last. Budgets without samples
	// are omitted.
	LastSamples(ctx context.Context, first, last int64) (map[int64]bucket.Sample, error)
	// SamplesOf returns a budget's samples in a span in order of time, at most limit, preceded by
	// the one that was valid at its beginning.
	SamplesOf(ctx context.Context, budgetID int64, from, to time.Time, limit int) (
		[]bucket.Sample, error)
	// DropSamples deletes at most limit samples from before an instant, and returns how many it
	// found.
	DropSamples(ctx context.Context, before time.Time, limit int) (int, error)
	// Holdings returns what the epochs of the budgets from first to last hold.
	Holdings(ctx context.Context, first, last int64) ([]bucket.Holding, error)
}

// Figures reads a budget's figures in one snapshot. Errors: BudgetNotFound, Unavailable.
type Figures interface {
	Figures(ctx context.Context, budgetID int64) (ledger.Figures, error)
}

// Budgets finds definitions that are at most a second old. bucket.Budgets implements it.
type Budgets interface {
	Find(ctx context.Context, ref bucket.BudgetRef) (*bucket.Budget, error)
}
