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
	// have the same id, the first one that is accepted makes the others Known. An operation whose
	// own row (the same nonce) exists already is Known too; the caller compares nonces.
	Commit(ctx context.Context, operations []bucket.Operation) ([]bucket.Outcome, error)
	// Bring commits operations of a budget that wait because their own buckets lack units, all of
	// them in one bucket, into which it brings units of the total and of other buckets, in one
	// transaction. It locks everything that the open period may get, so an operation that does not
	// fit is Exhausted (I3). recent is what a usual deduction of the budget takes, 0 if that is
	// unknown: near the end of the budget, one bucket gets everything.
	Bring(ctx context.Context, budgetID, recent int64, operations []bucket.Operation) (
		[]bucket.Outcome, error)
}

// Lookup reads the ledger, without locks unless stated otherwise. Each method is one statement, or
// one per thousand ids. Implementations are safe for concurrent use. Error: Unavailable.
type Lookup interface {
	// Recorded returns the rows of request ids. Ids without a row are omitted.
	Recorded(ctx context.Context, ids []bucket.ID) (map[bucket.ID]ledger.Deduction, error)
	// Standings returns O of the newest epochs of buckets, in minor units, and I3's sums of
	// budgets, for answers. What does not exist is omitted.
	Standings(ctx context.Context, buckets, budgets []int64) (
		map[int64]int64, map[int64]ledger.Cover, error)
	// Covers returns I3's sums, for answers. exact is a locking read, which answers do not need.
	// Budgets that do not exist are omitted.
	Covers(ctx context.Context, budgets []int64, exact bool) (map[int64]ledger.Cover, error)
	// LookTwice returns I3's sums, the larger of two looks, the second of which locks and so sees
	// every commit acknowledged before it began; and the rows of ids, read after that. Budgets that
	// do not exist are omitted.
	LookTwice(ctx context.Context, budgets []int64, ids []bucket.ID) (
		map[int64]ledger.Cover, map[bucket.ID]ledger.Deduction, error)
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
