package counter

import (
	"context"
	"time"

	"github.com/budgetd/budgetd/bucket"
	"github.com/budgetd/budgetd/ledger"
	"github.com/budgetd/budgetd/ledger/books"
)

// MaxEpochs bounds the epochs that one transaction locks.
const MaxEpochs = 64

// Ledger is the part of the database. *partitions.Part of package sqlstore/partitions implements
// most of it, and *commit.Part implements Covers.
type Ledger struct {
	Partitions Partitions
	Epochs     Epochs
	Supply     Supply
	Periods    Periods
	Covers     Covers
	Moves      Moves
	// Quarantines is implemented by *quarantine.Part of package sqlstore/quarantine.
	Quarantines Quarantines
}

// PartitionRow says which memory of a partition SQL has verified.
type PartitionRow struct {
	Partition bucket.Partition
	// Incarnation is 0 if the partition was never reached.
	Incarnation int64
	// Since is the first incarnation since which this memory was kept without a gap.
	Since    int64
	Identity string
	// BeganAt is when the incarnation began, by SQL's clock.
	BeganAt time.Time
}

// Memory returns the memory as scripts name it.
func (r *PartitionRow) Memory() bucket.Memory {
	return bucket.Memory{Partition: r.Partition, Incarnation: r.Incarnation, Identity: r.Identity}
}

// LostEpochs is the result of ending lost epochs.
type LostEpochs struct {
	// Buckets are those whose epochs ended. Epochs counts these epochs. More reports that others are
	// left.
	Buckets []int64
	More    bool
	// Quarantined and Returned units left O, for Q and for the total.
	Quarantined, Returned int64
}

// Recorded is the result of Partitions.Record.
type Recorded struct {
	// Known are sums that SQL has now. They are passed to bucket.Changes.Acknowledge.
	Known []bucket.Sum
	// Behind are epochs whose counters were below SQL's. The read may have been slow, so the caller
	// reads them again before it declares the memory lost.
	Behind []bucket.Ref
	// Lost are epochs of this memory without an entry.
	Lost []bucket.Ref
	// Early are buckets with late sums that SQL does not have, because it has not ended the epoch
	// yet, as the store has.
	Early []int64
	// Taken is what S grew by. Late is what moved to R.
	Taken, Late int64
}

// Partitions stores the memories of partitions and what their stores counted. Every method may
// return Unavailable, or OutcomeUnknown, after which the same call may be repeated. Methods with a
// bucket.Memory return bucket.ErrOtherMemory, and change nothing, if the partition has another
// incarnation now.
type Partitions interface {
	// Partition reads the row of a partition.
	Partition(ctx context.Context, partition bucket.Partition) (PartitionRow, error)
	// BeginIncarnation replaces the row of a partition with next if its incarnation is still `was`.
	// From the commit on, every epoch of an incarnation before next.Since is lost. made is false if
	// the row has changed, and if that cannot be told: then another incarnation must follow.
	BeginIncarnation(ctx context.Context, was int64, next PartitionRow, cause string) (made bool,
		err error)
	// EndLost ends at most MaxEpochs lost epochs of a partition. Their O goes to Q. It goes to the
	// total under on_loss: assume_unused, and for epochs that were only opening.
	EndLost(ctx context.Context, partition bucket.Partition) (LostEpochs, error)
	// Record moves what stores counted between O, S and R. SQL's counters only grow.
	Record(ctx context.Context, m bucket.Memory, sums []bucket.Sum) (Recorded, error)
	// Live lists the live epochs of a partition whose bucket is above after, in the order of buckets,
	// with SQL's counters.
	Live(ctx context.Context, partition bucket.Partition, after int64, limit int) ([]ledger.Epoch,
		error)
}

// Task is the unfinished work of a bucket's newest epoch.
type Task struct {
	bucket.Ref
	Budget    int64
	Partition bucket.Partition
	Status    ledger.Status
	// CopyOf is the epoch whose copy the partition must have, or 0 if the bucket was not moved.
	CopyOf int64
	// Grants are the pending ones, by number.
	Grants []bucket.StoreGrant
	Halted bool
}

// Done is what a store confirmed about an epoch.
type Done struct {
	bucket.Ref
	// Opened reports that the epoch is open in the store. Grants is the last grant that the store
	// has.
	Opened bool
	Grants int64
}

// Closing is an epoch that a store has closed, with its final figures.
type Closing struct {
	bucket.Ref
	bucket.Entry
}

// Epochs moves epochs from status to status. Errors are those of Partitions.
type Epochs interface {
	// Unfinished lists buckets with unfinished work.
	Unfinished(ctx context.Context, limit int) ([]int64, error)
	// Tasks reads the newest epochs of buckets in store mode.
	Tasks(ctx context.Context, buckets []int64) ([]Task, error)
	// Confirm records what a store has done.
	Confirm(ctx context.Context, m bucket.Memory, done []Done) error
	// Closed ends closing epochs. Their balances and undelivered grants return to U of their budgets.
	// Donors that are in the bucket list begin their next epochs with up to half of what they
	// returned, if their budget has units beyond need; with need < 0 none does. begun are the buckets
	// with new epochs.
	Closed(ctx context.Context, m bucket.Memory, closings []Closing, need int64) (begun []int64,
		err error)
	// Lost ends one epoch whose entry is missing, as EndLost does.
	Lost(ctx context.Context, m bucket.Memory, ref bucket.Ref, cause string) error
	// Halt stops a bucket until an operator decides.
	Halt(ctx context.Context, ref bucket.Ref, why string) error
}

// Supply moves units between the total and buckets. Errors are those of Partitions, and
// BudgetNotFound.
type Supply interface {
	// Apply moves units from U to a bucket, as books.ApplyInStore does. A bucket without a live epoch
	// begins its next one. Errors: Unavailable, with ReasonOffline if an operator took the bucket
	// offline; BudgetExpired if no period is open; BucketNotFound.
	Apply(ctx context.Context, budgetID, bucketID int64, want books.Refill) (books.Refilled, error)
	// Supply grants the buckets of a budget what operations wait for, or closes the epochs of others
	// that have it, as books.Supply does. A repetition grants nothing more. Error: BudgetExpired if no
	// period is open.
	Supply(ctx context.Context, budgetID int64, round books.Round) (books.Supplied, error)
	// Collect sets at most 16 epochs of a budget to closing, those with the most units first, until
	// they, U and F cover the need. It returns their buckets.
	Collect(ctx context.Context, budgetID, need int64) (donors []int64, err error)
	// Shrinking lists at most 100 budgets whose pending shrinks are above F and U.
	Shrinking(ctx context.Context) ([]Shrink, error)
}

// Shrink is a budget with its pending shrinks, in minor units.
type Shrink struct{ Budget, Units int64 }

// Moves assigns buckets to other partitions, and reads what audit 3 compares. Errors are those of
// Partitions.
type Moves interface {
	// Close sets the epoch of a bucket to closing, unless it has ended.
	Close(ctx context.Context, budgetID, bucketID int64) error
	// Move assigns a bucket to another partition. The newest epoch must be ref and must have ended.
	// Its copy must be complete on the target, or it must be lost. A bucket that is online begins its
	// next epoch there, if a period is open. moved is false if the bucket has a newer epoch.
	Move(ctx context.Context, budgetID int64, ref bucket.Ref, from, to bucket.Partition) (moved bool,
		err error)
	// Granted returns the sums of the grants of epochs, each up to a number, in the order of the
	// refs.
	Granted(ctx context.Context, refs []bucket.Ref, upTo []int64) ([]int64, error)
}

// Rollover is the progress of a rollover.
type Rollover struct {
	// Closing are buckets whose epochs must be closed first.
	Closing []int64
	// Begun are buckets with new grants.
	Begun []int64
}

// Periods ends periods of budgets in store mode. Errors are those of Supply.
type Periods interface {
	// Over lists budgets whose rollover is due.
	Over(ctx context.Context, limit int) ([]int64, error)
	// RollOver ends a period that is over. While epochs are open, it sets them to closing. Once no
	// epoch is open, it opens the next period, begins the epochs of that and hands out their units.
	// Epochs that are still closing stay so, and their units go where the rule says.
	RollOver(ctx context.Context, budgetID int64) (Rollover, error)
}

// Covers reads I3's sums. Error: Unavailable.
type Covers interface {
	// Covers is one statement for many budgets. If exact is set, it locks what it reads.
	Covers(ctx context.Context, budgets []int64, exact bool) (map[int64]ledger.Cover, error)
}
