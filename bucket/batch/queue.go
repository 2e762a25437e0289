package batch

import (
	"hash/maphash"
	"runtime"
	"sync"
	"time"
)

// Config configures a Queue.
type Config[T any] struct {
	// Run makes one call. It gets 1 … Size items and must not keep the slice. It bounds its own
	// time.
	Run func(items []T)
	// Refuse is called for an item without room, or one that gives way to another owner's. It must
	// not block.
	Refuse func(item T)
	// Owner returns the owner of an item; nil means that all items have the same one.
	Owner func(item T) int64
	// Works appends what an item works on; a call has items that work on at most Keys different
	// things, unless it has one item. 0 means no bound.
	Works func(item T, to []int64) []int64
	Keys  int
	// Claims appends what a call with the item has for itself. An item waits for a call in the air
	// that has one of its claims. nil means that items have none.
	Claims func(item T, to []uint64) []uint64
	// Most returns how many calls may be in the air, given the usual time of one; nil means one.
	// See Queue.
	Most func(usual time.Duration) int
	// Size bounds the items of one call, Bound those that wait.
	Size, Bound int
}

// mostCalls bounds the calls of a queue, those that take too long included.
const mostCalls = 8

// A call waits for an eighth of the usual time while another one is in the air, and is slow after
// four times that.
const (
	waitShare = 8
	slowAfter = 4
	// smoothing is the share of the last call in the usual time.
	smoothing = 8
)

// Queue makes calls from the waiting items. A call begins at once if none is in the air. Beside
// another one it begins when no item has come for an eighth of the usual time of a call, so that
// those who were answered together travel together again, or earlier, when as many wait as went
// with either of the last two. At most Most calls are in the air. One that takes four times as long
// as usual no longer counts; until it lands, the items of its owners wait for it, so that one owner
// that is locked does not stop the others.
//
// A queue has goroutines only while there is work. Create one with New. It is safe for concurrent
// use.
type Queue[T any] struct {
	config Config[T]

	mu        sync.Mutex
	flows     flows[T]
	behind    int // items that wait for a call in the air
	air       []*call[T]
	beginning bool      // a call has begun and has not taken its items yet
	last      [2]int    // items of the calls that began last
	since     time.Time // when items came last, if a call was in the air
	usual     time.Duration
	timer     *time.Timer
	wakes     time.Time // when the timer ends; zero if it does not run

	claimed map[uint64]*call[T]
	slow    map[int64]*call[T] // by owner, of calls that take too long
	spare   []*call[T]
	keys    map[int64]struct{}
	works   []int64
	claims  []uint64
}

// call is a call in the air.
type call[T any] struct {
	items  []T
	owners []int64 // of items, noted when the call took them: Run may hand items on before it ends
	claims []uint64
	began  time.Time
	isSlow bool
	behind []T
}

// InTheAir returns how many calls may be in the air: two, and up to four if the network takes most
// of the usual time of a call. away is the time of a round trip without work.
func InTheAir(usual, away time.Duration) int {
	const least, most = 2, 4
	work := max(usual-away, usual/8, 1)
	return int(min(max((usual+2*work-1)/(2*work), least), most))
}

var seed = maphash.MakeSeed()

// Claim returns a hash of the name of something that belongs to an owner. Two names with one hash
// only wait for each other.
func Claim(owner int64, name ...string) uint64 {
	const golden = 0x9e3779b97f4a7c15 // the golden ratio, as in Fibonacci hashing
	h := uint64(owner)                //nolint:gosec // a hash
	for _, part := range name {
		h = (h*golden ^ maphash.String(seed, part)) * golden
	}
	return h
}

// New returns an empty queue.
func New[T any](config Config[T]) *Queue[T] {
	q := &Queue[T]{config: config, claimed: map[uint64]*call[T]{}, slow: map[int64]*call[T]{}}
	if config.Keys > 0 {
		q.keys = make(map[int64]struct{}, config.Keys)
	}
	return q
}

// Add puts an item into the queue and returns at once. If there is no room, the newest item of the
// owner with the most items gives way, or the item itself if that owner would be its own.
func (q *Queue[T]) Add(item T) {
	q.mu.Lock()
	refused, full := q.add(item)
	q.arrived()
	q.consider()
	q.mu.Unlock()
	if full {
		q.config.Refuse(refused)
	}
}

// AddAll is Add for each item, in order.
func (q *Queue[T]) AddAll(items []T) {
	var refused []T
	q.mu.Lock()
	for _, item := range items {
		if out, full := q.add(item); full {
			refused = append(refused, out)
		}
	}
	q.arrived()
	q.consider()
	q.mu.Unlock()
	for _, item := range refused {
		q.config.Refuse(item)
	}
}

// Len returns the number of waiting items.
func (q *Queue[T]) Len() int {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.flows.length + q.behind
}

func (q *Queue[T]) add(item T) (refused T, full bool) {
	if q.flows.length+q.behind >= q.config.Bound {
		return q.flows.replace(q.owner(item), item), true
	}
	q.flows.add(q.owner(item), item)
	return refused, false
}

// arrived notes when items came.
func (q *Queue[T]) arrived() {
	if q.config.Most != nil && len(q.air) > 0 {
		q.since = time.Now()
	}
}

func (q *Queue[T]) owner(item T) int64 {
	if q.config.Owner == nil {
		return 0
	}
	return q.config.Owner(item)
}

// consider begins a call if it is time, or sees to it that it is considered again.
func (q *Queue[T]) consider() {
	if q.beginning || q.flows.length == 0 || len(q.air) >= mostCalls {
		return
	}
	counted, most := len(q.air), 1
	var wait time.Duration
	if counted > 0 {
		if q.config.Most != nil {
			most = q.config.Most(q.usual)
		}
		if most == 1 { // nothing is measured, and nothing overtakes a slow call
			return
		}
		counted, wait = q.inAir(most)
	}
	if counted > 0 && wait > 0 {
		q.wake(wait)
		return
	}
	q.beginning = true
	c := &call[T]{}
	if n := len(q.spare); n > 0 {
		c, q.spare = q.spare[n-1], q.spare[:n-1]
	}
	q.air = append(q.air, c)
	if counted > 0 || most > 1 || q.config.Most != nil {
		c.began = time.Now()
	}
	go q.fly(c)
}

// inAir returns how many calls count as in the air, and how long it is until the next one may begin
// beside them, or until one of them is slow.
func (q *Queue[T]) inAir(most int) (counted int, wait time.Duration) {
	now := time.Now()
	slow := time.Duration(1<<63 - 1)
	for _, c := range q.air {
		if !c.isSlow && q.usual > 0 && now.Sub(c.began) > slowAfter*q.usual {
			c.isSlow = true
			for _, owner := range c.owners {
				q.slow[owner] = c
			}
		}
		if !c.isSlow {
			counted++
			slow = min(slow, slowAfter*q.usual-now.Sub(c.began)+1)
		}
	}
	switch {
	case counted >= most:
		return counted, max(slow, time.Microsecond)
	case counted == 0 || q.flows.length >= max(q.last[0], q.last[1]):
		return counted, 0
	}
	return counted, max(q.usual/waitShare-now.Sub(q.since), 0)
}

// wake considers the queue again after a time, or earlier if that is due already.
func (q *Queue[T]) wake(wait time.Duration) {
	at := time.Now().Add(wait)
	switch {
	case q.timer == nil:
		q.timer = time.AfterFunc(wait, q.woken)
	case q.wakes.IsZero() || at.Before(q.wakes):
		q.timer.Reset(wait)
	default:
		return
	}
	q.wakes = at
}

func (q *Queue[T]) woken() {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.wakes = time.Time{}
	q.consider()
}

// fly makes one call after the other as long as they begin at once.
func (q *Queue[T]) fly(c *call[T]) {
	// Let runnable goroutines add their items first: on a busy machine calls become larger, on an
	// idle one it costs nothing.
	runtime.Gosched()
	q.mu.Lock()
	c.items = q.flows.take(c.items[:0], q.config.Size, q.admit(c))
	q.noteOwners(c)
	q.beginning = false
	q.last = [2]int{q.last[1], len(c.items)}
	q.consider() // what did not go with it
	q.mu.Unlock()
	if len(c.items) > 0 {
		q.config.Run(c.items)
	}
	q.mu.Lock()
	q.land(c)
	q.consider()
	q.mu.Unlock()
}

// noteOwners notes whose items a call took. Those of an owner follow each other.
func (q *Queue[T]) noteOwners(c *call[T]) {
	if q.config.Most == nil {
		return // no call is slow
	}
	for _, item := range c.items {
		owner := q.owner(item)
		if n := len(c.owners); n == 0 || c.owners[n-1] != owner {
			c.owners = append(c.owners, owner)
		}
	}
}

// land ends a call, and puts what waits for it back into the queue.
func (q *Queue[T]) land(c *call[T]) {
	for i, other := range q.air {
		if other == c {
			q.air = append(q.air[:i], q.air[i+1:]...)
			break
		}
	}
	if len(c.items) > 0 && !c.began.IsZero() {
		took := time.Since(c.began)
		if q.usual == 0 {
			q.usual = took
		}
		q.usual += (min(took, slowAfter*q.usual) - q.usual) / smoothing
	}
	for _, claim := range c.claims {
		delete(q.claimed, claim)
	}
	if c.isSlow {
		for owner, other := range q.slow {
			if other == c {
				delete(q.slow, owner)
			}
		}
	}
	q.behind -= len(c.behind)
	for _, item := range c.behind {
		q.flows.add(q.owner(item), item)
	}
	clear(c.items)
	clear(c.behind)
	*c = call[T]{items: c.items[:0], owners: c.owners[:0], claims: c.claims[:0],
		behind: c.behind[:0]}
	q.spare = append(q.spare, c)
}

// admission says what becomes of an item when a call takes items.
type admission int

const (
	// admitted items go with the call, deferred ones wait for another call, and a rejected one ends
	// the call.
	admitted admission = iota
	deferred
	rejected
)

// admit returns what decides about the items for a call; nil admits all.
func (q *Queue[T]) admit(c *call[T]) func(T) admission {
	if q.config.Keys == 0 && q.config.Claims == nil && len(q.slow) == 0 {
		return nil
	}
	clear(q.keys)
	return func(item T) admission {
		if len(q.slow) > 0 {
			if other := q.slow[q.owner(item)]; other != nil {
				return q.waitFor(other, item)
			}
		}
		q.claims = q.claims[:0]
		if q.config.Claims != nil {
			q.claims = q.config.Claims(item, q.claims)
			for _, claim := range q.claims {
				if other := q.claimed[claim]; other != nil && other != c {
					return q.waitFor(other, item)
				}
			}
		}
		if q.config.Keys > 0 && !q.fits(item) {
			return rejected
		}
		for _, claim := range q.claims {
			if q.claimed[claim] == nil {
				q.claimed[claim] = c
				c.claims = append(c.claims, claim)
			}
		}
		return admitted
	}
}

// fits notes what an item works on, unless that would be too much for one call.
func (q *Queue[T]) fits(item T) bool {
	q.works = q.config.Works(item, q.works[:0])
	more := 0
	for _, key := range q.works {
		if _, known := q.keys[key]; !known {
			more++
		}
	}
	if len(q.keys) > 0 && len(q.keys)+more > q.config.Keys {
		return false
	}
	for _, key := range q.works {
		q.keys[key] = struct{}{}
	}
	return true
}

func (q *Queue[T]) waitFor(c *call[T], item T) admission {
	c.behind = append(c.behind, item)
	q.behind++
	return deferred
}
