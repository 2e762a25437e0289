package row

import (
	"context"

	"github.com/budgetd/budgetd/bucket"
	"github.com/budgetd/budgetd/budget"
	"github.com/budgetd/budgetd/ledger"
)

// Ledger writes deductions. Safe for concurrent use. Errors are of the whole call: Unavailable, and
// nothing of it was written; OutcomeUnknown, and the same operations, handed in again, get what the
// first call did.
type Ledger interface {
	// Commit writes a flight: operations of any budgets in at most MaxFlightBuckets different
	// buckets. The outcomes are in the order of the operations, which are judged in that order too.
	// Several operations may have the same id: the first one that is accepted makes the others
	// Known. A row that has the nonce of its operation is Known as well: the caller compares.
	Commit(ctx context.Context, operations []bucket.Operation) ([]bucket.Outcome, error)
	// Gather brings units of a budget into one of its buckets and commits the operations that wait
	// for them there, in one transaction. Everything that the open period may get is looked at
	// under its locks, so an operation that still does not fit is Exhausted (I3). Where more epochs
	// than one transaction locks have to be looked at, an operation may be Short instead and is to
	// be handed in again. The levels are of all buckets that units were brought into, with what is
	// left after the operations: Added is 0 where that is not more than before.
	Gather(ctx context.Context, budgetID, bucketID int64, operations []bucket.Operation) (
		[]bucket.Outcome, []bucket.Level, error)
}

// Lookup reads the ledger without locks, unless said otherwise. Each method is one statement, or
// one per thousand ids. Safe for concurrent use. Error: Unavailable.
type Lookup interface {
	// Recorded reads the rows of request ids. One that has no row is missing.
	Recorded(ctx context.Context, ids []bucket.ID) (map[bucket.ID]ledger.Deduction, error)
	// Standings reads fill and O of the newest epochs of buckets, with Added 0. A bucket that does
	// not exist is missing.
	Standings(ctx context.Context, buckets []int64) (map[int64]bucket.Level, error)
	// Covers reads I3's sums. With exact it is a locking read: it sees every commit that was
	// acknowledged before it began. A budget that does not exist is missing.
	Covers(ctx context.Context, budgets []int64, exact bool) (map[int64]bucket.Cover, error)
	// Exceeded reads which limits each operation would exceed if it were committed alone, as
	// limit.Exceeded lists them; nil: none. The answers are in the order of the operations.
	Exceeded(ctx context.Context, ops []bucket.Operation) ([][]budget.LimitState, error)
	// RaiseFill makes the fill of a bucket's newest epoch level.Fill + 2 if it is at most
	// level.Fill, and returns the present level with Added 0, raised or not. A filter would add to a
	// content of the fill just below, and is to replace the one that was found wrong. level.Fill is
	// the larger one of SQL's fill as read and the content's. Only Bucket and Fill of level are used.
	RaiseFill(ctx context.Context, level bucket.Level) (bucket.Level, error)
}

// Rollover ends the period of a budget that is over and begins the next one.
type Rollover interface {
	// RollOver rolls a budget over if that is due by SQL's clock; otherwise it does nothing. Error:
	// Unavailable.
	RollOver(ctx context.Context, budgetID int64) error
}

// Refills is told which budgets are used, so that their buckets are refilled: transfer.Service.
type Refills interface {
	// Used notes that a budget was deducted from through this node. It returns at once.
	Used(budgetID int64)
}

// MaxFlightBuckets bounds the buckets, and so the locked epochs, of one flight.
const MaxFlightBuckets = 64
