// Package usage predicts the answer of a deduct, sums the deductions of dimension values, and lists
// the values nearest a limit's maximum, in ledger mode. It changes nothing.
package usage

import (
	"context"
	"time"

	"github.com/budgetd/budgetd/bucket"
	"github.com/budgetd/budgetd/ledger"
	"github.com/budgetd/budgetd/limit"
)

// Budgets finds definitions that are at most a second old. bucket.Budgets implements it.
type Budgets interface {
	Find(ctx context.Context, ref bucket.BudgetRef) (*bucket.Budget, error)
	FindAll(ctx context.Context, refs []bucket.BudgetRef) ([]*bucket.Budget, []error)
	Reload(ctx context.Context, id int64) (*bucket.Budget, error)
}

// Lookup reads the ledger. Each method may return Unavailable. Implementations are safe for
// concurrent use.
type Lookup interface {
	// Recorded returns the deductions of ids. Ids without a row are omitted.
	Recorded(ctx context.Context, ids []bucket.ID) (map[bucket.ID]ledger.Deduction, error)
	// Covers returns I3's sum of each budget. With exact it sees every commit that was acknowledged
	// before it began. Budgets that do not exist are omitted.
	Covers(ctx context.Context, budgets []int64, exact bool) (map[int64]ledger.Cover, error)
	// Standings returns O of the newest epochs of buckets, in minor units, and the sums of budgets.
	// What does not exist is omitted.
	Standings(ctx context.Context, buckets, budgets []int64) (
		map[int64]int64, map[int64]ledger.Cover, error)
}

// Touched is what one request counts against limits of a budget.
type Touched struct {
	Budget  int64
	Touches []limit.Touch
}

// Limits reads how far limits are used. Each method may return Unavailable. Implementations are
// safe for concurrent use.
type Limits interface {
	// Tallies returns one tally per touch, as of now. It is one statement for all.
	Tallies(ctx context.Context, asked []Touched) ([][]*limit.Tally, error)
	// Usage sums the deductions that carry all of the values and were counted from an instant
	// (inclusive) to another (exclusive). A zero instant is no bound.
	Usage(ctx context.Context, budgetID int64, dimensions map[string]string, from, to time.Time) (
		bucket.Usage, error)
	// Nearest reads the counters of up to most values of a limit's dimension, in the order of their
	// keys, and returns those that have used the largest shares, at most keep. Counts that are only in
	// the ledger make the answer incomplete.
	Nearest(ctx context.Context, budgetID int64, l *limit.Limit, most, keep int) (
		bucket.Nearest, error)
}

// Rollover ends periods of budgets that are over.
type Rollover interface {
	// RollOver rolls a budget over if that is due by SQL's clock; otherwise it does nothing. Error:
	// Unavailable.
	RollOver(ctx context.Context, budgetID int64) error
}
