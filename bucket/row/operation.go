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

	// remembered says that the sums are read before the bucket is asked, because the budget was found
	// sold out.
	remembered bool

	// Results of the last step.
	outcome  *bucket.Outcome
	reads    int64 // the bucket whose O is read
	standing int64 // O of that bucket, or -1 if unknown
	old      bool  // the sum is read with it
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

// The steps after which an operation returns to its wave, and the fields that each one sets.
const (
	stepCommitted = iota + deduct.OwnSteps // outcome or Err
	stepBrought                            // outcome or Err
	stepCovers                             // sum and recorded
	stepIDs                                // recorded
	stepLimits                             // exceeded
	stepOldPlace                           // standing, of a replay's bucket, and sum if it is old
	stepFigures                            // sum, for an answer
	stepTurned                             // the budget's period was rolled over, or Err
)
