package counter

import (
	"time"

	"github.com/budgetd/budgetd/bucket"
	"github.com/budgetd/budgetd/bucket/deduct"
	"github.com/budgetd/budgetd/budget"
	"github.com/budgetd/budgetd/ledger"
)

// accept answers an operation that the store has just carried out.
func (w *wave) accept(o *op) {
	w.s.used(o, w.Now)
	a := w.answer(o, o.Epoch)
	a.Amount, a.State, a.Remaining = o.Amount, ledger.StateUsed, o.outcome.Balance
	if len(o.outcome.Limits) > 0 {
		a.Limits = o.limitStates()
	}
	w.complete(o)
}

// repeat answers from the record of an id. The record is this call's own if it has its nonce.
func (w *wave) repeat(o *op, r *bucket.Record) {
	switch {
	case r.Void:
		w.Fail(&o.Op, deduct.Voided(o.ID))
		return
	case r.Fingerprint != o.Fingerprint:
		w.Fail(&o.Op, deduct.Conflicting(o.ID))
		return
	}
	a := w.answer(o, r.Epoch)
	a.Amount, a.State, a.Replayed = r.Amount, stateOf(r), r.Nonce != o.Nonce
	a.RemainingUnknown = !a.Unlimited // SQL may not have this deduction yet
	o.Spent = o.state.Spent.Load()
	if w.Seen > deduct.InTime {
		w.Finish(&o.Op)
		return
	}
	w.complete(o)
}

// stateOf returns the state of a deduction according to its record.
func stateOf(r *bucket.Record) ledger.State {
	switch {
	case r.Void:
		return ledger.StateVoid
	case r.RolledBack == r.Amount:
		return ledger.StateRolledBack
	}
	return ledger.StateUsed
}

// answer fills an operation's result, without amount and figures.
func (w *wave) answer(o *op, epoch int64) *bucket.DeductAnswer {
	o.Answered = true
	a := &o.Result.Answer
	a.RequestID, a.Bucket = o.ID, o.Route.Key
	a.Receipt = bucket.Receipt(o.Bucket, epoch)
	a.Unlimited, a.FiguresUnknown = o.Budget.Unlimited, !o.Budget.Unlimited
	return a
}

// complete adds the figures to an answer. It reads them first if the cached ones are too old.
func (w *wave) complete(o *op) {
	if !o.Budget.Unlimited {
		read := o.state.Fresh(w.Now, figuresAge)
		if read == nil && o.Step != stepFigures && w.Seen == deduct.InTime &&
			w.MayRead(o.Budget.ID) {
			w.out.Put(w.s.figures, o)
			return
		}
		if read != nil {
			o.Figures(read)
		}
	}
	w.Finish(&o.Op)
}

// offline is the answer if the only bucket that may serve a request is offline.
func offline(o *op) error {
	e := budget.Refuse(budget.Unavailable, "deduct",
		"the bucket of this request is offline in budget %s; bring it online", o.Budget.Name)
	e.Reason, e.RetryAfter = budget.ReasonOffline, time.Second
	return e
}

func stopped(o *op) error {
	e := budget.Refuse(budget.Unavailable, "deduct", "bucket %s is stopped: %s", o.Route.Key,
		o.Route.Epoch.Fenced)
	e.Reason, e.RetryAfter = budget.ReasonOffline, time.Second
	return e
}
