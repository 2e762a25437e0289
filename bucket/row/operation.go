package row

import (
	"github.com/budgetd/budgetd/bucket"
	"github.com/budgetd/budgetd/bucket/deduct"
	"github.com/budgetd/budgetd/budget"
	"github.com/budgetd/budgetd/ledger"
)

// op is a deduction in progress.
type op struct {
	deduct.Op
	row   bucket.Operation // for a transaction; see operation
	state *state

	took     take  // what a filter subtracted for it
	skip     bool  // the filter is not asked again
	stale    bool  // the filter had no current content of its bucket before
	distrust int64 // fill of the content that refused it, or 0
	// remembered says that the sums are read before the bucket is asked, because the budget was found
	// sold out.
	remembered bool

	// Results of the last step.
	outcome  *bucket.Outcome
	reads    int64 // the bucket whose standing is read
	standing int64 // O of that bucket, or -1 if unknown
	open     bool  // whether that bucket's epoch is open
	sum      *deduct.Sum
	recorded *ledger.Deduction
	recent   bool                // its row may be younger than the cached sums
	exceeded []budget.LimitState // limits that the read found exceeded
}

// operation returns the operation for a transaction, with the newest definition that is known.
func (o *op) operation() bucket.Operation {
	o.row.Budget = o.Budget
	return o.row
}

// take is what a filter subtracted for an operation.
type take struct {
	content *content // nil if nothing was subtracted
	fill    int64    // of the content
}

// release returns to the filter what it subtracted for an operation that was not committed.
func (o *op) release() {
	if c := o.took.content; c != nil {
		c.giveBack(o.took.fill, o.Request.Amount)
		o.took = take{}
	}
}

// The steps after which an operation returns to its wave, and the fields that each one sets.
const (
	stepCommitted = iota + deduct.OwnSteps // outcome or Err
	stepGathered                           // outcome or Err
	stepRefused                            // the filter refused it; sets distrust
	stepStale                              // the filter has an older content, or none
	stepStanding                           // standing and open, of a refused operation
	stepCovers                             // sum, and recorded if the sum is too small
	stepIDs                                // recorded
	stepLimits                             // exceeded
	stepOldPlace                           // standing, of a replay's bucket
	stepFigures                            // sum, for an answer
	stepTurned                             // the budget's period was rolled over, or Err
)
