package bucket

import (
	"context"
	"errors"
	"time"

	"github.com/budgetd/budgetd/budget"
	"github.com/budgetd/budgetd/ledger"
)

// Lane names the part of an instance in which one script can touch every key.
type Lane struct {
	Instance string
	Index    int
}

// Ref names one life of one bucket: every message to a store carries it, and the store refuses it
// when it is not the life it knows.
type Ref struct {
	Bucket, Epoch int64
	// Activation is the incarnation of the lane under which the epoch was opened.
	Activation int64
}

// Verdict is a store's answer to one operation of a call. Whatever is not OK or Already has written
// nothing.
type Verdict uint8

// The verdicts.
const (
	// OK: done.
	OK Verdict = iota + 1
	// Already: a repetition of what was done before; nothing was written now.
	Already
	// Insufficient: the balance is below the amount.
	Insufficient
	// EpochClosed: the epoch is closed in the store.
	EpochClosed
	// EpochGone: the store has no balance hash for this epoch, or a later epoch exists.
	EpochGone
	// WrongActivation: the hash was made under another activation than the caller's, or the lane
	// serves another one by now: Memory.Activate decides which.
	WrongActivation
	// WentBack: the store's position is smaller than one that the caller has seen.
	WentBack
	// Gap: a grant whose predecessor has not arrived.
	Gap
	// Broken: a key of this bucket is not what it must be; Reply.Why says how.
	Broken
	// Recorded: the store remembers this request id: Reply.Record says as what.
	Recorded
	// Behind: the epoch's sum of deductions would exceed Operation.Ceiling: the ledger has to catch
	// up first.
	Behind
	// PeriodOver: the lane's clock has reached Operation.Until.
	PeriodOver
	// Outdated: the limits have a newer version, or their windows are others by the lane's clock:
	// Reply.Counted.Now.
	Outdated
	// Unloaded: the store does not know what is counted of a limit: Reply.Counted.Marks says of which.
	Unloaded
	// OverLimit: a limit would be exceeded: Reply.Counted.Over says which.
	OverLimit
)

// Reply is a store's answer to one operation. Balance and Seq are 0 for EpochGone, WrongActivation
// and Broken.
type Reply struct {
	Verdict Verdict
	// Balance is what the bucket holds after the operation, in minor units.
	Balance int64
	// Seq is the log position of the entry that the operation made (OK), or the last one.
	Seq int64
	// Why explains Broken. For Open's EpochGone it is where the log ends, as the store names that, if it
	// ends beyond the epoch asked for; "" otherwise, and for stores whose logs nobody else can write.
	Why string
	// Deducted is the epoch's sum of deductions after the operation, in minor units, for an operation
	// with Record and verdict OK or Behind; else 0. It is exact below 2^53.
	Deducted int64
	// Record is set for Recorded.
	Record *Record
	// Counted is set for OK, Outdated, Unloaded and OverLimit of an operation with Counting.
	Counted *Counted
}

// Record is what a store remembers of a request id of an epoch in store mode: of a deduction for one
// record window at least and for two at most, a void record as long as the epoch; neither beyond it.
type Record struct {
	// Seq is the log position of its entry; 0 for a void record.
	Seq int64
	// Nonce and Fingerprint are the request's; empty for a void record.
	Nonce, Fingerprint string
	// Void says that the id was cancelled before anything was deducted for it.
	Void bool
}

// LogEnd is where a log was found to end, beyond the epoch that was to be opened (Reply.Why).
type LogEnd struct {
	Ref  Ref
	Last string
}

// Operation is one deduction, as sent to a store.
type Operation struct {
	Ref Ref
	// Budget is whose units these are. Operations of several budgets take turns where they wait; a store
	// does not look at it.
	Budget int64
	// MinSeq is the highest log position the caller knows of this epoch: a store that is behind it
	// went back.
	MinSeq  int64
	Amount  int64
	Request ledger.Request
	// Record asks for store mode: the request id is looked up among the epoch's records first, and
	// remembered when it is deducted. Without it there are no records: the ledger's primary key
	// decides.
	Record bool
	// Ceiling is the most that the epoch's sum of deductions may come to, in minor units; 0: no bound.
	// It is how far the ledger is plus the window of store mode. Only with Record.
	Ceiling int64
	// Until is the instant of the lane's own clock from which the operation is refused, ms since 1970, as
	// its period is over then; 0: none. Only with Record: in ledger mode the commit judges.
	Until int64
	// LimitsVersion is that of the budget's limits that the sender knows; 0: it never had any. One that knows older
	// ones than the epoch has admitted a deduction by, or asked for counters of, is Outdated, also if it counts
	// nothing: those who know the newer ones could not see what it takes (I6). Only with Record: in ledger mode the
	// commit judges.
	LimitsVersion int64
	// Counting is what it counts against limits; nil: none. Only with Record and a LimitsVersion.
	Counting *Counting
}

// VoidOrder makes certain that an epoch never deducts for a request id that it has not deducted for
// yet (store mode).
type VoidOrder struct {
	Ref       Ref
	RequestID string
}

// GrantOrder is a numbered movement of units total -> bucket, as sent to a store.
type GrantOrder struct {
	Ref Ref
	// Number counts the grants of the epoch from 1.
	Number int64
	Amount int64
}

// Check returns what is wrong with the numbers of a Ref, as an error of code Invalid: stores make
// keys, ids and Lua numbers of them.
func (r Ref) Check() error {
	if r.Bucket < 1 || !budget.ValidAmount(r.Epoch) || !budget.ValidAmount(r.Activation) {
		return budget.Refuse(budget.Invalid, "address a bucket",
			"bucket %d, epoch %d, activation %d: each must be at least 1, the last two at most %d",
			r.Bucket, r.Epoch, r.Activation, budget.MaxAmount)
	}
	return nil
}

// Check returns what is wrong with a deduction, as an error of code Invalid: what it appends to the
// log must be readable.
func (o *Operation) Check() error {
	const op = "deduct"
	switch r := &o.Request; {
	case !budget.ValidAmount(o.Amount):
		return budget.Refuse(budget.Invalid, op, "amount %d must be 1 to %d", o.Amount,
			budget.MaxAmount)
	case o.MinSeq < 0 || o.MinSeq > budget.MaxAmount:
		return budget.Refuse(budget.Invalid, op, "log position %d must be 0 to %d", o.MinSeq,
			budget.MaxAmount)
	case o.Ceiling < 0 || o.Ceiling > budget.MaxAmount || o.Ceiling > 0 && !o.Record:
		return budget.Refuse(budget.Invalid, op, "a ceiling of %d must be 0 to %d, and needs a record",
			o.Ceiling, budget.MaxAmount)
	case o.Until < 0 || o.Until > budget.MaxAmount || o.Until > 0 && !o.Record:
		return budget.Refuse(budget.Invalid, op, "an end at %d ms must be 0 to %d, and needs a record",
			o.Until, budget.MaxAmount)
	case len(r.Nonce) != 8 || len(r.Fingerprint) != 16: // see ledger.EncodeRequest
		return budget.Refuse(budget.Invalid, op,
			"a nonce has 8 bytes and a fingerprint 16, not %d and %d", len(r.Nonce), len(r.Fingerprint))
	case o.LimitsVersion < 0 || o.LimitsVersion > budget.MaxAmount || o.LimitsVersion > 0 && !o.Record:
		return budget.Refuse(budget.Invalid, op, "a version %d of the limits must be 0 to %d, and needs a record",
			o.LimitsVersion, budget.MaxAmount)
	}
	if o.Counting != nil {
		if why := o.Counting.check(o.Ref.Epoch, o.LimitsVersion); why != "" {
			return budget.Refuse(budget.Invalid, op, "%s", why)
		}
	}
	return o.Ref.Check()
}

// Check returns what is wrong with a grant, as an error of code Invalid.
func (o *GrantOrder) Check() error {
	if !budget.ValidAmount(o.Number) || !budget.ValidAmount(o.Amount) {
		return budget.Refuse(budget.Invalid, "grant", "grant %d of %d units: both must be 1 to %d",
			o.Number, o.Amount, budget.MaxAmount)
	}
	return o.Ref.Check()
}

// Cursor says from where a log is read.
type Cursor struct {
	Ref Ref
	// From is the first position wanted, inclusive.
	From int64
}

// Check returns what is wrong with a cursor, as an error of code Invalid.
func (c *Cursor) Check() error {
	if c.From < 0 || c.From > budget.MaxAmount {
		return budget.Refuse(budget.Invalid, "read a log", "log position %d must be 0 to %d", c.From,
			budget.MaxAmount)
	}
	return c.Ref.Check()
}

// Extract is a part of a log as read; Entries are consecutive and start at the first position that
// the store still has at or after Cursor.From. Err is a *ledger.Mismatch when the log cannot be
// read as one (another type, an entry of another format): that bucket is broken.
type Extract struct {
	Entries []ledger.Entry
	Err     error
}

// Balance is one atomic read of a bucket in its store, for the audit: balance = granted − deducted
// at position Seq.
type Balance struct {
	Verdict           Verdict
	Closed            bool
	Seq, GrantSeq     int64
	Balance           int64
	Granted, Deducted int64
	Why               string
}

// ErrMemoryLost says that a lane does not know its scripts (NOSCRIPT) or is not who it was: its
// memory can no longer be taken for the one that SQL verified. Nothing was done.
var ErrMemoryLost = errors.New("the lane lost its memory")

// Store is one instance's memory: the balances and logs of the buckets that live in its lanes.
//
// Every call is one atomic step per operation: an operation does everything it says or nothing, and
// one operation's broken key is that operation's answer and no other's. The replies are in the order
// of the operations. A call's error applies to all its operations: a *budget.Error of code
// Unavailable (certainly not done), one of code OutcomeUnknown (may have been done), or
// ErrMemoryLost (not done; also before the lane's first Activate). One of code Invalid says that an
// operation is malformed (an amount outside 1 … MaxAmount, a nonce of another length): nothing was
// sent. Safe for concurrent use. Lists may be empty, then nothing is sent.
//
// The verdict is the first that applies of: Broken (a key is not what it must be), EpochGone (no
// hash), WrongActivation, EpochClosed, those of the verb in the order it lists them, Broken (the
// balance would exceed MaxAmount), EpochGone (the log holds a later epoch). The last is found at
// the append, so it answers only what would otherwise be OK.
type Store interface {
	// Open creates the balance hash and entry 0 of new epochs. With a hash: Broken; EpochClosed when it is
	// closed; WrongActivation when the lane serves another activation than the caller's; EpochClosed when
	// the hash was made under another one (SQL was restored to before that life: the number is taken);
	// Already, whatever happened in the epoch since. Without: WrongActivation; EpochGone when the log
	// already holds this epoch or a later one; OK.
	Open(ctx context.Context, lane Lane, refs []Ref) ([]Reply, error)
	// Grant adds numbered grants, in order. Already when the number has arrived; Gap when an
	// earlier one has not; OK.
	Grant(ctx context.Context, lane Lane, orders []GrantOrder) ([]Reply, error)
	// Deduct takes amounts from balances and appends an entry for each. PeriodOver; WentBack; Outdated;
	// Unloaded; OverLimit; Insufficient; Behind; OK. An operation with Record answers Recorded right after EpochGone, before everything
	// else: a repetition gets its outcome from a closed epoch too.
	Deduct(ctx context.Context, lane Lane, operations []Operation) ([]Reply, error)
	// Close ends epochs: the balance is remembered in a close entry and set to 0. Already instead
	// of EpochClosed (Seq is then the close entry's position); OK.
	Close(ctx context.Context, lane Lane, refs []Ref) ([]Reply, error)
	// Log reads and maintains the logs.
	Log
}

// Records is a store that serves budgets in store mode. A lane in the ledger's own database (Direct)
// needs none: there the ledger's primary key decides, in both modes.
type Records interface {
	// Void leaves a void record for each id, for as long as the epoch is there: no deduct of the id is
	// admitted there any more, however late it comes (I4).
	// Recorded, right after EpochGone: a record of it is there already, of a deduction or void;
	// EpochClosed: nothing more is deducted here; OK. Errors: as Store.
	Void(ctx context.Context, lane Lane, orders []VoidOrder) ([]Reply, error)
}

// Log is the reading side of a Store.
type Log interface {
	// Read returns at most limit entries for each cursor.
	Read(ctx context.Context, lane Lane, cursors []Cursor, limit int) ([]Extract, error)
	// Balances reads each epoch's hash, atomically for itself. Verdict OK, EpochGone or Broken;
	// the activation is not looked at.
	Balances(ctx context.Context, lane Lane, refs []Ref) ([]Balance, error)
	// Trim forgets the entries of each epoch below cursor.From, and those of the bucket's earlier
	// epochs; the entry at From stays, and so does the last one of the log whatever From is, and what a
	// store can only forget together with one that stays. A log that is broken stays as it is. Forgetting twice is harmless.
	Trim(ctx context.Context, lane Lane, cursors []Cursor) error
	// Discard deletes the logs of buckets that end beyond the epoch named, and still exactly at Last, so
	// that the epoch can be opened. It is for whoever was told so by Open and has read in SQL since that
	// the epoch is the bucket's newest: nothing that the ledger will ever read is in such a log
	// (docs/adr/0008). The answers say which were deleted. Repeating it is harmless.
	Discard(ctx context.Context, lane Lane, ends []LogEnd) ([]bool, error)
	// Leave deletes the logs of buckets that have left the lane, unless they hold a later epoch than the one
	// named: then the bucket is back. With it goes what refuses a late Open, so it is for whoever has made
	// sure that nothing executed here for those epochs can count any more (docs/adr/0011). Repeating it is
	// harmless.
	Leave(ctx context.Context, lane Lane, refs []Ref) error
	// Forget removes the balance hashes and records of epochs that SQL has closed or lost. The log
	// stays, so that a late Open of the epoch is refused.
	Forget(ctx context.Context, lane Lane, refs []Ref) error
}

// Memory is how a store's incarnation is told (DESIGN 9).
type Memory interface {
	// Identity reads who the lane is: it changes whenever its memory may have been lost or replaced
	// (run id, replication id and role of a Redis). Read on every new connection.
	Identity(ctx context.Context, lane Lane) (string, error)
	// Activate prepares the lane for an activation: the scripts that carry its number. From then on
	// this node serves that activation only. It fails with ErrMemoryLost unless the lane still has
	// that identity.
	Activate(ctx context.Context, lane Lane, identity string, activation int64) error
	// Time reads the lane's own clock, by which it judges Operation.Until. Errors: Unavailable.
	Time(ctx context.Context, lane Lane) (time.Time, error)
}

// Instance is a configured store with its lanes.
type Instance interface {
	Store
	Memory
}

// Direct is a store whose rows are in the ledger's own database: it deducts and commits in one
// transaction, so every OK is in the ledger already and nothing is left to drain.
type Direct interface {
	// DeductAndCommit does Deduct and ledger.Drain in one transaction, group by group as given.
	// Outcomes[i] is set where Replies[i] is OK. Errors: as Store.
	DeductAndCommit(ctx context.Context, lane Lane, operations []Operation) ([]Reply, []*ledger.Outcome, error)
}
