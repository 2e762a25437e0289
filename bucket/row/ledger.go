package row

import (
	"context"

	"github.com/budgetd/budgetd/bucket"
	"github.com/budgetd/budgetd/budget"
	"github.com/budgetd/budgetd/ledger"
)

// Ledger writes deductions. An error is about the whole call. Unavailable means that nothing was
// written. After OutcomeUnknown, passing the same operations again returns what the first call did.
// Implementations are safe for concurrent use.
type Ledger interface {
	// Commit writes a flight: operations of any budgets in at most MaxFlightBuckets buckets. It
	// evaluates them in order and returns their outcomes in the same order. If several operations
	// have the same id, the first one that is accepted makes the others Known. An operation whose own
	// row (the same nonce) exists already is Known too; the caller compares nonces.
	Commit(ctx context.Context, operations []bucket.Operation) ([]bucket.Outcome, error)
	// Gather moves units of a budget into one of its buckets and commits the operations that wait for
	// them there, in one transaction. It locks everything that the open period may get, so an
	// operation that still does not fit is Exhausted (I3). If that is more epochs than one
	// transaction locks, an operation may be Short instead, and the caller passes it again.
	Gather(ctx context.Context, budgetID, bucketID int64, operations []bucket.Operation) (
		[]bucket.Outcome, error)
}

// Lookup reads the ledger, without locks unless stated otherwise. Each method is one statement, or
// one per thousand ids. Implementations are safe for concurrent use. Error: Unavailable.
type Lookup interface {
	// Recorded returns the rows of request ids. Ids without a row are omitted.
	Recorded(ctx context.Context, ids []bucket.ID) (map[bucket.ID]ledger.Deduction, error)
	// Standings returns O of the newest epochs of buckets, in minor units. Buckets that do not exist
	// are omitted.
	Standings(ctx context.Context, buckets []int64) (map[int64]int64, error)
	// Covers returns I3's sums. If exact is set, it is a locking read that sees every commit
	// acknowledged before it began. Budgets that do not exist are omitted.
	Covers(ctx context.Context, budgets []int64, exact bool) (map[int64]bucket.Cover, error)
	// Exceeded returns, in the order of the operations, the limits that each one would exceed if it
	// were committed alone, as limit.Exceeded lists them. An operation within its limits has a nil
	// list.
	Exceeded(ctx context.Context, ops []bucket.Operation) ([][]budget.LimitState, error)
}

// Rollover ends the period of a budget that is over and begins the next one.
type Rollover interface {
	// RollOver rolls a budget over if that is due by SQL's clock; otherwise it does nothing. Error:
	// Unavailable.
	RollOver(ctx context.Context, budgetID int64) error
}

// Refills learns which budgets are used and refills their buckets. transfer.Service implements it.
type Refills interface {
	// Used records that this node deducted from a budget. It returns at once.
	Used(budgetID int64)
}

// MaxFlightBuckets bounds the buckets of one flight, and so the epochs that it locks.
const MaxFlightBuckets = 512
