package deduct

import (
	"context"
	"sync"
	"time"

	"github.com/budgetd/budgetd/bucket"
	"github.com/budgetd/budgetd/bucket/batch"
	"github.com/budgetd/budgetd/budget"
)

// Steps are what a mode does with the operations of a wave, each named by its place.
type Steps interface {
	// Op returns what all modes have of an operation.
	Op(i int) *Op
	// Check refuses a request that the mode can never serve.
	Check(r *bucket.DeductRequest) error
	// Prepare makes what the mode keeps of a request, once its budget is known.
	Prepare(i int, nonce string)
	// Begin judges an operation by its budget's definition, and hands it out or answers it.
	Begin(i int)
	// Advance decides about an operation that came back.
	Advance(i int)
	// Send hands out what was noted.
	Send()
}

// Wave is the requests of one call. The caller's goroutine has it: it hands its operations to
// queues, waits, and decides about each one that comes back. A deduction that goes well comes back
// once. The mode's wave embeds it.
type Wave struct {
	Ctx         context.Context
	Now, SQLNow time.Time // when it went on last
	Seen        Lateness  // as of then

	host  *Host
	steps Steps
	n     int // operations
	left  int // not answered

	soft, hard time.Time // when nothing more is begun, and when it ends
	place      batch.Watched

	mu     sync.Mutex
	ready  *Op
	away   int  // handed out
	urgent bool // one that came back needs another step
	late   Lateness
	parked bool
	park   sync.WaitGroup
}

// Lateness is how far a wave is beyond its deadline.
type Lateness uint8

// The lateness of a wave. PastSoft: nothing more is begun. PastHard: nothing more is waited for.
const (
	InTime Lateness = iota
	PastSoft
	PastHard
)

// back takes an operation back. urgent says that it needs another step.
func (w *Wave) back(o *Op, urgent bool) {
	w.mu.Lock()
	o.next, w.ready = w.ready, o
	w.away--
	w.urgent = w.urgent || urgent
	w.wake()
}

// wake lets the wave go on if it has a reason to, and unlocks it.
func (w *Wave) wake() {
	woken := w.parked && w.hasNews()
	if woken {
		w.parked = false
	}
	w.mu.Unlock()
	if woken {
		w.park.Done()
	}
}

func (w *Wave) hasNews() bool { return w.urgent || w.away == 0 || w.late > w.Seen }

// Overdue implements batch.Waiter.
func (w *Wave) Overdue(now time.Time) {
	if now.Before(w.soft) && w.Ctx.Err() == nil {
		return
	}
	late := PastSoft
	if !now.Before(w.hard) || w.Ctx.Err() != nil {
		late = PastHard
	}
	w.mu.Lock()
	w.late = max(w.late, late)
	w.wake()
}

// wait returns the operations that have come back, linked by next, once there is something to do.
func (w *Wave) wait() *Op {
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
	w.ready, w.urgent, w.Seen = nil, false, w.late
	return ready
}

// Serve brings every request to its answer, the one at its place in results. The requests of one id
// are done one after the other, in the order given. It returns when all are answered.
func (w *Wave) Serve(ctx context.Context, h *Host, steps Steps, requests []bucket.DeductRequest,
	results []bucket.DeductResult) {
	w.Ctx, w.host, w.steps, w.n = ctx, h, steps, len(requests)
	w.tick()
	w.admit(requests, results)
	if w.n > 1 {
		w.chain()
	}
	w.soft = w.Now.Add(h.Deadline)
	w.hard = w.soft.Add(h.Grace)
	h.watch.Add(&w.place, w)
	defer h.watch.Remove(&w.place)
	for i := range w.n {
		if o := steps.Op(i); !o.done && !o.held {
			steps.Begin(i)
		}
	}
	steps.Send()
	for w.left > 0 {
		ready := w.wait()
		w.tick()
		for o := ready; o != nil; {
			next := o.next
			o.next = nil
			if !o.done {
				steps.Advance(o.at)
			}
			o = next
		}
		if w.Seen > InTime {
			w.expire()
		}
		steps.Send()
	}
}

// tick looks at the clocks.
func (w *Wave) tick() { w.Now, w.SQLNow = w.host.Clock.Now(), w.host.Now() }

// expire answers the operations that have run out of time.
func (w *Wave) expire() {
	for i := range w.n {
		o := w.steps.Op(i)
		switch {
		case o.done:
		case o.held || o.withdraw():
			w.TimeUp(o)
		case w.Seen == PastHard:
			w.Fail(o, w.host.outcomeUnknown(w.Ctx.Err()))
		}
	}
}

// TimeUp answers an operation that nothing is under way for.
func (w *Wave) TimeUp(o *Op) {
	switch {
	case o.Answered:
		w.Finish(o) // without the figures that are missing
	case o.Unsure:
		w.Fail(o, w.host.outcomeUnknown(w.Ctx.Err()))
	default:
		w.Fail(o, tooLate(o, w.Ctx.Err()))
	}
}

// Finish ends an operation whose result is set, and begins the next one of its id.
func (w *Wave) Finish(o *Op) {
	o.done = true
	w.left--
	if next := o.after; next != nil {
		next.held = false
		w.steps.Begin(next.at)
	}
}

// Fail ends an operation with an error.
func (w *Wave) Fail(o *Op, err error) {
	*o.Result = bucket.DeductResult{Err: err}
	w.Finish(o)
}

// Failed acts on a step that failed and has deducted nothing itself. An operation that may have
// been deducted before is handed in again, until the deadline.
func (w *Wave) Failed(o *Op, err error) {
	switch {
	case o.Answered:
		w.Finish(o) // only a figure could not be read
	case o.Unsure && w.Seen == InTime:
		w.Pause(o)
	case o.Unsure:
		w.Fail(o, w.host.outcomeUnknown(err))
	default:
		w.Fail(o, Unavailable(err))
	}
}

// Doubtful reports whether a step that failed, or an earlier one, may have deducted. Then it hands
// the operation in again with the same id and nonce, until the deadline: only what decides can
// tell.
func (w *Wave) Doubtful(o *Op) bool {
	if budget.CodeOf(o.Err).Kind() == budget.MayBeDone {
		o.Unsure = true
	}
	if o.Unsure {
		w.Failed(o, o.Err)
	}
	return o.Unsure
}

// Again reads the definition and begins once more, at once for a few times and then after a pause:
// a definition that keeps changing must not keep the database busy.
func (w *Wave) Again(o *Op) {
	const atOnce = 3
	b, err := w.host.Budgets.Reload(w.Ctx, o.Budget.ID)
	if err != nil {
		w.Failed(o, err)
		return
	}
	o.Budget = b
	if o.tries++; o.tries > atOnce {
		w.Pause(o)
		return
	}
	w.steps.Begin(o.at)
}

// Pause begins an operation again after a little while, a longer one each time.
func (w *Wave) Pause(o *Op) {
	const first, doublings = 2 * time.Millisecond, 5
	wait := first << min(o.pauses, doublings)
	o.pauses++
	o.Step, o.Err = StepBegin, nil
	o.phase.Store(phaseWaiting)
	w.mu.Lock()
	w.away++
	w.mu.Unlock()
	go func() {
		_ = w.host.Clock.Sleep(context.WithoutCancel(w.Ctx), wait)
		w.back(o, true)
	}()
}
