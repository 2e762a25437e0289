package counter

import (
	"errors"
	"time"

	"github.com/budgetd/budgetd/bucket"
	"github.com/budgetd/budgetd/budget"
	"github.com/budgetd/budgetd/ledger"
)

// accept answers an operation that the store has just carried out.
func (w *wave) accept(o *op) {
	w.s.used(o)
	a := w.answer(o, o.Epoch)
	a.Amount, a.State, a.Remaining = o.Amount, ledger.StateUsed, o.outcome.Balance
	if len(o.outcome.Limits) > 0 {
		a.Limits = o.limitStates(false)
	}
	w.complete(o)
}

// repeat answers from the record of an id: it is the call's own if it has its nonce.
func (w *wave) repeat(o *op, r *bucket.Record) {
	switch {
	case r.Void:
		w.fail(o, voided(o.ID))
		return
	case r.Fingerprint != o.Fingerprint:
		w.fail(o, conflicting(o.ID))
		return
	}
	a := w.answer(o, r.Epoch)
	a.Amount, a.State, a.Replayed = r.Amount, stateOf(r), r.Nonce != o.Nonce
	a.Remaining = o.route.Epoch.Outstanding
	o.spent = o.state.spent.Load()
	if w.seen > inTime {
		w.finish(o)
		return
	}
	w.complete(o)
}

// stateOf is the state of a deduction by its record.
func stateOf(r *bucket.Record) ledger.State {
	switch {
	case r.Void:
		return ledger.StateVoid
	case r.RolledBack == r.Amount:
		return ledger.StateRolledBack
	}
	return ledger.StateUsed
}

// answer makes an operation's result, without amount and figures.
func (w *wave) answer(o *op, epoch int64) *bucket.DeductAnswer {
	o.answered = true
	a := &w.results[o.at].Answer
	a.RequestID, a.Bucket = o.ID, o.route.Key
	a.Receipt = bucket.Receipt(o.Bucket, epoch)
	a.Unlimited, a.FiguresUnknown = o.budget.Unlimited, !o.budget.Unlimited
	return a
}

// complete adds the figures to an answer, and reads them first if they are too old.
func (w *wave) complete(o *op) {
	if !o.budget.Unlimited {
		read := o.state.fresh(w.now)
		if read == nil && o.step != stepFigures && w.seen == inTime {
			w.out.put(w.s.figures, o)
			return
		}
		if read != nil {
			o.figures(&w.results[o.at].Answer, read)
		}
	}
	w.finish(o)
}

// figures sets what budget and period cover. What this node has deducted and SQL did not have is
// subtracted, this deduction included, and the bucket's own rest is a lower bound: so no figure
// contradicts the deduction.
func (o *op) figures(a *bucket.DeductAnswer, read *sum) {
	a.FiguresUnknown = false
	units := max(read.Sum()-max(o.spent-read.settled, 0), a.Remaining, 0)
	a.BudgetRemaining = min(units, budget.MaxAmount-read.Later) + read.Later
	if o.budget.Type == budget.Daily {
		a.PeriodRemaining = &units
	}
}

// tooLate is the answer of an operation that ran out of time before anything was deducted.
func tooLate(o *op, cause error) error {
	e := &budget.Error{Code: budget.Unavailable, Op: "deduct", Err: cause, RetryAfter: time.Second,
		Reason: budget.ReasonOverloaded, Message: "the deadline passed before it was done; repeat later"}
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
		kind := known.Code.Kind()
		if kind != budget.MayBeDone && kind != budget.NotDone || kind == budget.NotDone &&
			known.Reason != "" {
			return known
		}
	}
	return &budget.Error{Code: budget.Unavailable, Op: "deduct", RetryAfter: time.Second, Err: cause,
		Message: "not done; repeat later", Reason: budget.ReasonDatabaseDown}
}

// outcomeUnknown is the answer where an attempt may have happened.
func outcomeUnknown(cause error) error {
	return &budget.Error{Code: budget.OutcomeUnknown, Op: "deduct", Err: cause,
		Message: "the store did not confirm it; repeat the same request id"}
}

func voided(id string) error {
	return budget.Refuse(budget.RequestVoid, "deduct",
		"request %q was cancelled and will never have an effect; use a new id", id)
}

func conflicting(id string) error {
	return budget.Refuse(budget.RequestConflict, "deduct",
		"request %q was accepted with another amount, key, dimension or reference; use a new id", id)
}

// offline is the answer where the only bucket that may serve a request is offline.
func offline(o *op) error {
	e := budget.Refuse(budget.Unavailable, "deduct",
		"the bucket of this request is offline in budget %s; bring it online", o.budget.Name)
	e.Reason, e.RetryAfter = budget.ReasonOffline, time.Second
	return e
}

func stopped(o *op) error {
	e := budget.Refuse(budget.Unavailable, "deduct", "bucket %s is stopped: %s", o.route.Key,
		o.route.Epoch.Fenced)
	e.Reason, e.RetryAfter = budget.ReasonOffline, time.Second
	return e
}
