// Package usage foresees what a deduct would be answered, and sums what values of dimensions have
// taken, in ledger mode. It changes nothing.
package usage

import (
	"context"
	"time"

	"github.com/budgetd/budgetd/bucket"
	"github.com/budgetd/budgetd/ledger"
	"github.com/budgetd/budgetd/limit"
)

// Budgets finds definitions that are at most a second old: bucket.Budgets.
type Budgets interface {
	Find(ctx context.Context, ref bucket.BudgetRef) (*bucket.Budget, error)
	FindAll(ctx context.Context, refs []bucket.BudgetRef) ([]*bucket.Budget, []error)
	Reload(ctx context.Context, id int64) (*bucket.Budget, error)
}

// Lookup reads the ledger without changing it. Error of each: Unavailable. Safe for concurrent use.
type Lookup interface {
	// Recorded reads what became of ids. One without a row is missing.
	Recorded(ctx context.Context, ids []bucket.ID) (map[bucket.ID]ledger.Deduction, error)
	// Covers reads I3's sum of each budget; with exact it sees every commit that was acknowledged
	// before it began. A budget that does not exist is missing.
	Covers(ctx context.Context, budgets []int64, exact bool) (map[int64]bucket.Cover, error)
	// Standings reads fill and O of the newest epochs of buckets.
	Standings(ctx context.Context, buckets []int64) (map[int64]bucket.Level, error)
}

// Touched is what one request counts against limits of a budget.
type Touched struct {
	Budget  int64
	Touches []limit.Touch
}

// Limits reads what limits and values have counted. Error of each: Unavailable. Safe for concurrent
// use.
type Limits interface {
	// Tallies reads how far the limits are used now: one tally per touch, in one statement for all.
	Tallies(ctx context.Context, asked []Touched) ([][]*limit.Tally, error)
	// Usage adds up the deductions that carry all of the values and were counted in a span, to
	// exclusive; a zero instant is no bound.
	Usage(ctx context.Context, budgetID int64, dimensions map[string]string, from, to time.Time) (
		bucket.Usage, error)
}

// Rollover rolls budgets over whose period is over.
type Rollover interface {
	// RollOver rolls a budget over if that is due by SQL's clock; otherwise it does nothing. Error:
	// Unavailable.
	RollOver(ctx context.Context, budgetID int64) error
}
