package deduct

import (
	"context"
	"slices"
	"sync"
	"time"

	"github.com/budgetd/budgetd/bucket"
	"github.com/budgetd/budgetd/bucket/batch"
	"github.com/budgetd/budgetd/budget"
)

// Steps is what a mode does with the operations of a wave. An operation is named by its index in
// the call.
type Steps interface {
	// Op returns the part of an operation that all modes share.
	Op(i int) *Op
	// Check refuses a request that the mode can never serve.
	Check(r *bucket.DeductRequest) error
	// Prepare builds what the mode stores for a request. It is called once the budget is known.
	Prepare(i int, nonce string)
	// Begin evaluates an operation against its budget's definition. It sends or answers it.
	Begin(i int)
	// Advance decides what follows for an operation that returned.
	Advance(i int)
	// Send sends the operations that Begin and Advance collected.
	Send()
}

// Wave holds the requests of one call. The caller's goroutine runs it: it sends operations to
// queues, waits, and decides what follows for each one that returns. A successful deduction returns
// once. The wave type of each mode embeds it.
type Wave struct {
	Ctx         context.Context
	Now, SQLNow time.Time // when it last woke
	Seen        Lateness  // the lateness at that time

	host  *Host
	steps Steps
	n     int // operations
	left  int // not answered

	soft, hard time.Time // nothing is begun after soft; the wave ends at hard
	place      batch.Watched
	reads      []int64 // budgets whose figures this call reads

	mu     sync.Mutex
	ready  *Op
	away   int  // sent and not returned
	urgent bool // a returned operation needs another step
	late   Lateness
	parked bool
	park   sync.WaitGroup
}

// Lateness is how far a wave is past its deadline.
type Lateness uint8

// After PastSoft nothing more is begun. After PastHard nothing more is waited for.
const (
	InTime Lateness = iota
	PastSoft
	PastHard
)

// wake wakes the wave if it has something to do. It unlocks mu, which the caller holds.
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

// wait blocks until there is something to do and returns the operations that came back, linked by
// next.
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

// Serve answers every request; each result has the index of its request. Requests with the same id
// run one after the other, in the order given. Serve returns when all are answered.
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

// tick reads the clocks.
func (w *Wave) tick() { w.Now, w.SQLNow = w.host.Clock.Now(), w.host.Now() }

// expire answers the operations that ran out of time.
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

// TimeUp answers an operation that no call works on.
func (w *Wave) TimeUp(o *Op) {
	switch {
	case o.Answered:
		w.Finish(o) // without the missing figures
	case o.Unsure:
		w.Fail(o, w.host.outcomeUnknown(w.Ctx.Err()))
	default:
		w.Fail(o, tooLate(o, w.Ctx.Err()))
	}
}

// MostReads is for how many budgets one call reads figures. A batch over thousands of budgets would
// otherwise read a row of each: more work than the deductions themselves.
const MostReads = 8

// MayRead reports whether the call reads figures of a budget, and notes it. Beyond MostReads
// budgets an answer has no figures except cached ones.
func (w *Wave) MayRead(budgetID int64) bool {
	if slices.Contains(w.reads, budgetID) {
		return true
	}
	if len(w.reads) == MostReads {
		return false
	}
	w.reads = append(w.reads, budgetID)
	return true
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

// Failed acts on a failed step that has deducted nothing itself. If an earlier step may have
// deducted, the operation is begun again, until the deadline.
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

// Doubtful reports whether a failed step, or an earlier one, may have deducted. If so, it begins
// the operation again with the same id and nonce, until the deadline.
func (w *Wave) Doubtful(o *Op) bool {
	if budget.CodeOf(o.Err).Kind() == budget.MayBeDone {
		o.Unsure = true
	}
	if o.Unsure {
		w.Failed(o, o.Err)
	}
	return o.Unsure
}

// Again reloads the definition and begins the operation again: at once for the first few times,
// then after a pause, because a definition that keeps changing must not keep the database busy.
func (w *Wave) Again(o *Op) {
	const atOnce = 3
	ctx, cancel := context.WithTimeout(w.Ctx, w.soft.Sub(w.Now))
	defer cancel()
	b, err := w.host.Budgets.Reload(ctx, o.Budget.ID)
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

// Pause begins an operation again after a pause that grows each time.
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
		o.Back(true)
	}()
}
