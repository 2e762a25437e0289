package deduct

import (
	"errors"

	"github.com/budgetd/budgetd/bucket"
	"github.com/budgetd/budgetd/budget"
)

// begin evaluates an operation against its budget's definition and sends it to where its bucket is.
// After a lost reply only its home can tell, whatever the definition says now.
func (c *call) begin(o *Op) {
	o.Step = StepBegin
	if c.passed > inTime {
		c.replyLate(o)
		return
	}
	if o.set != nil {
		c.beginSet(o)
		return
	}
	b := o.Budget
	_, o.Route = b.Routed(o.Request)
	if !o.Unsure || b.UnknownZone() != nil {
		if refusal := b.RefusalNow(o.Request.Amount, c.sqlNow); refusal != nil {
			c.find(o, refusal)
			return
		}
		if b.Period.OverAt(c.sqlNow) {
			c.out.putFor(o.way.rollovers, b.ID, o)
			return
		}
	}
	if err := o.way.Count(o, c.sqlNow); err != nil {
		c.refuse(o, err)
		return
	}
	c.send(o)
}

// send sends an operation that passed its definition to the home of its bucket, to a read if it is
// believed to be refused, or to those that need units.
func (c *call) send(o *Op) {
	to, err := o.way.Next(o, c.sqlNow)
	switch {
	case err != nil:
		c.find(o, err)
	case to != nil:
		c.out.put(to, o)
	case o.way.store:
		c.out.putFor(o.way.supplies, o.Budget.ID, o)
	default:
		c.seek(o)
	}
}

// advance decides what follows after a step of an operation.
func (c *call) advance(o *Op) {
	switch o.Step {
	case StepDecided, stepBrought:
		if o.Err == nil {
			c.judge(o)
		} else {
			c.notDecided(o)
		}
		return
	case StepFailed:
		c.retry(o, o.Err)
		return
	case stepFigures:
		c.complete(o)
		return
	}
	if c.passed > inTime {
		c.replyLate(o)
		return
	}
	switch o.Step {
	case StepFound:
		c.found(o)
	case StepSupplied:
		c.again(o)
	case StepExhausted:
		o.certain = true
		c.find(o, c.exhausted(o))
	case StepLost:
		c.out.putFor(o.way.supplies, o.Budget.ID, o)
	case stepLegs:
		c.repeatSet(o)
	case stepSums, stepLimits, stepBalance:
		c.advanceSQL(o)
	default:
		c.begin(o)
	}
}

// judge acts on the verdict of a home.
func (c *call) judge(o *Op) {
	switch o.Verdict {
	case bucket.Accepted:
		c.accept(o)
		return
	case bucket.Known:
		c.repeat(o)
		return
	case bucket.Limited, bucket.Exhausted, bucket.GroupClosed:
		if o.Verdict == bucket.Limited && o.Step == StepDecided && o.leavesOut() {
			c.seek(o) // in the other sources
			return
		}
		c.refuse(o, c.refusal(o))
		return
	case bucket.TooOld:
		c.replyLate(o)
		return
	}
	if c.passed > inTime {
		c.replyLate(o)
		return
	}
	l := o.decisive()
	switch o.Verdict {
	case bucket.Short:
		if o.Step == stepBrought {
			c.pause(o)
			return
		}
		c.seek(o)
	case bucket.Over:
		c.out.putFor(o.way.rollovers, l.Budget.ID, o)
	case bucket.Lost, bucket.Broken:
		c.out.putFor(o.way.supplies, o.Budget.ID, o)
	case bucket.Gone:
		if _, serves := l.Budget.Routed(l.Request); o.Step == stepBrought && serves == nil {
			c.refuse(o, noBucketOnline(l.Budget.Name))
			return
		}
		c.again(o)
	case bucket.Outdated, bucket.Closed, bucket.Moving, bucket.WindowOver:
		c.again(o)
	default:
		c.reply(o, &budget.Error{Code: budget.Internal, Op: "deduct", Message: "no verdict"})
	}
}

// refusal returns the answer to an operation that its limits, its budget or its group refuses.
func (c *call) refusal(o *Op) error {
	switch {
	case o.Verdict == bucket.GroupClosed:
		return groupClosed(o.request().Group)
	case o.set != nil:
		return c.legsRefused(o, c.lookAt(o))
	case o.Verdict == bucket.Limited:
		return o.Budget.LimitExceeded(o.way.Learn(o, c.now), c.sqlNow)
	}
	return c.exhausted(o)
}

// notDecided acts on a failed attempt. An operation that may have been deducted is decided again
// with the same id and nonce, until the deadline: only its row or record can tell.
func (c *call) notDecided(o *Op) {
	switch {
	case errors.Is(o.Err, bucket.ErrOtherMemory) && c.passed > inTime:
		c.replyLate(o)
	case errors.Is(o.Err, bucket.ErrOtherMemory):
		c.pause(o)
	default:
		o.Unsure = o.Unsure || budget.CodeOf(o.Err).Kind() == budget.MayBeDone
		c.retry(o, o.Err)
	}
}

// seek looks for units for an operation whose bucket does not cover it.
func (c *call) seek(o *Op) {
	o.seeking = true
	if o.set != nil {
		o.chooseAll()
		c.out.putFor(o.way.supplies, o.decisive().Budget.ID, o)
		return
	}
	if o.way.sums == nil || o.Unsure || o.State.believed(c.now) >= o.Request.Amount {
		c.out.putFor(o.way.supplies, o.Budget.ID, o)
		return
	}
	c.out.put(o.way.sums, o)
}

// find looks the id up before it answers a refusal that depends on state: a repeat of an accepted
// id gets the recorded outcome.
func (c *call) find(o *Op, refusal error) {
	o.Refusal = refusal
	gate, err := o.way.Gate(o)
	if err != nil {
		c.retry(o, err)
		return
	}
	c.out.put(gate.finds, o)
}

// found refuses an operation whose id has no row or record that decides.
func (c *call) found(o *Op) {
	switch {
	case errors.Is(o.Err, bucket.ErrOtherMemory):
		o.certain = false // it begins by the same definition
		c.pause(o)
	case o.Err != nil:
		c.retry(o, o.Err)
	case o.Recorded != nil && o.Recorded.Decides(o.request().By):
		o.Unsure = false
		c.repeat(o)
	case o.Refusal == nil:
		c.replyRefusal(o, c.legsRefused(o, c.lookAt(o)))
	case o.Verdict == bucket.Moving:
		c.again(o)
	default:
		c.replyRefusal(o, o.Refusal)
	}
}

// refuse answers a refusal of an attempt. An id without a row cannot be locked, so another
// transaction may have accepted it while this one waited for the locks on which it refuses: the id
// is looked up once more. A script sees the record of the id.
func (c *call) refuse(o *Op, refusal error) {
	if o.way.store {
		c.replyRefusal(o, refusal)
		return
	}
	c.find(o, refusal)
}

// replyRefusal answers a refusal, unless the reply of an earlier attempt was lost. A store may
// still receive that attempt, after this one, and accept it. Then the operation is begun again
// until it has a record, or the outcome is unknown at the deadline. A definition that the database
// has not confirmed in the last second refuses nothing in store mode (I8): it is read again, once,
// and if the database does not answer, the answer is Unavailable.
func (c *call) replyRefusal(o *Op, refusal error) {
	switch {
	case o.Unsure:
		c.retry(o, refusal)
	case !o.way.store || o.certain || budget.CodeOf(refusal).Kind() == budget.NotDone ||
		c.s.budgets.IsCurrent(o.Budget):
		c.reply(o, refusal)
	default:
		o.certain = true // if it can be read
		c.again(o)
	}
}
