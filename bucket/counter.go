package bucket

import (
	"cmp"
	"context"
	"errors"
	"time"

	"github.com/budgetd/budgetd/budget"
	"github.com/budgetd/budgetd/limit"
)

// This file is the contract of store mode's scripts: what the store that is the truth does for
// package counter. Quantities are minor units, 0 … budget.MaxAmount. Instants are milliseconds
// since 1970 by the lane's own clock, unless stated otherwise.
//
// Every call names a Memory, and a store first compares it with what it has. All elements of a call
// go to one lane. Each element is done completely or not at all, and independently of the others;
// the answers are in the order of the elements.
//
// Errors of every method:
//   - ErrOtherMemory: the lane does not have the memory that the call names. Nothing was done.
//     The caller reads the marker and the identity and decides what was lost.
//   - *budget.Error of code Unavailable: nothing was done.
//   - *budget.Error of code OutcomeUnknown: the call may have been done, in part too. Every
//     method may be repeated with the same arguments: Deduct and rollbacks by id, grants by number,
//     the others by epoch.
//
// All implementations are safe for concurrent use.

// ErrOtherMemory reports a lane whose marker, replication id or server is not the one that the call
// names.
var ErrOtherMemory = errors.New("the store does not have the memory that the call names")

// Memory names what a lane's store must remember for a call to be carried out.
type Memory struct {
	Lane Lane
	// Activation must be the marker's.
	Activation int64
	// Identity is `<run id> <replication id> <role>` (and the node's id on a Cluster) as verified by
	// the activation. Connections are used only if they meet it, and scripts compare the replication
	// id.
	Identity string
}

// Counter is the deduct path of store mode.
type Counter interface {
	// Deduct judges deductions in order, each by these steps; the first that fails is its verdict:
	//  1. epoch: Lost, Broken, Moving, Closed;
	//  2. NotAfter is over: TooOld;
	//  3. a record of the id: Known, with the record (a void one too);
	//  4. the end of the period: Over;
	//  5. the limits' version: Outdated; their calendar windows: WindowOver; the limits: Limited;
	//  6. the balance: Short;
	//  7. Accepted: subtracted, counted and recorded.
	// Every verdict but Accepted has written nothing (I6). Repeating an accepted deduction within the
	// record window is Known (I4).
	Deduct(ctx context.Context, m Memory, deductions []StoreDeduction) (StoreAnswer, error)
	// Rollback gives units of recorded deductions back: into the balance while the record's epoch is
	// open, else to the late sum of that epoch. It lowers the limits' windows in which the deduction
	// was counted. A rollback id takes effect once (I5). The sums change at once; SQL has them after
	// Sums or Changed of the bucket was written there, and callers are answered after that (I3).
	// Verdicts, in order of precedence: Broken, Moving, NotFound, Unclear, Known (the deduction is
	// void, or the rollback id was done: Amount is what it gave), TooMuch, TooMany, Accepted.
	Rollback(ctx context.Context, m Memory, rollbacks []StoreRollback) ([]StoreReturn, error)
	// Cancel gives back all that is left of recorded deductions, and leaves a void record for ids
	// without one, so that a late Deduct is Known and changes nothing. Verdicts: Broken, Moving,
	// Unclear, Known (void, or nothing was left), Accepted (units came back), Voided (there was no
	// record). Voided with StoreReturn.Young means that the id may have had an effect in a memory that
	// was lost.
	Cancel(ctx context.Context, m Memory, cancels []StoreRollback) ([]StoreReturn, error)
	// Find returns records and changes nothing. Verdicts: Moving, NotFound, Known.
	Find(ctx context.Context, m Memory, ids []RecordID) ([]StoreReturn, error)
}

// Entries begins, feeds and ends epochs in a store. A late or repeated call does no harm.
type Entries interface {
	// Open opens epochs that SQL has as opening. Verdicts: Accepted (it is open, now or already),
	// Closed (the epoch was closed, or a later one is known), Lost (the newest epoch is this one and
	// its entry is missing), Moving (the copy that Opening.CopyOf names is not complete there, or an
	// unfinished copy is), Broken. Open replaces any entry of a smaller epoch; balance and sums begin
	// at 0.
	Open(ctx context.Context, m Memory, openings []Opening) ([]Entry, error)
	// Grant adds units if Number is the last grant's plus 1. Verdicts: Accepted (now or already), Gap,
	// Closed, Moving, Lost, Broken.
	Grant(ctx context.Context, m Memory, grants []StoreGrant) ([]Entry, error)
	// Close closes epochs, also where there is no entry, so that a late open or grant is refused. With
	// moving the bucket refuses every verb but Close from then on. Verdicts: Accepted, with the final
	// figures, as often as asked; Lost (the newest epoch is this one and its entry is missing); Closed
	// (a later epoch is known); Broken.
	Close(ctx context.Context, m Memory, refs []Ref, moving bool) ([]Entry, error)
	// Read returns the entries of buckets, whatever their epochs, and the late sums of the epochs that
	// refs name. Each entry is read atomically: grants up to LastGrant + GivenBack = Balance + Taken.
	// Verdicts: Accepted (open, of this epoch), Closed (of this epoch, closed), Moving, Lost (the
	// newest epoch is this one and its entry is missing), NotFound (the epoch is not known here),
	// Broken.
	Read(ctx context.Context, m Memory, refs []Ref) ([]Entry, error)
}

// Changes is how SQL learns what happened in a lane.
type Changes interface {
	// Changed returns sums of buckets that changed since they were last settled. cursor "" begins; the
	// returned cursor goes on and is "" at the end. A bucket that stays changed from the first call to
	// the last is returned at least once, possibly more often.
	Changed(ctx context.Context, m Memory, cursor string) (sums []Sum, next string, err error)
	// Settle takes buckets off the list of changes whose sums are still those given: SQL has them.
	Settle(ctx context.Context, m Memory, sums []Sum) error
	// Sweep advances the time slice of the records when its length has passed, which forgets records
	// older than the record window, and removes values whose windows have ended and late sums that are
	// settled and final. It works in bounded steps; more reports that another step follows.
	Sweep(ctx context.Context, m Memory) (more bool, err error)
}

// Memories tells whether a lane still has the memory that SQL knows. Only Mark writes.
type Memories interface {
	// Identity returns who serves the lane, read on a connection of its own: see Memory.Identity. It
	// changes when the process restarts and when its data is or becomes another's. Errors:
	// Unavailable, for a replica too.
	Identity(ctx context.Context, lane Lane) (string, error)
	// Marker reads the marker on a connection that meets the identity. A missing or unreadable marker
	// has activation 0. Errors: ErrOtherMemory (another identity), Unavailable.
	Marker(ctx context.Context, lane Lane, identity string) (Marker, error)
	// Mark writes the marker of Memory.Activation over a smaller one or none, on the server that
	// Identity names; the same again changes nothing. since is the first activation since which this
	// memory was kept without a gap: Memory.Activation, or less where a durable store came back with
	// its marker. Errors: ErrOtherMemory where a larger marker is, or where since needs a marker that
	// is missing.
	Mark(ctx context.Context, m Memory, since int64) error
	// Time reads the lane's clock. Errors: Unavailable.
	Time(ctx context.Context, lane Lane) (time.Time, error)
}

// Copies moves a closed bucket to another lane. The source was closed with moving; the destination
// answers nothing for the bucket until Open with Opening.CopyOf.
type Copies interface {
	// ReadCopy returns a part of what the source has of a bucket that was closed with moving: records,
	// counters, late sums. cursor "" begins; the returned cursor goes on and is "" at the end. Errors:
	// Invalid where the bucket was not closed with moving at that epoch.
	ReadCopy(ctx context.Context, m Memory, ref Ref, cursor string) (
		part CopyPart, next string, err error)
	// BeginCopy removes what the destination has of the bucket, in bounded steps, and names the
	// attempt. Verdicts: Accepted (empty: go on with AddCopy), Moving (call again), Closed (a newer
	// epoch or copy is there). A later attempt of the same epoch ends an earlier one.
	BeginCopy(ctx context.Context, m Memory, ref Ref, attempt string) (Verdict, error)
	// AddCopy writes a part. Records of the source's activation get the destination's; older ones
	// still answer repeats and cannot be rolled back. Verdicts: Accepted, Closed (not this attempt's
	// turn).
	AddCopy(ctx context.Context, m Memory, ref Ref, attempt string, part CopyPart) (Verdict, error)
	// EndCopy marks the copy complete. Verdicts: Accepted (now or already), Closed.
	EndCopy(ctx context.Context, m Memory, ref Ref, attempt string) (Verdict, error)
}

// The verdicts of store mode beside Accepted, Known, Short, Over, Outdated and Limited.
const (
	// Lost: the newest epoch is this one, or an older one, and its entry is missing although SQL has
	// it as open. That epoch alone is lost.
	Lost Verdict = iota + 32
	// Broken: what the store holds of the bucket is no number, or out of range. Fence the bucket.
	Broken
	// Closed: the epoch is closed, or a later one is known here. Read SQL again.
	Closed
	// Moving: the bucket is being moved to another lane, or was.
	Moving
	// TooOld: the deduction came after its NotAfter.
	TooOld
	// WindowOver: a calendar window of the Terms is not the present one by the lane's clock. Build the
	// Terms again for StoreAnswer.Now.
	WindowOver
	// NotFound: there is no record of the id, or no such epoch.
	NotFound
	// Unclear: there is no record and the activation is younger than the record window, or the record
	// is of a memory before the last gap. The caller answers outcome_unknown.
	Unclear
	// TooMuch: more is asked for than is left of the deduction.
	TooMuch
	// TooMany: the record has MostRollbackIDs already.
	TooMany
	// Gap: the grant's number is above the last one's plus 1.
	Gap
	// Voided: a void record was left where there was none.
	Voided
)

// MostRollbackIDs is how many rollback ids a record keeps.
const MostRollbackIDs = 8

// Terms are what the deductions of one budget have in common in a call. They are shared and not
// changed.
type Terms struct {
	// EndMS is the first instant after the period; 0: it has no end.
	EndMS int64
	// LimitsVersion is the version of Limits; a bucket that has seen a newer one answers Outdated.
	LimitsVersion int64
	// Limits are the budget's, all on its routing dimension, in the order of the definition.
	Limits []LimitTerms
}

// LimitTerms is one limit with its present window.
type LimitTerms struct {
	// Name and Changed identify what is counted: with another Changed the limit starts over.
	Name    string
	Changed int64
	Kind    budget.WindowKind
	// FromMS and ToMS are the calendar window's, ToMS exclusive.
	FromMS, ToMS int64
	// LengthMS is of sliding and first_hit, SlotMS of sliding windows.
	LengthMS, SlotMS int64
	// Max bounds a value, in calls or minor units; budget.MaxAmount where nothing is enforced.
	Max     int64
	Measure budget.Measure
}

// RecordID names a request within a bucket. A caller names it by key and id; the key picks the
// bucket.
type RecordID struct {
	Bucket int64
	// ID is 1 … 128 bytes.
	ID string
}

// StoreDeduction is one deduction on its way into a store.
type StoreDeduction struct {
	RecordID
	Epoch int64
	// Amount is 1 … budget.MaxAmount.
	Amount int64
	// NotAfter is the instant after which it is refused, far below the record window: a late repeat
	// must not outlive its record. In milliseconds by the lane's clock.
	NotAfterMS int64
	// Fingerprint and Nonce are kept with the record: up to 32 and 16 bytes.
	Fingerprint, Nonce string
	Terms              *Terms
	// Value is what the limits count for: the key of the routing dimension's value, at most 1,024
	// bytes. "" counts for no limit.
	Value string
	// Counts are own amounts per limit of Terms.Limits, nil where each counts 1 call or the amount. 0
	// counts nothing.
	Counts []int64
	// Max are bounds per limit of Terms.Limits for this value, nil where Terms has them.
	Max []int64
}

// StoreAnswer is what Deduct did.
type StoreAnswer struct {
	// Now is the lane's clock during the call, in milliseconds.
	NowMS    int64
	Outcomes []StoreOutcome
}

// StoreOutcome is what Deduct did with one deduction.
type StoreOutcome struct {
	Verdict Verdict
	// Balance is what the bucket holds after it, in minor units: of Accepted, Short and Limited.
	Balance int64
	// Limits has one element per limit of Terms.Limits, with Accepted after the deduction, with
	// Limited before it; nil otherwise, or when the deduction counts for no limit.
	Limits []LimitUse
	// Slots are what each sliding limit counts, slot by slot; nil unless a limit refused the
	// deduction.
	Slots [][]limit.Slot
	// Record is that of Known.
	Record Record
}

// LimitUse is how far a limit is used by a value.
type LimitUse struct {
	Used int64
	// ResetMS is when the window ends, or, sliding, when the oldest slot leaves it; 0: never.
	ResetMS int64
	// Exceeded reports that this limit refused the deduction.
	Exceeded bool
}

// Record is what a bucket remembers of a request id, for one to two record windows.
type Record struct {
	// Void: the id was cancelled before it had an effect. Only AtMS and Activation are set then.
	Void               bool
	Amount, RolledBack int64
	Epoch, Activation  int64
	Fingerprint, Nonce string
	// AtMS is when it was deducted.
	AtMS int64
	// Rollbacks are those that took effect, in order.
	Rollbacks []RecordedRollback
}

// RecordedRollback is a rollback id with what it gave back.
type RecordedRollback struct {
	ID     string
	Amount int64
}

// StoreRollback asks for units of a deduction to be given back. Cancel uses RecordID and Terms.
type StoreRollback struct {
	RecordID
	// RollbackID is 1 … 128 bytes; "" stands for the whole.
	RollbackID string
	// Amount 0 asks for all that is left.
	Amount int64
	// Terms has the budget's limits, for their windows; nil where it has none.
	Terms *Terms
}

// StoreReturn answers StoreRollback and Find.
type StoreReturn struct {
	Verdict Verdict
	// Record is as it is after the call; of NotFound it is empty.
	Record Record
	// Amount is what this rollback id gave back, now or earlier.
	Amount int64
	// Late reports that the units went to the late sum of the record's epoch.
	Late bool
	// Young reports that this memory is younger than the record window: a record may have been lost.
	Young bool
}

// Opening asks for an epoch to be opened.
type Opening struct {
	Ref
	// CopyOf is the closed epoch whose copy must be complete there; 0: the bucket was not moved.
	CopyOf int64
}

// StoreGrant is a numbered movement of units into a bucket.
type StoreGrant struct {
	Ref
	// Number counts from 1 within the epoch.
	Number, Amount int64
}

// Entry is what a store has of a bucket. Of Lost, Broken and NotFound the figures are 0.
type Entry struct {
	Verdict Verdict
	// Epoch is that of the entry; it may be another than the one asked for.
	Epoch int64
	// Balance is what can be deducted; Taken and GivenBack only grow; LastGrant is the number g.
	Balance, Taken, GivenBack, LastGrant int64
	// Late is the late sum of the epoch that was asked for.
	Late int64
}

// Sum is how far an epoch of a bucket got. Taken, GivenBack and Late only grow.
type Sum struct {
	Bucket, Epoch int64
	// Late reports that LateSum is meant, else Taken and GivenBack of the bucket's present entry.
	Late             bool
	Taken, GivenBack int64
	// LateSum is what was given back after the epoch.
	LateSum int64
	// Verdict is Accepted, Closed or Moving as in Entries.Read; Lost and Broken of an entry that is
	// missing or unreadable.
	Verdict Verdict
}

// Marker says which memory of a lane this is.
type Marker struct {
	Installation string
	// Activation is 0 where there is no marker.
	Activation int64
	// Since is the first activation since which this memory was kept without a gap, SinceMS the
	// instant.
	Since, SinceMS int64
}

// CopyPart is a part of a bucket on its way to another lane.
type CopyPart struct {
	// Records, Counters and Late are fields and values as the store keeps them; opaque.
	Records, Counters, Late []string
	// Activation is the source's; Since the first activation whose records could be rolled back there.
	Activation, Since int64
}

// Home returns the bucket of a routing key in store mode: the ring's first choice among all
// buckets, because the records of its ids are there whatever its status is; nil where the budget
// has none. Of a budget that Budgets returned.
func (b *Budget) Home(key string) *Bucket {
	if b.routes == nil {
		return nil
	}
	i := b.routes.LocateIndex(key, nil)
	if i < 0 {
		return nil
	}
	return &b.Buckets[i]
}

// HomeKey returns what picks a request's bucket in store mode: its value of the budget's routing
// dimension, else its key, else its id.
func (b *Budget) HomeKey(dimensions map[string]string, key, id string) string {
	return cmp.Or(dimensions[b.RoutingDimension], key, id)
}
