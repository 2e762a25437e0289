package counter

import (
	"context"
	"hash/maphash"
	"math/bits"
	"sync"
	"time"

	"github.com/budgetd/budgetd/bucket"
	"github.com/budgetd/budgetd/bucket/batch"
	"github.com/budgetd/budgetd/budget"
	"github.com/budgetd/budgetd/ledger"
)

// Deduct takes units from a budget for a request id, at most once within the record window while
// the store keeps its memory, whichever node the request is repeated through (I4). It returns after
// the script of the bucket's store. A repeat of an accepted id gets the recorded outcome with
// Replayed set, also after the budget was sold out, paused or over.
//
// Errors: LedgerModeOnly for a hold or a group; BudgetNotFound; RequestConflict where the id has
// another payload, RequestVoid where it was cancelled; BudgetExpired, BudgetPaused,
// BudgetNotEffective; Invalid where a limit's dimension is missing; LimitExceeded with every limit
// that would be exceeded; BudgetExhausted or PeriodExhausted with what is available, only if what
// the period may still get is below the amount (I3); Unavailable with the reason: nothing happened;
// OutcomeUnknown: repeat the same id. A refusal has changed nothing (I6). Safe for concurrent use.
func (s *Service) Deduct(ctx context.Context, request bucket.DeductRequest) (
	bucket.DeductAnswer, error) {
	one := new(struct {
		wave    wave
		request [1]bucket.DeductRequest
		result  [1]bucket.DeductResult
		op      [1]op
	})
	one.request[0] = request
	w := &one.wave
	w.s, w.ctx = s, ctx
	w.requests, w.results, w.ops = one.request[:], one.result[:], one.op[:]
	w.admit()
	w.run()
	return one.result[0].Answer, one.result[0].Err
}

// DeductAll makes many deductions in one call, each for itself, and returns what became of each in
// the order given. It is as if Deduct were called for each: those of one request id one after the
// other in the order given, all others side by side. They share calls of stores. Errors,
// idempotency and what is persisted: as Deduct, for each. Safe for concurrent use.
func (s *Service) DeductAll(ctx context.Context,
	requests []bucket.DeductRequest) []bucket.DeductResult {
	w := &wave{s: s, ctx: ctx, requests: requests, results: make([]bucket.DeductResult, len(requests)),
		ops: make([]op, len(requests))}
	w.admit()
	w.chain()
	w.run()
	return w.results
}

// nonceBytes is the length of a nonce.
const nonceBytes = 8

// admit finds the budget of each request and prepares its operation. What is wrong with a request
// is its answer.
func (w *wave) admit() {
	w.left = len(w.ops)
	random := make([]byte, nonceBytes*len(w.ops))
	w.s.rand(random)
	nonces := string(random)
	var last *op
	for i := range w.ops {
		o, r := &w.ops[i], &w.requests[i]
		o.wave, o.at = w, i
		o.Nonce = nonces[i*nonceBytes : (i+1)*nonceBytes]
		if r.HoldTTL != 0 || r.Group != "" {
			w.fail(o, budget.Refuse(budget.LedgerModeOnly, "deduct",
				"holds and groups need rows, which a budget in store mode does not have"))
			continue
		}
		if last != nil && w.requests[last.at].Budget == r.Budget {
			o.budget, o.state = last.budget, last.state
		} else if o.budget = w.s.budgets.Fresh(r.Budget); o.budget == nil {
			b, err := w.s.budgets.Find(w.ctx, r.Budget)
			if err != nil {
				w.fail(o, unavailable(err))
				continue
			}
			o.budget = b
		}
		if o.state == nil {
			o.state = w.s.stateOf(o.budget.ID)
		}
		o.prepare(r)
		last = o
	}
}

// prepare makes what the store keeps of a request.
func (o *op) prepare(r *bucket.DeductRequest) {
	o.key = o.budget.HomeKey(r.Dimensions, r.Key, r.RequestID)
	o.ID, o.Amount = r.RequestID, r.Amount
	o.Fingerprint = ledger.RequestFingerprint(r.Amount, r.Key, ledger.Request{Reference: r.Reference,
		Dimensions: ledger.Dimensions(r.Dimensions), Counts: ledger.Counts(r.Counts)})
	o.NotAfterMS = o.wave.s.sqlNow().Add(o.wave.s.set.Late).UnixMilli()
}

// seed is of the hashes in chain.
var seed = maphash.MakeSeed()

// chain holds each request of an id until the one before it in the call is done.
func (w *wave) chain() {
	size := 1 << bits.Len(uint(2*len(w.ops)))
	last := make([]*op, size) // by hash, with linear probing
	for i := range w.ops {
		o := &w.ops[i]
		if o.done {
			continue
		}
		at := maphash.String(seed, o.ID) & uint64(size-1)
		for last[at] != nil && !sameID(last[at], o) {
			at = (at + 1) & uint64(size-1)
		}
		if earlier := last[at]; earlier != nil {
			earlier.after, o.held = o, true
		}
		last[at] = o
	}
}

func sameID(a, b *op) bool { return a.ID == b.ID && a.budget.ID == b.budget.ID }

// wave is the requests of one call. The caller's goroutine has it: it hands its operations to
// queues, waits, and decides about each one that comes back.
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
				w.advance(o)
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

// timeUp answers an operation for which nothing is under way.
func (w *wave) timeUp(o *op) {
	switch {
	case o.answered:
		w.finish(o) // without the figures that are missing
	case o.unsure:
		w.fail(o, outcomeUnknown(w.ctx.Err()))
	default:
		w.fail(o, tooLate(o, w.ctx.Err()))
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
	parcels  []parcel
	supplies []*op
	n        int
}

type parcel struct {
	queue *batch.Queue[*op]
	ops   []*op
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

// putForSupply notes an operation that waits for units, or for its bucket.
func (b *outbox) putForSupply(o *op) {
	o.phase.Store(phaseWaiting)
	b.n++
	b.supplies = append(b.supplies, o)
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
	for _, o := range b.supplies {
		w.s.supplies.Add(o.budget.ID, o)
	}
	b.supplies = b.supplies[:0]
}
