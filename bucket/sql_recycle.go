package bucket

import (
	"context"
	"time"

	"github.com/budgetd/budgetd/ledger"
)

// RecycleCause says why a recycle began.
type RecycleCause string

// Why recycles begin.
const (
	// OnDemand: an operator asked for it.
	OnDemand RecycleCause = "operator"
	// OnSchedule: the configured time had come.
	OnSchedule RecycleCause = "schedule"
	// Automatic: the part of the budget that is stranded was above the configured one.
	Automatic RecycleCause = "automatic"
)

// Planned is a bucket of a recycle's plan, with the epoch that the recycle ends.
type Planned struct{ Bucket, Epoch int64 }

// Spread says how a budget's units lay: all that buckets and total held, and how much of it was stranded
// (fragment.Stranded). Minor units.
type Spread struct{ Units, Stranded int64 }

// Recycle is a run that takes a budget's buckets offline and opens them again, one after the other, and
// hands out by recent demand. Its row is its report.
type Recycle struct {
	Budget int64
	// Number counts the runs of the budget, collects among them, from 1.
	Number int64
	Cause  RecycleCause
	// Holder names whoever works on it: a new one with every beginning and every taking over.
	Holder string
	// Plan has the buckets in the order in which they are recycled; Done of them are behind it, of which
	// Skipped could not be recycled.
	Plan          []Planned
	Done, Skipped int
	// Moved minor units came back to the total.
	Moved         int64
	Before, After Spread
	// TouchedAt is when somebody last went on with it, EndedAt zero while it is open. By SQL's clock.
	BeganAt, TouchedAt, EndedAt time.Time
}

// Open is an open recycle as the unfinished work has it.
func (r *Recycle) Open() OpenRun {
	open := OpenRun{Budget: r.Budget, Number: r.Number, Since: r.TouchedAt}
	if r.Done < len(r.Plan) {
		open.At = r.Plan[r.Done]
	}
	return open
}

// RecycleOrder asks for a recycle to begin.
type RecycleOrder struct {
	Budget int64
	Cause  RecycleCause
	Holder string
	Plan   []Planned
	Before Spread
	// Since, unless it is zero: nothing begins if a recycle of the same cause has begun at or after it.
	Since time.Time
}

// RecycleStep is what a holder has got done.
type RecycleStep struct {
	Budget, Number int64
	Holder         string
	// Done buckets of the plan are behind it; as many as before: the holder only says that it is there.
	Done int
	// Skipped and Moved are of those that are behind it now and were not before: repeating is harmless.
	Skipped int
	Moved   int64
}

// Renewal ends a bucket's epoch, if that has not happened yet, and gives the bucket its next one.
type Renewal struct {
	Budget int64
	Ref    Ref
	// Close is the epoch's close entry; nil where it has ended already.
	Close *ledger.Entry
	// Units is what the new epoch is to hold, as far as U, less the pending shrinks, covers it.
	Units int64
}

// Used is what a bucket sold lately.
type Used struct {
	// Units of its last deductions and the Largest of these, minor units; Since is when the first of them was
	// counted.
	Units, Largest int64
	Since          time.Time
}

// LastDeductions is how many entries of each bucket Recycles.Demand looks at: their time tells the rate
// of a bucket to a tenth or so.
const LastDeductions = 100

// Recycles keeps the recycles of budgets: one per budget at a time, across all nodes. Every write is one
// transaction under the budget's row lock. Errors as Ledger, and BudgetNotFound. Safe for concurrent use.
type Recycles interface {
	// BeginRecycle starts a recycle unless one is going on, or one of the same cause has begun since the
	// instant named; it returns the one that it started or found: which of them, its Holder says.
	BeginRecycle(ctx context.Context, order RecycleOrder) (Recycle, error)
	// AdvanceRecycle notes how far a recycle has come. ok is false, and nothing is changed, where it has
	// ended, has another holder or is further already: whoever hears that stops. collecting says that a
	// collect is open, before which no further bucket may be recycled.
	AdvanceRecycle(ctx context.Context, step RecycleStep) (ok, collecting bool, err error)
	// TakeRecycle gives an open recycle that nobody has gone on with since the instant seen to another
	// holder. nil: somebody has, or it has ended.
	TakeRecycle(ctx context.Context, budgetID, number int64, seen time.Time, holder string) (*Recycle, error)
	// EndRecycle ends a recycle of that holder, with how the units lie now. false: it was not the
	// holder's, or had ended.
	EndRecycle(ctx context.Context, budgetID, number int64, holder string, after Spread) (bool, error)
	// RecycleHistory reads recycles of a budget, the newest first: at most limit with numbers below
	// before, which is 0 for the first page.
	RecycleHistory(ctx context.Context, budgetID, before int64, limit int) ([]Recycle, error)
	// Renew moves what an epoch holds to U and gives the bucket its next epoch, opening, under its lane's
	// present activation, in one transaction: O -> U -> O of the new one, by its first grant. A bucket
	// that an operator took offline only ends; the service's comes online. Nothing happens where the
	// epoch is not the bucket's newest, or is live and there is no close entry. Errors: ErrEnded never;
	// *ledger.Mismatch where the close entry does not agree with the row.
	Renew(ctx context.Context, order Renewal) (Handout, error)
	// Demand reads what each bucket of a budget sold lately: over its last LastDeductions ledger rows, as
	// far as they are in the feed. One that sold nothing is missing.
	Demand(ctx context.Context, budgetID int64) (map[int64]Used, error)
}
