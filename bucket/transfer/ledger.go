package transfer

import (
	"context"
	"time"

	"github.com/budgetd/budgetd/bucket"
	"github.com/budgetd/budgetd/budget"
	"github.com/budgetd/budgetd/fragment"
	"github.com/budgetd/budgetd/ledger/books"
)

// Want is what a bucket applies for, in minor units.
type Want struct {
	Bucket int64
	// Need is the smallest useful grant, at least 1. Units is the largest.
	Need, Units int64
	// Of bounds the grant to an even share of U among that many buckets, rounded up. 0 means no bound.
	Of int
}

// Moved is what a movement gave to buckets.
type Moved struct {
	// Buckets counts those whose O grew or whose epoch began.
	Buckets int
	// Units is the sum by which O grew, in minor units.
	Units int64
}

// Supply moves units between a budget's total and its buckets. Each method is one transaction, in
// which a rollover that is due comes first. Errors of every method: BudgetNotFound; Unavailable
// (nothing was changed); OutcomeUnknown.
type Supply interface {
	// Apply moves units from U to a bucket's open epoch, as far as the period, sharding_quantity,
	// adjust_cnt and pending shrinks allow. It returns the units moved. want.Of is not 0.
	Apply(ctx context.Context, budgetID, bucketID int64, want books.Refill) (int64, error)
	// ApplyTo moves R to where it belongs, then applies for an even share of U among the buckets that
	// may take units. Errors: BucketOffline; BudgetExpired if no period is open; in store mode
	// Unavailable, with ReasonOffline if an operator took the bucket offline.
	ApplyTo(ctx context.Context, budgetID, bucketID int64) (Changed, error)
	// Offline ends a bucket's epoch, returns its units to the total and removes the bucket from the
	// bucket list. If the bucket is offline already, only the reason changes, from the service to an
	// operator. Error: LastBucket for the only online bucket of an effective budget.
	Offline(ctx context.Context, budgetID, bucketID int64, by bucket.OfflineBy) (Changed, error)
	// Online begins a bucket's next epoch, and spreads U over the buckets that are online and those
	// that the service took offline, which begin an epoch. It changes nothing if the bucket is online.
	// Errors: BudgetExpired if the budget has no open period; Unavailable for a bucket that is halted,
	// or cannot begin an epoch where it is.
	Online(ctx context.Context, budgetID, bucketID int64) (Changed, error)
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

// Stocks reads how much buckets have left. Error: Unavailable.
type Stocks interface {
	// Stocks reads the budgets that have units to apply for, in one statement. Others are omitted.
	Stocks(ctx context.Context, budgetIDs []int64) ([]Stock, error)
}

// RolledOver is the result of a rollover.
type RolledOver struct {
	// Done says that a period ended. Otherwise nothing was due.
	Done bool
	// Period is the open or last period afterwards, without its units.
	Period budget.Period
	Moved
}

// Periods ends periods and returns units of those that ended. Errors: BudgetNotFound; Unavailable
// (nothing was changed), also while this node's clock and SQL's disagree; OutcomeUnknown.
type Periods interface {
	// Over lists budgets whose rollover is due by SQL's clock, the longest overdue first.
	Over(ctx context.Context, limit int) ([]int64, error)
	// RollOver ends a budget's period if it is over, and opens the one that contains the present
	// instant. It takes a transaction, or one for each thousand periods that nobody opened. It also
	// returns the budget as it is then.
	RollOver(ctx context.Context, budgetID int64) (bucket.Budget, RolledOver, error)
	// Returning lists budgets with units that return to the total (R).
	Returning(ctx context.Context, limit int) ([]int64, error)
	// Sweep moves R of budgets to where the period's rule says, and returns the units moved. A budget
	// whose rollover is due is rolled over first.
	Sweep(ctx context.Context, budgetIDs []int64) (int64, error)
	// Restate updates the status column of at most limit budgets whose status by the clock differs.
	// Only readers of the table need it; no decision uses it.
	Restate(ctx context.Context, limit int) error
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

// Gathered is one step of a recycle in store mode.
type Gathered struct {
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

// Recycles recycles budgets. A budget is passed as this node knows it: where its feeds end bounds
// what is read of them. A rollover that is due comes first, in the same transaction. Errors:
// BudgetNotFound; BudgetExpired if no period is open; Unavailable; OutcomeUnknown.
type Recycles interface {
	// Gather is one step of a recycle in store mode before the last one: it sets epochs to closing, as
	// books.CloseAbove does. It may be repeated.
	Gather(ctx context.Context, b *bucket.Budget, want Recycling) (Gathered, error)
	// Recycle brings every bucket of a budget to its share of all units by recent demand, in one
	// transaction, and returns its report and the budget as it is then. If there is a recycle since
	// want.Since, nothing changes in ledger mode. In store mode it is the last step: it hands out what
	// the others gathered, also if there is one.
	Recycle(ctx context.Context, b *bucket.Budget, want Recycling) (bucket.Budget, Recycled, error)
	// RecycleHistory reads a budget's recycles with numbers below before, the newest first. If before
	// is 0, it starts at the newest.
	RecycleHistory(ctx context.Context, budgetID, before int64, limit int) ([]bucket.Recycle, error)
	// Layout reads how a budget's units are spread, without locks.
	Layout(ctx context.Context, b *bucket.Budget) (Layout, error)
}

// Recycled is the result of Recycles.Recycle.
type Recycled struct {
	// Run is the report, or that of an earlier recycle if Began is false.
	Run    bucket.Recycle
	Began  bool
	Turned RolledOver
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

// Partitions reads partitions and the buckets on them, and sets which are drained. Errors:
// Unavailable, OutcomeUnknown.
type Partitions interface {
	// PartitionRows reads the partitions that SQL knows, and those that have buckets.
	PartitionRows(ctx context.Context) ([]PartitionRow, error)
	// AtRisk sums what epochs of budgets in store mode hold, by partition, in minor units.
	AtRisk(ctx context.Context) (map[bucket.Partition]int64, error)
	// SetDraining sets whether buckets must leave partitions. Repeating it changes nothing.
	SetDraining(ctx context.Context, partitions []bucket.Partition, on bool) error
	// PlacedAfter reads budgets in store mode with ids above after, with the partitions of their
	// buckets, by id. It reads those with a bucket on one of the partitions, or all if partitions is
	// empty.
	PlacedAfter(ctx context.Context, partitions []bucket.Partition, after int64, limit int) ([]Placed,
		error)
}

// Counters removes limit counters whose windows have ended.
type Counters interface {
	// ExpireCounters removes at most limit of them and returns how many it removed.
	ExpireCounters(ctx context.Context, limit int) (int, error)
}
