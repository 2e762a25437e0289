package bucket

import (
	"context"
	"time"

	"github.com/budgetd/budgetd/series"
)

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

// Samples keeps budgets' figures over time. All methods: Unavailable when SQL cannot be reached; AddSamples
// and DropSamples OutcomeUnknown too. Safe for concurrent use.
type Samples interface {
	// AddSamples keeps samples, in whole milliseconds. One that is there already for its budget and instant
	// stays as it is, so several nodes do no harm.
	AddSamples(ctx context.Context, samples []Sample) error
	// LastSamples reads the newest sample of each budget first … last; a budget without one is missing.
	LastSamples(ctx context.Context, first, last int64) (map[int64]Sample, error)
	// SamplesOf reads a budget's samples in the order of time: the newest at `from` or before, and at most
	// limit after that, up to `to`.
	SamplesOf(ctx context.Context, budgetID int64, from, to time.Time, limit int) ([]Sample, error)
	// DropSamples forgets at most limit samples from before an instant, the oldest first. Several nodes may
	// do so at the same time: each counts those that it found.
	DropSamples(ctx context.Context, before time.Time, limit int) (found int, err error)
	// Holdings reads what the epochs of budgets first … last hold: those with O above 0.
	Holdings(ctx context.Context, first, last int64) ([]Holding, error)
}
