package row

import (
	"context"
	crand "crypto/rand"
	"sync"
	"sync/atomic"
	"time"

	lru "github.com/hashicorp/golang-lru/v2"

	"github.com/budgetd/budgetd/bucket"
	"github.com/budgetd/budgetd/bucket/batch"
	"github.com/budgetd/budgetd/budget"
)

// Settings bound the service. Zero values stand for the defaults.
type Settings struct {
	// Deadline is how long a request may look for units; 2 s. Grace is how much longer it waits for
	// a commit that is under way by then; 1 s.
	Deadline, Grace time.Duration
	// StepTime bounds one transaction and one read; 5 s.
	StepTime time.Duration
	// FilterTime bounds one call of a filter; 100 ms. ProbeEvery is how often a lane that did not
	// answer is tried again; 1 s.
	FilterTime, ProbeEvery time.Duration
	// RaiseEvery is the least time between two raises of the fill of one bucket; 1 s.
	RaiseEvery time.Duration
	// Slots is the number of flights side by side, by the hash of the bucket; 2. All nodes must
	// have the same number, so that two nodes meet on one row and not on many.
	Slots int
	// Queue bounds the requests that wait for one lane, one slot or one kind of read; 20,000.
	Queue int
	// FlightRows bounds the deductions of one flight, and LaneOperations those of one filter call;
	// 512.
	FlightRows, LaneOperations int
	// Gathers is the number of budgets that are gathered for side by side; 8.
	Gathers int
	// States is the number of budgets whose figures are remembered; 10,000.
	States int
}

func (s Settings) withDefaults() Settings {
	def := func(d *time.Duration, v time.Duration) {
		if *d <= 0 {
			*d = v
		}
	}
	num := func(n *int, v int) {
		if *n <= 0 {
			*n = v
		}
	}
	def(&s.Deadline, 2*time.Second)
	def(&s.Grace, time.Second)
	def(&s.StepTime, 5*time.Second)
	def(&s.FilterTime, 100*time.Millisecond)
	def(&s.ProbeEvery, time.Second)
	def(&s.RaiseEvery, time.Second)
	num(&s.Slots, 2)
	num(&s.Queue, 20_000)
	num(&s.FlightRows, 512)
	num(&s.LaneOperations, 512)
	num(&s.Gathers, 8)
	num(&s.States, 10_000)
	return s
}

// Budgets finds definitions that are at most a second old: bucket.Budgets.
type Budgets interface {
	FindAll(ctx context.Context, refs []bucket.BudgetRef) ([]*bucket.Budget, []error)
	Fresh(ref bucket.BudgetRef) *bucket.Budget
	Reload(ctx context.Context, id int64) (*bucket.Budget, error)
}

// Config is what a Service is made of.
type Config struct {
	Budgets  Budgets
	Ledger   Ledger
	Lookup   Lookup
	Rollover Rollover
	// Refills is told of accepted deductions; nil: nobody is.
	Refills Refills
	// Filters are by the name of their instance. An instance without one is never asked: SQL alone
	// decides for its buckets.
	Filters map[string]bucket.Filter
	// Clock is the clock of waits; the machine's when nil. Now is SQL's time as this node knows it.
	Clock bucket.Clock
	Now   func() time.Time
	// Rand fills a slice with random bytes; crypto/rand when nil.
	Rand     func([]byte)
	Observer bucket.Calls
	Settings Settings
}

// Service deducts from budgets in ledger mode. It has no goroutines while nothing is asked of it.
// Safe for concurrent use.
type Service struct {
	budgets  Budgets
	ledger   Ledger
	lookup   Lookup
	rollover Rollover
	refills  Refills
	usedUp   *usedUp
	filters  map[string]bucket.Filter
	clock    bucket.Clock
	sqlNow   func() time.Time
	rand     func([]byte)
	observer bucket.Calls
	set      Settings

	watch   *batch.Watch
	states  *lru.Cache[int64, *state]
	slots   []*slot
	lanes   atomic.Pointer[map[bucket.Lane]*lane]
	lanesMu sync.Mutex
	reads   reads
	raises  *batch.Queue[raise]

	gathers, turns *batch.Group[*op]
}

// sweep is how often the deadlines of waiting requests are looked at.
const sweep = 10 * time.Millisecond

// New makes a service. It contacts nothing.
func New(c Config) (*Service, error) {
	s := &Service{budgets: c.Budgets, ledger: c.Ledger, lookup: c.Lookup, rollover: c.Rollover,
		refills: c.Refills,
		filters: c.Filters, clock: c.Clock, sqlNow: c.Now, rand: c.Rand, observer: c.Observer,
		set: c.Settings.withDefaults(), watch: batch.NewWatch(sweep)}
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
	if s.usedUp, err = newUsedUp(); err != nil {
		return nil, err
	}
	if s.states, err = lru.New[int64, *state](s.set.States); err != nil {
		return nil, err
	}
	for range s.set.Slots {
		s.slots = append(s.slots, s.newSlot())
	}
	s.reads = s.newReads()
	s.raises = batch.New(batch.Config[raise]{Run: s.raiseAll, Refuse: func(raise) {}, Size: 1,
		Bound: s.set.Queue})
	s.gathers = batch.NewGroup(batch.GroupConfig[*op]{Run: s.gather, Refuse: overload,
		Size: gatherOperations, Bound: s.set.Queue, Workers: s.set.Gathers})
	s.turns = batch.NewGroup(batch.GroupConfig[*op]{Run: s.rollOver, Refuse: overload,
		Size: s.set.Queue, Bound: s.set.Queue, Workers: s.set.Gathers})
	return s, nil
}

// ownerOf names whose an operation is: queues are fair between budgets.
func ownerOf(o *op) int64 { return o.Budget.ID }

// overload gives an operation back for which a queue has no room.
func overload(o *op) {
	o.step, o.err = stepFailed, overloaded()
	o.wave.back(o, true)
}

func overloaded() *budget.Error {
	e := budget.Refuse(budget.Unavailable, "deduct",
		"too many requests are waiting already; repeat later")
	e.Reason, e.RetryAfter = budget.ReasonOverloaded, time.Second
	return e
}

// bounded returns the context of one step: a step serves many requests, so none of theirs ends it.
func (s *Service) bounded() (context.Context, context.CancelFunc) {
	return context.WithTimeout(context.Background(), s.set.StepTime)
}

// failed tells the observer of a call that failed.
func (s *Service) failed(where string, err error) {
	s.observer.Failed(where, budget.CodeOf(err))
}

type noCalls struct{}

func (noCalls) LaneCall(bucket.Lane, int, time.Duration) {}
func (noCalls) Commit(int, time.Duration)                {}
func (noCalls) Failed(string, budget.Code)               {}
func (noCalls) Skipped(int)                              {}
