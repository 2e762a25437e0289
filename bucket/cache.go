package bucket

import (
	"context"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	lru "github.com/hashicorp/golang-lru/v2"

	"github.com/budgetd/budgetd/budget"
	"github.com/budgetd/budgetd/limit"
	"github.com/budgetd/budgetd/ring"
)

// freshness is how old a cached definition may be when it decides (I8).
const freshness = time.Second

// idleAfter is for how long after its last use the version of a cached budget is compared with SQL each time. Then it is
// read anew when it is used, and in store mode compared idleShare times within the window, for what may be decided
// without SQL.
const idleAfter, idleShare = time.Minute, 4

// maxRingPoints lowers the number of virtual nodes for budgets with very many buckets.
const maxRingPoints = 1 << 16

// cached is what a node remembers of a budget.
type cached struct {
	id int64

	value     atomic.Pointer[Budget]
	checkedAt atomic.Int64 // Service.now of the last look at the versions
	usedAt    atomic.Int64 // Service.now of the last use, to freshness

	// soldOut is the smallest amount that was found not to be covered; 0: none. It only says to look
	// at SQL before touching a bucket; it never answers anybody (DESIGN 5.8).
	soldOut atomic.Int64

	// judged is the last look of judgeAll, where it was for many callers.
	judged atomic.Pointer[gathered]

	asked      atomic.Bool // deducted from through this node since recycleStranded looked
	freshening atomic.Bool // somebody reads it anew, in store mode
	coverSoon  atomic.Bool // it is about to be read in the background
	cover      atomic.Pointer[coverRead]

	limits atomic.Pointer[limit.Set] // of some version of value

	voids atomic.Pointer[voids]
}

// coverRead is I3's sum as read at an instant of Service.now.
type coverRead struct {
	Cover
	at time.Duration
}

// cache keeps budgets by id and by name, never staler than freshness when used.
type cache struct {
	s      *Service
	byID   *lru.Cache[int64, *cached]
	byName *lru.Cache[BudgetRef, int64]
}

func newCache(s *Service, size int) (*cache, error) {
	byID, err := lru.New[int64, *cached](size)
	if err != nil {
		return nil, err
	}
	byName, err := lru.New[BudgetRef, int64](size)
	return &cache{s: s, byID: byID, byName: byName}, err
}

// find returns a budget, read anew when the cached one may be stale. Errors: BudgetNotFound,
// Unavailable.
func (c *cache) find(ctx context.Context, ref BudgetRef) (*cached, error) {
	id := ref.ID
	if id == 0 {
		id, _ = c.byName.Get(BudgetRef{Tenant: ref.Tenant, Name: ref.Name})
	}
	if entry, ok := c.use(id); id != 0 && ok {
		// A number names a budget of whatever tenant the caller says.
		if ref.Tenant != "" && entry.value.Load().Tenant != ref.Tenant {
			return nil, notFound(ref)
		}
		return entry, c.freshen(ctx, entry)
	}
	now := c.s.now()
	b, err := c.s.sql.Budget(ctx, ref)
	if err != nil {
		return nil, err
	}
	if ref.Tenant != "" && b.Tenant != ref.Tenant {
		return nil, notFound(ref)
	}
	return c.put(&b, now), nil
}

// findForDeduct is find; a budget in store mode that was known may be as old as the window while SQL
// cannot be reached. One request at a time tries to read it anew.
func (c *cache) findForDeduct(ctx context.Context, ref BudgetRef) (*cached, error) {
	id := ref.ID
	if id == 0 {
		id, _ = c.byName.Get(BudgetRef{Tenant: ref.Tenant, Name: ref.Name})
	}
	entry, ok := c.use(id)
	if id == 0 || !ok || !entry.value.Load().inStoreMode() || c.ageOf(entry) > c.s.set.WindowTime {
		return c.find(ctx, ref)
	}
	if ref.Tenant != "" && entry.value.Load().Tenant != ref.Tenant {
		return nil, notFound(ref)
	}
	return entry, nil
}

// use returns a budget that is remembered, and notes that it is used.
func (c *cache) use(id int64) (entry *cached, ok bool) {
	if entry, ok = c.byID.Get(id); ok {
		if now := int64(c.s.now()); now-entry.usedAt.Load() >= int64(freshness) {
			entry.usedAt.Store(now)
		}
	}
	return entry, ok
}

// ageOf is how long ago an entry was compared with SQL.
func (c *cache) ageOf(entry *cached) time.Duration {
	return c.s.now() - time.Duration(entry.checkedAt.Load())
}

// freshenSoon is freshen for store mode: while SQL cannot be reached, one caller at a time tries, for
// a moment, and an entry no older than the window does meanwhile.
func (c *cache) freshenSoon(ctx context.Context, entry *cached) error {
	age := c.ageOf(entry)
	if age >= 0 && age < freshness {
		return nil
	}
	if age < 0 || age > c.s.set.WindowTime {
		return c.reload(ctx, entry)
	}
	if !entry.freshening.CompareAndSwap(false, true) {
		return nil
	}
	defer entry.freshening.Store(false)
	const patience = 250 * time.Millisecond
	step, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	// Apart from a reload that may be waiting for an answer which was lost.
	now := c.s.now()
	b, err := c.s.sql.Budget(step, BudgetRef{ID: entry.id})
	if err != nil {
		c.s.failed("sql", err)
		return nil
	}
	c.put(&b, now)
	return nil
}

func notFound(ref BudgetRef) error {
	name := ref.Name
	if ref.ID != 0 {
		name = strconv.FormatInt(ref.ID, 10)
	}
	return budget.Refuse(budget.BudgetNotFound, "find", "there is no budget %q in tenant %q", name, ref.Tenant)
}

// put remembers a budget as read at an instant of Service.now.
func (c *cache) put(b *Budget, at time.Duration) *cached {
	entry := &cached{id: b.ID}
	entry.value.Store(b)
	entry.checkedAt.Store(int64(at))
	entry.usedAt.Store(int64(at))
	if known, ok, _ := c.byID.PeekOrAdd(b.ID, entry); ok {
		entry = known
		if old := entry.value.Load(); old.Version <= b.Version && old.ListVersion <= b.ListVersion {
			entry.value.Store(b)
			entry.checkedAt.Store(int64(at))
		}
	}
	c.byName.Add(BudgetRef{Tenant: b.Tenant, Name: b.Name}, b.ID)
	return entry
}

// freshen makes sure that the entry was compared with SQL within the last second.
func (c *cache) freshen(ctx context.Context, entry *cached) error {
	// A clock that stepped back makes the age negative: that is not fresh either.
	if age := c.s.now() - time.Duration(entry.checkedAt.Load()); age >= 0 && age < freshness {
		return nil
	}
	return c.reload(ctx, entry)
}

// reload reads the budget anew; callers that come meanwhile share the result.
func (c *cache) reload(ctx context.Context, entry *cached) error {
	asked := int64(c.s.now())
	leave, err := c.s.enterFor(ctx, reading{"budget", entry.id})
	if err != nil {
		return err
	}
	defer leave()
	now := c.s.now()
	if checked := entry.checkedAt.Load(); checked >= asked && checked <= int64(now) {
		return nil
	}
	b, err := c.s.sql.Budget(ctx, BudgetRef{ID: entry.id})
	if err != nil {
		return err
	}
	c.put(&b, now)
	return nil
}

// enter waits for a gate, until ctx ends.
func (s *Service) enter(ctx context.Context, gate chan struct{}) error {
	select {
	case gate <- struct{}{}:
		return nil
	default:
	}
	place := s.turns.take()
	select {
	case gate <- struct{}{}:
		s.turns.wait(place) // whoever left the gate is still going on
		return nil
	case <-ctx.Done():
		return unavailable("read", ctx.Err())
	}
}

// reading is what one caller at a time reads of a budget, for all.
type reading struct {
	what   string
	budget int64
}

// readings are the gates of what is being read: most budgets that are known are idle.
type readings struct {
	mu  sync.Mutex
	all map[reading]*gate
}

// gate is held by who reads. callers are that one and those who wait.
type gate struct {
	held    chan struct{}
	callers int
}

func (g *readings) join(r reading) *gate {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.all == nil {
		g.all = map[reading]*gate{}
	}
	one := g.all[r]
	if one == nil {
		one = &gate{held: make(chan struct{}, 1)}
		g.all[r] = one
	}
	one.callers++
	return one
}

func (g *readings) part(r reading) {
	g.mu.Lock()
	defer g.mu.Unlock()
	one := g.all[r]
	if one.callers--; one.callers == 0 {
		delete(g.all, r)
	}
}

// enterFor waits, until ctx ends, until nobody else reads that. leave lets the next one in.
func (s *Service) enterFor(ctx context.Context, r reading) (leave func(), err error) {
	one := s.readings.join(r)
	if err := s.enter(ctx, one.held); err != nil {
		s.readings.part(r)
		return nil, err
	}
	return func() {
		<-one.held
		s.readings.part(r)
	}, nil
}

// refreshAll compares the versions of the cached budgets that are used with SQL, and reads the changed ones anew.
func (c *cache) refreshAll(ctx context.Context) {
	ids := slices.DeleteFunc(c.byID.Keys(), c.mayWait)
	for len(ids) > 0 && ctx.Err() == nil {
		n := min(len(ids), 500)
		now := c.s.now()
		step, cancel := c.s.bounded(ctx)
		versions, err := c.s.sql.Versions(step, ids[:n])
		cancel()
		if err != nil {
			c.s.failed("sql", err)
			return
		}
		for _, id := range ids[:n] {
			c.compare(ctx, id, versions, now)
		}
		ids = ids[n:]
	}
}

// mayWait reports whether a budget need not be compared with SQL now: nobody uses it.
func (c *cache) mayWait(id int64) bool {
	entry, ok := c.byID.Peek(id)
	if !ok {
		return true
	}
	if c.s.now()-time.Duration(entry.usedAt.Load()) < idleAfter {
		return false
	}
	age := c.ageOf(entry)
	return !entry.value.Load().inStoreMode() || age >= 0 && age < c.s.set.WindowTime/idleShare
}

func (c *cache) compare(ctx context.Context, id int64, versions map[int64]Version, now time.Duration) {
	entry, ok := c.byID.Peek(id)
	if !ok {
		return
	}
	v, exists := versions[id]
	if !exists {
		c.byID.Remove(id)
		return
	}
	b := entry.value.Load()
	if v.Definition == b.Version && v.List == b.ListVersion {
		entry.checkedAt.Store(int64(now))
		return
	}
	step, cancel := c.s.bounded(ctx)
	defer cancel()
	if err := c.reload(step, entry); err != nil {
		c.s.failed("sql", err)
	}
}

// noteSoldOut remembers that an amount was not covered.
func (e *cached) noteSoldOut(amount int64) {
	for {
		old := e.soldOut.Load()
		if old != 0 && old <= amount || e.soldOut.CompareAndSwap(old, amount) {
			return
		}
	}
}

// cover returns I3's sum, at most a second old. One caller reads it for all; when that cannot be had
// before ctx ends, the error comes with the last sum known.
func (s *Service) cover(ctx context.Context, entry *cached) (Cover, error) {
	if c := entry.freshCover(s.now()); c != nil {
		return c.Cover, nil
	}
	leave, err := s.enterFor(ctx, reading{"cover", entry.id})
	if err != nil {
		return entry.lastCover(), err
	}
	defer leave()
	if c := entry.freshCover(s.now()); c != nil {
		return c.Cover, nil
	}
	c, err := s.covers.do(ctx, entry.id)
	if budget.CodeOf(err) == budget.OutcomeUnknown { // the time to read it was over
		err = unavailable("look up", err)
	}
	if err != nil {
		return entry.lastCover(), err
	}
	entry.noteCover(c)
	return c.Cover, nil
}

// readCovers reads I3's sum of many budgets, but for those that somebody has read since they were asked for.
func (s *Service) readCovers(ids []int64) []result[coverRead] {
	at := s.now()
	out := make([]result[coverRead], len(ids))
	old, places := make([]int64, 0, len(ids)), make([]int, 0, len(ids))
	for i, id := range ids {
		if entry, ok := s.budgets.byID.Peek(id); ok {
			if c := entry.freshCover(at + coverPatience); c != nil {
				out[i].answer = *c
				continue
			}
		}
		old, places = append(old, id), append(places, i)
	}
	if len(old) == 0 {
		return out
	}
	ctx, cancel := s.bounded(context.Background())
	defer cancel()
	covers, err := s.sql.Covers(ctx, old)
	if err != nil {
		s.failed("sql", err)
	}
	for n, i := range places {
		c, known := covers[old[n]]
		switch {
		case err != nil:
			out[i].err = unavailable("look up", err)
		case !known:
			out[i].err = budget.Refuse(budget.BudgetNotFound, "look up", "there is no budget %d", old[n])
		default:
			out[i].answer = coverRead{c, at}
		}
	}
	return out
}

// freshCover is the last sum known if it is less than a second old, else nil.
func (e *cached) freshCover(now time.Duration) *coverRead {
	if c := e.cover.Load(); c != nil && now-c.at < freshness {
		return c
	}
	return nil
}

func (e *cached) lastCover() Cover {
	if c := e.cover.Load(); c != nil {
		return c.Cover
	}
	return Cover{}
}

// noteCover keeps a sum.
func (e *cached) noteCover(c coverRead) {
	if old := e.cover.Load(); old == nil || old.at < c.at {
		e.cover.Store(&c)
	}
}

// ringOf returns the ring over the ordinals of n buckets: budgets with as many buckets share it.
// There are fewer points per node when there are very many buckets.
func (s *Service) ringOf(n int) *ring.Ring {
	if r, ok := s.rings.Get(n); ok {
		return r
	}
	nodes := make([]string, n)
	for i := range nodes {
		nodes[i] = strconv.Itoa(i)
	}
	r, err := ring.New(nodes, max(min(s.set.Points, maxRingPoints/n), 1))
	if err != nil {
		panic(err) // ordinals are distinct and n is bounded by budget.MaxBuckets
	}
	s.rings.Add(n, r)
	return r
}
