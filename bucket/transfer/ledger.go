package transfer

import (
	"context"
	"time"

	"github.com/budgetd/budgetd/bucket"
	"github.com/budgetd/budgetd/budget"
	"github.com/budgetd/budgetd/fragment"
)

// MaxEpochs is the most epochs that one transaction locks.
const MaxEpochs = 64

// PeriodsAtOnce is the most periods that one rollover transaction passes over.
const PeriodsAtOnce = 1000

// Want is what a bucket applies for, in minor units.
type Want struct {
	Bucket int64
	// Need is the least that is worth a grant, at least 1; Units is the most.
	Need, Units int64
	// Of bounds the grant to an even share of U among so many buckets, rounded up; 0: no such bound.
	Of int
}

// Moved is what a movement brought to buckets.
type Moved struct {
	// Levels are the buckets whose O grew, or whose epoch began, for Filter.Set.
	Levels []bucket.Level
	// Units is the sum of what O grew by, in minor units.
	Units int64
}

// Supply moves units between a budget's total and its buckets. Errors of every method:
// BudgetNotFound; Unavailable, nothing was changed; OutcomeUnknown.
type Supply interface {
	// Apply moves units from U to a bucket's open epoch, as far as the period, sharding_quantity,
	// adjust_cnt and pending shrinks allow. A level whose Added is 0 says that nothing was moved.
	Apply(ctx context.Context, budgetID int64, want Want) (bucket.Level, error)
	// HandOut spreads U over the buckets that are online, and over those that the service took
	// offline, which begin an epoch. Repeating it hands out what came to U since.
	HandOut(ctx context.Context, budgetID int64) (Moved, error)
	// Offline ends a bucket's epoch, returns its units to the total, and takes the bucket out of
	// the bucket list. A bucket that is offline stays so, and an operator's word replaces the
	// service's. Error: LastBucket for the only online bucket of an effective budget.
	Offline(ctx context.Context, budgetID, bucketID int64, by bucket.OfflineBy) error
	// Online begins a bucket's next epoch and gives it an even share of U. A bucket that is online
	// stays as it is. Error: PeriodExhausted or BudgetExpired when the budget has no open period.
	Online(ctx context.Context, budgetID, bucketID int64) (Moved, error)
}

// Stock is what a budget's open buckets hold while units are left to apply for.
type Stock struct {
	Budget int64
	// Undistributed is U, Sharding what one application may take at most (0: no bound), in minor
	// units. AdjustCnt is how often one bucket may apply for units that no bucket had; 0: no bound.
	Undistributed, Sharding int64
	AdjustCnt               int
	Buckets                 []StockBucket
}

// StockBucket is an open bucket: what it holds, and the sums of all that it ever used.
type StockBucket struct {
	ID, Epoch int64
	// Outstanding is O, Used is S + H of its epoch, in minor units; Entries counts its feed entries.
	Outstanding, Used, Entries int64
}

// Stocks reads how far buckets are from running dry. Error: Unavailable.
type Stocks interface {
	// Stocks reads budgets that have units to apply for, in one statement. Others are missing.
	Stocks(ctx context.Context, budgetIDs []int64) ([]Stock, error)
}

// RolledOver is what a rollover did.
type RolledOver struct {
	// Done says that a period ended; otherwise nothing was due.
	Done bool
	// Period is the open or last period afterwards, without what it got.
	Period budget.Period
	Moved
}

// Periods ends periods and brings back units of those that ended. Errors: BudgetNotFound;
// Unavailable, nothing was changed, also while this node's clock and SQL's disagree;
// OutcomeUnknown.
type Periods interface {
	// Over lists budgets whose rollover is due by SQL's clock, those that wait longest first.
	Over(ctx context.Context, limit int) ([]int64, error)
	// RollOver ends a budget's period if that is over, and opens the next one. It passes over at
	// most PeriodsAtOnce periods that nobody opened; Done with a period that is over asks for
	// another call.
	RollOver(ctx context.Context, budgetID int64) (RolledOver, error)
	// Returning lists budgets with units on their way back to the total (R).
	Returning(ctx context.Context, limit int) ([]int64, error)
	// Sweep moves R of budgets to where the period's rule says. It returns the units moved. A
	// budget whose rollover is due is left for later.
	Sweep(ctx context.Context, budgetIDs []int64) (int64, error)
	// Restate writes the status that the clock gives to budgets whose row shows another one, at most
	// limit of them. It is for readers of the table; no decision looks at it.
	Restate(ctx context.Context, limit int) error
}

// Step is how far one transaction brought a recycle.
type Step struct {
	Run bucket.Recycle
	Moved
}

// Layout is how a budget's units lie in the buckets that a recycle may use.
type Layout struct {
	Status budget.Status
	// Units is what total and buckets hold, Least the smallest share worth a bucket of its own.
	Units, Least int64
	Holdings     []fragment.Holding
}

// Spread is the layout in two figures.
func (l *Layout) Spread() bucket.Spread {
	return bucket.Spread{Units: l.Units, Stranded: fragment.Stranded(l.Holdings, l.Least)}
}

// Recycles runs recycles. A run is a row: it continues from the buckets that are done, whatever
// node goes on with it. Errors: BudgetNotFound, Unavailable, OutcomeUnknown.
type Recycles interface {
	// BeginRecycle begins a recycle of a budget. began is false when one is open, or when one of
	// the cause has begun at `since` or later (zero: whenever); run is that one then.
	BeginRecycle(ctx context.Context, budgetID int64, cause bucket.RecycleCause, since time.Time) (
		run bucket.Recycle, began bool, err error)
	// StepRecycle recycles the next MaxEpochs buckets of a run, and ends the run after the last.
	// A run that has ended is returned as it is.
	StepRecycle(ctx context.Context, budgetID, number int64) (Step, error)
	// RecycleHistory reads a budget's recycles, the newest first, below a number; 0: from the
	// newest.
	RecycleHistory(ctx context.Context, budgetID, before int64, limit int) ([]bucket.Recycle, error)
	// OpenRecycles lists runs that have not ended, those that wait longest first.
	OpenRecycles(ctx context.Context, limit int) ([]bucket.Recycle, error)
	// Layout reads how a budget's units lie.
	Layout(ctx context.Context, budgetID int64) (Layout, error)
}

// LaneRow is what SQL knows of a lane.
type LaneRow struct {
	Lane       bucket.Lane
	Activation int64
	Draining   bool
	// Buckets lie on it.
	Buckets int
}

// Placement is a bucket with the lane that it is to move to.
type Placement struct {
	Bucket   int64
	From, To bucket.Lane
}

// Placed is a budget with the lanes of its buckets, as placement sees it.
type Placed struct {
	Budget       int64
	Tenant, Name string
	// Durability says whether a move is one row or a copy in the stores.
	Durability budget.Durability
	Buckets    []PlacedBucket
}

// PlacedBucket is a bucket with its lane.
type PlacedBucket struct {
	ID      int64
	Ordinal int
	Lane    bucket.Lane
}

// Lanes reads and changes where buckets lie. Errors: Unavailable, OutcomeUnknown.
type Lanes interface {
	// LaneRows reads the lanes that SQL knows, and those that buckets lie on.
	LaneRows(ctx context.Context) ([]LaneRow, error)
	// SetDraining notes whether buckets are to leave lanes. Repeating it changes nothing.
	SetDraining(ctx context.Context, lanes []bucket.Lane, on bool) error
	// PlacedAfter reads budgets above an id with the lanes of their buckets, by id: those with a
	// bucket on one of the lanes, or all when lanes is empty. Retired buckets are left out.
	PlacedAfter(ctx context.Context, lanes []bucket.Lane, after int64, limit int) ([]Placed, error)
	// Move gives ledger-mode buckets another lane and raises their fill. A bucket that is not on
	// From any more, or whose destination is being drained, stays where it is.
	Move(ctx context.Context, budgetID int64, moves []Placement) (Moved, int, error)
}

// Counters removes limit counters whose windows have ended.
type Counters interface {
	// ExpireCounters removes at most limit of them and returns how many it removed.
	ExpireCounters(ctx context.Context, limit int) (int, error)
}
