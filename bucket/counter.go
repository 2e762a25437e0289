package bucket

import (
	"context"
	"errors"
	"time"

	"github.com/budgetd/budgetd/budget"
	"github.com/budgetd/budgetd/limit"
)

// This file is the contract of store mode's scripts: what package counter requires of a store.
// Quantities are minor units, 0 … budget.MaxAmount. Instants are milliseconds since 1970 by the
// partition's own clock, unless stated otherwise.
//
// Every call names a Memory, which the store first compares with its own. All elements of a call go
// to one partition. Each element is done completely or not at all, and independently of the others.
// The answers are in the order of the elements.
//
// Errors of every method:
//   - ErrOtherMemory: the partition does not have the memory that the call names. Nothing was done.
//     The caller reads marker and identity to decide what was lost.
//   - *budget.Error of code Unavailable: nothing was done.
//   - *budget.Error of code OutcomeUnknown: the call may have been done, or a part of it. Every
//     method may be repeated with the same arguments: Deduct and rollbacks by id, grants by number,
//     the others by epoch.
//
// All implementations are safe for concurrent use.

// ErrOtherMemory reports a partition whose marker, replication id or server differs from the one
// that the call names.
var ErrOtherMemory = errors.New("the store does not have the memory that the call names")

// Memory names the memory that a partition's store must have to carry out a call.
type Memory struct {
	Partition Partition
	// Incarnation must equal the marker's.
	Incarnation int64
	// Identity is what Memories.Identity returned when the incarnation verified it. It is opaque,
	// never empty, and changes with the server behind the partition, its memory and its role. Redis:
	// `<run id> <replication id> <role>`, and the node's id on a Cluster. A store must use only
	// connections to a server with this identity.
	Identity string
}

// Counter is the deduct path of store mode.
type Counter interface {
	// Deduct evaluates deductions in order. The first of these steps that fails gives the verdict:
	//  1. epoch: Lost, Broken, Moving, Closed;
	//  2. NotAfterMS has passed: TooOld;
	//  3. a record of the id exists: Known, with the record (also a void one);
	//  4. the period has ended: Over;
	//  5. the version of the limits: Outdated; a calendar window: WindowOver; a limit: Limited;
	//  6. the balance, and what the epoch has taken, which stays a quantity: Short;
	//  7. Accepted: subtracted, counted and recorded.
	// Only Accepted writes anything (I6). Repeating an accepted deduction within the record window is
	// Known (I4).
	Deduct(ctx context.Context, m Memory, deductions []StoreDeduction) (StoreAnswer, error)
	// Predict returns what Deduct would answer to each deduction if it came alone. It changes nothing.
	// A bucket without a live entry of the epoch counts as empty, because a deduction would open one.
	// An empty ID has no record. Limits are before the deduction, and also set for Short.
	Predict(ctx context.Context, m Memory, deductions []StoreDeduction) (StoreAnswer, error)
	// Rollback returns units of recorded deductions: to the balance while the record's epoch is open,
	// else to the late sum of that epoch. It lowers the limits' windows in which the deduction was
	// counted. A rollback id takes effect once (I5). The sums change at once. SQL has them after Sums
	// or Changed of the bucket was written to it, and only then are callers answered (I3). Verdicts,
	// in order of precedence: Broken, Moving, NotFound, Unclear (also for a void record that is
	// Unsure), Known (the deduction is void, or the rollback id was done: Amount is what it returned),
	// TooMuch, TooMany, Accepted.
	Rollback(ctx context.Context, m Memory, rollbacks []StoreRollback) ([]StoreReturn, error)
	// Cancel returns all that is left of recorded deductions. For an id without a record it writes a
	// void record, so that a late Deduct is Known and changes nothing. Verdicts: Broken, Moving,
	// Unclear (also if the void record is Unsure, now or already), Known (void, or nothing was left),
	// Accepted (units were returned), Voided (there was no record).
	Cancel(ctx context.Context, m Memory, cancels []StoreRollback) ([]StoreReturn, error)
	// Find returns records and changes nothing. Verdicts: Moving, NotFound, Known.
	Find(ctx context.Context, m Memory, ids []RecordID) ([]StoreReturn, error)
}

// Entries opens, funds and closes epochs in a store. A late or repeated call is harmless.
type Entries interface {
	// Open opens epochs that are opening in SQL. It replaces any entry of a smaller epoch; balance and
	// sums start at 0. Verdicts: Accepted (it is open, now or already), Closed (the epoch was closed,
	// or a later one is known), Lost (the newest epoch is this one and its entry is missing), Moving
	// (an unfinished copy exists, or the copy that Opening.CopyOf names is not complete), Broken.
	Open(ctx context.Context, m Memory, openings []Opening) ([]Entry, error)
	// Grant adds units if Number is the last grant's plus 1. Verdicts: Accepted (now or already), Gap,
	// Closed, Moving, Lost, Broken.
	Grant(ctx context.Context, m Memory, grants []StoreGrant) ([]Entry, error)
	// Close closes epochs, even without an entry, so that a late open or grant is refused. With moving
	// the bucket refuses every call but Close from then on. Verdicts: Accepted, with the final
	// figures, each time it is called; Lost (the newest epoch is this one and its entry is missing);
	// Closed (a later epoch is known); Broken.
	Close(ctx context.Context, m Memory, refs []Ref, moving bool) ([]Entry, error)
	// Read returns the entries of buckets, whatever their epochs, and the late sums of the epochs that
	// refs name. Each entry is read atomically: grants up to LastGrant + GivenBack = Balance + Taken.
	// Verdicts: Accepted (open, of this epoch), Closed (of this epoch, closed), Moving, Lost (the
	// newest epoch is this one and its entry is missing), NotFound (the epoch is not known here),
	// Broken.
	Read(ctx context.Context, m Memory, refs []Ref) ([]Entry, error)
	// Raise makes buckets answer Outdated to deductions whose Terms have a smaller LimitsVersion. A
	// version only grows.
	Raise(ctx context.Context, m Memory, versions []LimitsVersion) error
}

// LimitsVersion is the newest version of the limits of a bucket's budget.
type LimitsVersion struct{ Bucket, Version int64 }

// Changes reports to SQL what happened in a partition.
type Changes interface {
	// Changed returns sums of buckets that changed since they were acknowledged. The first call has
	// cursor "", the next one the returned cursor, which is "" at the end. A bucket that stays changed
	// from the first call to the last is returned at least once, possibly more often.
	Changed(ctx context.Context, m Memory, cursor string) (sums []Sum, next string, err error)
	// Acknowledge removes buckets from the list of changes if their sums still equal those given,
	// which SQL has.
	Acknowledge(ctx context.Context, m Memory, sums []Sum) error
	// Sweep starts a new time slice of the records when the slice's length has passed, which drops
	// records older than the record window. It removes values whose windows have ended, and late sums
	// that are acknowledged and final. It works in bounded steps; more reports that another step
	// follows.
	Sweep(ctx context.Context, m Memory) (more bool, err error)
}

// Memories reports whether a partition still has the memory that SQL knows.
type Memories interface {
	// Identity returns who serves the partition, read on its own connection; see Memory.Identity. It
	// changes when the process restarts and when its data is replaced by another server's. Errors:
	// Unavailable, also for a replica.
	Identity(ctx context.Context, partition Partition) (string, error)
	// Marker reads the marker on a connection with the identity. A missing or unreadable marker has
	// incarnation 0. After a new connection met another identity, all calls with this one fail, even
	// if it comes back: the partition may have been given to another memory meanwhile. A Marker that
	// verifies ends that; its caller compares the partition with SQL before it uses it. Errors:
	// ErrOtherMemory (another identity), Unavailable.
	Marker(ctx context.Context, partition Partition, identity string, verifies bool) (Marker, error)
	// Mark writes the marker of Memory.Incarnation, on the server that Identity names, unless a larger
	// one is there. Repeating it changes nothing. since is the first incarnation since which this
	// memory was kept without a gap: Memory.Incarnation, or less if a durable store came back with its
	// marker. Error: ErrOtherMemory if there is a larger marker, or if since requires a marker that is
	// missing.
	Mark(ctx context.Context, m Memory, since int64) error
	// Doubt sets Marker.SinceMS to sinceMS unless it is later: an earlier record may be missing,
	// because a bucket came from a memory that was lost. Repeating it changes nothing. Errors:
	// ErrOtherMemory, Unavailable, OutcomeUnknown.
	Doubt(ctx context.Context, m Memory, sinceMS int64) error
	// Time reads the partition's clock. Errors: Unavailable.
	Time(ctx context.Context, partition Partition) (time.Time, error)
}

// Copies moves a closed bucket to another partition. The source was closed with moving. The
// destination answers nothing for the bucket until Open with Opening.CopyOf.
type Copies interface {
	// ReadCopy returns a part of the source's records, counters and late sums of a bucket that was
	// closed with moving. The first call has cursor "", the next one the returned cursor, which is ""
	// at the end. Error: Invalid if the bucket was not closed with moving at that epoch.
	ReadCopy(ctx context.Context, m Memory, ref Ref, cursor string) (
		part CopyPart, next string, err error)
	// BeginCopy removes, in bounded steps, what the destination has of the bucket, and names the
	// attempt. Verdicts: Accepted (empty: continue with AddCopy), Moving (call again), Closed (a newer
	// epoch or copy is there). A later attempt of the same epoch ends an earlier one.
	BeginCopy(ctx context.Context, m Memory, ref Ref, attempt string) (Verdict, error)
	// AddCopy writes a part. Records of the source's incarnation get the destination's. Older ones
	// still answer repeats and cannot be rolled back. Verdicts: Accepted, Closed (another attempt is
	// in progress).
	AddCopy(ctx context.Context, m Memory, ref Ref, attempt string, part CopyPart) (Verdict, error)
	// EndCopy marks the copy complete. Verdicts: Accepted (now or already), Closed.
	EndCopy(ctx context.Context, m Memory, ref Ref, attempt string) (Verdict, error)
}

// The verdicts of store mode besides Accepted, Known, Short, Over, Outdated and Limited.
const (
	// Lost means that the newest epoch is this one or an older one, and that its entry is missing
	// although it is open in SQL. Only that epoch is lost.
	Lost Verdict = iota + 32
	// Broken means that the store's value for the bucket is not a number, or is out of range. The
	// caller must halt the bucket.
	Broken
	// Closed means that the epoch is closed or a later one is known. The caller must read SQL again.
	Closed
	// Moving means that the bucket is being moved to another partition, or was moved.
	Moving
	// TooOld means that the deduction arrived after its NotAfterMS.
	TooOld
	// WindowOver means that a calendar window of the Terms is not the present one by the partition's
	// clock. The caller must build the Terms again for StoreAnswer.NowMS.
	WindowOver
	// NotFound means that there is no record of the id, or no such epoch.
	NotFound
	// Unclear means that there is no record and the incarnation is younger than the record window, or
	// that the record is from a memory before the last gap. The caller answers outcome_unknown.
	Unclear
	// TooMuch means that more is asked for than is left of the deduction.
	TooMuch
	// TooMany means that the record has MostRollbackIDs already.
	TooMany
	// Gap means that the grant's number is above the last one's plus 1.
	Gap
	// Voided means that a void record was written because there was none.
	Voided
)

// MostRollbackIDs bounds the rollback ids that a record keeps.
const MostRollbackIDs = 8

// Terms are shared by the deductions of one budget in a call. They must not be changed.
type Terms struct {
	// EndMS is the first instant after the period, or 0 if it has no end.
	EndMS int64
	// LimitsVersion is the version of Limits. A bucket that has seen a newer one answers Outdated.
	LimitsVersion int64
	// Limits are the budget's, all on its routing dimension, in the order of the definition.
	Limits []LimitTerms
}

// LimitTerms is one limit with its present window.
type LimitTerms struct {
	// Name and Changed identify the counter: with another Changed the limit starts over.
	Name    string
	Changed int64
	Kind    budget.WindowKind
	// FromMS and ToMS bound the calendar window, ToMS exclusive.
	FromMS, ToMS int64
	// LengthMS is set for sliding and first_hit windows, SlotMS for sliding ones.
	LengthMS, SlotMS int64
	// Max bounds a value, in calls or minor units. It is budget.MaxAmount if nothing is enforced.
	Max     int64
	Measure budget.Measure
}

// RecordID names a request within a bucket. Callers use key and id; the key selects the bucket.
type RecordID struct {
	Bucket int64
	// ID is 1 … 128 bytes.
	ID string
}

// StoreDeduction is a deduction as it is sent to a store.
type StoreDeduction struct {
	RecordID
	Epoch int64
	// Amount is 1 … budget.MaxAmount.
	Amount int64
	// NotAfterMS is the instant after which the store refuses it, by the partition's clock. It must be
	// far below the record window, because a late repeat must not outlive its record.
	NotAfterMS int64
	// Fingerprint and Nonce are kept with the record: up to 32 and 16 bytes.
	Fingerprint, Nonce string
	Terms              *Terms
	// Value is the key of the routing dimension's value, which the limits count for, at most 1,024
	// bytes. If it is empty, no limit counts.
	Value string
	// Counts are amounts per limit of Terms.Limits. They are nil if each limit counts 1 call or the
	// amount. 0 counts nothing.
	Counts []int64
	// Max are bounds per limit of Terms.Limits for this value, or nil to use those of Terms.
	Max []int64
}

// StoreAnswer is the result of Deduct.
type StoreAnswer struct {
	// NowMS is the partition's clock during the call, in milliseconds.
	NowMS    int64
	Outcomes []StoreOutcome
}

// StoreOutcome is the result of one deduction.
type StoreOutcome struct {
	Verdict Verdict
	// Balance is what the bucket holds afterwards, in minor units, for Accepted, Short and Limited.
	Balance int64
	// Limits has one element per limit of Terms.Limits: for Accepted after the deduction, for Limited
	// before it. It is nil otherwise, and if the deduction counts against no limit. See Predict.
	Limits []LimitUse
	// Slots are the counts of each sliding limit, slot by slot. They are nil unless a limit refused
	// the deduction.
	Slots [][]limit.Slot
	// Record is set for Known.
	Record Record
}

// LimitUse is how much of a limit a value has used.
type LimitUse struct {
	Used int64
	// ResetMS is when the window ends or, for sliding windows, when the oldest slot leaves it. It is 0
	// if that never happens.
	ResetMS int64
	// Exceeded reports that this limit refused the deduction.
	Exceeded bool
}

// Record is what a bucket remembers of a request id, for one to two record windows.
type Record struct {
	// Void says that the id was cancelled and had no record: only AtMS, Incarnation and Unsure are
	// set. Unsure says that the id may have had an effect in a memory that was lost.
	Void, Unsure       bool
	Amount, RolledBack int64
	Epoch, Incarnation int64
	Fingerprint, Nonce string
	// AtMS is when the units were deducted or the id was cancelled.
	AtMS int64
	// Rollbacks are those that took effect, in order.
	Rollbacks []RecordedRollback
}

// RecordedRollback is a rollback id with what it returned.
type RecordedRollback struct {
	ID     string
	Amount int64
}

// StoreRollback asks for units of a deduction to be returned. Cancel uses RecordID and Terms.
type StoreRollback struct {
	RecordID
	// RollbackID is 1 … 128 bytes, or empty to stand for the whole deduction.
	RollbackID string
	// Amount is what to return; 0 means all that is left.
	Amount int64
	// Terms has the windows of the budget's limits. It is nil if the budget has none.
	Terms *Terms
}

// StoreReturn answers StoreRollback and Find.
type StoreReturn struct {
	Verdict Verdict
	// Record is the record after the call. It is empty for NotFound.
	Record Record
	// Amount is what this rollback id returned, now or earlier.
	Amount int64
	// Late reports that the units went to the late sum of the record's epoch.
	Late bool
	// Young reports, for Find, that an earlier memory was lost within the record window.
	Young bool
}

// Opening asks for an epoch to be opened.
type Opening struct {
	Ref
	// CopyOf is the closed epoch whose copy must be complete there, or 0 if the bucket was not moved.
	CopyOf int64
}

// StoreGrant is a numbered movement of units into a bucket.
type StoreGrant struct {
	Ref
	// Number counts from 1 within the epoch.
	Number, Amount int64
}

// Entry is what a store has for a bucket. Its figures are 0 for Lost, Broken and NotFound.
type Entry struct {
	Verdict Verdict
	// Epoch is the entry's. It may differ from the one asked for.
	Epoch int64
	// Balance can be deducted. Taken and GivenBack only grow. LastGrant is the number of the last
	// grant.
	Balance, Taken, GivenBack, LastGrant int64
	// Late is the late sum of the epoch that was asked for.
	Late int64
}

// Sum is the progress of a bucket's epoch. Taken, GivenBack and Late only grow.
type Sum struct {
	Bucket, Epoch int64
	// Late reports that LateSum is set, instead of Taken and GivenBack of the bucket's present entry.
	Late             bool
	Taken, GivenBack int64
	// LateSum is what was returned after the epoch ended.
	LateSum int64
	// Verdict is Accepted, Closed or Moving as in Entries.Read, or Lost or Broken if the entry is
	// missing or unreadable.
	Verdict Verdict
}

// Marker identifies the memory of a partition.
type Marker struct {
	Installation string
	// Incarnation is 0 if there is no marker.
	Incarnation int64
	// Since is the first incarnation since which this memory was kept without a gap. SinceMS is its
	// instant, or a later one (Doubt); 0 for the partition's first, before which nothing was lost.
	Since, SinceMS int64
}

// CopyPart is a part of a bucket that is copied to another partition.
type CopyPart struct {
	// Records, Counters and Late are fields and values as the store keeps them. They are opaque.
	Records, Counters, Late []string
	// Incarnation is the source's. Since is the first incarnation whose records could be rolled back
	// there.
	Incarnation, Since int64
}
