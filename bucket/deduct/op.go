package deduct

import (
	"context"
	"sync/atomic"

	"github.com/budgetd/budgetd/bucket"
	"github.com/budgetd/budgetd/budget"
)

// Op is one deduction on its way, as far as the modes do not differ; their operations embed it. It
// belongs to its wave, which hands it to a queue and gets it back: who has it may use its fields.
type Op struct {
	Request *bucket.DeductRequest
	Result  *bucket.DeductResult
	Budget  *bucket.Budget
	Key     string         // routing key
	Route   *bucket.Bucket // where it goes

	// What the last step found.
	Step    Step
	Err     error
	Spent   int64 // State.Spent after this deduction
	Refusal error // is answered unless the id is known

	// Unsure says that an earlier call may have deducted: only what decides can tell.
	Unsure   bool
	Answered bool // it is deducted, and its result has all but figures
	Seeking  bool // its bucket did not cover it

	wave          *Wave
	next          *Op // in Wave.ready
	after         *Op // the next request of the id in the same call: it is held until this one is done
	at            int // its place in the call
	tries, pauses int // how often it was begun again, at once and later
	held, done    bool
	phase         atomic.Int32
}

// Step names what an operation comes back from. The steps of a mode begin with OwnSteps.
type Step uint8

// The steps of all modes.
const (
	StepBegin  Step = iota // nothing was done yet, or it is to be judged again
	StepFailed             // Err is the answer, nothing was deducted
	OwnSteps
)

// The phases of an operation that was handed out.
const (
	phaseWaiting   int32 = iota // nothing was sent for it that could deduct
	phaseClaimed                // a call has it
	phaseWithdrawn              // its request was answered: the holder drops it
)

// Claim takes a waiting operation into a call; false: its request has been answered.
func (o *Op) Claim() bool { return o.phase.CompareAndSwap(phaseWaiting, phaseClaimed) }

// withdraw makes sure that no call takes the operation; false: one has.
func (o *Op) withdraw() bool { return o.phase.CompareAndSwap(phaseWaiting, phaseWithdrawn) }

// Withdrawn reports whether the operation's request was answered before a call took it.
func (o *Op) Withdrawn() bool { return o.phase.Load() == phaseWithdrawn }

// Context returns the context of the operation's request.
func (o *Op) Context() context.Context { return o.wave.Ctx }

// Back gives the operation back to its wave. urgent says that it needs another step. The caller has
// it no more.
func (o *Op) Back(urgent bool) { o.wave.back(o, urgent) }

// Overload gives an operation back for which a queue has no room.
func (o *Op) Overload() {
	o.Step, o.Err = StepFailed, Overloaded("deduct")
	o.Back(true)
}

// Owner names whose the operation is: queues are fair between budgets.
func (o *Op) Owner() int64 { return o.Budget.ID }

// handOut notes that nothing was sent for the operation yet.
func (o *Op) handOut() { o.phase.Store(phaseWaiting) }

// CheckLimits refuses a request that the limits of the budget cannot judge: Invalid with every
// fault, further ones included.
func (o *Op) CheckLimits(further ...budget.FieldError) error {
	set, r := o.Budget.LimitSet(), o.Request
	faults := append(set.CheckDimensions(r.Dimensions), set.CheckCounts(r.Counts)...)
	if faults = append(faults, further...); len(faults) == 0 {
		return nil
	}
	return &budget.Error{Code: budget.Invalid, Op: "deduct", Fields: faults,
		Message: "the limits of the budget cannot judge the request"}
}
