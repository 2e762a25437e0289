package row

import (
	"context"
	"sync"
	"time"

	"github.com/budgetd/budgetd/bucket"
	"github.com/budgetd/budgetd/bucket/batch"
)

// wave is the requests of one call. The caller's goroutine has it: it hands its operations to
// queues, waits, and decides about each one that comes back. A deduction that goes well comes back
// once, with its row.
type wave struct {
	s        *Service
	ctx      context.Context
	requests []bucket.DeductRequest
	results  []bucket.DeductResult
	ops      []op
	left     int // not answered
	out      outbox

	now, sqlNow time.Time // when it went on last
	soft, hard  time.Time // when nothing more is begun, and when it ends
	place       batch.Watched

	mu     sync.Mutex
	ready  *op
	away   int  // handed out
	urgent bool // one that came back needs another step
	late   lateness
	seen   lateness
	parked bool
	park   sync.WaitGroup
}

// lateness is how far a wave is beyond its deadline.
type lateness uint8

const (
	inTime   lateness = iota
	pastSoft          // nothing more is begun
	pastHard          // nothing more is waited for
)

// back gives an operation back to its wave. urgent says that it needs another step.
func (w *wave) back(o *op, urgent bool) {
	w.mu.Lock()
	o.next, w.ready = w.ready, o
	w.away--
	w.urgent = w.urgent || urgent
	w.wake()
}

// wake lets the wave go on if it has a reason to, and unlocks it.
func (w *wave) wake() {
	woken := w.parked && w.hasNews()
	if woken {
		w.parked = false
	}
	w.mu.Unlock()
	if woken {
		w.park.Done()
	}
}

func (w *wave) hasNews() bool { return w.urgent || w.away == 0 || w.late > w.seen }

// Overdue implements batch.Waiter.
func (w *wave) Overdue(now time.Time) {
	if now.Before(w.soft) && w.ctx.Err() == nil {
		return
	}
	late := pastSoft
	if !now.Before(w.hard) || w.ctx.Err() != nil {
		late = pastHard
	}
	w.mu.Lock()
	w.late = max(w.late, late)
	w.wake()
}

// wait returns the operations that have come back, linked by next, once there is something to do.
func (w *wave) wait() (*op, lateness) {
	w.mu.Lock()
	if !w.hasNews() {
		w.parked = true
		w.park.Add(1)
		w.mu.Unlock()
		w.park.Wait()
		w.mu.Lock()
	}
	defer w.mu.Unlock()
	ready := w.ready
	w.ready, w.urgent, w.seen = nil, false, w.late
	return ready, w.late
}

// run brings every operation to its answer.
func (w *wave) run() {
	w.tick()
	w.soft = w.now.Add(w.s.set.Deadline)
	w.hard = w.soft.Add(w.s.set.Grace)
	w.s.watch.Add(&w.place, w)
	defer w.s.watch.Remove(&w.place)
	for i := range w.ops {
		if o := &w.ops[i]; !o.done && !o.held {
			w.begin(o)
		}
	}
	w.out.send(w)
	for w.left > 0 {
		ready, late := w.wait()
		w.tick()
		for o := ready; o != nil; {
			next := o.next
			o.next = nil
			if !o.done {
				w.advance(o, late)
			}
			o = next
		}
		if late > inTime {
			w.expire(late)
		}
		w.out.send(w)
	}
}

// tick looks at the clocks.
func (w *wave) tick() { w.now, w.sqlNow = w.s.clock.Now(), w.s.sqlNow() }

// expire answers the operations that have run out of time.
func (w *wave) expire(late lateness) {
	for i := range w.ops {
		o := &w.ops[i]
		switch {
		case o.done:
		case o.held || o.withdraw():
			w.timeUp(o)
		case late == pastHard:
			w.fail(o, outcomeUnknown(w.ctx.Err()))
		}
	}
}

// timeUp answers an operation that nothing was written for since it was handed out.
func (w *wave) timeUp(o *op) {
	switch {
	case o.answered:
		w.finish(o) // without the figures that are missing
	case o.unsure.Load():
		w.fail(o, outcomeUnknown(w.ctx.Err()))
	default:
		w.fail(o, w.tooLate(o))
	}
}

// finish ends an operation whose result is set, and begins the next one of its id.
func (w *wave) finish(o *op) {
	o.done = true
	w.left--
	if next := o.after; next != nil {
		next.held = false
		w.begin(next)
	}
}

func (w *wave) fail(o *op, err error) {
	w.results[o.at] = bucket.DeductResult{Err: err}
	w.finish(o)
}

// outbox collects what a wave hands out, so that each queue is locked once.
type outbox struct {
	parcels []parcel
	grouped []grouped
	n       int
}

type parcel struct {
	queue *batch.Queue[*op]
	ops   []*op
}

// grouped is an operation for the queue of a budget.
type grouped struct {
	group *batch.Group[*op]
	op    *op
}

// put notes an operation for a queue.
func (b *outbox) put(q *batch.Queue[*op], o *op) {
	o.phase.Store(phaseWaiting)
	b.n++
	for i := range b.parcels {
		if p := &b.parcels[i]; p.queue == q {
			p.ops = append(p.ops, o)
			return
		}
	}
	b.parcels = append(b.parcels, parcel{queue: q, ops: append(make([]*op, 0, 1), o)})
}

// putFor notes an operation for the queue of its budget in a group.
func (b *outbox) putFor(g *batch.Group[*op], o *op) {
	o.phase.Store(phaseWaiting)
	b.n++
	b.grouped = append(b.grouped, grouped{g, o})
}

// send hands out what was noted. The wave counts it first: it may come back at once.
func (b *outbox) send(w *wave) {
	if b.n == 0 {
		return
	}
	w.mu.Lock()
	w.away += b.n
	w.mu.Unlock()
	b.n = 0
	for i := range b.parcels {
		switch p := &b.parcels[i]; len(p.ops) {
		case 0:
		case 1:
			p.queue.Add(p.ops[0])
		default:
			p.queue.AddAll(p.ops)
		}
		b.parcels[i].ops = b.parcels[i].ops[:0]
	}
	for _, g := range b.grouped {
		g.group.Add(g.op.Budget.ID, g.op)
	}
	b.grouped = b.grouped[:0]
}
