package bucket

import (
	"context"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"log/slog"
	"runtime/debug"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	lru "github.com/hashicorp/golang-lru/v2"

	"github.com/budgetd/budgetd/budget"
	"github.com/budgetd/budgetd/ledger"
	"github.com/budgetd/budgetd/ring"
	"github.com/budgetd/budgetd/series"
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
	LaneCall(lane Lane, operations int, took time.Duration)
	// Commit: one transaction wrote so many ledger rows; returned units came from duplicates.
	Commit(rows, duplicates int, returned int64, took time.Duration)
	// Moved: units moved by a step: apply, handout, offline, collect, recycle, sweep, lose.
	Moved(step string, units int64)
	// Failed: a store ("store") or SQL ("sql") call failed with this code.
	Failed(where string, code budget.Code)
	// Fenced: a bucket was fenced.
	Fenced()
	// Discrepancies: an audit found so many that were not known.
	Discrepancies(n int)
	// Books: so many discrepancies are known, which differ by so many units (must stay 0).
	Books(discrepancies int, gap int64)
	// Budgets: the figures of the budgets with the largest totals, and the sums over all, as of the last
	// look through all of them. The list is not changed later.
	Budgets(largest []BudgetFigures, all ledger.Figures)
	// Stranded: so many units are in buckets out of this node's reach, or fenced.
	Stranded(units int64)
	// Recyclable: so many units are stranded (fragment.Stranded) in the budgets that this node sold from and
	// looked at last.
	Recyclable(units int64)
	// AtRisk: so many units would be quarantined if every store were lost now (store mode).
	AtRisk(units int64)
	// HoldsExpired: this node expired so many holds. HoldsOpen: so many of all budgets were open when last
	// counted, at most openHoldsLimit.
	HoldsExpired(n int)
	HoldsOpen(n int)
	// Recounted: all rows of the ledger were counted once, in so long.
	Recounted(took time.Duration)
	// Unfinished: so much of a kind was found half done: epochs, grants, shrinks, fenced, returning
	// (budgets). At most choresLimit of each is counted.
	Unfinished(kind string, n int)
	// Lag: so many log entries of an instance's lane were not in the ledger when last looked at, and some
	// have not been for so long.
	Lag(lane Lane, entries int64, age time.Duration)
}

type noObserver struct{}

func (noObserver) LaneCall(Lane, int, time.Duration)       {}
func (noObserver) Commit(int, int, int64, time.Duration)   {}
func (noObserver) Moved(string, int64)                     {}
func (noObserver) Failed(string, budget.Code)              {}
func (noObserver) Fenced()                                 {}
func (noObserver) Discrepancies(int)                       {}
func (noObserver) Unfinished(string, int)                  {}
func (noObserver) Lag(Lane, int64, time.Duration)          {}
func (noObserver) Books(int, int64)                        {}
func (noObserver) Budgets([]BudgetFigures, ledger.Figures) {}
func (noObserver) Stranded(int64)                          {}
func (noObserver) AtRisk(int64)                            {}
func (noObserver) Recyclable(int64)                        {}
func (noObserver) HoldsExpired(int)                        {}
func (noObserver) HoldsOpen(int)                           {}
func (noObserver) Recounted(time.Duration)                 {}

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
	// Audit is how often every live epoch is compared with its store, where there are few of them; 500 ms.
	Audit time.Duration
	// AuditRows is how many ledger rows a second are counted anew; 5,000.
	AuditRows int
	// ShownBudgets is how many budgets the metrics show one by one; 0: none.
	ShownBudgets int
	// DownAfter is how long no node may have reached a lane before its units are sold elsewhere; 5 s.
	DownAfter time.Duration
	// Strict refuses lanes whose store's settings may lose what it holds (Condition.Refused).
	Strict bool
	// CachedBudgets and CachedIDs bound the caches; 10,000 and 100,000.
	CachedBudgets, CachedIDs int
	// Keep is how long entries stay in the feed, those of live epochs for longer; 0: for ever.
	Keep time.Duration
	// KeepSeries is how long samples of the budgets' figures are kept; 0: none are taken.
	KeepSeries time.Duration
	// SampleEvery is how often a sample is taken; 1 min.
	SampleEvery time.Duration
	// Committers is how many transactions of this node may commit side by side; 4. A further one begins only
	// when there is more than one transaction takes, or the one under way takes long.
	Committers int
	// Queue is how many requests may wait for one lane, or for this node's commits; 20,000.
	Queue int
	// BatchSize is the most operations of one call; 512.
	BatchSize int
	// Points are the virtual nodes of a ring's node; 1,000. All nodes must have the same: it decides
	// where buckets are placed and which bucket a key belongs to.
	Points int
	// WindowUnits and WindowTime bound how far the ledger may be behind a bucket in store mode;
	// 1,000,000 minor units and 5 s.
	WindowUnits int64
	WindowTime  time.Duration
	// RecordWindow is how long a store remembers request ids in store mode, as the stores are
	// configured; 10 min.
	RecordWindow time.Duration
	// StrandedShare is the part of a budget's units (0 … 1) above which stranded ones start a recycle; 0:
	// none starts by itself.
	StrandedShare float64
	// RecycleAt says when the schedule's next recycles begin after an instant; nil: there is no schedule.
	RecycleAt func(after time.Time) time.Time
	// ReportWait is how long a store-mode epoch whose store lost its memory waits for the nodes to
	// report before its units are quarantined; 5 s.
	ReportWait time.Duration
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
	def(&s.Audit, 500*time.Millisecond)
	num(&s.AuditRows, 5_000)
	def(&s.DownAfter, 5*time.Second)
	def(&s.SampleEvery, series.LeastStep)
	num(&s.CachedBudgets, 10_000)
	num(&s.CachedIDs, 100_000)
	num(&s.Committers, 4)
	num(&s.Queue, 20_000)
	num(&s.BatchSize, 512)
	num(&s.Points, ring.DefaultPointsPerNode)
	if s.WindowUnits <= 0 {
		s.WindowUnits = defaultWindowUnits
	}
	def(&s.WindowTime, defaultWindowTime)
	def(&s.RecordWindow, defaultRecordWindow)
	def(&s.ReportWait, defaultReportWait)
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
	// Archiver keeps the entries that leave the feed; nil: nobody does.
	Archiver Archiver
	// Turns is for simulations; nil lets every goroutine go on at once.
	Turns Turns
}

// Service runs the protocol on one node. All nodes are equal. Safe for concurrent use.
type Service struct {
	sql         SQL
	clock       Clock
	rand        func([]byte)
	log         *slog.Logger
	observer    Observer
	set         Settings
	archiver    Archiver
	turns       turns
	node        atomic.Pointer[string] // names this run of this node
	namesMu     sync.Mutex
	formerNames []string // those that it had before and that may have uses to report
	expiry      expiry

	lanes     map[Lane]*lane
	laneOrder []Lane
	placement *ring.Ring                  // over laneOrder
	rings     *lru.Cache[int, *ring.Ring] // by number of buckets, over their ordinals

	budgets     *cache
	recent      recentIDs
	flights     flights
	committer   *batcher[mark, committed]
	early       *lru.Cache[ledger.Position, ledger.Outcome] // what became of entries before somebody waited for them
	lookups     *batcher[ID, recorded]
	judges      *group[int64, judgeAsk, judged]
	covers      *batcher[int64, coverRead]
	readings    readings
	collects    *group[int64, collectWish, collected]
	limitChecks *group[int64, LimitAsk, LimitAnswer]
	reached     *lru.Cache[reachedKey, reached]
	turning     *group[int64, struct{}, struct{}] // roll-overs

	drainedMu sync.Mutex
	drained   *lru.Cache[Ref, int64] // log position known to be in the ledger
	applying  *group[int64, applyWish, int64]
	busy      sync.Map                         // bucket id: an apply or a retirement runs in the background
	quiet     *lru.Cache[int64, time.Duration] // budget id -> until when background applies are pointless
	uses      *lru.Cache[int64, *bucketUse]    // by bucket id

	fencedHere  *lru.Cache[Ref, struct{}] // fenced through this node
	watches     map[Lane]watch            // lanes as watchLanes saw them; one loop has it
	watchedAt   time.Duration             // its last look
	suspects    map[Ref]suspect           // fenced buckets that could not be recovered; one loop has it
	drainFrom   map[Lane]Ref              // how far the drain of live epochs has come; one loop has it
	bookkeeping bookkeeping               // how far the look at the budgets has come; one loop has it
	sampling    sampling                  // of this minute; the same loop has it
	recounting  recounting                // how far the recount has come; the same loop has it
	findings    findings                  // what does not agree
	archiveFrom int64                     // the last bucket of the look before; one loop has it
	base        time.Time                 // what instants inside this node are counted from
	missing     atomic.Pointer[[]string]  // lanes with buckets that this node has no instance for
	missingAt   atomic.Int64              // Service.now of the last look for them

	// Store mode.
	upToDate *group[int64, *cached, struct{}]
	// homesDrained is by the bucket that a node takes for home.
	homesDrained *group[int64, keyOf, struct{}]
	homeDrained  *lru.Cache[Ref, time.Duration] // the lane's clock when one began that a limit's refusal waited for
	counted      *lru.Cache[Ref, int64]         // ledger.Epoch.Counted as last seen
	firstSeen    *lru.Cache[Ref, time.Duration] // epochs by when this node first saw them
	trailing     sync.WaitGroup                 // workers that drain behind the answers
	stopped      bool                           // no such worker begins; guarded by stopMu
	giveUp       context.Context                // ends when Stop waits for them no longer
	giveUpNow    context.CancelFunc

	background sync.WaitGroup
	stopMu     sync.Mutex // orders background.Add before Stop's Wait
	slots      chan struct{}
	audits     chan struct{} // has one for each audit under way
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
		set: c.Settings.withDefaults(), lanes: map[Lane]*lane{}, slots: make(chan struct{}, 64), audits: make(chan struct{}, AuditsAtOnce),
		turns: turns{c.Turns}, archiver: c.Archiver}
	s.watches = map[Lane]watch{}
	s.bookkeeping.attributed = map[int64]time.Duration{}
	s.suspects, s.drainFrom, s.base = map[Ref]suspect{}, map[Lane]Ref{}, s.clock.Now()
	s.life, s.stop = context.WithCancel(context.Background())
	s.giveUp, s.giveUpNow = context.WithCancel(context.Background())
	node := hex.EncodeToString([]byte(s.nonce()))
	s.node.Store(&node)
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
	s.recent = newRecentIDs(s.set.CachedIDs)
	var err error
	if s.placement, err = ring.New(names, s.set.Points); err != nil {
		return nil, err
	}
	if s.budgets, err = newCache(s, s.set.CachedBudgets); err != nil {
		return nil, err
	}
	if s.early, err = lru.New[ledger.Position, ledger.Outcome](mostEarly); err != nil {
		return nil, err
	}
	if s.drained, err = lru.New[Ref, int64](s.set.CachedBudgets * 16); err != nil {
		return nil, err
	}
	s.committer = &batcher[mark, committed]{run: s.commitMarks, size: marksAtOnce, bound: s.set.Queue,
		workers: s.set.Committers, turns: s.turns, apart: mark.bucket,
		owner: func(m mark) int64 { return m.budget }, gather: s.gatherMarks(),
		beside: &beside{full: marksAtOnce, patience: commitPatience, now: s.now,
			sleep: func(d time.Duration) error { return s.clock.Sleep(context.Background(), d) }}}
	if s.rings, err = lru.New[int, *ring.Ring](64); err != nil {
		return nil, err
	}
	if s.quiet, err = lru.New[int64, time.Duration](s.set.CachedBudgets); err != nil {
		return nil, err
	}
	if s.uses, err = lru.New[int64, *bucketUse](s.set.CachedBudgets * 16); err != nil {
		return nil, err
	}
	if s.counted, err = lru.New[Ref, int64](s.set.CachedBudgets * 16); err != nil {
		return nil, err
	}
	if s.homeDrained, err = lru.New[Ref, time.Duration](s.set.CachedBudgets * 16); err != nil {
		return nil, err
	}
	if s.firstSeen, err = lru.New[Ref, time.Duration](s.set.CachedBudgets * 16); err != nil {
		return nil, err
	}
	s.upToDate = newGroup[int64, *cached, struct{}](s.drainBudget, s.set.BatchSize, s.set.Queue, s.turns)
	s.homesDrained = newGroup[int64, keyOf, struct{}](s.drainHomes, s.set.BatchSize, s.set.Queue, s.turns)
	if s.fencedHere, err = lru.New[Ref, struct{}](1000); err != nil {
		return nil, err
	}
	s.applying = newGroup[int64, applyWish, int64](s.applyFor, s.set.BatchSize, s.set.Queue, s.turns)
	s.lookups = &batcher[ID, recorded]{run: s.lookUp, size: s.set.BatchSize, bound: s.set.Queue, workers: 2,
		owner: func(id ID) int64 { return id.Budget }, turns: s.turns}
	s.judges = newGroup[int64, judgeAsk, judged](s.judgeAll, s.set.BatchSize, s.set.Queue, s.turns)
	s.judges.gather = s.gatherAsks
	s.covers = &batcher[int64, coverRead]{run: s.readCovers, size: s.set.BatchSize, bound: s.set.Queue, workers: 2, turns: s.turns}
	s.turning = newGroup[int64, struct{}, struct{}](s.rollOverFor, s.set.BatchSize, s.set.Queue, s.turns)
	s.limitChecks = newGroup[int64, LimitAsk, LimitAnswer](s.checkLimits, s.set.BatchSize, s.set.Queue, s.turns)
	if s.reached, err = lru.New[reachedKey, reached](s.set.CachedIDs); err != nil {
		return nil, err
	}
	s.collects = newGroup[int64, collectWish, collected](s.collectFor, s.set.BatchSize, s.set.Queue, s.turns)
	return s, nil
}

// Start verifies every lane, finishes what was left half done, and begins the background loops,
// which run until Stop. A lane that cannot be reached does not keep the others from serving; it is
// tried again.
func (s *Service) Start(ctx context.Context) {
	var all sync.WaitGroup
	for _, id := range s.laneOrder {
		l, place := s.lanes[id], s.turns.take()
		all.Go(func() { s.turns.wait(place); s.ensureLane(ctx, l) })
	}
	all.Wait()
	s.seeLanes(ctx)
	s.rollOverDue(ctx)
	s.finishUnfinished(ctx)
	s.loop("refresh", s.set.Refresh, s.budgets.refreshAll)
	s.loop("lanes", s.set.Chores/4, s.probeLanes)
	s.loop("watch", s.beat(), s.watchLanes)
	s.loop("see lanes", min(time.Second/2, s.set.Chores), s.seeLanes)
	s.loop("move", s.set.Chores/4, s.moveAll)
	s.loop("settle", s.set.Chores/4, s.settleLanes)
	s.loop("see uses", s.set.Chores, s.seeUses)
	s.loop("fenced", s.set.Chores/2, s.recoverFenced)
	s.loop("roll over", s.set.Chores/4, s.rollOverDue)
	s.loop("chores", s.set.Chores, func(ctx context.Context) {
		s.finishUnfinished(ctx)
		s.drainLive(ctx)
		s.releaseProven(ctx)
		s.endSilent(ctx)
	})
	s.loop("expire holds", s.set.Chores/4, s.expireHolds)
	s.loop("count holds", 5*s.set.Chores, s.countHolds)
	s.loop("expire counters", 10*s.set.Chores, s.expireCounters)
	for _, id := range s.laneOrder { // a lane that hangs does not hold up the others
		looks := looks{known: map[Ref]watched{}, at: s.now()}
		s.loop("audit", s.set.Audit, func(ctx context.Context) { s.lookAtLane(ctx, s.lanes[id], &looks) })
	}
	if s.set.Keep > 0 {
		s.loop("archive", 10*s.set.Chores, s.archive)
	}
	if s.set.StrandedShare > 0 {
		s.loop("recycle stranded", 10*s.set.Chores, s.recycleStranded)
	}
	if s.set.RecycleAt != nil {
		next := s.set.RecycleAt(s.sql.Now())
		s.loop("recycle schedule", s.set.Chores, func(ctx context.Context) { next = s.recycleScheduled(ctx, next) })
	}
	s.loop("books", s.set.Audit, func(ctx context.Context) {
		s.lookAtBooks(ctx)
		s.recount(ctx)
	})
}

// Stop ends the background loops and waits for what is under way, until ctx ends. In store mode the
// ledger is brought up to what this node acknowledged, and SQL is told that it acknowledges no more.
func (s *Service) Stop(ctx context.Context) error {
	s.stopMu.Lock()
	s.stop()
	s.stopMu.Unlock()
	done := make(chan struct{})
	go func() { s.background.Wait(); s.trailing.Wait(); close(done) }()
	defer s.giveUpNow()
	select {
	case <-done:
	case <-ctx.Done():
		return ctx.Err()
	}
	s.stopMu.Lock()
	s.stopped = true
	s.stopMu.Unlock()
	if s.usesAny() && !s.reportUses(ctx, true) {
		return unavailable("stop", errors.New("what was acknowledged in store mode could not be reported"))
	}
	return nil
}

// loop runs step every period until Stop.
func (s *Service) loop(name string, period time.Duration, step func(context.Context)) {
	s.background.Add(1)
	place := s.turns.take()
	go func() {
		defer s.background.Done()
		s.turns.wait(place)
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
	select {
	case s.slots <- struct{}{}:
	default:
		done()
		return
	}
	s.apart(name, step, func() { <-s.slots; done() })
}

// apart runs step in the background however much is running there: it is for what there is one of per
// lane. after runs in any case.
func (s *Service) apart(name string, step func(context.Context), after func()) {
	s.atLength(name, func(ctx context.Context) {
		ctx, cancel := context.WithTimeout(ctx, s.set.StepTimeout)
		defer cancel()
		step(ctx)
	}, after)
}

// atLength is apart for a step that may take longer than others: it ends by itself when ctx does.
func (s *Service) atLength(name string, step func(context.Context), after func()) {
	s.stopMu.Lock()
	defer s.stopMu.Unlock()
	if s.life.Err() != nil {
		after()
		return
	}
	s.background.Add(1)
	place := s.turns.take()
	go func() {
		defer s.background.Done()
		defer after()
		s.turns.wait(place)
		s.guard(name, func() { step(s.life) })
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

// due reports whether something that was put off by `pause` until `next` is due: also when the clock has
// stepped back since, so that nothing is put off for longer than that. All are of Service.now.
func due(now, next, pause time.Duration) bool { return now >= next || next-now > pause }

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
