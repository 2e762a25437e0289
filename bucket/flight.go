package bucket

import (
	"github.com/budgetd/budgetd/budget"
	"github.com/budgetd/budgetd/ledger"
	"github.com/budgetd/budgetd/limit"
)

// Operation is a deduction as it is committed to the ledger.
type Operation struct {
	// Budget is the definition that the operation was evaluated against. If the ledger's is newer, the
	// verdict is Outdated.
	Budget *Budget
	// Bucket is the bucket that the ring chose. The units come from its present open epoch.
	Bucket  int64
	Request ledger.Request
	// Anywhere says that any bucket of the budget serves, such as the one that others of a flight use.
	Anywhere bool
	// Charges are what the deduction counts against limits, in the order of the limits. The slice may
	// be empty.
	Charges []limit.Charge
	// Tied is that of the leg: see ledger.Leg.
	Tied bool
	// Source is that of the leg: see ledger.Leg. Sources is for Bring, which judges the sources of a
	// leg together.
	Source  int64
	Sources Sources
	// Set makes the operation the first leg of a set, which is deducted as a whole or not at all; nil
	// for a deduction of one budget. The other legs follow, each of another budget.
	Set *Set
}

// Sources says how Bring takes a leg from several budgets, in order: from each what it has, and the
// rest from those after it; without Split all from the first that has it. A source whose limits
// refuse is passed over. The zero value is for a leg of one budget.
type Sources struct {
	// Count is how many sources of the leg follow each other, this one included.
	Count int
	// Amount is what the leg takes, in minor units. Bring sets Request.Amount of each source to its
	// part.
	Amount int64
	Split  bool
}

// TakePart makes the operation one of a part, in minor units, which its limits count too.
func (o *Operation) TakePart(units int64) {
	o.Request.Amount = units
	for i := range o.Charges {
		if c := &o.Charges[i]; c.Limit.Measure == budget.MeasureAmount {
			c.Counts = units
		}
	}
}

// Set is what the legs of an Operation have in common.
type Set struct {
	// Owner is the id by which the set is found: ledger.SetID of a set of a tenant. If it is that of
	// the first leg, the row of this leg lists the others.
	Owner ID
	// Legs is the number of legs.
	Legs int
	// Group is the name under which the set's group of holds is recorded in the owner's budget, or
	// "".
	Group string
}

// Legs returns how many operations the set has that the operation is the first leg of; 1 if it is a
// deduction of one budget.
func (o *Operation) Legs() int {
	if o.Set == nil {
		return 1
	}
	return o.Set.Legs
}

// ID returns the id by which a repetition of the operation, or of its set, is found.
func (o *Operation) ID() ID {
	if o.Set == nil {
		return ID{Budget: o.Budget.ID, RequestID: o.Request.ID}
	}
	return o.Set.Owner
}

// Verdict is the result of a commit for one operation.
type Verdict uint8

// The verdicts. Only Accepted changes anything (I6).
const (
	// Accepted means that the deduction is a committed row (I7).
	Accepted Verdict = iota + 1
	// Known means that a row of the id exists: Outcome.Deduction. It may be the call's own (it has the
	// call's nonce), a repeat, a conflict or a tombstone.
	Known
	// Short means that O of the bucket is below the amount: Outcome.Remaining.
	Short
	// Gone means that the bucket has no open epoch: it is offline or retired.
	Gone
	// Over means that the epoch's period has ended by SQL's clock.
	Over
	// Outdated means that the budget's definition is newer than Operation.Budget.
	Outdated
	// Limited means that a limit would be exceeded: Outcome.Refused.
	Limited
	// GroupClosed means that the group of holds takes no further member.
	GroupClosed
	// Fits means that a leg would be accepted, and another leg of its set is not.
	Fits
	// Passed means that a source gives nothing of a leg that others give: it has nothing
	// (Outcome.Availability), its limits refuse (Outcome.Refused), or nothing was asked of it.
	Passed
	// Exhausted means that everything the open period may still get, read under locks, is below the
	// amount: Outcome.Availability. Only Bring returns it (I3).
	Exhausted
)

// Outcome is the result of a commit for one operation. Known is that of all legs of a set.
type Outcome struct {
	Verdict Verdict
	// Deduction is the row, for Accepted and Known; for a set that is Known, the row of its owner.
	Deduction ledger.Deduction
	// Remaining is O of the bucket after the commit, in minor units.
	Remaining int64
	// Limits is how far each limit is used after an accepted operation, in the order of Charges.
	Limits []budget.LimitState
	// Refused lists every limit that would be exceeded, for Limited and Passed.
	Refused []budget.LimitState
	// Guess marks a Short that no transaction has found: an earlier attempt of the same operation may
	// still be under way.
	Guess bool
	// Availability is what the budget has left: for Exhausted and Passed, and after Bring for
	// Accepted.
	Availability ledger.Availability
	// Alone says, after Bring for Accepted, that no other bucket of the budget takes deductions.
	Alone bool
}
