package transfer

import (
	"time"

	"github.com/budgetd/budgetd/bucket"
	"github.com/budgetd/budgetd/budget"
	"github.com/budgetd/budgetd/fragment"
	"github.com/budgetd/budgetd/internal/sql/engine"
)

// Ledger moves units in the database, and keeps the partitions of store mode there. Each movement
// of a budget is one transaction, in which a rollover that is due comes first: the rows of the
// budget are locked and read, package ledger/books decides, and what differs is written. Errors of
// every method: Unavailable (nothing was changed); of those that write also OutcomeUnknown; of
// those on one budget also BudgetNotFound. Each keeps I1. It is safe for concurrent use.
type Ledger struct{ db *engine.DB }

// NewLedger returns the ledger of a database.
func NewLedger(db *engine.DB) *Ledger { return &Ledger{db: db} }

// Moved is what a movement gave to buckets.
type Moved struct {
	// Buckets counts those whose O grew or whose epoch began.
	Buckets int
	// Units is the sum by which O grew, in minor units.
	Units int64
}

// Changed is what an operator's movement of a bucket did.
type Changed struct {
	// After is the budget as the transaction left it. Units moved to buckets.
	After bucket.Budget
	Units int64
	// Tell are the buckets whose stores have to be told. Waits says that epochs of these must be
	// closed before the movement can be made.
	Tell  []int64
	Waits bool
}

// Stock is what the open buckets of a budget hold that has units to apply for.
type Stock struct {
	Budget  int64
	Buckets []StockBucket
}

// StockBucket is what an open bucket holds, and the sum of what it used.
type StockBucket struct {
	ID, Epoch int64
	// Outstanding is O and Used is S + H of its epoch, in minor units. Entries counts its feed
	// entries.
	Outstanding, Used, Entries int64
}

// RolledOver is the result of a rollover.
type RolledOver struct {
	// Done says that a period ended. Otherwise nothing was due.
	Done bool
	// Period is the open or last period afterwards, without its units.
	Period budget.Period
	Moved
}

// Layout is how a budget's units are spread over the buckets that a recycle may use.
type Layout struct {
	Status budget.Status
	// Units is what total and buckets hold. Least is the smallest share worth a bucket of its own.
	Units, Least int64
	Holdings     []fragment.Holding
	// Outgrown means that the budget has units for more buckets than a contraction left online.
	Outgrown bool
}

// Spread sums up the layout.
func (l *Layout) Spread() bucket.Spread {
	return bucket.Spread{Units: l.Units, Stranded: fragment.Stranded(l.Holdings, l.Least)}
}

// Recycling is a recycle: why, and in store mode how far it has come.
type Recycling struct {
	Cause bucket.RecycleCause
	// Since is zero, or nothing is done if a recycle with this cause began then or later.
	Since time.Time
	// Lately is what the buckets used in the last allocation.LatelyMemory or so, and Largest what the
	// largest of the recent requests took, in minor units. In ledger mode the feed says that.
	Lately  map[int64]int64
	Largest int64
	// Away are the buckets whose stores do not answer, and Done those whose epochs it has closed.
	Away, Done map[int64]bool
	// Before is from before the first step, which began at BeganAt. Moved is what the closed epochs
	// had.
	Before  bucket.Spread
	Moved   int64
	BeganAt time.Time
}

// Collected is one step of a recycle in store mode.
type Collected struct {
	// Found is the recycle since Since, if there is one: nothing was done.
	Found *bucket.Recycle
	// Closing is what the epochs that must be closed now have. Tell are the buckets whose stores have
	// to be told. Waits says that these must end a period first: the step has to be made again.
	Closing map[int64]int64
	Tell    []int64
	Waits   bool
	// Before is from before the step, at At.
	Before bucket.Spread
	At     time.Time
}

// Recycled is the result of Ledger.Recycle.
type Recycled struct {
	// Run is the report, or that of an earlier recycle if Began is false.
	Run        bucket.Recycle
	Began      bool
	RolledOver RolledOver
	// Closing are buckets in stores whose epochs must end first: nothing else was done.
	Closing []int64
}

// PartitionRow is SQL's row of a partition.
type PartitionRow struct {
	Partition   bucket.Partition
	Incarnation int64
	Draining    bool
	// Buckets counts the buckets on it.
	Buckets int
	// Role is the verified server's; Incarnation began at BeganAt because of Cause. They are empty
	// for a partition whose memory was never verified.
	Role, Cause string
	BeganAt     time.Time
}

// Placement is a bucket and the partition that it moves to.
type Placement struct {
	Bucket   int64
	From, To bucket.Partition
}

// Placed is a budget in store mode with the partitions of its buckets.
type Placed struct {
	Budget       int64
	Tenant, Name string
	Buckets      []PlacedBucket
}

// PlacedBucket is a bucket with its partition.
type PlacedBucket struct {
	ID        int64
	Ordinal   int
	Partition bucket.Partition
}
