package deduct

import (
	"context"
	"sync/atomic"

	"github.com/budgetd/budgetd/bucket"
	"github.com/budgetd/budgetd/budget"
)

// Op is a deduction in progress, with the fields that both modes share. The operation type of each
// mode embeds it. An Op belongs either to its wave or to the queue that the wave sent it to; only
// the owner may use its fields.
type Op struct {
	Request *bucket.DeductRequest
	Result  *bucket.DeductResult
	Budget  *bucket.Budget
	Key     string         // routing key
	Route   *bucket.Bucket // the bucket it is sent to

	// Results of the last step.
	Step    Step
	Err     error
	Spent   int64 // State.Spent after this deduction
	Refusal error // the answer, unless the id is known

	// Unsure says that an earlier call may have deducted. Only the database or the store can tell.
	Unsure   bool
	Answered bool // it is deducted, and its result lacks only figures
	Seeking  bool // its bucket did not cover it

	wave          *Wave
	next          *Op // in Wave.ready
	after         *Op // the next request of the id in the call; it is held until this one is done
	at            int // its index in the call
	tries, pauses int // how often it was begun again, at once and after a pause
	held, done    bool
	phase         atomic.Int32
}

// Step names the step after which an operation returns. The steps of a mode start at OwnSteps.
type Step uint8

// The steps of all modes.
const (
	StepBegin  Step = iota // nothing was done yet, or it is evaluated again
	StepFailed             // nothing was deducted, and Err is the answer
	OwnSteps
)

// The phases of an operation that was sent to a queue.
const (
	phaseWaiting   int32 = iota // no call that could deduct has it
	phaseClaimed                // a call has it
	phaseWithdrawn              // its request was answered: the queue drops it
)

// Claim takes a waiting operation into a call. It returns false if its request was answered.
func (o *Op) Claim() bool { return o.phase.CompareAndSwap(phaseWaiting, phaseClaimed) }

// withdraw keeps calls from taking the operation. It returns false if one has taken it.
func (o *Op) withdraw() bool { return o.phase.CompareAndSwap(phaseWaiting, phaseWithdrawn) }

// Withdrawn reports whether the operation's request was answered before a call took it.
func (o *Op) Withdrawn() bool { return o.phase.Load() == phaseWithdrawn }

// Context returns the context of the operation's request.
func (o *Op) Context() context.Context { return o.wave.Ctx }

// Back returns the operation to its wave. urgent says that it needs another step. The caller must
// not use the operation afterwards.
func (o *Op) Back(urgent bool) {
	w := o.wave
	w.mu.Lock()
	o.next, w.ready = w.ready, o
	w.away--
	w.urgent = w.urgent || urgent
	w.wake()
}

// Overload returns an operation that found its queue full.
func (o *Op) Overload() {
	o.Step, o.Err = StepFailed, Overloaded("deduct")
	o.Back(true)
}

// Owner returns the owner by which queues are fair: the budget.
func (o *Op) Owner() int64 { return o.Budget.ID }

// handOut marks the operation as not sent in any call yet.
func (o *Op) handOut() { o.phase.Store(phaseWaiting) }

// CheckLimits returns Invalid with every fault, further ones included, if the limits of the budget
// cannot be evaluated for the request.
func (o *Op) CheckLimits(further ...budget.FieldError) error {
	set, r := o.Budget.LimitSet(), o.Request
	faults := append(set.CheckDimensions(r.Dimensions), set.CheckCounts(r.Counts)...)
	if faults = append(faults, further...); len(faults) == 0 {
		return nil
	}
	return &budget.Error{Code: budget.Invalid, Op: "deduct", Fields: faults,
		Message: "the limits of the budget cannot judge the request"}
}
