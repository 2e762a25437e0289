package deduct

import (
	"context"
	"errors"
	"time"

	"github.com/budgetd/budgetd/bucket"
	"github.com/budgetd/budgetd/budget"
	"github.com/budgetd/budgetd/ledger"
)

// accept answers an operation that its home has just carried out.
func (c *call) accept(o *Op) {
	if o.isOfTenant() {
		c.acceptSet(o)
		return
	}
	limits := o.way.Learn(o, c.now)
	d := o.Recorded
	if d == nil { // a store
		d = &ledger.Deduction{RequestID: o.Row.ID, Amount: o.Row.Amount, State: ledger.StateUsed,
			Bucket: o.Route.ID, Epoch: o.Route.Epoch.Number}
	}
	o.answered = true
	a := &o.Result.Answer
	*a = answerOf(o.Budget, o.Route, d)
	a.Legs = c.chargedBy(o, d)
	a.Limits, a.RemainingUnknown = limits, false
	if o.Outcome != nil {
		a.BucketRemaining = o.Outcome.Remaining
	} else {
		a.BucketRemaining = o.Stored.Balance
	}
	c.complete(o)
}

// repeat answers from the row or record of an id. It is this call's own if it has its nonce.
func (c *call) repeat(o *Op) {
	d := o.Recorded
	if err := o.notRepeated(); err != nil {
		c.reply(o, err)
		return
	}
	if o.isOfTenant() {
		c.out.put(c.s.legs, o)
		return
	}
	o.answered = true
	o.Result.Answer = answerOf(o.Budget, o.Route, d)
	o.Result.Answer.Legs = c.chargedBy(o, d)
	o.Result.Answer.Replayed = d.Nonce != o.Row.Nonce
	o.Spent = o.State.Spent.Load()
	switch {
	case c.passed > inTime:
		c.reply(o, nil)
	case o.way.store: // SQL may not have this deduction yet
		c.complete(o)
	default:
		// The row may come from another node. Figures older than its commit would contradict it.
		o.recent = c.sqlNow.Sub(d.CountedAt) < 2*figuresAge
		o.Step = stepBalance
		o.old = !o.Budget.Unlimited && (o.recent || o.State.fresh(c.now, figuresAge) == nil) &&
			c.mayRead(o.Budget.ID)
		c.out.put(c.s.sql.balances, o)
	}
}

// notRepeated returns why a request is no repeat of the one that is recorded, or nil. What became
// of the legs of a set is not known yet.
func (o *Op) notRepeated() error {
	d, id := o.Recorded, o.request().RequestID
	switch {
	case d.IsVoidFor(o.Row.By):
		return budget.Refuse(budget.RequestVoid, "deduct",
			"request %q was cancelled and will never have an effect; use a new id", id)
	case d.Fingerprint != o.Row.Fingerprint:
		return budget.Refuse(budget.RequestConflict, "deduct", "request %q was accepted with "+
			"another amount, budget, key, dimension or reference; use a new id", id)
	case !o.isOfTenant() && d.Left() == 0:
		// Its units may be sold to others: nobody may take this for an acceptance.
		return ledger.Gone("deduct", id, d.State)
	}
	return nil
}

// answerOf returns the answer to a deduction, without figures. route is the bucket that it most
// likely has.
func answerOf(b *bucket.Budget, route *bucket.Bucket, d *ledger.Deduction) bucket.DeductAnswer {
	a := bucket.DeductAnswer{RequestID: d.RequestID, Amount: d.Amount, State: d.State,
		HoldUntil: d.HoldUntil, Receipt: bucket.Receipt(d.Bucket, d.Epoch), Unlimited: b.Unlimited,
		FiguresUnknown: !b.Unlimited, RemainingUnknown: !b.Unlimited}
	if route == nil || route.ID != d.Bucket {
		route = b.Bucket(d.Bucket)
	}
	if route != nil {
		a.Bucket = route.Key
	}
	return a
}

// complete adds the figures to an answer. It reads them first if the cached ones are too old.
func (c *call) complete(o *Op) {
	if o.isOfTenant() {
		c.completeSet(o)
		return
	}
	a := &o.Result.Answer
	if o.Step == stepBalance && o.balance >= 0 {
		a.BucketRemaining, a.RemainingUnknown = o.balance, false
	}
	if o.Budget.Unlimited {
		c.reply(o, nil)
		return
	}
	most := figuresAge
	if o.way.store {
		most = storeFiguresAge
	}
	read := o.State.fresh(c.now, most)
	switch {
	case o.Step == stepFigures, o.Step == stepBalance && o.old:
		read = o.Sum
	case c.passed == inTime && (read == nil || o.recent) && !c.isSilent(o) &&
		c.mayRead(o.Budget.ID):
		c.out.put(c.s.figures, o)
		return
	case o.recent:
		read = nil
	}
	if read != nil {
		o.figures(a, read)
	}
	c.reply(o, nil)
}

// exhausted returns the refusal of an operation whose amount is above I3's sum.
func (c *call) exhausted(o *Op) error {
	o.State.noteSoldOut(o.Request.Amount)
	return o.Budget.Exhausted(o.Sum.Availability, o.Request.Amount, c.sqlNow)
}

// tooLate is the answer for an operation that ran out of time before anything was deducted.
func tooLate(o *Op, cause error) error {
	e := Unavailable(cause)
	e.Reason = budget.ReasonOverloaded
	e.Message = "the deadline passed before the deduction was done; repeat later"
	if o.seeking {
		e.Reason = budget.ReasonCollecting
		e.Message = "units could not be collected in time; repeat later"
	}
	return e
}

// Unavailable is the answer for an attempt that is known not to have happened. If the cause is a
// refusal, or Unavailable with a reason, the cause itself is the answer.
func Unavailable(cause error) *budget.Error {
	var known *budget.Error
	if errors.As(cause, &known) {
		kind := known.Code.Kind()
		if kind != budget.MayBeDone && (kind != budget.NotDone || known.Reason != "") {
			return known
		}
	}
	e := &budget.Error{Code: budget.Unavailable, Op: "deduct", RetryAfter: time.Second, Err: cause,
		Message: "the database does not answer; nothing was deducted; repeat later",
		Reason:  budget.ReasonDatabaseDown}
	if known != nil && known.Reason == budget.ReasonStoreDown { // it did not confirm a grant
		e.Message, e.Reason = "a store does not answer; nothing was deducted; repeat later", known.Reason
	}
	if cause == nil || errors.Is(cause, context.Canceled) {
		e.Reason, e.Message = "", "the caller canceled the request; nothing was deducted"
	}
	return e
}

// outcomeUnknown is the answer for an attempt that may have happened.
func (o *Op) outcomeUnknown(cause error) error {
	truth := "the database"
	if o.way.store {
		truth = "the store"
	}
	return &budget.Error{Code: budget.OutcomeUnknown, Op: "deduct", Err: cause,
		Message: truth + " did not confirm the deduction; repeat the same request id"}
}

// outOfDate is the answer if what this node knows does not suffice while the database does not
// answer.
func outOfDate() error {
	e := budget.Refuse(budget.Unavailable, "deduct", "the database does not answer, and by what this "+
		"node last read of the budget it cannot decide; nothing was deducted; repeat later")
	e.Reason, e.RetryAfter = budget.ReasonDatabaseDown, time.Second
	return e
}

// Overloaded is the answer for an operation that finds its queue full.
func Overloaded(op string) *budget.Error {
	e := budget.Refuse(budget.Unavailable, op, "too many requests are waiting; repeat later")
	e.Reason, e.RetryAfter = budget.ReasonOverloaded, time.Second
	return e
}

func groupClosed(group string) error {
	return budget.Refuse(budget.GroupClosed, "deduct",
		"the group %q was confirmed or rolled back and takes no other hold", group)
}

func noBucketOnline(name string) error {
	e := budget.Refuse(budget.Unavailable, "deduct",
		"no bucket of budget %s is online; bring one online", name)
	e.Reason, e.RetryAfter = budget.ReasonOffline, time.Second
	return e
}

func notFound(b *bucket.Budget) error {
	return budget.Refuse(budget.BudgetNotFound, "deduct", "budget %s no longer exists", b.Name)
}

// acceptSet answers a set that a transaction has just carried out.
func (c *call) acceptSet(o *Op) {
	var a *bucket.DeductAnswer
	for l := range o.active {
		if l.Outcome.Verdict == bucket.Accepted {
			a = c.beginAnswer(o, &l.Outcome.Deduction)
			break
		}
	}
	for l := range o.legs {
		if l.Outcome == nil || l.Outcome.Verdict != bucket.Accepted {
			l.addLeg(a, nil)
			continue
		}
		to := l.addLeg(a, &l.Outcome.Deduction)
		if !l.charged {
			to.Limits = l.Outcome.Limits
			to.BucketRemaining, to.RemainingUnknown = l.Outcome.Remaining, false
		}
	}
	c.completeSet(o)
}

// repeatSet answers from the rows of a set that was deducted before. Its legs are those that the
// owner lists: what its budgets charge may have changed.
func (c *call) repeatSet(o *Op) {
	if o.Err != nil {
		c.retry(o, o.Err)
		return
	}
	left := int64(0)
	byBudget := make(map[int64]*ledger.Deduction, len(o.set.rows))
	for i := range o.set.rows {
		left += o.set.rows[i].Left()
		byBudget[o.set.rows[i].Budget] = &o.set.rows[i]
	}
	if listed, _ := o.Recorded.Legs.List(); len(o.set.rows) < len(listed) || left == 0 {
		c.reply(o, goneSet(o, len(listed)))
		return
	}
	a := c.beginAnswer(o, &o.set.rows[0])
	a.Replayed = o.Recorded.Nonce != o.Row.Nonce
	for l := range o.legs {
		if row := byBudget[l.Budget.ID]; !l.charged && (row != nil || l.from != nil) {
			l.Spent = l.State.Spent.Load()
			l.addLeg(a, row)
			delete(byBudget, l.Budget.ID)
		}
	}
	for i := range o.set.rows {
		if d := &o.set.rows[i]; byBudget[d.Budget] != nil {
			a.Legs = append(a.Legs, bucket.DeductAnswer{RequestID: a.RequestID, Amount: d.Amount,
				Budget: c.nameOf(d.Budget), State: d.State, IsCharged: true, FiguresUnknown: true,
				RemainingUnknown: true})
		}
	}
	o.recent = true
	c.completeSet(o)
}

// goneSet is the answer to a repeat of a set of which nothing is left. legs is how many it has.
func goneSet(o *Op, legs int) error {
	if rows := o.set.rows; len(rows) == legs {
		return ledger.Gone("deduct", o.request().RequestID, rows[0].State)
	}
	return &budget.Error{Code: budget.Internal, Op: "deduct",
		Message: "a leg of the set is missing in its budget"}
}

// beginAnswer begins the answer to a set of which a leg is recorded as d.
func (c *call) beginAnswer(o *Op, d *ledger.Deduction) *bucket.DeductAnswer {
	o.answered = true
	o.Result.Answer = bucket.DeductAnswer{RequestID: o.request().RequestID, State: d.State,
		HoldUntil: d.HoldUntil, FiguresUnknown: true, RemainingUnknown: true,
		Legs: make([]bucket.DeductAnswer, 0, 1+len(o.others))}
	return &o.Result.Answer
}

// answer returns the answer to a leg, without figures.
func (l *Leg) answer(d *ledger.Deduction) bucket.DeductAnswer {
	a := answerOf(l.Budget, l.Route, d)
	if l.charged {
		a = bucket.DeductAnswer{Amount: d.Amount, State: d.State, IsCharged: true,
			FiguresUnknown: true, RemainingUnknown: true}
	}
	a.RequestID, a.Budget = l.Request.RequestID, l.Budget.Name
	return a
}

// completeSet adds the figures to the answers of the legs that the request names, which come first.
// It reads them first if cached ones are too old, or a repeat might be younger than they are.
func (c *call) completeSet(o *Op) {
	i, missing := 0, false
	for l := range o.legs {
		if l.charged {
			break
		}
		if l.from != nil && l.Budget.ID != l.from.first {
			continue
		}
		a := &o.Result.Answer.Legs[i]
		i++
		if l.from != nil {
			continue
		}
		read := l.State.fresh(c.now, figuresAge)
		switch {
		case l.Budget.Unlimited:
		case o.Step == stepFigures && l.Sum != nil:
			l.figures(a, l.Sum)
		case read != nil && !o.recent:
			l.figures(a, read)
		default:
			missing = missing || c.mayRead(l.Budget.ID)
		}
	}
	if missing && o.Step != stepFigures && c.passed == inTime {
		c.out.put(c.s.figures, o)
		return
	}
	c.reply(o, nil)
}
