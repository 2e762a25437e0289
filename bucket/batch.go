package bucket

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"sync"
	"sync/atomic"
	"time"

	"github.com/budgetd/budgetd/budget"
)

// batcher aggregates calls: whatever arrives while a call is in flight goes into the next one
// (DESIGN 5.3). There is no timer and no added waiting when idle: the first caller's item is sent at
// once, alone; gather is for where many come again and again. At most workers calls run at the same time; more than
// bound waiting items are refused with Unavailable (back-pressure). Where items are somebody's (owner), each of those
// that wait gets the same part of a call, and of the room: see queue. The zero value is not usable; safe for
// concurrent use.
type batcher[Q, A any] struct {
	// run does one call for many items and returns one answer for each, in order. It has bounds of
	// its own: it is not cancelled when callers give up.
	run func(items []Q) []result[A]
	// size is the most items of one call.
	size, bound, workers int
	turns                turns
	// beside says when another call begins while one is under way; nil: at once.
	beside *beside
	// apart names what two calls must not both work on; nil: nothing.
	apart func(Q) int64
	// owner names whose an item is; nil: all are one's.
	owner func(Q) int64
	// gather makes a call wait for those whom the one before it has answered; nil: none does.
	gather *gather

	mu      sync.Mutex
	queue   queue[Q, A]
	running int
	began   time.Duration // when the last call began, of beside.now
	watched bool          // watch looks whether a further call is to begin
	hoped   int           // with so many waiting, enough is called
	enough  func()        // ends the wait of a call for more items; nil: none waits
	busy    map[int64]int // what calls under way work on, by how many of their items
}

// beside makes calls large rather than many: another one begins only when `full` items wait, or when the
// one that began last has been under way for `patience`. Whoever waits beside a call that hangs waits for twice that at
// most, as long as fewer than `workers` do.
type beside struct {
	full     int
	patience time.Duration
	now      func() time.Duration
	// sleep waits for d; an error ends whatever sleeps.
	sleep func(d time.Duration) error
}

// gather is for callers who come again as soon as they are answered, where a call costs about the same however many
// items it has. Two halves of them would take turns: one waits while the other is asked for. So where at least `many` and
// at most `most` are in a call, or wait at its end, the next one begins when nearly as many wait, or `patience` after it.
// Where they do not come again, it stops: after vainWaits waits in vain the next calls do without, restCalls of them.
type gather struct {
	many, most int
	patience   time.Duration
	now        func() time.Duration
	sleep      func(ctx context.Context, d time.Duration) error
	// last is what the last call said; it outlives the batcher of a group.
	last *atomic.Pointer[gathered]
}

// vainWaits and restCalls bound what waiting costs those for whom it is no use: one patience in restCalls calls.
const vainWaits, restCalls = 3, 64

// gathered is what is known after a call.
type gathered struct {
	callers int           // how many wanted to be in it when it ended; 0: too few, or too many
	ended   time.Duration // of gather.now
	vain    int           // waits in vain, one after the other
	rest    int           // calls that are not to wait
}

// after is what is known after a call: how many wanted to be in it, and how its waiting for them ended.
func (g gathered) after(callers int, ended time.Duration, w waited) gathered {
	switch {
	case w == waitedInVain:
		g.vain = min(g.vain+1, vainWaits)
		if g.vain == vainWaits {
			g.rest = restCalls
		}
	case w == waitedForAll:
		g.vain = 0
	case g.rest > 0:
		g.rest--
	}
	g.callers, g.ended = callers, ended
	return g
}

// waited is how the waiting of a call ended.
type waited int

const (
	didNotWait waited = iota
	waitedForAll
	waitedInVain
)

type result[A any] struct {
	answer A
	err    error
}

type item[Q, A any] struct {
	question Q
	owner    int64
	of       *ticket[A]
	at       int
	taken    bool // a call has it: it may be executed; guarded by batcher.mu
}

// ticket is what somebody waits for: the answers of the items that were handed in together.
type ticket[A any] struct {
	place int64
	done  chan struct{} // gets a value when all are answered

	mu      sync.Mutex
	answers []result[A]
	given   []bool
	left    int
}

// answer notes an item's answer and wakes whoever waits when it was the last one. woken: that somebody goes
// on now.
func (t *ticket[A]) answer(at int, r result[A]) (woken bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.given[at] {
		return false
	}
	t.answers[at], t.given[at] = r, true
	if t.left--; t.left > 0 {
		return false
	}
	t.done <- struct{}{}
	return true
}

// handed are items that were handed in and are to be waited for.
type handed[Q, A any] struct {
	items  []item[Q, A]
	ticket *ticket[A]
}

// do waits for the item's answer: as wait.
func (b *batcher[Q, A]) do(ctx context.Context, question Q) (A, error) {
	one := new(struct {
		items   [1]item[Q, A]
		ticket  ticket[A]
		answers [1]result[A]
		given   [1]bool
	})
	one.items[0].question = question
	one.ticket.answers, one.ticket.given = one.answers[:], one.given[:]
	h := handed[Q, A]{one.items[:], &one.ticket}
	b.enqueue(h)
	r := b.wait(ctx, h)[0]
	return r.answer, r.err
}

// hand puts items into the queue: as handIn.
func (b *batcher[Q, A]) hand(questions []Q) handed[Q, A] {
	items := b.room(len(questions))
	for i := range items {
		items[i].question = questions[i]
	}
	return b.handIn(items)
}

// room makes items whose questions are to be set before they are handed in.
func (b *batcher[Q, A]) room(n int) []item[Q, A] { return make([]item[Q, A], n) }

// handIn puts items into the queue, in order; they have to be waited for, and at least one there must be. Those for which
// there is no room are answered with Unavailable, because of errFull.
func (b *batcher[Q, A]) handIn(items []item[Q, A]) handed[Q, A] {
	n := len(items)
	h := handed[Q, A]{items, &ticket[A]{answers: make([]result[A], n), given: make([]bool, n)}}
	b.enqueue(h)
	return h
}

func (b *batcher[Q, A]) enqueue(h handed[Q, A]) {
	t := h.ticket
	t.place, t.done, t.left = b.turns.take(), make(chan struct{}, 1), len(h.items)
	b.mu.Lock()
	var refused []*item[Q, A]
	for i := range h.items {
		it := &h.items[i]
		it.of, it.at = t, i
		if b.owner != nil {
			it.owner = b.owner(it.question)
		}
		if b.queue.length >= b.bound {
			it = b.queue.replace(it)
			it.taken = true
			refused = append(refused, it)
			continue
		}
		b.queue.append(it)
	}
	if b.enough != nil && b.queue.length >= b.hoped {
		b.enough()
	}
	if !b.begin() && b.beside != nil && b.queue.length > 0 && !b.watched {
		b.watched = true
		go b.watch(b.turns.take())
	}
	b.mu.Unlock()
	for _, it := range refused {
		woken := it.of.answer(it.at, result[A]{err: b.full()})
		if woken && it.of != t {
			b.turns.wait(it.of.place)
		}
	}
}

// errFull is the cause of what is refused for want of room in a queue: whoever gets it answers at once, since looking for
// another way costs those more that wait already.
var errFull = errors.New("the queue is full")

func (b *batcher[Q, A]) full() *budget.Error {
	return &budget.Error{Code: budget.Unavailable, Op: "queue", Err: errFull,
		Message: fmt.Sprintf("%d requests are waiting already; repeat later", b.bound)}
}

// begin begins a further call if one is to begin, and reports whether.
func (b *batcher[Q, A]) begin() bool {
	if !b.mayBegin() {
		return false
	}
	b.running++
	if b.beside != nil {
		b.began = b.beside.now()
	}
	go b.work()
	return true
}

// watch begins further calls for what waits beside one that hangs, as long as something waits: whoever comes next
// would begin one too, but perhaps nobody comes.
func (b *batcher[Q, A]) watch(place int64) {
	b.turns.wait(place)
	for {
		err := b.beside.sleep(b.beside.patience)
		b.mu.Lock()
		if err != nil || b.queue.length == 0 {
			b.watched = false
			b.mu.Unlock()
			return
		}
		b.begin()
		b.mu.Unlock()
	}
}

// mayBegin reports whether a further call is to begin.
func (b *batcher[Q, A]) mayBegin() bool {
	switch {
	case b.queue.length == 0 || b.running >= b.workers:
		return false
	case b.running == 0 || b.beside == nil || b.queue.length >= b.beside.full:
		return true
	}
	return b.beside.now()-b.began >= b.beside.patience
}

// wait returns the items' answers, in order. When ctx ends first the error is Unavailable of an item that
// no call has taken yet (it is withdrawn), else OutcomeUnknown.
func (b *batcher[Q, A]) wait(ctx context.Context, h handed[Q, A]) []result[A] {
	t := h.ticket
	select {
	case <-t.done:
		return t.answers
	case <-ctx.Done():
	}
	for _, it := range b.withdraw(h) {
		t.answer(it.at, result[A]{err: &budget.Error{Code: budget.Unavailable, Op: "queue",
			Message: "the deadline passed before the call was sent", Err: ctx.Err()}})
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	for i, given := range t.given {
		if !given { // what comes in later is told to nobody
			t.given[i] = true
			t.answers[i].err = &budget.Error{Code: budget.OutcomeUnknown, Op: "queue",
				Message: "the deadline passed while the call was under way", Err: ctx.Err()}
		}
	}
	return t.answers
}

// soon reports whether all items are answered before ctx ends. They have to be waited for all the same.
func (b *batcher[Q, A]) soon(ctx context.Context, h handed[Q, A]) bool {
	select {
	case <-h.ticket.done:
		h.ticket.done <- struct{}{} // for wait
		return true
	case <-ctx.Done():
	}
	select { // when both have happened
	case <-h.ticket.done:
		h.ticket.done <- struct{}{}
		return true
	default:
		return false
	}
}

// withdraw takes back the items that no call has taken.
func (b *batcher[Q, A]) withdraw(h handed[Q, A]) (withdrawn []*item[Q, A]) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for i := range h.items {
		if it := &h.items[i]; !it.taken {
			it.taken, withdrawn = true, append(withdrawn, it)
		}
	}
	if len(withdrawn) > 0 {
		b.queue.remove(withdrawn)
	}
	return withdrawn
}

// work makes calls until nothing waits that no other call works on.
func (b *batcher[Q, A]) work() {
	for {
		// Whoever can go on now hands in first: on a busy machine calls become larger, on an idle one it costs
		// nothing.
		runtime.Gosched()
		w := didNotWait
		if b.gather != nil {
			w = b.awaitMore()
		}
		b.mu.Lock()
		group := b.take()
		if len(group) == 0 {
			b.running--
			b.mu.Unlock()
			return
		}
		if b.beside != nil {
			b.began = b.beside.now()
		}
		b.mu.Unlock()
		questions := make([]Q, len(group))
		for i, it := range group {
			questions[i] = it.question
		}
		answers := b.run(questions)
		b.mu.Lock()
		b.occupy(group, -1)
		callers := len(group) + b.queue.length
		b.mu.Unlock()
		if b.gather != nil {
			b.gather.note(callers, w)
		}
		for i, r := range answers {
			if t := group[i].of; t.answer(group[i].at, r) {
				b.turns.wait(t.place) // whoever got the answers goes on alone
			}
		}
	}
}

// awaitMore waits as long as gather says: not beside another call, which may be waiting too.
func (b *batcher[Q, A]) awaitMore() waited {
	callers, patience := b.gather.hopes()
	callers = min(callers, b.size)
	if patience <= 0 {
		return didNotWait
	}
	b.mu.Lock()
	if n := b.queue.length; n == 0 || n >= callers || b.running > 1 || b.enough != nil {
		b.mu.Unlock()
		return didNotWait
	}
	ctx, enough := context.WithCancel(context.Background())
	defer enough()
	b.hoped, b.enough = callers, enough
	if b.beside != nil {
		b.began = b.beside.now() // nobody else begins meanwhile
	}
	b.mu.Unlock()
	_ = b.gather.sleep(ctx, patience) // however it ends, what waits is taken
	b.mu.Lock()
	defer b.mu.Unlock()
	b.hoped, b.enough = 0, nil
	if b.queue.length < callers {
		return waitedInVain
	}
	return waitedForAll
}

// hopes returns how many callers a call is to wait for, and for how long; 0: not at all.
func (g *gather) hopes() (callers int, patience time.Duration) {
	last := g.last.Load()
	if last == nil || last.callers == 0 || last.rest > 0 {
		return 0, 0
	}
	const late = 16 // one of so many is not waited for: there are always some
	return last.callers - last.callers/late, min(last.ended+g.patience-g.now(), g.patience)
}

// note remembers how many wanted to be in a call that ended just now, and how it waited for them.
func (g *gather) note(callers int, w waited) {
	if callers < g.many || callers > g.most {
		callers = 0
	}
	var last gathered
	if known := g.last.Load(); known != nil {
		last = *known
	}
	if last = last.after(callers, g.now(), w); callers == 0 && last.vain == 0 {
		g.last.Store(nil)
		return
	}
	g.last.Store(&last)
}

// take takes the items of the next call from the queue: those that no other call works on.
func (b *batcher[Q, A]) take() []*item[Q, A] {
	var busy func(*item[Q, A]) bool
	if len(b.busy) > 0 {
		busy = func(it *item[Q, A]) bool { return b.busy[b.apart(it.question)] > 0 }
	}
	group := b.queue.take(b.size, busy)
	for _, it := range group {
		it.taken = true
	}
	b.occupy(group, 1)
	return group
}

// occupy notes that a call works on its items, or (-1) does no more.
func (b *batcher[Q, A]) occupy(group []*item[Q, A], by int) {
	if b.apart == nil || b.workers == 1 {
		return
	}
	if b.busy == nil {
		b.busy = map[int64]int{}
	}
	for _, it := range group {
		key := b.apart(it.question)
		if b.busy[key] += by; b.busy[key] == 0 {
			delete(b.busy, key)
		}
	}
}

// worksOn reports whether a call under way works on what apart names so.
func (b *batcher[Q, A]) worksOn(key int64) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.busy[key] > 0
}

// failAll is the answer of a call that failed as a whole.
func failAll[A any](n int, err error) []result[A] {
	out := make([]result[A], n)
	for i := range out {
		out[i].err = err
	}
	return out
}
