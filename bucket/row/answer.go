package row

import (
	"time"

	"github.com/budgetd/budgetd/bucket"
	"github.com/budgetd/budgetd/bucket/deduct"
	"github.com/budgetd/budgetd/budget"
	"github.com/budgetd/budgetd/ledger"
)

// accept answers an operation whose row was just committed.
func (w *wave) accept(o *op) {
	a := w.answer(o, &o.outcome.Deduction)
	a.Limits, a.BucketRemaining = o.outcome.Limits, o.outcome.Remaining
	if bk := o.Budget.Bucket(o.outcome.Deduction.Bucket); bk != nil {
		a.Bucket = bk.Key
	}
	a.RemainingUnknown = false
	w.complete(o)
}

// repeat answers from the existing row of an id. The row is this call's own if it has its nonce.
func (w *wave) repeat(o *op, d *ledger.Deduction) {
	switch {
	case d.IsVoidFor(o.Request.By):
		w.Fail(&o.Op, deduct.Voided(o.Request.RequestID))
		return
	case d.Fingerprint != o.row.Request.Fingerprint:
		w.Fail(&o.Op, deduct.Conflicting(o.Request.RequestID))
		return
	case d.Left() == 0: // its units may be sold to others: nobody may take this for an acceptance
		w.Fail(&o.Op, ledger.Gone("deduct", d.RequestID, d.State))
		return
	}
	a := w.answer(o, d)
	a.Replayed = d.Nonce != o.row.Request.Nonce
	// The row may come from another node. Figures older than its commit would contradict it.
	o.recent = w.SQLNow.Sub(d.CountedAt) < 2*figuresAge
	o.Spent = o.state.Spent.Load()
	if bk := o.Budget.Bucket(d.Bucket); bk != nil {
		a.Bucket = bk.Key
	}
	if w.Seen > deduct.InTime {
		w.Finish(&o.Op)
		return
	}
	o.reads, o.Step = d.Bucket, stepOldPlace
	o.old = !o.Budget.Unlimited && (o.recent || o.state.Fresh(w.Now, figuresAge) == nil) &&
		w.MayRead(o.Budget.ID)
	w.out.Put(w.s.reads.standings, o)
}

// answer fills an operation's result from a row, without figures.
func (w *wave) answer(o *op, d *ledger.Deduction) *bucket.DeductAnswer {
	o.Answered = true
	a := &o.Result.Answer
	a.RequestID, a.Amount, a.State, a.HoldUntil = d.RequestID, d.Amount, d.State, d.HoldUntil
	a.Receipt = bucket.Receipt(d.Bucket, d.Epoch)
	a.Unlimited = o.Budget.Unlimited
	a.FiguresUnknown, a.RemainingUnknown = !a.Unlimited, !a.Unlimited
	return a
}

// complete adds the figures to an answer. It reads them first if the cached ones are too old.
func (w *wave) complete(o *op) {
	a := &o.Result.Answer
	if o.Step == stepOldPlace && o.standing >= 0 {
		a.BucketRemaining, a.RemainingUnknown = o.standing, false
	}
	if o.Budget.Unlimited {
		w.Finish(&o.Op)
		return
	}
	read := o.state.Fresh(w.Now, figuresAge)
	switch {
	case o.Step == stepFigures, o.Step == stepOldPlace && o.old:
		read = o.sum
	case w.Seen == deduct.InTime && (read == nil || o.recent) && w.MayRead(o.Budget.ID):
		w.out.Put(w.s.reads.figures, o)
		return
	case o.recent:
		read = nil
	}
	if read != nil {
		o.Figures(read)
	}
	w.Finish(&o.Op)
}

// exhausted returns the refusal of an operation whose amount is above I3's sum.
func (w *wave) exhausted(o *op, c ledger.Cover) error {
	o.state.noteSoldOut(o.Request.Amount)
	return o.Budget.Exhausted(c, o.Request.Amount, w.SQLNow)
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
	return budget.Refuse(budget.BudgetNotFound, "deduct", "budget %s no longer exists", b.Name)
}
