package ledger

import (
	"strings"
	"time"
)

// Status is the state of an epoch. It only moves forward.
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

// Epoch is a row of bucket_epoch: the life of a bucket in one period, as SQL knows it, in minor
// units.
type Epoch struct {
	Budget, Bucket, Number int64
	Status                 Status
	// Outstanding, Held, Used and Returning are O, H, S and R.
	Outstanding, Held, Used, Returning int64
	// Late is the part of Returning that was used when the epoch's period ended.
	Late int64
	// Closed is what left O unused; Swept is all that left R.
	Closed, Swept int64
	// NextGrant is the number of the next grant, from 1; NextEntry that of the bucket's next feed
	// entry.
	NextGrant, NextEntry int64
	// DefinitionVersion is the version of the definition that applies to deductions.
	DefinitionVersion int64
	// Period is the number of the budget's period that the epoch belongs to. Deductions end at
	// EndAt; zero means no end.
	Period int64
	EndAt  time.Time
	// Halted says why nothing may move on this epoch until an operator decides. "" means that the
	// epoch is not halted.
	Halted string
	// Incarnation is the partition's incarnation under which the epoch was opened; Taken, GivenBack
	// and LateSum are the store's sums as of the last sync (store mode).
	Incarnation               int64
	Taken, GivenBack, LateSum int64
}

// State is the state of a request id.
type State string

// The states of a deduction.
const (
	StateUsed       State = "used"
	StateRolledBack State = "rolled_back"
	// StateHeld means that the hold expires unless it is confirmed, StateExpired that it has
	// expired.
	StateHeld    State = "held"
	StateExpired State = "expired"
	// StateVoid marks a tombstone: the id was cancelled before it had an effect, and will never have
	// one for the principals that it is for.
	StateVoid State = "void"
)

// Request is the payload of a deduct request in a ledger row. Optional texts may be "".
type Request struct {
	ID string
	// Amount is in minor units, 1 … budget.MaxAmount.
	Amount int64
	// Fingerprint is 16 bytes: see RequestFingerprint.
	Fingerprint string
	// Nonce is 8 random bytes of one HTTP call, kept across its inner retries. It identifies a row
	// as the call's own.
	Nonce     string
	Reference string
	// Dimensions is the canonical JSON of the dimensions.
	Dimensions string
	// HoldTTL is the lifetime of a hold from its commit, in milliseconds. 0 means that the units are
	// used at once.
	HoldTTL int64
	// Group names holds that are confirmed or rolled back together.
	Group string
	// Above is AboveAvailable or "".
	Above Above
	// ExpiresAs is ExpiresUsed or "".
	ExpiresAs ExpiresAs
	// Counts is the canonical JSON of the request's own amounts per limit.
	Counts string
	// By is the principal that deducts, "" on a server without authentication. It is not part of
	// the fingerprint: another principal may repeat the request.
	By string
}

// Deduction is what the ledger has of a request id. A tombstone has state void, no amount and no
// bucket.
type Deduction struct {
	Budget     int64
	RequestID  string
	Amount     int64
	RolledBack int64
	State      State
	// Confirmed is what became used of a hold and above it, in minor units. Used is what of that is
	// left; it is 0 of a deduction that never was a hold.
	Confirmed, Used int64
	// Asked is the amount that the hold's confirm asked for, 0 before it.
	Asked int64
	// Step is the number of the last renewal of the hold, 0 before the first. StepPrint is what it
	// asked for, StepUsed what had become used in all, StepHeld what was held after it. IsFinal means
	// that this was less than it asked for.
	Step               int64
	StepPrint          string
	StepUsed, StepHeld int64
	IsFinal            bool
	// HoldUntil is when a hold expires or would have expired; zero if it never was a hold.
	HoldUntil time.Time
	// Above says what a confirm of more than is held does; "" stands for AboveRefuse.
	Above Above
	// ExpiresAs says what an expiry does; "" stands for ExpiresReleased.
	ExpiresAs ExpiresAs
	// Expired is what was held when the hold expired, in minor units; 0 if it has not expired.
	Expired int64
	// Extra is what was taken later: by a confirm above the hold, and by renewals. Uncollected is what
	// was used and the budget did not have. Both in minor units.
	Extra, Uncollected int64
	// OverLimit means that a limit would have refused Extra as a deduction of its own.
	OverLimit bool
	// Late means that the hold was confirmed after it had expired.
	Late bool
	// Group names holds that are confirmed together. Counts is the canonical JSON of the request's own
	// amounts per limit.
	Group, Counts string
	// Fingerprint is "" for a tombstone.
	Fingerprint string
	Nonce       string
	Reference   string
	Dimensions  string
	// By is the principal that deducted, "" on a server without authentication.
	By string
	// VoidFor are the principals, each with a line feed after it, whose own deductions of the id are
	// void. "" of a tombstone stands for everybody, else for nobody.
	VoidFor string
	// Legs are the other rows of the set that the row is the owner of. The owner of a set of a tenant
	// is a row of budget 0 without an amount and a bucket: all legs are listed.
	Legs Legs
	// Bucket and Epoch identify where it was deducted; 0 for a tombstone.
	Bucket, Epoch int64
	// CountedAt is SQL's time of the commit.
	CountedAt time.Time
}

// IsVoidFor reports whether the id is void for deductions of a principal.
func (d *Deduction) IsVoidFor(by string) bool {
	if d.VoidFor == "" {
		return d.State == StateVoid
	}
	return strings.Contains("\n"+d.VoidFor, "\n"+by+"\n")
}

// Decides reports whether the row answers a deduct of a principal. A tombstone of others does not:
// the deduction takes its place.
func (d *Deduction) Decides(by string) bool { return d.State != StateVoid || d.IsVoidFor(by) }

// Left returns what is left of the deduction, held or used, in minor units; 0 of a tombstone.
func (d *Deduction) Left() int64 { return d.Amount + d.Extra - d.RolledBack }

// Held returns what is held, in minor units. Of a hold that its expiry has confirmed it is what a
// late confirm may correct.
func (d *Deduction) Held() int64 {
	switch {
	case d.State == StateHeld:
		return d.Left() - d.Used
	case d.State == StateUsed && !d.Late:
		return min(d.Expired, max(0, d.Left()-(d.Confirmed-d.Expired)))
	}
	return 0
}
