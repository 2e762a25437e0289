package row

import (
	"context"
	"time"

	lru "github.com/hashicorp/golang-lru/v2"
	"go.opentelemetry.io/otel/trace"

	"github.com/budgetd/budgetd/bucket"
	"github.com/budgetd/budgetd/bucket/batch"
	"github.com/budgetd/budgetd/bucket/deduct"
	"github.com/budgetd/budgetd/budget"
)

// Settings bound the service. A zero field means its default, which is given after the semicolon.
type Settings struct {
	// Deadline is how long a request may look for units; 2 s. Grace is how much longer it waits for a
	// commit that has already been sent; 1 s.
	Deadline, Grace time.Duration
	// StepTime bounds one transaction and one read; 5 s.
	StepTime time.Duration
	// Queue bounds the requests that wait for a flight or one kind of read; 20,000.
	Queue int
	// FlightRows bounds the deductions of one flight; 512.
	FlightRows int
	// Brings is the number of budgets that units are brought for concurrently; 8.
	Brings int
	// States is the number of budgets whose figures are cached; 10,000.
	States int
}

func (s Settings) withDefaults() Settings {
	deduct.Default(&s.Deadline, 2*time.Second)
	deduct.Default(&s.Grace, time.Second)
	deduct.Default(&s.StepTime, 5*time.Second)
	deduct.Default(&s.Queue, 20_000)
	deduct.Default(&s.FlightRows, 512)
	deduct.Default(&s.Brings, 8)
	deduct.Default(&s.States, 10_000)
	return s
}

// Config configures a Service.
type Config struct {
	Budgets  *bucket.Budgets
	Ledger   Ledger
	Lookup   Lookup
	Rollover Rollover
	// Refills is notified of accepted deductions. It may be nil.
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

// Service deducts from budgets in ledger mode. It runs no goroutines while it has no requests. It
// is safe for concurrent use.
type Service struct {
	host     deduct.Host
	ledger   Ledger
	lookup   Lookup
	rollover Rollover
	refills  Refills
	usedUp   *usedUp
	clock    bucket.Clock
	observer bucket.Calls
	tracer   trace.Tracer
	set      Settings

	states  *lru.Cache[int64, *state]
	flights *batch.Queue[*op]
	reads   reads

	brings, turns *batch.Group[*op]
}

// New returns a service. It does not contact the database.
func New(c Config) (*Service, error) {
	s := &Service{ledger: c.Ledger, lookup: c.Lookup, rollover: c.Rollover, refills: c.Refills,
		observer: c.Observer, tracer: c.Tracer, set: c.Settings.withDefaults()}
	s.host = deduct.Host{Budgets: c.Budgets, Clock: c.Clock, Now: c.Now, Rand: c.Rand,
		Deadline: s.set.Deadline, Grace: s.set.Grace, Truth: "the database"}
	s.host.Ready()
	s.clock = s.host.Clock
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
	s.flights = s.newFlights(c.Away)
	s.reads = s.newReads()
	s.brings = batch.NewGroup(batch.GroupConfig[*op]{Run: s.bring, Refuse: (*op).Overload,
		Size: broughtOperations, Bound: s.set.Queue, Workers: s.set.Brings})
	s.turns = batch.NewGroup(batch.GroupConfig[*op]{Run: s.rollOver, Refuse: (*op).Overload,
		Size: s.set.Queue, Bound: s.set.Queue, Workers: s.set.Brings})
	return s, nil
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
