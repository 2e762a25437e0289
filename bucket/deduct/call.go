package deduct

import (
	"context"
	"slices"
	"sync"
	"time"

	"github.com/budgetd/budgetd/bucket"
	"github.com/budgetd/budgetd/bucket/batch"
	"github.com/budgetd/budgetd/ledger"
)

// call holds the operations of one call. The caller's goroutine runs it: it sends operations to
// queues, waits, and decides what follows for each one that returns. A successful deduction returns
// once.
type call struct {
	s           *Service
	ctx         context.Context
	began       time.Time // SQL's time when it began
	now, sqlNow time.Time // when it last woke
	passed      deadline  // what had passed at that time
	ops         []Op
	left        int // not answered
	out         outbox

	soft, hard time.Time // nothing is begun after soft; the call ends at hard
	watched    batch.Watched
	reads      []int64 // budgets whose figures this call reads

	mu      sync.Mutex
	ready   *Op
	away    int  // sent and not returned
	urgent  bool // a returned operation needs another step
	passes  deadline
	waiting bool
	waiter  sync.WaitGroup
}

// deadline says which deadlines of a call have passed.
type deadline uint8

// After softPassed nothing more is begun. After hardPassed nothing more is waited for.
const (
	inTime deadline = iota
	softPassed
	hardPassed
)

// wake wakes the call if it has something to do. It unlocks mu, which the caller holds.
func (c *call) wake() {
	woken := c.waiting && c.hasNews()
	if woken {
		c.waiting = false
	}
	c.mu.Unlock()
	if woken {
		c.waiter.Done()
	}
}

func (c *call) hasNews() bool { return c.urgent || c.away == 0 || c.passes > c.passed }

// CheckDeadline implements batch.Waiter.
func (c *call) CheckDeadline(now time.Time) {
	if now.Before(c.soft) && c.ctx.Err() == nil {
		return
	}
	passes := softPassed
	if !now.Before(c.hard) || c.ctx.Err() != nil {
		passes = hardPassed
	}
	c.mu.Lock()
	c.passes = max(c.passes, passes)
	c.wake()
}

// wait blocks until there is something to do and returns the operations that came back, linked by
// next.
func (c *call) wait() *Op {
	c.mu.Lock()
	if !c.hasNews() {
		c.waiting = true
		c.waiter.Add(1)
		c.mu.Unlock()
		c.waiter.Wait()
		c.mu.Lock()
	}
	defer c.mu.Unlock()
	ready := c.ready
	c.ready, c.urgent, c.passed = nil, false, c.passes
	return ready
}

// serve answers every request; each result has the index of its request. Requests with the same id
// run one after the other, in the order given. serve returns when all are answered.
func (c *call) serve(ctx context.Context, s *Service, requests []bucket.DeductRequest,
	results []bucket.DeductResult) {
	c.ctx, c.s = ctx, s
	c.tick()
	c.began = c.sqlNow
	c.admit(requests, results)
	if len(c.ops) > 1 {
		c.chain()
	}
	c.soft = c.now.Add(s.set.Deadline)
	c.hard = c.soft.Add(s.set.Grace)
	s.watch.Add(&c.watched, c)
	defer s.watch.Remove(&c.watched)
	for i := range c.ops {
		if o := &c.ops[i]; !o.done && !o.held {
			c.begin(o)
		}
	}
	c.out.send(c)
	for c.left > 0 {
		ready := c.wait()
		c.tick()
		for o := ready; o != nil; {
			next := o.next
			o.next = nil
			if !o.done {
				c.advance(o)
			}
			o = next
		}
		if c.passed > inTime {
			c.expire()
		}
		c.out.send(c)
	}
}

// tick reads the clocks.
func (c *call) tick() { c.now, c.sqlNow = c.s.clock.Now(), c.s.sqlNow() }

// expire answers the operations that ran out of time.
func (c *call) expire() {
	for i := range c.ops {
		o := &c.ops[i]
		switch {
		case o.done:
		case o.held || o.withdraw():
			c.replyLate(o)
		case c.passed == hardPassed:
			c.reply(o, o.outcomeUnknown(c.ctx.Err()))
		}
	}
}

// mostReads is for how many budgets one call reads figures. A batch over thousands of budgets would
// otherwise read a row of each: more work than the deductions themselves.
const mostReads = 8

// mayRead reports whether the call reads figures of a budget, and notes it. Beyond mostReads
// budgets an answer has no figures except cached ones.
func (c *call) mayRead(budgetID int64) bool {
	if slices.Contains(c.reads, budgetID) {
		return true
	}
	if len(c.reads) == mostReads {
		return false
	}
	c.reads = append(c.reads, budgetID)
	return true
}

// reply ends an operation, with an error or with the result that is set, and begins the next one of
// its id.
func (c *call) reply(o *Op, err error) {
	if err != nil {
		*o.Result = bucket.DeductResult{Err: err}
	}
	o.done = true
	c.left--
	if next := o.after; next != nil {
		next.held = false
		c.begin(next)
	}
}

// replyLate ends an operation that no attempt works on, because a deadline has passed.
func (c *call) replyLate(o *Op) {
	switch {
	case o.answered:
		c.reply(o, nil) // without the missing figures
	case o.Unsure:
		c.reply(o, o.outcomeUnknown(c.ctx.Err()))
	default:
		c.reply(o, tooLate(o, c.ctx.Err()))
	}
}

// retry acts on a failed step that has deducted nothing itself. If an earlier step may have
// deducted, the operation is begun again, until the deadline.
func (c *call) retry(o *Op, err error) {
	switch {
	case o.answered:
		c.reply(o, nil) // only a figure could not be read
	case o.Unsure && c.passed == inTime:
		c.pause(o)
	case o.Unsure:
		c.reply(o, o.outcomeUnknown(err))
	default:
		c.reply(o, Unavailable(err))
	}
}

// isSilent reports whether the database, which follows the operation's store, does not answer.
func (c *call) isSilent(o *Op) bool { return o.way.store && c.s.budgets.IsSilent() }

// again reloads the definition and begins the operation again: at once for the first few times,
// then after a pause, because a definition that keeps changing must not keep the database busy.
// Nobody waits for the definition of a budget in a store while the database does not answer.
func (c *call) again(o *Op) {
	const atOnce = 3
	if c.isSilent(o) {
		c.retry(o, outOfDate())
		return
	}
	if b := c.granted(o); b != nil {
		o.Budget = b
	} else if err := c.reload(o); err != nil {
		c.retry(o, err)
		return
	}
	if o.tries++; o.tries > atOnce {
		c.pause(o)
		return
	}
	c.begin(o)
}

// reload reads the definitions of an operation's budgets.
func (c *call) reload(o *Op) error {
	ctx, cancel := context.WithTimeout(c.ctx, c.soft.Sub(c.now))
	defer cancel()
	for l := range o.legs {
		if l.charged {
			continue
		}
		b, err := c.s.budgets.Reload(ctx, l.Budget.ID)
		if err != nil {
			return err
		}
		l.Budget = b
	}
	return c.rebuild(o)
}

// granted returns the cached definition if it is fresh and has the epoch that serves the operation
// now, and otherwise nil.
func (c *call) granted(o *Op) *bucket.Budget {
	if o.Step != StepSupplied || o.Granted == 0 {
		return nil
	}
	b := c.s.budgets.Fresh(bucket.BudgetRef{ID: o.Budget.ID})
	if b == nil {
		return nil
	}
	if bk := b.Bucket(o.Route.ID); bk == nil || bk.Epoch.Number != o.Granted ||
		bk.Epoch.Status != ledger.Open {
		return nil
	}
	return b
}

// pause begins an operation again after a pause that grows each time.
func (c *call) pause(o *Op) {
	const first, doublings = 2 * time.Millisecond, 5
	wait := first << min(o.pauses, doublings)
	o.pauses++
	o.Step, o.Err = StepBegin, nil
	o.phase.Store(phaseWaiting)
	c.mu.Lock()
	c.away++
	c.mu.Unlock()
	go func() {
		_ = c.s.clock.Sleep(context.WithoutCancel(c.ctx), wait)
		o.Back(true)
	}()
}

// outbox collects the operations that a call sends, so that each queue is locked once. The zero
// value is empty.
type outbox struct {
	parcels []parcel
	grouped []grouped
	n       int
}

type parcel struct {
	queue *batch.Queue[*Op]
	ops   []*Op
}

// grouped is an operation for the queue of a budget.
type grouped struct {
	group    *batch.Group[*Op]
	budgetID int64
	op       *Op
}

// put collects an operation for a queue.
func (b *outbox) put(q *batch.Queue[*Op], o *Op) {
	o.phase.Store(phaseWaiting)
	b.n++
	for i := range b.parcels {
		if p := &b.parcels[i]; p.queue == q {
			p.ops = append(p.ops, o)
			return
		}
	}
	b.parcels = append(b.parcels, parcel{queue: q, ops: append(make([]*Op, 0, 1), o)})
}

// putFor collects an operation for a budget's queue in a group.
func (b *outbox) putFor(g *batch.Group[*Op], budgetID int64, o *Op) {
	o.phase.Store(phaseWaiting)
	b.n++
	b.grouped = append(b.grouped, grouped{g, budgetID, o})
}

// send sends the collected operations. It counts them first, because they may return at once.
func (b *outbox) send(c *call) {
	if b.n == 0 {
		return
	}
	c.mu.Lock()
	c.away += b.n
	c.mu.Unlock()
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
		g.group.Add(g.budgetID, g.op)
	}
	b.grouped = b.grouped[:0]
}
