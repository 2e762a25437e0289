package deduct

import (
	"context"
	"sync/atomic"
	"time"

	"github.com/budgetd/budgetd/bucket"
	"github.com/budgetd/budgetd/budget"
	"github.com/budgetd/budgetd/ledger"
	"github.com/budgetd/budgetd/limit"
)

// Op is a deduction in progress. It belongs either to its call or to the queue that the call sent
// it to; only the owner may use its fields.
type Op struct {
	Leg           // what it deducts; of a set the first leg
	others []Leg  // the further legs of a set
	set    *setOp // nil for a deduction of one budget

	Result *bucket.DeductResult

	// Terms and the following are what a store judges limits by: see bucket.StoreDeduction.
	Terms       *bucket.Terms
	Value       string
	Counts, Max []int64
	// Bounds has the bound of the value in each limit; nil if it is the limits' own.
	Bounds []limit.Bound

	// Results of the last step.
	Step     Step
	Err      error
	Verdict  bucket.Verdict
	Recorded *ledger.Deduction    // the row or record of the id, or nil
	Stored   *bucket.StoreOutcome // of a store, with Verdict
	StoreMS  int64                // the store's clock at that time
	Exceeded []budget.LimitState  // limits that a read found exceeded
	Refusal  error                // the answer, unless the id is known
	Granted  int64                // with StepSupplied: the epoch that serves it in a store, or 0

	// Unsure says that an earlier attempt may have deducted. Only its home can tell.
	Unsure bool

	answered bool // it is deducted, and its result lacks only figures
	seeking  bool // its bucket did not cover it
	certain  bool // the database has confirmed, since the request began, what may refuse it

	// For SQL.
	remembered bool  // the sums are read before the bucket is asked: it was sold out
	recent     bool  // its row may be younger than the cached sums
	old        bool  // the sum is read with the balance
	balance    int64 // O of the bucket of its row, or -1 if unknown

	way           *way
	call          *call
	next          *Op // in call.ready
	after         *Op // the next request of the id in the call; it is held until this one is done
	at            int // its index in the call
	tries, pauses int // how often it was begun again, at once and after a pause
	held, done    bool
	phase         atomic.Int32
}

// Leg is what an operation deducts from one budget.
type Leg struct {
	Request *bucket.DeductRequest
	Budget  *bucket.Budget
	State   *State
	Route   *bucket.Bucket // by the ring; nil if no bucket serves
	Row     ledger.Request // what its home keeps of the request

	// Charges is what it counts against limits in SQL.
	Charges []limit.Charge

	// Results of the last step.
	Outcome *bucket.Outcome // of SQL
	Sum     *Sum            // of the budget
	Spent   int64           // State.Spent after this deduction

	// tied is ledger.Leg.Tied, of a leg of a set of a tenant.
	tied bool
	// from is what the sources of one leg of the request have in common, each of which is a Leg; nil
	// for a leg of one budget. idle says that the present attempt leaves a source out.
	from *sources
	idle bool
	// charged says that the request does not name the budget: others of it charge it. Then its figures
	// are not shown.
	charged bool
	refusal error // of the budget, whatever it has
}

// Step names the step after which an operation returns to its call.
type Step uint8

// The steps, and the fields that each one sets.
const (
	StepBegin     Step = iota // nothing was done yet, or it is evaluated again
	StepFailed                // nothing was deducted, and Err is the answer
	StepDecided               // Verdict with what belongs to it, or Err
	StepFound                 // Recorded and Verdict, or Err
	StepSupplied              // its bucket may have received units
	StepExhausted             // Sum, which is below the amount
	StepLost                  // the memory of its epoch was given up
	stepBrought               // as StepDecided, in the bucket into which units were brought
	stepSums                  // Sum and Recorded, or Err
	stepLimits                // Exceeded, or Err
	stepLegs                  // the rows of the legs, or Err
	stepBalance               // balance, and Sum if it is old
	stepFigures               // Sum, for an answer; nil if it could not be read
)

// The phases of an operation that was sent to a queue.
const (
	phaseWaiting   int32 = iota // no attempt that could deduct has it
	phaseClaimed                // an attempt has it
	phaseWithdrawn              // its request was answered: the queue drops it
)

// Claim takes a waiting operation into an attempt. It returns false if its request was answered.
func (o *Op) Claim() bool { return o.phase.CompareAndSwap(phaseWaiting, phaseClaimed) }

// withdraw keeps attempts from taking the operation. It returns false if one has taken it.
func (o *Op) withdraw() bool { return o.phase.CompareAndSwap(phaseWaiting, phaseWithdrawn) }

// Withdrawn reports whether the operation's request was answered before an attempt took it.
func (o *Op) Withdrawn() bool { return o.phase.Load() == phaseWithdrawn }

// Context returns the context of the operation's request.
func (o *Op) Context() context.Context { return o.call.ctx }

// Began returns SQL's time when the operation's request began.
func (o *Op) Began() time.Time { return o.call.began }

// Back returns the operation to its call. urgent says that it needs another step. The sender must
// not use the operation afterwards.
func (o *Op) Back(urgent bool) {
	c := o.call
	c.mu.Lock()
	o.next, c.ready = c.ready, o
	c.away--
	c.urgent = c.urgent || urgent
	c.wake()
}

// Overload returns an operation that found its queue full.
func (o *Op) Overload() {
	o.Step, o.Err = StepFailed, Overloaded("deduct")
	o.Back(true)
}

// Owner returns the owner by which queues are fair: the budget.
func (o *Op) Owner() int64 { return o.Budget.ID }

// CountsLimits reports whether the leg counts against limits, or names some. It returns Invalid
// with every fault, further ones included, if they cannot be evaluated for the request.
func (o *Leg) CountsLimits(further ...budget.FieldError) (bool, error) {
	set, r := o.Budget.LimitSet(), o.Request
	if len(r.Counts) == 0 && (set == nil || len(set.List) == 0) {
		return false, nil
	}
	faults := append(set.CheckDimensions(r.Dimensions), set.CheckCounts(r.Counts)...)
	if faults = append(faults, further...); len(faults) == 0 {
		return true, nil
	}
	return false, &budget.Error{Code: budget.Invalid, Op: "deduct", Fields: faults,
		Message: "the limits of the budget cannot judge the request"}
}
