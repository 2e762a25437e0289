package ledger

import (
	"time"

	"github.com/budgetd/budgetd/budget"
)

// Status is where an epoch of a bucket stands. It only moves forward.
type Status string

// The statuses of an epoch.
const (
	Opening Status = "opening"
	Open    Status = "open"
	Closing Status = "closing"
	Closed  Status = "closed"
	Lost    Status = "lost"
)

// Live reports whether the epoch may still hold units in its store.
func (s Status) Live() bool { return s == Opening || s == Open || s == Closing }

// Epoch is a row of bucket_epoch: one life of a bucket as SQL knows it. Quantities are minor units.
type Epoch struct {
	Budget, Bucket, Number int64
	Status                 Status
	Activation             int64
	// Outstanding, Held, Used and Returning are O, H, S and R of DESIGN 3.
	Outstanding, Held, Used, Returning int64
	// Swept is what ever left R.
	Swept int64
	// NextGrant is the number of the next grant, from 1; NextEntry of the bucket's next ledger row.
	NextGrant, NextEntry int64
	// DrainedSeq is the last log position that is in the ledger; DrainedChain its chain value.
	DrainedSeq   int64
	DrainedChain string
	// Fenced says why nothing may move on this epoch until it is recovered; "" means it may.
	Fenced string
	// Period is the number of the budget's period that the epoch's units are of.
	Period int64
	// Late is the part of Returning that was given back when that period was over.
	Late int64
	// EndAt is the instant from which commits return entries instead of counting them, as the period is
	// over; zero: none, always in store mode, where the store's script judges.
	EndAt time.Time
}

// Counted is the sum of all deductions that were ever drained from the epoch's log, counted or not:
// what the store's own sum was at the drained position.
func (e *Epoch) Counted() int64 { return e.Held + e.Used + e.Returning + e.Swept }

// State is what became of a request id.
type State string

// The states of a deduction.
const (
	StateUsed       State = "used"
	StateRolledBack State = "rolled_back"
	// StateHeld: it expires unless it is confirmed. StateExpired: it did.
	StateHeld    State = "held"
	StateExpired State = "expired"
	// StateVoid marks a tombstone: the id was cancelled before it had an effect, and never will.
	StateVoid State = "void"
)

// Position names one entry of one epoch of a bucket.
type Position struct{ Bucket, Epoch, Seq int64 }

// Deduction is a row of the ledger: all that became of a request id. A tombstone has state void, no
// amount and no position.
type Deduction struct {
	Budget     int64
	RequestID  string
	Amount     int64
	RolledBack int64
	State      State
	// Confirmed is what was confirmed of a hold, in minor units.
	Confirmed int64
	// HoldUntil is when a hold expires, or would have; zero: it was none.
	HoldUntil time.Time
	// Group names the holds confirmed together; Counts has own amounts for limits, canonical JSON.
	Group, Counts string
	// Fingerprint is "" for a tombstone.
	Fingerprint string
	Nonce       string
	Reference   string
	Dimensions  string
	Position    Position
	// Entry numbers the ledger rows of a bucket, from 1.
	Entry int64
	// CountedAt is SQL's time of the commit.
	CountedAt time.Time
}

// Reason says why an admitted entry did not become a deduction; its units are in R.
type Reason string

// The reasons.
const (
	// ReasonDuplicate: the id was in the ledger already.
	ReasonDuplicate Reason = "duplicate"
	// ReasonVoid: the id had been cancelled.
	ReasonVoid Reason = "void"
	// ReasonExpired: the epoch's period was over when the entry was committed; the id stays free.
	ReasonExpired Reason = "expired"
	// ReasonLimit: a limit would have been exceeded; Figures says which. The id stays free.
	ReasonLimit Reason = "limit"
	// ReasonGroup: its group of holds was closed already; the id stays free.
	ReasonGroup Reason = "group"
)

// KeepsIDFree reports whether the entry said nothing about its id: another attempt may be accepted.
func (r Reason) KeepsIDFree() bool {
	return r == ReasonExpired || r == ReasonLimit || r == ReasonGroup
}

// Duplicate is a row for an admitted entry that took no effect.
type Duplicate struct {
	Budget    int64
	RequestID string
	Position  Position
	Amount    int64
	Nonce     string
	Reason    Reason
	// Figures is what a refusal reports, JSON; "" for other reasons.
	Figures string
}

// Outcome is what the ledger says of one entry: the deduction it became, or the duplicate with, for
// ReasonDuplicate and ReasonVoid, the recorded row of its id.
type Outcome struct {
	Position  Position
	Duplicate *Duplicate
	// Deduction is nil only beside a duplicate of ReasonExpired, ReasonLimit or ReasonGroup.
	Deduction *Deduction
	// Limits is how far each limit was used right after a deduction was committed, in the order of the
	// limits; nil where the row is read again.
	Limits []budget.LimitState
}
