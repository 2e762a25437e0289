package memstore

import (
	"context"
	"sync"
	"time"

	"github.com/budgetd/budgetd/bucket"
	"github.com/budgetd/budgetd/budget"
	"github.com/budgetd/budgetd/ledger"
	"github.com/budgetd/budgetd/limit"
)

var _ bucket.SQL = (*SQL)(nil)

// SQL is the database as a model: the tables of schema.sql as Go values, every method one serial
// transaction under one mutex, every decision made by package ledger. It is what the real databases
// are compared with, so it is written to be read. Nothing is persisted. Safe for concurrent use.
type SQL struct {
	// Hook, when set, is called twice for every method, by its name: before, where an error means
	// that nothing was done, and after, where it means that it was done and the caller does not hear
	// so. A *budget.Error is passed on as it is, any other error becomes Unavailable before and
	// OutcomeUnknown after. It is called without any lock. Set it before the first call.
	Hook func(method string, before bool) error
	// Unchecked leaves out the check of I1 after every write. Set it before the first call.
	Unchecked bool
	// Watch, when set, is told of a budget's columns after every write, within the transaction: it must
	// not call the database. Set it before the first call.
	Watch func(*Columns)

	clock func() time.Time

	mu      sync.Mutex
	budgets []*sqlBudget // by id − 1
	buckets []*sqlBucket // by id − 1
	byName  map[sqlName]*sqlBudget
	lanes   map[bucket.Lane]*bucket.LaneRow
	uses    []*sqlUse
	samples []bucket.Sample // by (budget, instant)
	left    []*sqlDeparture // by lane and bucket
}

type sqlName struct{ tenant, name string }

// sqlBudget is a row of budget_management_bucket with all rows that belong to the budget.
type sqlBudget struct {
	definition    budget.Definition
	createdAs     budget.Definition
	createdRule   string
	createdLimits string
	undistributed int64
	unfunded      int64
	forfeited     int64
	period        budget.Period           // without what it got
	rollOver      time.Time               // when one is due; zero: never
	periods       []*ledger.PeriodFigures // by number − 1
	pendingShrink int64
	quarantined   int64
	listVersion   int64
	nextRun       int64
	resize        int // the number of buckets that it is being brought to; 0: none

	buckets     []*sqlBucket // by ordinal
	adjustments map[string]*sqlAdjustment
	deductions  map[string]*ledger.Deduction
	voids       []string // request ids for which CancelKnown made a tombstone, in order
	rollbacks   map[sqlRollback]*ledger.Rollback
	holds       map[string]*ledger.Deduction // that are held, by request id
	holdEnds    map[string]*ledger.HoldEnd   // by request id
	groups      map[string]ledger.GroupState
	limits      *limit.Set
	values      map[dimensionValue][]*carrier
	fresh       []feedRow   // that Watch has not been told of
	run         *bucket.Run // the open one
	runSince    time.Time
	recycles    []*bucket.Recycle // by number
	quarantines []*sqlQuarantine
	releases    []sqlRelease
}

type sqlRollback struct{ requestID, rollbackID string }

type sqlAdjustment struct {
	bucket.Adjustment
	state bucket.AdjustmentState
}

// sqlBucket is a row of sharding_budget_management_bucket.
type sqlBucket struct {
	bucket.Bucket // without its Epoch: see newest
	budget        *sqlBudget
	epochs        []*sqlEpoch // by number − 1
	feed          []feedRow   // by entry − 1
	archived      int64       // the last entry that is no longer in the feed
	archiving     int64       // entries up to this one are being archived
}

// sqlEpoch is a row of bucket_epoch with its grants and what was drained.
type sqlEpoch struct {
	ledger.Epoch
	bucket       *sqlBucket
	closed       int64
	acknowledged int64
	grants       []sqlGrant                  // by number − 1
	deductions   map[int64]*ledger.Deduction // by seq
	duplicates   map[int64]ledger.Duplicate  // by seq
	// sums are those of the rows, counted as they are inserted and never from the columns.
	sums ledger.EpochFigures
}

type grantStatus string

const (
	grantPending grantStatus = "pending"
	grantApplied grantStatus = "applied"
	grantVoid    grantStatus = "void"
)

type sqlGrant struct {
	amount int64
	status grantStatus
}

// NewSQL returns an empty database whose clock is the one given.
func NewSQL(clock func() time.Time) *SQL {
	return &SQL{
		clock:  clock,
		byName: map[sqlName]*sqlBudget{},
		lanes:  map[bucket.Lane]*bucket.LaneRow{},
	}
}

// Now is the clock, in whole milliseconds as the tables keep it.
func (s *SQL) Now() time.Time { return toMillisecond(s.clock()) }

// toMillisecond rounds down to what a *_ms column holds.
func toMillisecond(t time.Time) time.Time {
	if t.IsZero() {
		return time.Time{}
	}
	return time.UnixMilli(t.UnixMilli()).UTC()
}

// toStart is toMillisecond for a start: the very beginning of 1970 is stored as 0, no start.
func toStart(t time.Time) time.Time {
	if t.UnixMilli() == 0 {
		return time.Time{}
	}
	return toMillisecond(t)
}

// toEnd is toMillisecond for an exclusive end: one at the very beginning of 1970 is kept a
// millisecond later, because 0 stands for none.
func toEnd(t time.Time) time.Time {
	if t.UnixMilli() == 0 {
		return time.UnixMilli(1).UTC()
	}
	return toMillisecond(t)
}

// transact runs one method: the hook, the transaction under the mutex, the hook again.
func transact[T any](ctx context.Context, s *SQL, method string,
	transaction func(now time.Time) (T, error)) (T, error) {
	var none T
	if err := ctx.Err(); err != nil {
		return none, &budget.Error{Code: budget.Unavailable, Op: method, Err: err}
	}
	if err := s.fault(method, true, budget.Unavailable); err != nil {
		return none, err
	}
	result, err := func() (T, error) {
		s.mu.Lock()
		defer s.mu.Unlock()
		return transaction(s.Now())
	}()
	if fault := s.fault(method, false, budget.OutcomeUnknown); fault != nil {
		return none, fault
	}
	return result, err
}

// fault asks the hook.
func (s *SQL) fault(method string, before bool, code budget.Code) error {
	if s.Hook == nil {
		return nil
	}
	err := s.Hook(method, before)
	if err == nil || budget.CodeOf(err) != budget.Internal {
		return err
	}
	return &budget.Error{Code: code, Op: method, Err: err}
}

// find returns a budget by its id.
func (s *SQL) find(id int64) (*sqlBudget, error) {
	if id < 1 || id > int64(len(s.budgets)) {
		return nil, budget.Refuse(budget.BudgetNotFound, "read", "there is no budget %d", id)
	}
	return s.budgets[id-1], nil
}

// epoch returns the row that a reference names, nil when there is none.
func (s *SQL) epoch(ref bucket.Ref) *sqlEpoch {
	if ref.Bucket < 1 || ref.Bucket > int64(len(s.buckets)) {
		return nil
	}
	epochs := s.buckets[ref.Bucket-1].epochs
	if ref.Epoch < 1 || ref.Epoch > int64(len(epochs)) {
		return nil
	}
	return epochs[ref.Epoch-1]
}

// newest returns the bucket's newest epoch; every bucket has one.
func (b *sqlBucket) newest() *sqlEpoch { return b.epochs[len(b.epochs)-1] }

// view returns the bucket as a reader sees it.
func (b *sqlBucket) view() bucket.Bucket {
	v := b.Bucket
	v.Epoch = b.newest().Epoch
	return v
}

// of returns the epoch with its budget and lane.
func (e *sqlEpoch) of() bucket.EpochOf {
	return bucket.EpochOf{Budget: e.Budget, Lane: e.bucket.Lane, Row: e.Epoch}
}

func (e *sqlEpoch) ref() bucket.Ref {
	return bucket.Ref{Bucket: e.Bucket, Epoch: e.Number, Activation: e.Activation}
}
