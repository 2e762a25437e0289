package deduct

import (
	"context"
	"time"

	"github.com/budgetd/budgetd/bucket"
	"github.com/budgetd/budgetd/bucket/batch"
	"github.com/budgetd/budgetd/budget"
	"github.com/budgetd/budgetd/ledger"
	"github.com/budgetd/budgetd/limit"
)

// Decider decides all operations that wait for one home: SQL, or a partition of a store.
// Implementations are safe for concurrent use.
type Decider interface {
	// Decide deducts, bounds its own time, and hands every operation back (Op.Back). It takes an
	// operation with Op.Claim before it may be deducted, and clears Op.Unsure when it knows what
	// became of earlier attempts.
	Decide(ops []*Op)
	// Find reads the rows or records of the operations' ids. It bounds its time and hands every
	// operation back.
	Find(ops []*Op)
	// Predict sets Verdict to what Decide would find for each operation if it came alone, with the
	// limits of the answer as they are and Exceeded, or Err. It changes nothing. Short means that the
	// sum of the budget decides; then SQL has all that stores deducted before since.
	Predict(ctx context.Context, ops []*Op, since time.Time)
}

// Home is what differs between SQL and stores around a decision. Implementations are safe for
// concurrent use.
type Home interface {
	// Count sets what an operation counts against limits. Error: Invalid.
	Count(o *Op, now time.Time) error
	// Next returns the queue in which an operation waits next, or nil if it must be supplied with
	// units first. An error refuses the operation.
	Next(o *Op, now time.Time) (*batch.Queue[*Op], error)
	// Gate returns the queues of the home of an operation's bucket. Error: Unavailable.
	Gate(o *Op) (*Gate, error)
	// Supply finds units for operations of a budget, and hands them back.
	Supply(budgetID int64, ops []*Op)
	// RollOver rolls a budget over if that is due by SQL's clock; otherwise it does nothing. Error:
	// Unavailable.
	RollOver(ctx context.Context, budgetID int64) error
	// Learn notes what an accepted operation, or one that a limit refused, says about its bucket and
	// limits. It returns the limits after an accepted operation, or those that refused.
	Learn(o *Op, now time.Time) []budget.LimitState
}

// Gate is a Decider with the queues before it.
type Gate struct {
	Decider
	decides, finds *batch.Queue[*Op]
}

// Queue returns the queue of operations to be decided.
func (g *Gate) Queue() *batch.Queue[*Op] { return g.decides }

// NewGate returns the queues before a decider. c is that of decisions, without its functions for
// operations; found bounds the ids of one Find.
func NewGate(d Decider, c batch.Config[*Op], found int) *Gate {
	c.Refuse, c.Owner = (*Op).Overload, (*Op).Owner
	finds := batch.Config[*Op]{Run: d.Find, Refuse: c.Refuse, Owner: c.Owner, Size: found,
		Bound: c.Bound}
	c.Run = d.Decide
	return &Gate{Decider: d, decides: batch.New(c), finds: batch.New(finds)}
}

// MaxFlightBuckets bounds the buckets of one flight, and so the epochs that it locks.
const MaxFlightBuckets = 512

// Ledger writes deductions. An error is about the whole call. Unavailable means that nothing was
// written. After OutcomeUnknown, passing the same operations again returns what the first call did.
// Implementations are safe for concurrent use.
type Ledger interface {
	// Commit writes a flight: operations of any budgets in at most MaxFlightBuckets buckets. It
	// evaluates them in order and returns their outcomes in the same order. The legs of a set follow
	// each other; all are accepted or none. If several operations
	// have the same id, the first one that is accepted makes the others Known. An operation whose
	// own row (the same nonce) exists already is Known too; the caller compares nonces.
	Commit(ctx context.Context, operations []bucket.Operation) ([]bucket.Outcome, error)
	// Bring commits operations that wait because their own buckets lack units, all those of a budget
	// in one bucket, into which it brings units of the total and of other buckets, in one transaction
	// for all of their budgets. It locks everything that the open periods may get, so an operation
	// that does not fit is Exhausted (I3). recent is what a usual deduction of each budget takes, 0 if
	// that is unknown: near the end of a budget, one bucket gets everything.
	Bring(ctx context.Context, recent map[int64]int64, operations []bucket.Operation) (
		[]bucket.Outcome, error)
}

// Lookup reads the ledger, without locks unless stated otherwise. Each method is one statement, or
// one per thousand ids. Implementations are safe for concurrent use. Error: Unavailable.
type Lookup interface {
	// Recorded returns the rows of request ids. Ids without a row are omitted.
	Recorded(ctx context.Context, ids []bucket.ID) (map[bucket.ID]ledger.Deduction, error)
	// Balances returns O of the newest epochs of buckets, in minor units, and I3's sums of
	// budgets, for answers. What does not exist is omitted.
	Balances(ctx context.Context, buckets, budgets []int64) (
		map[int64]int64, map[int64]ledger.Availability, error)
	// Availability returns I3's sums, for answers. exact is a locking read, which answers do not need.
	// Budgets that do not exist are omitted.
	Availability(ctx context.Context, budgets []int64, exact bool) (
		map[int64]ledger.Availability, error)
	// LookTwice returns I3's sums, the larger of two looks, the second of which locks and so sees
	// every commit acknowledged before it began; and the rows of ids, read after that. Budgets that
	// do not exist are omitted.
	LookTwice(ctx context.Context, budgets []int64, ids []bucket.ID) (
		map[int64]ledger.Availability, map[bucket.ID]ledger.Deduction, error)
	// Usages returns the present usage of the limits of charges, one list per element and one usage
	// per charge.
	Usages(ctx context.Context, asked []bucket.Charged) ([][]*limit.Usage, error)
}

// Returner gives units of deductions back, and looks deductions up.
type Returner interface {
	Rollback(ctx context.Context, request bucket.RollbackRequest) (bucket.DeductionView, error)
	// Cancel and Deduction use Budget, RequestID, Key and Receipt of a request.
	Cancel(ctx context.Context, request bucket.RollbackRequest) (bucket.DeductionView, error)
	Deduction(ctx context.Context, request bucket.RollbackRequest) (bucket.DeductionView, error)
}

// Rollover ends the period of a budget that is over and begins the next one.
type Rollover interface {
	// RollOver rolls a budget over if that is due by SQL's clock; otherwise it does nothing. Error:
	// Unavailable.
	RollOver(ctx context.Context, budgetID int64) error
}

// Refills learns which budgets are used and refills their buckets. transfer.Service implements it.
type Refills interface {
	// Used records that this node deducted from a budget. It returns at once.
	Used(budgetID int64)
}
