package bucket

import (
	"context"
	"time"

	"github.com/budgetd/budgetd/budget"
	"github.com/budgetd/budgetd/ledger"
)

// Budget is a definition with its buckets, as a node caches it.
type Budget struct {
	budget.Definition
	// ListVersion grows whenever a bucket comes online, goes offline or gets a new epoch.
	ListVersion int64
	// Period is the open or last period, without what it got; it changes with ListVersion.
	Period budget.Period
	// Buckets are ordered by ordinal, those that have retired at the end: see Ring.
	Buckets []Bucket
}

// Bucket is a row of sharding_budget_management_bucket with its newest epoch.
type Bucket struct {
	ID      int64
	Ordinal int
	// Key is the public name: `<budget's name>:bucket-<ordinal>`.
	Key  string
	Lane Lane
	// Online says that the bucket is in the bucket list.
	Online bool
	// OfflineBy says who took it offline; "" while online.
	OfflineBy OfflineBy
	// OutQuantity is the total it ever applied for; OutCnt how often in its newest epoch.
	OutQuantity int64
	OutCnt      int
	// CountersFrom is the epoch with which its store's counters of limits began: another lane, another number
	// of buckets, another activation of its lane and a lost epoch begin them anew. At most the next epoch.
	CountersFrom int64
	// Epoch is the newest epoch's row as of the read.
	Epoch     ledger.Epoch
	UpdatedAt time.Time
}

// Ref names the newest epoch of the bucket.
func (b *Bucket) Ref() Ref {
	return Ref{Bucket: b.ID, Epoch: b.Epoch.Number, Activation: b.Epoch.Activation}
}

// OfflineBy says who took a bucket offline.
type OfflineBy string

// Who takes buckets offline.
const (
	// ByOperator: it stays offline until an operator brings it online.
	ByOperator OfflineBy = "operator"
	// ByResize: the budget has fewer buckets by now, and this one has retired: it is in no list and no
	// ring, and comes back only when the budget gets that many again.
	ByResize OfflineBy = "resize"
	// ByService: it was empty or collected; it comes online again when there are units for it.
	ByService OfflineBy = "service"
)

// Version is how a node sees that what it cached of a budget has changed.
type Version struct{ Definition, List int64 }

// BudgetRef names a budget as a caller does: by id, or by name within a tenant.
type BudgetRef struct {
	Tenant string
	Name   string
	// ID is used when it is not 0.
	ID int64
}

// Change is an operator's change of a definition; nil leaves a field as it is.
type Change struct {
	// IfVersion must be the current version when it is not 0, else VersionConflict.
	IfVersion        int64
	Paused           *bool
	ShardingQuantity *int64
	AdjustCnt        *int
	// BucketQuantity is noted as what Resize brings the budget to.
	BucketQuantity *int
	// EndAt pointing to the zero time removes the end.
	EndAt *time.Time
	// Rule is another application rule of a daily budget.
	Rule *budget.Rule
	// LateRefund is where refunds go whose period is over.
	LateRefund *budget.Where
	// Limits replaces all limits; an empty list removes them. What counts the same as before goes on.
	Limits *[]budget.Limit
}

// Of returns a definition after the change; versions and instants are the caller's: limit.Change has
// those of limits.
func (c *Change) Of(d budget.Definition) budget.Definition {
	if c.Paused != nil {
		d.Paused = *c.Paused
	}
	if c.ShardingQuantity != nil {
		d.ShardingQuantity = *c.ShardingQuantity
	}
	if c.AdjustCnt != nil {
		d.AdjustCnt = *c.AdjustCnt
	}
	if c.EndAt != nil {
		d.EndAt = *c.EndAt
	}
	if c.Rule != nil {
		d.Rule = c.Rule
	}
	if c.LateRefund != nil {
		d.LateRefund = *c.LateRefund
	}
	if c.Limits != nil {
		d.Limits = &budget.Limits{List: *c.Limits}
	}
	return d
}

// Page selects a part of the list of budgets, in the order of their ids.
type Page struct {
	// Tenant "" means every tenant.
	Tenant string
	Type   budget.Type
	Status budget.Status
	// AfterID is the last id of the page before; Size is 1 … 1,000.
	AfterID int64
	Size    int
}

// Definitions keeps the budgets and their bucket lists. All methods: Unavailable when SQL cannot be
// reached; BudgetNotFound where a budget is named that does not exist. Safe for concurrent use.
type Definitions interface {
	// Create stores a new budget, its buckets on the given lanes (one per bucket, by ordinal) and
	// their first epochs in status opening, and hands out the whole total: spread evenly, remainders
	// to the first buckets, one grant each. One transaction. The id is handed out here. created is
	// false when the name exists with an equal definition (id, versions, times and total apart:
	// compared with the total it was created with). Without a BucketQuantity there are as many buckets as lanes, and
	// their number is no part of the definition that a repeat must be equal to. Errors: NameTaken.
	Create(ctx context.Context, d budget.Definition, lanes []Lane) (b Budget, created bool, err error)
	// Budget reads a budget with its bucket list.
	Budget(ctx context.Context, ref BudgetRef) (Budget, error)
	// Budgets reads a page of definitions.
	Budgets(ctx context.Context, page Page) ([]budget.Definition, error)
	// Versions reads the versions of many budgets at once; one that is gone is missing.
	Versions(ctx context.Context, ids []int64) (map[int64]Version, error)
	// Change changes a definition and its version. EndAt is copied to the live epochs, so that
	// every later commit obeys it (I8). Errors: VersionConflict, Invalid.
	Change(ctx context.Context, id int64, change Change) (budget.Definition, error)
}

// ID names a request within a budget.
type ID struct {
	Budget    int64
	RequestID string
}

// Cover is I3's sum, from one statement: all that the budget can still hand to anybody.
type Cover struct {
	// Undistributed is U where some bucket may apply for it, else 0; pending shrinks are not
	// subtracted.
	Undistributed int64
	// Outstanding and Returning are ΣO and ΣR over all epochs, as far as the open period may get them.
	Outstanding, Returning int64
	// Later is what only a later period may get: what is not funded, and ΣO and ΣR of older periods that
	// goes there. It is no part of the sum.
	Later int64
}

// Sum is what I3 compares with the amount.
func (c Cover) Sum() int64 { return c.Undistributed + c.Outstanding + c.Returning }

// Judgement is what one SQL statement says of some ids and their budget.
type Judgement struct {
	// Recorded has the ledger's row of each id that has one.
	Recorded map[string]ledger.Deduction
	Cover    Cover
	// Period is the one that the sum is of, without what it got.
	Period budget.Period
}

// CommitReport is what one transaction committed.
type CommitReport struct {
	// Epochs has one element per log given, in order.
	Epochs []EpochReport
}

// EpochReport is what became of one log in a commit.
type EpochReport struct {
	// Row is the epoch after the commit.
	Row ledger.Epoch
	// Outcomes has an element for each deduct entry committed by this transaction, in log order.
	Outcomes []ledger.Outcome
	// Close is the close entry, when the log was read up to it: Transfers.CloseEpoch is next.
	Close *ledger.Entry
	// Err is ledger.ErrReadAgain, ledger.ErrEnded, ledger.ErrFenced or a *ledger.Mismatch: nothing
	// of this log was committed, the others of the transaction were.
	Err error
}

// Ledger is the kernel: what it has committed is what happened. Every write is one transaction that
// is redone as a whole, a bounded number of times, after a deadlock, a lock time-out, a duplicate
// key or a lost connection, so an error of code Unavailable means certainly not done and
// OutcomeUnknown that it may have been. Safe for concurrent use.
type Ledger interface {
	// Commit drains logs into the ledger (ledger.Drain) in one transaction, epoch rows locked in the
	// order of (bucket, epoch). One element per epoch at most.
	Commit(ctx context.Context, logs []ledger.Log) (CommitReport, error)
	// At returns what became of log entries that are in the ledger; a position that is not there is
	// missing.
	At(ctx context.Context, positions []ledger.Position) (map[ledger.Position]ledger.Outcome, error)
	// Recorded reads the ledger's rows of many ids; one that has none is missing.
	Recorded(ctx context.Context, ids []ID) (map[ID]ledger.Deduction, error)
	// Judge reads ids of one budget and I3's sum in ONE statement, without locks.
	Judge(ctx context.Context, budgetID int64, requestIDs []string) (Judgement, error)
	// Covers reads I3's sum of many budgets, each at one moment, without locks; a budget that does not exist is missing.
	Covers(ctx context.Context, budgetIDs []int64) (map[int64]Cover, error)
	// Epochs reads epoch rows; one that does not exist is missing.
	Epochs(ctx context.Context, refs []Ref) (map[Ref]ledger.Epoch, error)
}

// RolledOver is what a roll-over did.
type RolledOver struct {
	// Done: this call ended a period.
	Done bool
	// Period is the one that is the budget's now.
	Period budget.Period
	// Handout is what must now be sent to stores.
	Handout
}

// PeriodsAtOnce bounds the periods that one roll-over goes through; the rest stays due.
const PeriodsAtOnce = 400

// Periods rolls budgets over from one period to the next (DESIGN 7). Errors as Ledger.
type Periods interface {
	// Over lists at most limit budgets whose period is over by SQL's clock and whose roll-over is due.
	Over(ctx context.Context, limit int) ([]int64, error)
	// RollOver ends a budget's period once it is over by SQL's clock, and opens the one that follows: in one
	// transaction the units that it did not use go where the rule says, the next period is funded, and its
	// units are spread over the buckets, which get new epochs. In ledger mode the old epochs end in it
	// too, without their stores, because nothing of them can be committed any more; in store mode those
	// that are open still become closing, and what they bring later goes where the rule says. Where no period
	// follows, everything goes back to what is not funded, and the service takes the buckets offline.
	// Buckets on the lanes named get no epoch now. Nothing is done before the end, and nothing by a node
	// that is more than a second off SQL's clock (Unavailable). Repeating it is harmless.
	RollOver(ctx context.Context, budgetID int64, without ...Lane) (RolledOver, error)
}

// RollbackOrder asks for units of a deduction to be given back.
type RollbackOrder struct {
	Budget    int64
	RequestID string
	// RollbackID "" is the default id, the whole.
	RollbackID string
	// Amount 0 asks for all that is left.
	Amount int64
}

// Returns moves units out of deductions. Errors as Ledger, and DeductionNotFound and those of
// ledger.DecideRollback. Idempotent by (budget, request id, rollback id).
type Returns interface {
	// Rollback moves units S -> R on the deduction's own epoch row (I5). replayed: done before.
	Rollback(ctx context.Context, order RollbackOrder) (d ledger.Deduction, replayed bool, err error)
	// Cancel rolls back what is left of a deduction, or leaves a tombstone so that a late deduct of
	// the id never takes effect. Repeating it answers the same.
	Cancel(ctx context.Context, budgetID int64, requestID string) (ledger.Deduction, error)
	// Sweep moves all R of a budget to U, or, of older periods, to where the rule says. What came back late
	// stays while the roll-over is due: which refunds are late is known by then. moved is in minor units.
	Sweep(ctx context.Context, budgetID int64) (moved int64, err error)
}

// Want is what a bucket applies for.
type Want struct {
	Ref Ref
	// Need is the least that helps; Units what is asked for: at least Need. At most the budget's
	// sharding_quantity is granted, or Units where Unbounded.
	Need, Units int64
	// Unbounded lifts sharding_quantity and adjust_cnt: a collect.
	Unbounded bool
}

// Handout is what must now be sent to stores.
type Handout struct {
	Opened []Bucket
	Grants []PendingGrant
}

// Transfers moves units between total and buckets, each in one transaction under the budget's and
// the epoch's row locks (the per-bucket global lock), in that order. Errors as Ledger. A transfer
// that its numbers or statuses do not allow any more changes nothing and says so by its result.
type Transfers interface {
	// Apply grants U to an open epoch: O += n, grant row, out_cnt += 1; n is at most U less the pending
	// shrinks. nil when there is nothing to grant, the epoch is not open or fenced, adjust_cnt is
	// used up, or less than Need could be granted.
	Apply(ctx context.Context, budgetID int64, want Want) (*GrantOrder, error)
	// HandOut spreads U, less the pending shrinks, over all buckets that are online with an open epoch
	// of their lane's activation or were taken offline by the service (they get a new epoch): evenly, remainders to the first.
	// Buckets on the lanes named are left out: units there would be out of reach.
	HandOut(ctx context.Context, budgetID int64, without ...Lane) (Handout, error)
	// Reopen gives a bucket whose newest epoch is closed or lost a new epoch in status opening, under
	// its lane's present activation, and brings it online. Opened is empty when there is nothing to do.
	Reopen(ctx context.Context, budgetID, bucketID int64) (Handout, error)
	// MarkOpen moves epochs opening -> open once their stores have them, and those of a period that a roll-over
	// has ended opening -> closing.
	MarkOpen(ctx context.Context, refs []Ref) error
	// Ending moves an epoch open -> closing and takes the bucket out of the bucket list, or leaves
	// it there where keep is set (it is about to get a new epoch). Errors: LastBucket when it is the only online bucket
	// of an effective budget and keep is not set. false when the epoch is not open; an operator's claim
	// on a bucket that the service took offline is noted all the same, and so is that on one which is online and whose
	// epoch is closing or has ended.
	Ending(ctx context.Context, budgetID int64, ref Ref, by OfflineBy, keep bool) (bool, error)
	// CloseEpoch ends a closing epoch by its close entry (ledger.CloseAmount): O moves to U, or,
	// where target is set and still open, into a grant of it: target.AtMost of it, and the rest to U. The result is
	// that grant, or nil. The target's lane is not looked at.
	CloseEpoch(ctx context.Context, budgetID int64, ref Ref, close ledger.Entry, target *Target) (*GrantOrder, error)
	// Fence stops an epoch and notes why.
	Fence(ctx context.Context, ref Ref, why string) error
	// Lose ends an epoch of a lane that lost its memory, or a fenced one whose rows agree: nothing of
	// it can be committed any more; U += O. false when it had ended already.
	Lose(ctx context.Context, ref Ref) (bool, error)
	// LoseAll is Lose for many epochs, of several budgets, in one transaction. It returns those that had
	// not ended already, in the order of (bucket, epoch).
	LoseAll(ctx context.Context, refs []Ref) (lost []Ref, err error)
	// Settle gives every bucket of some budgets that is in the bucket list, but whose epoch has ended, a
	// new one, and spreads U as HandOut does, over those too. One transaction; buckets on the lanes
	// named are left as they are. A budget that does not exist is left out.
	Settle(ctx context.Context, budgetIDs []int64, without ...Lane) (Handout, error)
}

// Adjustment is an append or a shrink.
type Adjustment struct {
	Budget    int64
	RequestID string
	// Nonce is 8 random bytes of the call that makes it, by which that call knows it again after an attempt
	// whose outcome it did not hear; "": of no call.
	Nonce string
	// Quantity is positive for an append, negative for a shrink.
	Quantity int64
	// Deadline ends a pending shrink.
	Deadline time.Time
	// Continue goes on with a pending shrink and begins nothing: one that was refused meanwhile stays so.
	// For whoever finds it half done: its caller may have heard of the refusal.
	Continue bool
}

// Began reports whether an adjustment that was begun with a nonce was begun by this call.
func (a *Adjustment) Began(nonce string) bool { return a.Nonce != "" && a.Nonce == nonce }

// AdjustmentState is where an adjustment stands.
type AdjustmentState string

// The states of an adjustment.
const (
	AdjustmentPending AdjustmentState = "pending"
	AdjustmentDone    AdjustmentState = "done"
	AdjustmentRefused AdjustmentState = "refused"
)

// Adjustments changes totals.
type Adjustments interface {
	// Adjust begins or continues an adjustment. An append is done at once: T and U grow. A shrink is
	// done once U covers it, and pending until then: pending shrinks are kept from Apply and HandOut.
	// It is refused, with the figure, when U + ΣO + ΣR is below it or its deadline has passed; a
	// refused id may be used again, by an order that is not to Continue: that one is answered
	// AdjustmentRefused, without an error. A repetition answers the state; replayed is true when it was done
	// before and another call had begun it (Began). Errors: RequestConflict for another quantity under the id, Invalid for a total above
	// MaxAmount or below 1, AmountExceedsRemaining.
	Adjust(ctx context.Context, adjustment Adjustment) (state AdjustmentState, replayed bool, err error)
}

// LaneRow is what SQL knows of a lane.
type LaneRow struct {
	Lane       Lane
	Identity   string
	Activation int64
	// Draining says that its buckets move to other lanes and no epoch begins on it.
	Draining bool
	// ReachedMS is when a node last noted that it reached the lane, ms since 1970; 0: never. Two equal
	// figures say that nobody noted it in between.
	ReachedMS int64
}

// Lanes keeps the activations.
type Lanes interface {
	// Lane reads the row of a lane; it is made with activation 1 and this identity when it is missing.
	Lane(ctx context.Context, lane Lane, identity string) (LaneRow, error)
	// NextActivation moves a lane from one activation to the next and notes its identity, unless
	// somebody else already did (compare-and-set on from). It returns the row as it is then.
	NextActivation(ctx context.Context, lane Lane, from int64, identity string) (LaneRow, error)
	// Reached notes in one statement that a node has just reached these lanes: ReachedMS becomes SQL's
	// time, and grows by 1 at least. A lane without a row is left out.
	Reached(ctx context.Context, lanes []Lane) error
	// LaneRows reads the rows of lanes; a lane that has none is missing.
	LaneRows(ctx context.Context, lanes []Lane) (map[Lane]LaneRow, error)
	// DeclareDown moves a lane to its next activation under the same identity, unless it was reached
	// or moved since `seen` was read (compare-and-set on both). declared: this call moved it; row is
	// as it is then. Errors: InstanceNotFound for a lane without a row.
	DeclareDown(ctx context.Context, seen LaneRow) (row LaneRow, declared bool, err error)
	// Stale lists at most limit live epochs of ledger-mode budgets on a lane whose activation is older
	// than this one, by bucket, but for fenced ones: those are lost one by one when their books were looked at. Those in
	// store mode: Quarantines.Unsettled.
	Stale(ctx context.Context, lane Lane, activation int64, limit int) ([]EpochOf, error)
}

// EpochOf is an epoch with its budget and where it lives.
type EpochOf struct {
	Budget int64
	Lane   Lane
	Row    ledger.Epoch
}

// PendingGrant is a grant that no log has shown as arrived.
type PendingGrant struct {
	Lane  Lane
	Order GrantOrder
}

// Unfinished is work that somebody began; any node finishes it from its status.
type Unfinished struct {
	// Epochs are opening or closing, and not fenced.
	Epochs []EpochOf
	// Grants are pending, of opening and open epochs that are not fenced, in the order of their numbers.
	Grants []PendingGrant
	// Returning lists budgets with R above 0.
	Returning []int64
	// Shrinks are pending.
	Shrinks []Adjustment
	// Fenced epochs are live and fenced.
	Fenced []EpochOf
	// Offline lists budgets for Settle: with a bucket in the list whose newest epoch has ended, or with
	// such a one or no online bucket at all, U above 0 and a bucket that could take it: online with a
	// live epoch, or taken offline by the service.
	Offline []int64
	// Runs are open collects, the oldest first; Recycles open recycles, the one that nobody has gone on
	// with for longest first.
	Runs, Recycles []OpenRun
	// Resizes lists budgets that are being brought to another number of buckets.
	Resizes []int64
}

// OpenRun is a run that nobody has ended yet.
type OpenRun struct {
	Budget, Number int64
	// Since is when it began, or, of a recycle, when somebody last went on with it. By SQL's clock.
	Since time.Time
	// At is the bucket that the holder of a recycle works on, the zero value when all are behind it.
	At Planned
}

// Chores finds what is left to do.
type Chores interface {
	// Unfinished reads at most limit elements of each kind. Epochs, grants and buckets on the lanes named
	// are left out: nobody can go on with them now, and they must not hide the others.
	Unfinished(ctx context.Context, limit int, without ...Lane) (Unfinished, error)
	// UnfinishedOf reads the opening and closing epochs and pending grants of one budget.
	UnfinishedOf(ctx context.Context, budgetID int64) (Unfinished, error)
	// Live lists at most limit open and closing epochs of a lane after (bucket, epoch), in that order.
	Live(ctx context.Context, lane Lane, after Ref, limit int) ([]EpochOf, error)
	// Now is SQL's clock.
	Now() time.Time
}

// Run is a collect of a budget: bringing fragments to one target (DESIGN 5.8).
type Run struct {
	Budget int64
	// Number counts the runs of the budget from 1.
	Number int64
	Target Ref
	// Units is what the target is to hold.
	Units int64
}

// Runs keeps one run per budget at a time, across all nodes.
type Runs interface {
	// BeginRun starts a run unless one is going on, and returns the one that goes on.
	BeginRun(ctx context.Context, run Run) (Run, error)
	// EndRun ends a run, with what it moved; ending it twice is harmless.
	EndRun(ctx context.Context, budgetID, number int64, moved int64) error
}

// Accounts is the audit's view of a budget: one snapshot.
type Accounts struct {
	Figures ledger.Figures
	// Adjusted is the sum of the adjustments, creation included; Shrinks that of the shrinks that wait,
	// positive.
	Adjusted, Shrinks int64
	Epochs            []ledger.EpochFigures
	// Current is the open or last period, Periods all of them.
	Current budget.Period
	Periods []ledger.PeriodFigures
}

// Check returns each disagreement of columns with rows and entries (I1).
func (a *Accounts) Check() []ledger.Discrepancy {
	found := append(ledger.Check(a.Figures, a.Adjusted, a.Epochs), ledger.CheckShrinks(a.Figures, a.Shrinks)...)
	return append(found, ledger.CheckPeriods(a.Figures, a.Current, a.Periods, a.Epochs)...)
}

// Span is a part of an epoch's log and of its grants: after From up to Seq, after FromGrant up to
// GrantSeq. Only bucket and epoch of Ref are looked at.
type Span struct {
	Ref                 Ref
	From, Seq           int64
	FromGrant, GrantSeq int64
}

// Part is a stretch of one epoch's ledger rows: those after From up to UpTo. With End, the epoch's columns and the
// sums over all of it are read too. Only bucket and epoch of Ref are looked at.
type Part struct {
	Ref        Ref
	From, UpTo int64
	End        bool
}

// Recounted is what the rows of a part add up to. What does not change once it is in the ledger
// (amounts) may be added over parts that were read at different moments.
type Recounted struct {
	// Figures has Deducted, Duplicates and Noted of the part; with Part.End, Row, Closed,
	// Swept, and Granted, RolledBack and Held of the whole epoch too, all as of one moment.
	Figures ledger.EpochFigures
	// Returned is what the rollbacks and the ends of holds of the part's deductions gave back: must equal Noted.
	Returned int64
}

// Book is a budget's columns beside its adjustments, from one snapshot.
type Book struct {
	Budget       int64
	Tenant, Name string
	Durability   budget.Durability
	Unlimited    bool
	Figures      ledger.Figures
	// Adjusted and Shrinks are as in Accounts.
	Adjusted, Shrinks int64
}

// Audits reads figures for view and audit.
type Audits interface {
	// Figures reads a budget's figures from one snapshot; the columns only, so it is cheap.
	Figures(ctx context.Context, budgetID int64) (ledger.Figures, error)
	// Accounts reads columns, rows and entries from one snapshot.
	Accounts(ctx context.Context, budgetID int64) (Accounts, error)
	// Prefix sums what the ledger holds of an epoch up to a log position: grants with numbers up to
	// grantSeq, and entries.
	Prefix(ctx context.Context, ref Ref, seq, grantSeq int64) (granted, deducted int64, err error)
	// Spans reads epochs beside what their rows add up to, each as of one moment. It costs as much as
	// there are rows after each From. An epoch that does not exist is missing.
	Spans(ctx context.Context, spans []Span) (map[Ref]ledger.SpanFigures, error)
	// Recount adds up the rows of a part as of one moment. found is false where the epoch does not exist.
	Recount(ctx context.Context, part Part) (r Recounted, found bool, err error)
	// EpochsAfter lists at most limit epochs of all budgets after (bucket, epoch), in that order, those
	// that have ended too.
	EpochsAfter(ctx context.Context, after Ref, limit int) ([]EpochOf, error)
	// Books reads at most limit budgets after an id, in that order, each as of one moment.
	Books(ctx context.Context, after int64, limit int) ([]Book, error)
	// Stranded sums O of the buckets' newest epochs that are fenced or live on one of the lanes named, without
	// those of unlimited budgets.
	Stranded(ctx context.Context, lanes []Lane) (units int64, err error)
}

// SQL is everything the service needs of the database.
type SQL interface {
	Definitions
	Periods
	Ledger
	Returns
	Transfers
	Adjustments
	Lanes
	Chores
	Runs
	Recycles
	Audits
	Feed
	Archive
	Quarantines
	Samples
	Departures
	Resizes
	Limits
	Holds
}
