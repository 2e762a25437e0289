package bucket

import (
	"context"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	lru "github.com/hashicorp/golang-lru/v2"

	"github.com/budgetd/budgetd/bucket/batch"
	"github.com/budgetd/budgetd/budget"
	"github.com/budgetd/budgetd/limit"
	"github.com/budgetd/budgetd/limit/overrides"
	"github.com/budgetd/budgetd/ring"
)

const (
	// freshness bounds the age of a budget that a decision is based on (I8).
	freshness = time.Second
	// refreshAfter is the age at which the versions of all used budgets are read together.
	refreshAfter = 500 * time.Millisecond
	// idleAfter is how long after its last use a budget's versions are still read.
	idleAfter = 5 * time.Second
	// versionsChunk bounds the budgets of one statement.
	versionsChunk = 500
	// maxRingPoints lowers the number of virtual nodes of budgets with very many buckets.
	maxRingPoints = 1 << 16
	// readTime bounds one read of the cache.
	readTime = 2 * time.Second
)

// BudgetsConfig configures a Budgets. Zero numbers mean the defaults after the semicolons.
type BudgetsConfig struct {
	Definitions Definitions
	// Overrides reads the overrides of budgets in store mode. Without such budgets it may be nil.
	Overrides overrides.Rows
	Clock     Clock
	// Size is the number of cached budgets; 10,000.
	Size int
	// Without is how long a budget in store mode is served by the last definition that was read while
	// the database does not answer; 0, that none is.
	Without time.Duration
	// Points is the number of virtual nodes per bucket; ring.DefaultPointsPerNode. All nodes must use
	// the same.
	Points int
	// Failed is called with the errors of background reads. It may be nil.
	Failed func(error)
}

// Budgets is an LRU cache of budgets by id and by name. What it returns is at most a second old
// (I8) and must not be changed. While the database does not answer, budgets in store mode may be
// older: see IsCurrent. It compares the versions of recently used budgets with the database
// in statements for many budgets each, and reads only the budgets that have changed. It runs no
// goroutine while it is unused. It is safe for concurrent use.
type Budgets struct {
	definitions Definitions
	clock       Clock
	points      int
	failed      func(error)
	base        time.Time
	without     time.Duration
	silence     silence
	copies      *overrides.Copies
	// strange is set once a budget with an unknown zone was read.
	strange atomic.Bool

	byID       *lru.Cache[int64, *cached]
	byName     *lru.Cache[BudgetRef, *cached]
	rings      *lru.Cache[int, *ring.Ring]
	refreshing atomic.Bool
	refreshes  int64        // how many have begun; only the running one uses it
	calmUntil  atomic.Int64 // none begins before, because one has failed
	checks     *batch.Queue[*check]
}

// cached is an entry of the cache. Instants are nanoseconds since Budgets.base.
type cached struct {
	id        int64
	value     atomic.Pointer[Budget]
	checkedAt atomic.Int64 // when the last comparison of its versions began
	usedAt    atomic.Int64 // accurate to refreshAfter
	changed   atomic.Bool  // the database has a later version, which was not read yet
	refresh   int64        // number of the last refresh that found it
	reloading sync.Mutex
}

// NewBudgets returns an empty cache.
func NewBudgets(c BudgetsConfig) (*Budgets, error) {
	const size, rings = 10_000, 256
	b := &Budgets{definitions: c.Definitions, clock: c.Clock, points: c.Points, failed: c.Failed,
		without: c.Without}
	if b.clock == nil {
		b.clock = SystemClock{}
	}
	if b.points <= 0 {
		b.points = ring.DefaultPointsPerNode
	}
	if b.failed == nil {
		b.failed = func(error) {}
	}
	b.copies = overrides.New(c.Overrides, b.failed)
	if c.Size <= 0 {
		c.Size = size
	}
	b.base = b.clock.Now().Add(-time.Minute) // so that 0 is stale
	var err error
	if b.byID, err = lru.New[int64, *cached](c.Size); err != nil {
		return nil, err
	}
	if b.byName, err = lru.New[BudgetRef, *cached](c.Size); err != nil {
		return nil, err
	}
	if b.rings, err = lru.New[int, *ring.Ring](rings); err != nil {
		return nil, err
	}
	b.checks = batch.New(batch.Config[*check]{Run: b.runChecks, Size: versionsChunk, Bound: 1 << 20,
		Refuse: func(c *check) { c.done <- overloaded("find") }})
	return b, nil
}

func overloaded(op string) *budget.Error {
	e := budget.Refuse(budget.Unavailable, op, "too many requests are waiting; repeat later")
	e.Reason, e.RetryAfter = budget.ReasonOverloaded, time.Second
	return e
}

func (c *Budgets) now() int64 { return int64(c.clock.Now().Sub(c.base)) }

// Find returns a budget that is at most a second old, or as Fresh while the database does not
// answer. Errors: BudgetNotFound, also if ref names a tenant other than the budget's; Unavailable.
func (c *Budgets) Find(ctx context.Context, ref BudgetRef) (*Budget, error) {
	if b := c.Fresh(ref); b != nil {
		return b, nil
	}
	if entry, known := c.lookUp(ref); known {
		return c.freshen(ctx, entry, ref)
	}
	return c.load(ctx, ref)
}

// IsSilent reports whether the database does not answer: a comparison of versions has failed in the
// last second or has lasted for one, and none was answered since.
func (c *Budgets) IsSilent() bool { return c.silence.lasts(c.now()) }

// IsCurrent reports whether the definition of a budget that Find returned was the database's within
// the last second. By an older one nobody may be told "no": it may have changed since (I8). Buckets
// and period are not compared: they change with every movement.
func (c *Budgets) IsCurrent(b *Budget) bool {
	entry, known := c.byID.Peek(b.ID)
	if !known || entry.value.Load().Version != b.Version {
		return false
	}
	age := c.now() - entry.checkedAt.Load()
	return age >= 0 && age < int64(freshness)
}

// mayServe reports whether a budget of that age may be served, because the database does not
// answer, and had no other version when it last did.
func (c *Budgets) mayServe(entry *cached, b *Budget, age int64) bool {
	return age >= 0 && age < int64(c.without) && b.InStoreMode() && !entry.changed.Load() &&
		c.IsSilent()
}

// FindAll is Find for each reference. Budgets that are not cached are read concurrently.
func (c *Budgets) FindAll(ctx context.Context, refs []BudgetRef) ([]*Budget, []error) {
	const atOnce = 16
	found, errs := make([]*Budget, len(refs)), make([]error, len(refs))
	var missing []int
	for i, ref := range refs {
		if found[i] = c.Fresh(ref); found[i] == nil {
			missing = append(missing, i)
		}
	}
	var next atomic.Int64
	find := func() {
		for n := next.Add(1); n <= int64(len(missing)); n = next.Add(1) {
			i := missing[n-1]
			found[i], errs[i] = c.Find(ctx, refs[i])
		}
	}
	var readers sync.WaitGroup
	for range min(atOnce, len(missing)) - 1 {
		readers.Go(find)
	}
	find()
	readers.Wait()
	return found, errs
}

// Fresh is Find without waiting. It returns nil if the budget must be read. While the database does
// not answer, a budget in store mode may be as old as BudgetsConfig.Without.
func (c *Budgets) Fresh(ref BudgetRef) *Budget {
	entry, known := c.lookUp(ref)
	if !known {
		return nil
	}
	now := c.now()
	if now-entry.usedAt.Load() > int64(refreshAfter) {
		entry.usedAt.Store(now)
	}
	age := now - entry.checkedAt.Load()
	if age >= int64(refreshAfter) && now >= c.calmUntil.Load() &&
		c.refreshing.CompareAndSwap(false, true) {
		go c.refresh()
	}
	b := entry.value.Load()
	if age >= 0 && age < int64(freshness) || c.mayServe(entry, b, age) { // a clock may step back
		return b
	}
	return nil
}

// Reload reads a budget, unless it was read after the call began. Errors are those of Find.
func (c *Budgets) Reload(ctx context.Context, id int64) (*Budget, error) {
	entry, known := c.byID.Get(id)
	if !known {
		return c.load(ctx, BudgetRef{ID: id})
	}
	return c.reload(ctx, entry)
}

// lookUp returns the entry of a budget. A reference by id without a tenant matches any tenant.
func (c *Budgets) lookUp(ref BudgetRef) (*cached, bool) {
	if ref.ID == 0 {
		entry, known := c.byName.Get(BudgetRef{Tenant: ref.Tenant, Name: ref.Name})
		return entry, known && entry.value.Load().Name == ref.Name // otherwise it was renamed
	}
	entry, known := c.byID.Get(ref.ID)
	if known && ref.Tenant != "" && entry.value.Load().Tenant != ref.Tenant {
		return nil, false // load returns BudgetNotFound
	}
	return entry, known
}

// load reads a budget that is not cached.
func (c *Budgets) load(ctx context.Context, ref BudgetRef) (*Budget, error) {
	ctx, cancel := context.WithTimeout(ctx, readTime)
	defer cancel()
	at := c.now()
	read, err := c.definitions.Budget(ctx, ref)
	if err != nil {
		return nil, err
	}
	return c.put(&read, at)
}

// Learn caches the budget that a movement reads after it, by which this node decides from now on.
// Errors: that of the movement; Internal for limits that cannot be read.
func (c *Budgets) Learn(move func() (Budget, error)) (*Budget, error) {
	at := c.now()
	b, err := move()
	if err != nil {
		return nil, err
	}
	return c.put(&b, at)
}

// Forget removes a budget that was deleted.
func (c *Budgets) Forget(id int64) {
	if entry, known := c.byID.Peek(id); known {
		c.forget(entry)
	}
}

// put caches a budget that was read at an instant, unless a later version is cached.
func (c *Budgets) put(b *Budget, at int64) (*Budget, error) {
	entry := &cached{id: b.ID}
	if known, ok := c.byID.Peek(b.ID); ok {
		entry = known
	}
	entry.reloading.Lock()
	defer entry.reloading.Unlock()
	return c.store(entry, b, at)
}

// store updates the entry of a budget. The caller holds entry.reloading.
func (c *Budgets) store(entry *cached, b *Budget, at int64) (*Budget, error) {
	old := entry.value.Load()
	if old != nil && (old.Version > b.Version || old.ListVersion > b.ListVersion) {
		return old, nil // a later read was faster
	}
	if err := c.prepare(b, old); err != nil {
		return nil, err
	}
	entry.value.Store(b)
	entry.changed.Store(false)
	entry.checkedAt.Store(max(at, entry.checkedAt.Load()))
	if old == nil {
		entry.usedAt.Store(at)
	}
	c.byID.Add(b.ID, entry)
	c.byName.Add(BudgetRef{Tenant: b.Tenant, Name: b.Name}, entry)
	return b, nil
}

// prepare compiles what decisions need. old is the previous version, or nil.
func (c *Budgets) prepare(b, old *Budget) error {
	b.routes = c.ringOf(len(b.Ring()))
	if b.InStoreMode() {
		b.own = c.copies.Follow(b.ID, b.Limits)
	}
	c.judgeZones(b, old)
	if b.begun = new(atomic.Bool); old != nil && old.Period.Number == b.Period.Number &&
		old.Period.Start.Equal(b.Period.Start) {
		b.begun = old.begun
	}
	b.allServe = !slices.ContainsFunc(b.Ring(), func(bk Bucket) bool { return !bk.serves() })
	switch {
	case b.unknown != nil:
		b.limits = &limit.Set{Version: b.LimitsVersion()}
		return nil
	case old != nil && old.unknown == nil && old.limits != nil &&
		old.LimitsVersion() == b.LimitsVersion() && limit.SameSeries(old.Limits, b.Limits):
		b.limits = old.limits
		return nil
	}
	set, err := limit.Compile(b.Limits)
	if err != nil {
		return &budget.Error{Code: budget.Internal, Op: "find", Err: err,
			Message: "the limits cannot be read"}
	}
	b.limits = set
	return nil
}

// judgeZones sets b.unknown, and reports it if it is new. old is the previous version, or nil.
func (c *Budgets) judgeZones(b, old *Budget) {
	if b.unknown = limit.UnknownZone("find", b.Definition); b.unknown == nil {
		return
	}
	c.strange.Store(true)
	if old == nil || old.unknown == nil {
		c.failed(b.unknown)
	}
}

// UnknownZones describes at most 10 budgets that have a time zone that is unknown here and were
// used in the last minutes.
func (c *Budgets) UnknownZones() (out []string) {
	const most, within = 10, 10 * time.Minute
	if !c.strange.Load() {
		return nil
	}
	for _, entry := range c.byID.Values() {
		b := entry.value.Load()
		if b.unknown != nil && len(out) < most && c.now()-entry.usedAt.Load() < int64(within) {
			out = append(out, b.unknown.Message)
		}
	}
	return out
}

// reload reads a budget. Callers that arrive during a read share the next one.
func (c *Budgets) reload(ctx context.Context, entry *cached) (*Budget, error) {
	asked := c.now()
	entry.reloading.Lock()
	defer entry.reloading.Unlock()
	if c.now()-asked >= int64(readTime) { // those before it got no answer
		return nil, &budget.Error{Code: budget.Unavailable, Op: "find",
			Message: "the definition could not be read in time", Reason: budget.ReasonDatabaseDown}
	}
	if at := entry.checkedAt.Load(); at > asked && at <= c.now() {
		return entry.value.Load(), nil
	}
	at := c.now()
	ctx, cancel := context.WithTimeout(ctx, readTime)
	defer cancel()
	read, err := c.definitions.Budget(ctx, BudgetRef{ID: entry.id})
	if err != nil {
		if budget.Is(err, budget.BudgetNotFound) {
			c.forget(entry)
		}
		return nil, err
	}
	return c.store(entry, &read, at)
}

func (c *Budgets) forget(entry *cached) {
	c.copies.Forget(entry.id)
	c.byID.Remove(entry.id)
	if b := entry.value.Load(); b != nil {
		c.byName.Remove(BudgetRef{Tenant: b.Tenant, Name: b.Name})
	}
}
