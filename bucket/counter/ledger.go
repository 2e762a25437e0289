package counter

import (
	"context"
	"time"

	"github.com/budgetd/budgetd/bucket"
	"github.com/budgetd/budgetd/ledger"
)

// MaxEpochs is the most epochs that one transaction locks.
const MaxEpochs = 64

// Ledger is the database's part: *lanes.Part of package sqlstore/lanes has most of it, and
// *commit.Part has Covers.
type Ledger struct {
	Lanes   Lanes
	Epochs  Epochs
	Supply  Supply
	Periods Periods
	Covers  Covers
	Moves   Moves
	// Quarantines is *quarantine.Part of package sqlstore/quarantine.
	Quarantines Quarantines
}

// LaneRow is which memory of a lane SQL has verified.
type LaneRow struct {
	Lane bucket.Lane
	// Activation is 0 where the lane was never reached.
	Activation int64
	// Since is the first activation since which this memory was kept without a gap.
	Since    int64
	Identity string
	// ActivatedAt is when the activation began, by SQL's clock.
	ActivatedAt time.Time
}

// Memory names the memory for scripts.
func (r *LaneRow) Memory() bucket.Memory {
	return bucket.Memory{Lane: r.Lane, Activation: r.Activation, Identity: r.Identity}
}

// LostEpochs is what settling lost epochs did.
type LostEpochs struct {
	// Epochs ended; More reports that others are left. Buckets are those that ended.
	Buckets []int64
	More    bool
	// Quarantined and Returned units left O, for Q and for the total.
	Quarantined, Returned int64
}

// Recorded is what Lanes.Record did with sums.
type Recorded struct {
	// Settled are sums that SQL has now: bucket.Changes.Settle.
	Settled []bucket.Sum
	// Behind are epochs whose counters were below SQL's. The read may have been slow: read them again
	// before the memory is taken for lost.
	Behind []bucket.Ref
	// Lost are epochs of this memory without an entry.
	Lost []bucket.Ref
	// Taken is what S grew by, Late what went to R.
	Taken, Late int64
}

// Lanes knows the memories of lanes and what their stores counted. Errors of every method:
// Unavailable; OutcomeUnknown, and the same call may be repeated. Methods with a bucket.Memory
// return bucket.ErrOtherMemory, and have changed nothing, where the lane has another activation by
// now.
type Lanes interface {
	// Lane reads the row of a lane.
	Lane(ctx context.Context, lane bucket.Lane) (LaneRow, error)
	// Activate makes next the row of its lane if the activation is still `was`. From the commit on
	// every epoch of an activation before next.Since is lost. made is false where the row is another
	// one by now, and where it cannot be told: then another activation has to follow.
	Activate(ctx context.Context, was int64, next LaneRow, cause string) (made bool, err error)
	// SettleLost ends lost epochs of a lane, at most MaxEpochs of them: O goes to Q, or to the total
	// under on_loss: assume_unused and where the epoch was only opening.
	SettleLost(ctx context.Context, lane bucket.Lane) (LostEpochs, error)
	// Record moves what stores counted between O, S and R. The counters of SQL only grow.
	Record(ctx context.Context, m bucket.Memory, sums []bucket.Sum) (Recorded, error)
	// Live lists live epochs of a lane of buckets above a number, by bucket, with SQL's counters.
	Live(ctx context.Context, lane bucket.Lane, after int64, limit int) ([]ledger.Epoch, error)
}

// Task is what is unfinished of a bucket's newest epoch.
type Task struct {
	bucket.Ref
	Budget int64
	Lane   bucket.Lane
	Status ledger.Status
	// CopyOf is the epoch whose copy the lane must have; 0: the bucket was not moved.
	CopyOf int64
	// Grants are pending, by number.
	Grants []bucket.StoreGrant
	Fenced bool
}

// Done is what a store confirmed of an epoch.
type Done struct {
	bucket.Ref
	// Opened reports that the store has the epoch open, Grants that it has the grants up to that
	// number.
	Opened bool
	Grants int64
}

// Closing is an epoch that a store has closed, with its final figures.
type Closing struct {
	bucket.Ref
	bucket.Entry
}

// Epochs takes epochs from status to status. Errors: as Lanes.
type Epochs interface {
	// Unfinished lists buckets with something to go on with.
	Unfinished(ctx context.Context, limit int) ([]int64, error)
	// Tasks reads the newest epochs of buckets of store mode.
	Tasks(ctx context.Context, buckets []int64) ([]Task, error)
	// Confirm notes what a store has done.
	Confirm(ctx context.Context, m bucket.Memory, done []Done) error
	// Closed ends closing epochs of one budget: what they still had and the grants that did not arrive
	// come back. Donors that are in the bucket list begin their next epochs with up to half of what
	// they brought, as far as units beyond `need` are there; need < 0: none does. begun are the
	// buckets with new epochs.
	Closed(ctx context.Context, m bucket.Memory, closings []Closing, need int64) (begun []int64,
		err error)
	// Lost ends one epoch whose entry is missing: see SettleLost.
	Lost(ctx context.Context, m bucket.Memory, ref bucket.Ref, cause string) error
	// Fence stops a bucket until an operator decides.
	Fence(ctx context.Context, ref bucket.Ref, why string) error
}

// Want is what a bucket applies for, in minor units.
type Want struct {
	Bucket int64
	// Need is the least that helps, at least 1. Rate is how many units a second the bucket uses.
	Need int64
	Rate float64
	// Operator brings a bucket online that an operator took offline; it begins an epoch without units
	// too.
	Operator bool
	// Collected says that units were collected for it: they count as a collect, not as an application.
	Collected bool
}

// Brought is what an application did.
type Brought struct {
	// Units came to the bucket, as a pending grant; 0: none did.
	Units int64
	// Short is how many units U lacks for the need: units have to be collected.
	Short int64
	// Closing: the bucket's epoch is ending; go on with that first.
	Closing bool
	// Barred: adjust_cnt allows the bucket no further application, so that of U it may have only what
	// came back: Short is what that lacks, and Kept the rest of U. Outstanding is O of the bucket.
	// Other is a bucket that may still apply; 0: none may.
	Barred                   bool
	Kept, Outstanding, Other int64
}

// Supply moves units between the total and buckets. Errors: as Lanes; BudgetNotFound.
type Supply interface {
	// Apply moves units from U to a bucket, after R was swept. A bucket without a live epoch begins
	// its next one. Errors: Unavailable with ReasonOffline where an operator took it offline, and
	// where it is fenced; BudgetExpired or PeriodExhausted where no period is open.
	Apply(ctx context.Context, budgetID int64, want Want) (Brought, error)
	// Collect sets epochs of a budget to closing, those with the most units first, until they and U
	// cover the need of the target bucket (0: of the total), at most 16 of them. It returns their
	// buckets.
	Collect(ctx context.Context, budgetID, target, need int64) (donors []int64, err error)
	// Offline takes a bucket out of the list and sets its epoch to closing. Error: LastBucket.
	Offline(ctx context.Context, budgetID, bucketID int64, by bucket.OfflineBy) error
	// Spread begins epochs of buckets that have none and hands U out evenly. It returns the buckets.
	Spread(ctx context.Context, budgetID int64) (begun []int64, err error)
	// Shrinking lists budgets whose pending shrinks are above F and U, at most 100.
	Shrinking(ctx context.Context) ([]Shrink, error)
}

// Shrink is a budget with its pending shrinks, in minor units.
type Shrink struct{ Budget, Units int64 }

// Moves gives buckets other lanes, and reads what audit 3 compares. Errors: as Lanes.
type Moves interface {
	// Close sets the epoch of a bucket to closing, unless it has ended.
	Close(ctx context.Context, budgetID, bucketID int64) error
	// Move gives a bucket another lane: the newest epoch must be ref and have ended, and its copy must
	// be complete there, or it is lost. moved is false where the bucket has gone on meanwhile.
	Move(ctx context.Context, budgetID int64, ref bucket.Ref, from, to bucket.Lane) (moved bool,
		err error)
	// Granted sums the grants of epochs up to a number each, in the order of the refs.
	Granted(ctx context.Context, refs []bucket.Ref, upTo []int64) ([]int64, error)
}

// Turned is how far a rollover is.
type Turned struct {
	// Closing are buckets whose epochs have to be closed first.
	Closing []int64
	// Begun are buckets with new epochs; Done reports that a period ended.
	Begun []int64
	Done  bool
}

// Periods ends periods of budgets in store mode. Errors: as Supply.
type Periods interface {
	// Over lists budgets whose rollover is due.
	Over(ctx context.Context, limit int) ([]int64, error)
	// End sets the epochs of a period that is over to closing.
	End(ctx context.Context, budgetID int64) (Turned, error)
	// Turn opens the next period once no epoch is open: those that are still closing go on, and what
	// they bring goes where the rule says. It begins epochs of the others and hands out what the
	// period got.
	Turn(ctx context.Context, budgetID int64) (Turned, error)
}

// Covers reads I3's sums. Error: Unavailable.
type Covers interface {
	// Covers is one statement for many budgets. With exact it locks what it reads.
	Covers(ctx context.Context, budgets []int64, exact bool) (map[int64]bucket.Cover, error)
}
