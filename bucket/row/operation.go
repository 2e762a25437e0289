package row

import (
	"sync/atomic"

	"github.com/budgetd/budgetd/bucket"
	"github.com/budgetd/budgetd/budget"
	"github.com/budgetd/budgetd/ledger"
)

// op is one deduction on its way. It belongs to its wave, which hands it to a queue and gets it
// back: who has it may use its fields, except phase and unsure.
type op struct {
	bucket.Operation
	wave  *wave
	next  *op // in wave.ready
	after *op // the next request of the id in the same call: it is held until this one is done
	held  bool
	at    int // of wave.requests and wave.results
	state *state
	key   string         // routing key
	route *bucket.Bucket // where it goes

	phase atomic.Int32 // see the phases
	// unsure says that an earlier commit may have written it: only a commit can tell.
	unsure atomic.Bool
	done   bool // it is answered

	took     take  // what a filter gave for it
	skip     bool  // the filter is not asked again
	stale    bool  // the filter had nothing of its bucket before
	distrust int64 // fill of the content that refused it; 0: none did
	// remembered says that it looks at the sums first: the budget was found sold out.
	remembered bool
	seeking    bool // its bucket did not cover it
	tries      int  // how often a bucket was gone or a filter stale
	pauses     int

	// What the last step found.
	step     step
	err      error
	outcome  *bucket.Outcome
	reads    int64 // the bucket whose standing is read
	standing int64 // its O; -1: not known
	open     bool  // whether its epoch is
	sum      *sum
	recorded *ledger.Deduction
	recent   bool                // its row may be younger than the sums that are remembered
	spent    int64               // state.spent after this deduction
	exceeded []budget.LimitState // limits as read; nil: they let it pass
	refusal  error               // is answered unless the id has a row
	answered bool                // the deduction is a row, and its result has all but figures
}

// The phases of an operation that was handed out.
const (
	phaseWaiting   int32 = iota // nothing was sent for it that could write
	phaseClaimed                // a transaction has it
	phaseWithdrawn              // its request was answered: whoever has it drops it
)

// claim takes a waiting operation into a transaction; false: its request has been answered.
func (o *op) claim() bool { return o.phase.CompareAndSwap(phaseWaiting, phaseClaimed) }

// withdraw makes sure that no transaction takes the operation; false: one has.
func (o *op) withdraw() bool { return o.phase.CompareAndSwap(phaseWaiting, phaseWithdrawn) }

func (o *op) withdrawn() bool { return o.phase.Load() == phaseWithdrawn }

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

// step names what an operation comes back from.
type step uint8

const (
	stepBegin     step = iota // nothing was done yet, or it is to be judged again
	stepCommitted             // outcome or err
	stepGathered              // outcome or err
	stepFailed                // err is the answer
	stepRefused               // by the filter, under fill shown
	stepStale                 // the filter has an older content, or none
	stepStanding              // level of the bucket read for a refused operation
	stepHint                  // cover, read without locks
	stepExact                 // cover, read with locks
	stepIDs                   // recorded
	stepLimits                // exceeded
	stepOldPlace              // level of the bucket of a replay
	stepFigures               // cover for an answer
	stepTurned                // the budget's period was rolled over, or err
)
