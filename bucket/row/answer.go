package row

import (
	"context"
	"errors"
	"time"

	"github.com/budgetd/budgetd/bucket"
	"github.com/budgetd/budgetd/budget"
	"github.com/budgetd/budgetd/ledger"
)

// accept answers an operation whose row was just committed.
func (w *wave) accept(o *op) {
	a := w.answer(o, &o.outcome.Deduction)
	a.Limits, a.Bucket, a.Remaining = o.outcome.Limits, o.route.Key, o.outcome.Remaining
	a.RemainingUnknown = false
	w.complete(o)
}

// repeat answers from the row of an id that exists: it is the call's own if it has its nonce.
func (w *wave) repeat(o *op, d *ledger.Deduction) {
	o.release()
	switch {
	case d.State == ledger.StateVoid:
		w.fail(o, voided(o.Request.ID))
		return
	case d.Fingerprint != o.Request.Fingerprint:
		w.fail(o, conflicting(o.Request.ID))
		return
	}
	a := w.answer(o, d)
	a.Replayed = d.Nonce != o.Request.Nonce
	// It may be another node's: figures that are older than its commit would contradict it.
	o.recent = w.sqlNow.Sub(d.CountedAt) < 2*figuresAge
	o.spent = o.state.spent.Load()
	if bk := o.Budget.Bucket(d.Bucket); bk != nil {
		a.Bucket = bk.Key
	}
	if w.seen > inTime {
		w.finish(o)
		return
	}
	o.reads, o.step = d.Bucket, stepOldPlace
	w.out.put(w.s.reads.standings, o)
}

// answer makes an operation's result the one of a row, without figures.
func (w *wave) answer(o *op, d *ledger.Deduction) *bucket.DeductAnswer {
	o.answered = true
	a := &w.results[o.at].Answer
	a.RequestID, a.Amount, a.State, a.HoldUntil = d.RequestID, d.Amount, d.State, d.HoldUntil
	a.Receipt = bucket.Receipt(d.Bucket, d.Epoch)
	a.Unlimited = o.Budget.Unlimited
	a.FiguresUnknown, a.RemainingUnknown = !a.Unlimited, !a.Unlimited
	return a
}

// complete adds the figures to an answer, and reads them first if they are too old.
func (w *wave) complete(o *op) {
	a := &w.results[o.at].Answer
	if o.step == stepOldPlace && o.standing >= 0 {
		a.Remaining, a.RemainingUnknown = o.standing, false
	}
	if o.Budget.Unlimited {
		w.finish(o)
		return
	}
	read := o.state.fresh(w.now)
	switch {
	case o.step == stepFigures:
		read = o.sum
	case w.seen > inTime && o.recent:
		read = nil
	case w.seen == inTime && (read == nil || o.recent):
		w.out.put(w.s.reads.figures, o)
		return
	}
	if read != nil {
		o.figures(a, read)
	}
	w.finish(o)
}

// figures sets what budget and period cover. What this node has deducted since the sum was read is
// subtracted, this deduction included, and the bucket's own rest is a lower bound: so no figure
// contradicts the deduction.
func (o *op) figures(a *bucket.DeductAnswer, read *sum) {
	a.FiguresUnknown = false
	units := max(read.Sum()-max(o.spent-read.spent, 0), a.Remaining, 0)
	a.BudgetRemaining = min(units, budget.MaxAmount-read.Later) + read.Later
	if o.Budget.Type == budget.Daily {
		a.PeriodRemaining = &units
	}
}

// exhausted is the refusal of an operation above I3's sum.
func (w *wave) exhausted(o *op, c bucket.Cover) error {
	o.state.noteSoldOut(o.Request.Amount)
	return o.Budget.Exhausted(c, o.Request.Amount, w.sqlNow)
}

// tooLate is the answer of an operation that ran out of time before anything was written.
func (w *wave) tooLate(o *op) error {
	e := unavailable(w.ctx.Err())
	e.Reason = budget.ReasonOverloaded
	e.Message = "the deadline passed before it was written; repeat later"
	if o.seeking {
		e.Reason = budget.ReasonCollecting
		e.Message = "units could not be brought together in time; repeat later"
	}
	return e
}

// unavailable is the answer where an attempt is known not to have happened. A cause that says so
// itself, or that refuses, is the answer.
func unavailable(cause error) *budget.Error {
	var known *budget.Error
	if errors.As(cause, &known) {
		if kind := known.Code.Kind(); kind != budget.MayBeDone && kind != budget.NotDone {
			return known
		}
		if known.Reason != "" {
			return known
		}
	}
	e := &budget.Error{Code: budget.Unavailable, Op: "deduct", RetryAfter: time.Second, Err: cause,
		Message: "the database does not answer; nothing was deducted; repeat later",
		Reason:  budget.ReasonDatabaseDown}
	if cause == nil || errors.Is(cause, context.Canceled) {
		e.Reason, e.Message = "", "the request was given up; nothing was deducted"
	}
	return e
}

// outcomeUnknown is the answer where an attempt may have happened.
func outcomeUnknown(cause error) error {
	return &budget.Error{Code: budget.OutcomeUnknown, Op: "deduct", Err: cause,
		Message: "the database did not confirm the commit; repeat the same request id"}
}

func voided(id string) error {
	return budget.Refuse(budget.RequestVoid, "deduct",
		"request %q was cancelled and will never have an effect; use a new id", id)
}

func conflicting(id string) error {
	return budget.Refuse(budget.RequestConflict, "deduct",
		"request %q was accepted with another amount, key, dimension or reference; use a new id", id)
}

func groupClosed(group string) error {
	return budget.Refuse(budget.GroupClosed, "deduct",
		"the group %q was confirmed or rolled back and takes no other hold", group)
}

func offline(name string) error {
	e := budget.Refuse(budget.Unavailable, "deduct",
		"no bucket of budget %s is online; bring one online", name)
	e.Reason, e.RetryAfter = budget.ReasonOffline, time.Second
	return e
}

func notFound(b *bucket.Budget) error {
	return budget.Refuse(budget.BudgetNotFound, "deduct", "budget %s does not exist any more", b.Name)
}
