package deduct

import (
	"context"
	crand "crypto/rand"
	"time"

	"go.opentelemetry.io/otel/trace"

	"github.com/budgetd/budgetd/bucket"
	"github.com/budgetd/budgetd/bucket/batch"
	"github.com/budgetd/budgetd/budget"
)

// Settings bound the service. A zero field means its default, which is given after the semicolon.
type Settings struct {
	// Deadline is how long a request may wait for units and stores; 2 s. Grace is how much longer it
	// waits for an attempt that may have deducted; 1 s.
	Deadline, Grace time.Duration
	// StepTime bounds one transaction and one read; 5 s.
	StepTime time.Duration
	// Queue bounds the requests that wait for a flight or one kind of read; 20,000.
	Queue int
	// FlightRows bounds the deductions of one flight; 512.
	FlightRows int
	// Workers is the number of budgets that units are sought for concurrently, in SQL and in stores
	// each; 8.
	Workers int
}

func (s Settings) withDefaults() Settings {
	Default(&s.Deadline, 2*time.Second)
	Default(&s.Grace, time.Second)
	Default(&s.StepTime, 5*time.Second)
	Default(&s.Queue, 20_000)
	Default(&s.FlightRows, 512)
	Default(&s.Workers, 8)
	return s
}

// Default sets a setting that is not positive.
func Default[T int | time.Duration](setting *T, value T) {
	if *setting <= 0 {
		*setting = value
	}
}

// Config configures a Service.
type Config struct {
	Budgets  *bucket.Budgets
	Ledger   Ledger
	Lookup   Lookup
	Rollover Rollover
	// Returns gives back what was deducted in SQL.
	Returns Returner
	// Stores is the home of budgets in store mode. It is nil on a node without stores.
	Stores interface {
		Home
		Returner
	}
	// States is what the node caches about budgets. Stores must have the same; nil means a new one.
	States *States
	// Refills is notified of accepted deductions in SQL. It may be nil.
	Refills Refills
	// Clock measures waits; nil means the system clock. Now returns SQL's time as this node knows it.
	Clock bucket.Clock
	Now   func() time.Time
	// Rand fills a slice with random bytes; nil means crypto/rand.
	Rand     func([]byte)
	Observer bucket.Calls
	// Away returns the time of a round trip to the database without its work; nil means 0.
	Away func() time.Duration
	// Tracer starts the spans of flights. If it is nil, flights have no spans.
	Tracer   trace.Tracer
	Settings Settings
}

// Service deducts from budgets. It runs no goroutines while it has no requests. It is safe for
// concurrent use.
type Service struct {
	budgets  *bucket.Budgets
	states   *States
	clock    bucket.Clock
	sqlNow   func() time.Time
	rand     func([]byte)
	observer bucket.Calls
	tracer   trace.Tracer
	set      Settings

	watch        *batch.Watch
	figures      *batch.Queue[*Op] // reads sums for answers
	legs         *batch.Queue[*Op] // reads the rows of legs
	sql          *sqlHome
	inSQL, store way
}

// way is how operations reach the homes of one kind: SQL, or the partitions of stores.
type way struct {
	Home
	returns Returner
	// store says that partitions of stores decide, and that SQL follows them.
	store bool
	// sums is where an operation that lacks units waits first, unless it is nil.
	sums *batch.Queue[*Op]
	// supplies has operations that lack units, rollovers those of a period that is over.
	supplies, rollovers *batch.Group[*Op]
}

// suppliedOperations bounds the deductions of one supply.
const suppliedOperations = 512

// sweep is the interval at which the deadlines of waiting requests are checked.
const sweep = 10 * time.Millisecond

// New returns a service. It does not contact the database.
func New(c Config) (*Service, error) {
	s := &Service{budgets: c.Budgets, states: c.States, clock: c.Clock, sqlNow: c.Now, rand: c.Rand,
		observer: c.Observer, tracer: c.Tracer, set: c.Settings.withDefaults(),
		watch: batch.NewWatch(sweep)}
	if s.states == nil {
		s.states = NewStates(0)
	}
	if s.clock == nil {
		s.clock = bucket.SystemClock{}
	}
	if s.sqlNow == nil {
		s.sqlNow = s.clock.Now
	}
	if s.rand == nil {
		s.rand = func(b []byte) { _, _ = crand.Read(b) } // it never fails
	}
	if s.observer == nil {
		s.observer = noCalls{}
	}
	var err error
	if s.sql, err = newSQLHome(s, &c); err != nil {
		return nil, err
	}
	s.figures = s.queue(s.sql.readFigures)
	s.legs = s.queue(s.sql.readLegs)
	s.inSQL = s.newWay(s.sql, c.Returns)
	s.inSQL.sums = s.queue(s.sql.readSums)
	if c.Stores != nil {
		s.store = s.newWay(c.Stores, c.Stores)
	}
	s.store.store = true
	return s, nil
}

func (s *Service) newWay(h Home, returns Returner) way {
	w := way{Home: h, returns: returns}
	group := func(run func(int64, []*Op), size int) *batch.Group[*Op] {
		return batch.NewGroup(batch.GroupConfig[*Op]{Run: run, Refuse: (*Op).Overload, Size: size,
			Bound: s.set.Queue, Workers: s.set.Workers})
	}
	w.supplies = group(h.Supply, suppliedOperations)
	w.rollovers = group(func(budgetID int64, ops []*Op) { s.rollOver(h, budgetID, ops) }, s.set.Queue)
	return w
}

// queue returns the queue of one kind of read. One statement runs at a time and serves every
// operation that waited when it began.
func (s *Service) queue(run func([]*Op)) *batch.Queue[*Op] {
	return batch.New(batch.Config[*Op]{Run: run, Refuse: (*Op).Overload, Owner: (*Op).Owner,
		Size: readSize, Bound: s.set.Queue})
}

// wayOf returns the way to the homes of a budget's buckets.
func (s *Service) wayOf(b *bucket.Budget) *way {
	if b.InStoreMode() {
		return &s.store
	}
	return &s.inSQL
}

// rollOver rolls over the period of a budget for the operations that found it over.
func (s *Service) rollOver(h Home, budgetID int64, ops []*Op) {
	ctx, cancel := s.bounded()
	defer cancel()
	step := StepSupplied
	err := h.RollOver(ctx, budgetID)
	if err != nil {
		s.failed("sql", err)
		step = StepFailed
	}
	for _, o := range ops {
		o.Step, o.Err = step, err
		o.Back(true)
	}
}

// bounded returns the context of one step. A step serves many requests, so the context does not
// descend from that of any one of them.
func (s *Service) bounded() (context.Context, context.CancelFunc) {
	return context.WithTimeout(context.Background(), s.set.StepTime)
}

// failed reports a failed call to the observer.
func (s *Service) failed(where string, err error) {
	s.observer.Failed(where, budget.CodeOf(err))
}

type noCalls struct{}

func (noCalls) PartitionCall(context.Context, bucket.Partition, int, time.Duration) {}
func (noCalls) Commit(context.Context, int, time.Duration)                          {}
func (noCalls) Failed(string, budget.Code)                                          {}

// Deduct takes units from a budget for a request id. It does so at most once, whichever node or
// bucket the request is repeated through (I4); in store mode, within the record window and while
// the store keeps its memory. It returns after the row of the deduction is committed (I7), or after
// the script of the bucket's store. Repeating an accepted id returns the recorded outcome with
// Replayed set, even after the budget was sold out, paused or over.
//
// Errors:
//   - Invalid: the hold or group is malformed, or a limit's dimension is missing.
//   - LedgerModeOnly: a hold or a group in store mode.
//   - BudgetNotFound.
//   - RequestConflict: the id was used with another payload. RequestVoid: the id was cancelled.
//   - BudgetExpired, BudgetPaused, BudgetNotEffective.
//   - LimitExceeded: lists every limit that the deduction would exceed.
//   - GroupClosed.
//   - BudgetExhausted, PeriodExhausted: what the period may still get is below the amount (I3). The
//     error states what is available.
//   - Unavailable: nothing happened. The error states the reason.
//   - OutcomeUnknown: the caller must repeat the same id.
//
// A refusal changes nothing (I6). Deduct is safe for concurrent use.
func (s *Service) Deduct(ctx context.Context, request bucket.DeductRequest) (
	bucket.DeductAnswer, error) {
	one := new(struct {
		call    call
		request [1]bucket.DeductRequest
		result  [1]bucket.DeductResult
		op      [1]Op
	})
	one.request[0] = request
	one.call.ops = one.op[:]
	one.call.serve(ctx, s, one.request[:], one.result[:])
	return one.result[0].Answer, one.result[0].Err
}

// DeductAll makes independent deductions in one call and returns their results in the order of the
// requests. Requests with the same id run one after the other, in the order given. All others run
// concurrently and share transactions and calls of stores. Errors, persistence and idempotency are
// those of Deduct for each request. DeductAll is safe for concurrent use.
func (s *Service) DeductAll(ctx context.Context, requests []bucket.DeductRequest) (
	results []bucket.DeductResult) {
	c := &call{ops: make([]Op, len(requests))}
	results = make([]bucket.DeductResult, len(requests))
	c.serve(ctx, s, requests, results)
	return results
}

// Rollback gives units of a deduction back to the budget, whatever became of its bucket (I5), and
// never more than was deducted; in store mode, within the record window. Repeating a rollback id
// replays its result; without an id, the request rolls back the whole deduction. In store mode ids
// are unique per routing key, so the request must contain the key or the receipt.
//
// Errors:
//   - BudgetNotFound.
//   - Invalid, Forbidden: in store mode, neither key nor receipt names the bucket, or the caller
//     may give back only its own deductions.
//   - DeductionNotFound: not final, because the deduction may still be in progress. Cancel makes
//     it so.
//   - RequestVoid, RequestConflict, AlreadyRolledBack, AmountExceedsRemaining.
//   - Unavailable: nothing happened.
//   - OutcomeUnknown: the caller must repeat the same rollback id, unless the message says that the
//     id is older than the record window.
func (s *Service) Rollback(ctx context.Context, r bucket.RollbackRequest) (
	bucket.DeductionView, error) {
	to, err := s.returner(ctx, "rollback", &r)
	if err != nil {
		return bucket.DeductionView{}, err
	}
	return to.Rollback(ctx, r)
}

// Cancel makes certain that a request id has no effect. It gives back what is left of its
// deduction. If there is no deduction, it writes a tombstone, which refuses one that arrives later.
// Repeating it returns the same answer. Errors: BudgetNotFound, Invalid, Forbidden, Unavailable,
// OutcomeUnknown.
func (s *Service) Cancel(ctx context.Context, r bucket.RollbackRequest) (
	bucket.DeductionView, error) {
	to, err := s.returner(ctx, "cancel", &r)
	if err != nil {
		return bucket.DeductionView{}, err
	}
	return to.Cancel(ctx, r)
}

// Deduction reads the deduction of a request id; in store mode, within the record window. Errors:
// BudgetNotFound; Invalid; DeductionNotFound (not final while the deduction is in progress);
// OutcomeUnknown if a record may have been lost or forgotten; Unavailable.
func (s *Service) Deduction(ctx context.Context, r bucket.RollbackRequest) (
	bucket.DeductionView, error) {
	if !r.IsSet() {
		r.OnlyBy = ""
	}
	to, err := s.returner(ctx, "read", &r)
	if err != nil {
		return bucket.DeductionView{}, err
	}
	return to.Deduction(ctx, r)
}

// returner returns what gives units of a budget back. A store does not record the principal:
// Forbidden if the caller may give back only its own deductions.
func (s *Service) returner(ctx context.Context, op string, r *bucket.RollbackRequest) (
	Returner, error) {
	if r.IsSet() {
		return s.inSQL.returns, nil
	}
	b, err := s.budgets.Find(ctx, r.Budget)
	if err != nil {
		return nil, err
	}
	if b.InStoreMode() && r.OnlyBy != "" {
		return nil, budget.Refuse(budget.Forbidden, op,
			"a store does not record who deducted; the call needs the role rollback")
	}
	return s.wayOf(b).returns, nil
}
