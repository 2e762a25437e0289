package row

import (
	"github.com/budgetd/budgetd/bucket"
	"github.com/budgetd/budgetd/bucket/deduct"
	"github.com/budgetd/budgetd/budget"
	"github.com/budgetd/budgetd/ledger"
)

// op is one deduction on its way.
type op struct {
	deduct.Op
	row   bucket.Operation // for a transaction; see operation
	state *state

	took     take  // what a filter gave for it
	skip     bool  // the filter is not asked again
	stale    bool  // the filter had nothing of its bucket before
	distrust int64 // fill of the content that refused it; 0: none did
	// remembered says that it looks at the sums first: the budget was found sold out.
	remembered bool

	// What the last step found.
	outcome  *bucket.Outcome
	reads    int64 // the bucket whose standing is read
	standing int64 // its O; -1: not known
	open     bool  // whether its epoch is
	sum      *deduct.Sum
	recorded *ledger.Deduction
	recent   bool                // its row may be younger than the sums that are remembered
	exceeded []budget.LimitState // limits as read; nil: they let it pass
}

// operation is what a transaction gets: it is judged by the definition that is known by now.
func (o *op) operation() bucket.Operation {
	o.row.Budget = o.Budget
	return o.row
}

// take is what a filter subtracted for an operation.
type take struct {
	content *content // nil: nothing was
	fill    int64    // of the content
}

// release gives back to the filter what it gave for an operation that was not committed.
func (o *op) release() {
	if c := o.took.content; c != nil {
		c.giveBack(o.took.fill, o.Request.Amount)
		o.took = take{}
	}
}

// What an operation comes back from.
const (
	stepCommitted = iota + deduct.OwnSteps // outcome or Err
	stepGathered                           // outcome or Err
	stepRefused                            // by the filter, under fill shown
	stepStale                              // the filter has an older content, or none
	stepStanding                           // level of the bucket read for a refused operation
	stepCovers                             // sum; recorded, where the sum is too small
	stepIDs                                // recorded
	stepLimits                             // exceeded
	stepOldPlace                           // level of the bucket of a replay
	stepFigures                            // cover for an answer
	stepTurned                             // the budget's period was rolled over, or Err
)
