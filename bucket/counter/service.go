package counter

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"time"

	"go.opentelemetry.io/otel/trace"

	"github.com/budgetd/budgetd/bucket"
	"github.com/budgetd/budgetd/bucket/batch"
	"github.com/budgetd/budgetd/bucket/deduct"
	"github.com/budgetd/budgetd/bucket/store"
	"github.com/budgetd/budgetd/budget"
)

// Settings bound a service. A zero field means its default, which is given after the semicolon.
type Settings struct {
	// Deadline is how long a deduction may wait for units and stores; 2 s.
	Deadline time.Duration
	// StepTime bounds one call of a store or of the database; 5 s.
	StepTime time.Duration
	// Late is the age at which the store refuses a deduction as too old; 30 s. It must be far below
	// the record window.
	Late time.Duration
	// VerifyEvery is the shortest interval between two verifications of a partition; 250 ms.
	VerifyEvery time.Duration
	// MarkGrace is how long the node that began an incarnation has to write its marker; 1 s.
	MarkGrace time.Duration
	// ClockSkew is how far a partition's clock may differ from SQL's; 1 s.
	ClockSkew time.Duration
	// PartitionOperations bounds the deductions of one call of a partition; 512.
	PartitionOperations int
	// Queue bounds the operations that wait in one queue; 20,000.
	Queue int
}

func (s Settings) withDefaults() Settings {
	deduct.Default(&s.Deadline, 2*time.Second)
	deduct.Default(&s.StepTime, 5*time.Second)
	deduct.Default(&s.Late, 30*time.Second)
	deduct.Default(&s.VerifyEvery, 250*time.Millisecond)
	deduct.Default(&s.MarkGrace, time.Second)
	deduct.Default(&s.ClockSkew, time.Second)
	deduct.Default(&s.PartitionOperations, 512)
	deduct.Default(&s.Queue, 20_000)
	return s
}

// Store is an instance whose counters can decide in store mode.
type Store struct {
	bucket.Counter
	bucket.Entries
	bucket.Changes
	bucket.Memories
	// Copies moves buckets to other partitions.
	Copies bucket.Copies
	// Durable says that every write is on disk before its answer, and that there are no replicas.
	Durable bool
}

// Observer receives events for metrics.
type Observer interface {
	bucket.Calls
	// Moved reports units moved by a step: apply, collect, lose.
	Moved(step string, units int64)
	// Lag reports how long ago a partition was last synced.
	Lag(partition bucket.Partition, age time.Duration)
}

// Config configures a Service.
type Config struct {
	Budgets      *bucket.Budgets
	Ledger       *store.Ledger
	Availability Availability
	// Stores are keyed by the name of their instance.
	Stores map[string]*Store
	// States is what the node caches about budgets; nil means a new one.
	States *deduct.States
	// Clock measures waits; nil means the system clock. Now returns SQL's time as this node knows it.
	Clock    bucket.Clock
	Now      func() time.Time
	Observer Observer
	// Tracer starts the spans of flights. If it is nil, flights have no spans.
	Tracer   trace.Tracer
	Settings Settings
}

// Service is the home of budgets in store mode (deduct.Home), and keeps SQL up to date. It runs no
// goroutines while it has no requests. It is safe for concurrent use.
type Service struct {
	budgets   *bucket.Budgets
	ledger    *store.Ledger
	available Availability
	stores    map[string]*Store
	clock     bucket.Clock
	sqlNow    func() time.Time
	observer  Observer
	tracer    trace.Tracer
	set       Settings

	states     *deduct.States
	uses       sync.Map // bucket -> *use
	partitions sync.Map // bucket.Partition -> *partition
	refills    *batch.Queue[refill]
	asked      atomic.Bool

	recorder recorder // the ledger, or one of a test that fails
}

// recorder records what stores counted, as store.Ledger does.
type recorder interface {
	Record(ctx context.Context, m bucket.Memory, sums []bucket.Sum) (store.Recorded, error)
}

// Asked reports whether every store was asked at least once, whatever it answered.
func (s *Service) Asked() bool { return s.asked.Load() }

// New returns a service. It contacts neither the database nor a store.
func New(c Config) *Service {
	s := &Service{budgets: c.Budgets, ledger: c.Ledger, recorder: c.Ledger, available: c.Availability,
		stores: c.Stores, states: c.States, clock: c.Clock, sqlNow: c.Now, observer: c.Observer,
		tracer: c.Tracer, set: c.Settings.withDefaults()}
	if s.states == nil {
		s.states = deduct.NewStates(0)
	}
	if s.clock == nil {
		s.clock = bucket.SystemClock{}
	}
	if s.sqlNow == nil {
		s.sqlNow = s.clock.Now
	}
	if s.observer == nil {
		s.observer = noObserver{}
	}
	s.refills = batch.New(batch.Config[refill]{Run: s.refill, Refuse: func(refill) {}, Size: 1,
		Bound: s.set.Queue})
	return s
}

// bounded returns the context of one step. A step serves many requests, so the context does not
// descend from that of any one of them.
func (s *Service) bounded() (context.Context, context.CancelFunc) {
	return context.WithTimeout(context.Background(), s.set.StepTime)
}

// failed reports a failed call to the observer. A nil err, and ErrOtherMemory, which is expected,
// are not reported.
func (s *Service) failed(where string, err error) {
	if err != nil && !errors.Is(err, bucket.ErrOtherMemory) {
		s.observer.Failed(where, budget.CodeOf(err))
	}
}

// noObserver ignores all events.
type noObserver struct{}

func (noObserver) PartitionCall(context.Context, bucket.Partition, int, time.Duration) {}
func (noObserver) Commit(context.Context, int, time.Duration)                          {}
func (noObserver) Failed(string, budget.Code)                                          {}
func (noObserver) Moved(string, int64)                                                 {}
func (noObserver) Lag(bucket.Partition, time.Duration)                                 {}

// Loop is a loop for the daemon, which calls RunOnce at the interval Every, with jitter, and never
// concurrently.
type Loop struct {
	Name  string
	Every time.Duration
	// RunOnce does a bounded amount of work. Its error is logged; the next run tries again.
	RunOnce func(ctx context.Context) error
}

// Loops returns the loops of a service. Every node syncs every partition.
func (s *Service) Loops(partitions []bucket.Partition) []Loop {
	const often = 500 * time.Millisecond
	return []Loop{
		{"store sync", SyncEvery, (&SyncLoop{s: s, partitions: partitions}).RunOnce},
		{"store epochs", often, (&PushLoop{s}).RunOnce},
		{"store rollover", often, (&RolloverLoop{s}).RunOnce},
		{"store shrinks", often, (&ShrinkLoop{s}).RunOnce},
	}
}
