// Package store is what SQL knows of the stores of store mode: which memory each partition has, how
// far the epochs of its buckets are, what they counted and what was lost.
//
// Movements that act on a store's answer lock the partition's row for reading and compare its
// incarnation, so that an answer from a memory that was given up changes nothing. What they decide
// is in ledger/books/memories.go.
package store

import (
	"time"

	"github.com/budgetd/budgetd/bucket"
	"github.com/budgetd/budgetd/ledger"
)

// MaxEpochs bounds the epochs that one transaction locks.
const MaxEpochs = 64

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

// Recorded is the result of Ledger.Record.
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

// Shrink is a budget with its pending shrinks, in minor units.
type Shrink struct{ Budget, Units int64 }

// Rollover is the progress of a rollover.
type Rollover struct {
	// Closing are buckets whose epochs must be closed first.
	Closing []int64
	// Begun are buckets with new grants.
	Begun []int64
}

// GivenUp reports whether an operator gave the partition up and no store was verified since.
func (r *PartitionRow) GivenUp() bool { return r.Incarnation > 0 && r.Identity == "" }
