package bucket

import (
	"context"
	"encoding/binary"
	"log/slog"
	"runtime/debug"
	"slices"
	"sync"
	"time"

	lru "github.com/hashicorp/golang-lru/v2"

	"github.com/budgetd/budgetd/budget"
	"github.com/budgetd/budgetd/ring"
)

// Clock is the time as the service sees it: every wait and every instant goes through it.
type Clock interface {
	Now() time.Time
	// Sleep waits for d or until ctx ends, then returns ctx's error.
	Sleep(ctx context.Context, d time.Duration) error
}

// SystemClock is the machine's clock.
type SystemClock struct{}

// Now returns the present instant.
func (SystemClock) Now() time.Time { return time.Now() }

// Sleep waits for d or until ctx ends.
func (SystemClock) Sleep(ctx context.Context, d time.Duration) error {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// Observer is told what happens, for metrics. Every method returns at once and is safe for
// concurrent use.
type Observer interface {
	// LaneCall: one call of a lane carried so many operations.
	LaneCall(instance string, operations int, took time.Duration)
	// Commit: one transaction wrote so many ledger rows; returned units came from duplicates.
	Commit(rows, duplicates int, returned int64, took time.Duration)
	// Moved: units moved by a step: apply, handout, offline, collect, sweep, lose.
	Moved(step string, units int64)
	// Failed: a store ("store") or SQL ("sql") call failed with this code.
	Failed(where string, code budget.Code)
	// Fenced: a bucket was fenced.
	Fenced()
	// Discrepancies: an audit found so many.
	Discrepancies(n int)
	// Unfinished: so much of a kind was found half done: epochs, grants, shrinks, fenced, returning
	// (budgets). At most choresLimit of each is counted.
	Unfinished(kind string, n int)
	// Lag: so many log entries of an instance's lane were not in the ledger when last looked at.
	Lag(lane Lane, entries int64)
}

type noObserver struct{}

func (noObserver) LaneCall(string, int, time.Duration)   {}
func (noObserver) Commit(int, int, int64, time.Duration) {}
func (noObserver) Moved(string, int64)                   {}
func (noObserver) Failed(string, budget.Code)            {}
func (noObserver) Fenced()                               {}
func (noObserver) Discrepancies(int)                     {}
func (noObserver) Unfinished(string, int)                {}
func (noObserver) Lag(Lane, int64)                       {}

// Settings bound the service. Zero values mean the defaults of New.
type Settings struct {
	// Deadline is how long a request may look for units and wait for its commit; 2 s.
	Deadline time.Duration
	// StepTimeout bounds one call of a store and one transaction; 5 s.
	StepTimeout time.Duration
	// Refresh is how often versions of cached budgets are read (I8: 1 s); 300 ms.
	Refresh time.Duration
	// Chores is how often unfinished work is looked for; 1 s.
	Chores time.Duration
	// CachedBudgets and CachedIDs bound the caches; 10,000 and 100,000.
	CachedBudgets, CachedIDs int
	// Committers is how many transactions of this node commit side by side; 4.
	Committers int
	// Queue is how many requests may wait for one lane or one committer; 20,000.
	Queue int
	// BatchSize is the most operations of one call; 512.
	BatchSize int
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
	def(&s.StepTimeout, 5*time.Second)
	def(&s.Refresh, 300*time.Millisecond)
	def(&s.Chores, time.Second)
	num(&s.CachedBudgets, 10_000)
	num(&s.CachedIDs, 100_000)
	num(&s.Committers, 4)
	num(&s.Queue, 20_000)
	num(&s.BatchSize, 512)
	return s
}

// Config is what a service is made of.
type Config struct {
	SQL SQL
	// Instances are the configured stores by name, Lanes the number of lanes of each.
	Instances map[string]Instance
	Lanes     map[string]int
	Clock     Clock
	// Rand fills a slice with random bytes: nonces and jitter.
	Rand     func([]byte)
	Log      *slog.Logger
	Observer Observer
	Settings Settings
}

// Service runs the protocol on one node. All nodes are equal. Safe for concurrent use.
type Service struct {
	sql      SQL
	clock    Clock
	rand     func([]byte)
	log      *slog.Logger
	observer Observer
	set      Settings

	lanes     map[Lane]*lane
	laneOrder []Lane
	placement *ring.Ring                  // over laneOrder
	rings     *lru.Cache[int, *ring.Ring] // by number of buckets, over their ordinals

	budgets    *cache
	recent     *lru.Cache[ID, struct{}]
	flights    flights
	committers []*batcher[mark, committed]
	lookups    *batcher[ID, recorded]
	judges     *group[int64, string, Judgement]
	collects   *group[int64, collectWish, collected]

	drainedMu sync.Mutex
	drained   *lru.Cache[Ref, int64] // log position known to be in the ledger
	applying  *group[int64, applyWish, int64]
	busy      sync.Map                         // bucket id: an apply or a retirement runs in the background
	quiet     *lru.Cache[int64, time.Duration] // budget id -> until when background applies are pointless

	fencedHere *lru.Cache[Ref, struct{}] // fenced through this node
	suspects   map[Ref]suspect           // fenced buckets that could not be recovered; one loop has it
	drainFrom  map[Lane]Ref              // how far the drain of live epochs has come; one loop has it
	base       time.Time                 // what instants inside this node are counted from

	background sync.WaitGroup
	stopMu     sync.Mutex // orders background.Add before Stop's Wait
	slots      chan struct{}
	stop       context.CancelFunc
	life       context.Context
}

// New makes a service. Nothing is contacted before Start.
func New(c Config) (*Service, error) {
	if c.Clock == nil {
		c.Clock = SystemClock{}
	}
	if c.Observer == nil {
		c.Observer = noObserver{}
	}
	if c.Log == nil {
		c.Log = slog.New(slog.DiscardHandler)
	}
	s := &Service{sql: c.SQL, clock: c.Clock, rand: c.Rand, log: c.Log, observer: c.Observer,
		set: c.Settings.withDefaults(), lanes: map[Lane]*lane{}, slots: make(chan struct{}, 64)}
	s.suspects, s.drainFrom, s.base = map[Ref]suspect{}, map[Lane]Ref{}, s.clock.Now()
	s.life, s.stop = context.WithCancel(context.Background())
	for name, n := range c.Lanes {
		for i := range max(n, 1) {
			s.laneOrder = append(s.laneOrder, Lane{Instance: name, Index: i})
		}
	}
	slices.SortFunc(s.laneOrder, compareLanes)
	names := make([]string, len(s.laneOrder))
	for i, id := range s.laneOrder {
		names[i] = id.String()
		s.lanes[id] = s.newLane(id, c.Instances[id.Instance])
	}
	var err error
	if s.placement, err = ring.New(names, pointsPerNode); err != nil {
		return nil, err
	}
	if s.budgets, err = newCache(s, s.set.CachedBudgets); err != nil {
		return nil, err
	}
	if s.recent, err = lru.New[ID, struct{}](s.set.CachedIDs); err != nil {
		return nil, err
	}
	if s.drained, err = lru.New[Ref, int64](s.set.CachedBudgets * 16); err != nil {
		return nil, err
	}
	for range s.set.Committers {
		s.committers = append(s.committers, &batcher[mark, committed]{run: s.commitMarks,
			size: s.set.BatchSize, bound: s.set.Queue, workers: 1})
	}
	if s.rings, err = lru.New[int, *ring.Ring](64); err != nil {
		return nil, err
	}
	if s.quiet, err = lru.New[int64, time.Duration](s.set.CachedBudgets); err != nil {
		return nil, err
	}
	if s.fencedHere, err = lru.New[Ref, struct{}](1000); err != nil {
		return nil, err
	}
	s.applying = newGroup[int64, applyWish, int64](s.applyFor, s.set.BatchSize, s.set.Queue)
	s.lookups = &batcher[ID, recorded]{run: s.lookUp, size: s.set.BatchSize, bound: s.set.Queue, workers: 2}
	s.judges = newGroup[int64, string, Judgement](s.judgeAll, s.set.BatchSize, s.set.Queue)
	s.collects = newGroup[int64, collectWish, collected](s.collectFor, s.set.BatchSize, s.set.Queue)
	return s, nil
}

// Start verifies every lane, finishes what was left half done, and begins the background loops,
// which run until Stop. A lane that cannot be reached does not keep the others from serving; it is
// tried again.
func (s *Service) Start(ctx context.Context) {
	var all sync.WaitGroup
	for _, l := range s.lanes {
		all.Go(func() { s.ensureLane(ctx, l) })
	}
	all.Wait()
	s.finishUnfinished(ctx)
	s.loop("refresh", s.set.Refresh, s.budgets.refreshAll)
	s.loop("lanes", s.set.Chores/4, s.probeLanes)
	s.loop("fenced", s.set.Chores/2, s.recoverFenced)
	s.loop("chores", s.set.Chores, func(ctx context.Context) {
		s.finishUnfinished(ctx)
		s.drainLive(ctx)
	})
}

// Stop ends the background loops and waits for what is under way, until ctx ends.
func (s *Service) Stop(ctx context.Context) error {
	s.stopMu.Lock()
	s.stop()
	s.stopMu.Unlock()
	done := make(chan struct{})
	go func() { s.background.Wait(); close(done) }()
	select {
	case <-done:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// loop runs step every period until Stop.
func (s *Service) loop(name string, period time.Duration, step func(context.Context)) {
	s.background.Add(1)
	go func() {
		defer s.background.Done()
		for s.clock.Sleep(s.life, period) == nil {
			s.guard(name, func() { step(s.life) })
		}
	}()
}

// later runs step in the background, unless too much is running there already: everything done this
// way is done again by the chores when it was dropped. after runs in any case.
func (s *Service) later(name string, step func(context.Context), after ...func()) {
	done := func() {
		for _, f := range after {
			f()
		}
	}
	s.stopMu.Lock()
	defer s.stopMu.Unlock()
	if s.life.Err() != nil {
		done()
		return
	}
	select {
	case s.slots <- struct{}{}:
	default:
		done()
		return
	}
	s.background.Add(1)
	go func() {
		defer s.background.Done()
		defer done()
		defer func() { <-s.slots }()
		ctx, cancel := context.WithTimeout(s.life, s.set.StepTimeout)
		defer cancel()
		s.guard(name, func() { step(ctx) })
	}()
}

// guard keeps a panic of a background step from ending the process.
func (s *Service) guard(name string, step func()) {
	defer func() {
		if p := recover(); p != nil {
			s.log.Error("background step panicked", "step", name, "panic", p, "stack", string(debug.Stack()))
		}
	}()
	step()
}

// bounded is a context for a step whose intent is written already: it outlives its caller.
func (s *Service) bounded(ctx context.Context) (context.Context, context.CancelFunc) {
	return context.WithTimeout(context.WithoutCancel(ctx), s.set.StepTimeout)
}

// now is the time since the service was made: unlike an instant of the day it never steps back.
func (s *Service) now() time.Duration { return s.clock.Now().Sub(s.base) }

// nonce makes the random number of one call.
func (s *Service) nonce() string {
	var b [8]byte
	s.rand(b[:])
	return string(b[:])
}

// jitter returns a random duration up to d.
func (s *Service) jitter(d time.Duration) time.Duration {
	var b [8]byte
	s.rand(b[:])
	return time.Duration(binary.LittleEndian.Uint64(b[:]) % uint64(max(d, 1)))
}
