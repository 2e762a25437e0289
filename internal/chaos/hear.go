package chaos

import (
	"errors"

	"github.com/budgetd/budgetd/budget"
	"github.com/budgetd/budgetd/client"
)

// final reports whether an answer settles an attempt: done or refused.
func final(err error) bool {
	kind := client.KindOf(err)
	return kind != budget.NotDone && kind != budget.MayBeDone
}

// heard records the answer to a deduct attempt. Of overlapping attempts with one id, record
// refusals first, then original answers, then replays.
func (b *book) heard(r *record, answer *client.DeductAnswer, err error) {
	if err == nil {
		b.heardAccepted(r, answer)
		return
	}
	switch code := client.CodeOf(err); {
	case code == budget.BudgetExhausted:
		var p *client.Problem
		errors.As(err, &p)
		switch {
		case r.accepted && b.store: // what the loss of a store took
		case r.accepted:
			b.violation("id %s was accepted before and is refused now: %v", r.id, err)
		case b.plenty && !b.store: // in store mode everything may be in quarantine
			b.violation("id %s of %d units: refused although it cannot run out: %v", r.id, r.amount, err)
		case p.Available == nil || *p.Available >= r.amount:
			b.violation("id %s of %d units: refused for no reason: %v", r.id, r.amount, err)
		// The client cancelled: it had no answer to an earlier attempt, which may have happened.
		case p.Cancelled:
			r.cancel, r.open = cancelOpen, false
		}
	case code == budget.LimitExceeded && b.limited:
		var p *client.Problem
		errors.As(err, &p)
		switch {
		case r.accepted && b.store: // what the loss of a store took
		case r.accepted:
			b.violation("id %s was accepted before and is refused now: %v", r.id, err)
		case p.Limit == nil || p.Limit.Max == nil || *p.Limit.Max != perMinute ||
			p.Limit.Used+r.amount <= perMinute:
			b.violation("id %s of %d units: a limit refuses it for no reason: %v", r.id, r.amount, err)
		case p.Cancelled:
			r.cancel, r.open = cancelOpen, false
		}
	case code == budget.RequestVoid:
		if r.cancel == notCancelled {
			b.violation("id %s was never cancelled: %v", r.id, err)
			return
		}
		r.cancel, r.open = cancelVoid, false
	case client.KindOf(err) == budget.MayBeDone:
		r.open = r.open || !r.accepted
	case client.KindOf(err) != budget.NotDone:
		b.violation("id %s: %v", r.id, err)
	}
}

func (b *book) heardAccepted(r *record, answer *client.DeductAnswer) {
	switch {
	case answer.Amount != r.amount:
		b.violation("id %s of %d units: answered %+v", r.id, r.amount, *answer)
	case r.cancel == cancelVoid:
		b.violation("id %s was cancelled before it happened, and is accepted: %+v", r.id, *answer)
	case r.accepted && !answer.Replayed && !b.store: // there, what a store lost may happen again
		b.violation("id %s was accepted twice: %+v", r.id, *answer)
	case r.accepted && r.bucket != "" && answer.Bucket != r.bucket:
		b.violation("id %s was accepted in %s, and its replay says %s", r.id, r.bucket, answer.Bucket)
	}
	r.accepted, r.open, r.bucket = true, false, answer.Bucket
}

// heardConflict records the answer to another amount under an accepted id.
func (b *book) heardConflict(r *record, answer *client.DeductAnswer, err error) {
	if final(err) && client.CodeOf(err) != budget.RequestConflict {
		b.violation("id %s of %d units was sent with %d: %+v, %v", r.id, r.amount, r.amount+1, answer,
			err)
	}
}

// heardCancel records the answer to a cancel.
func (b *book) heardCancel(r *record, answer *client.Deduction, err error) {
	switch {
	case err == nil && answer.State == "void":
		if r.accepted && !b.store {
			b.violation("id %s was accepted, and its cancel says void", r.id)
		}
		r.accepted, r.cancel, r.open = false, cancelVoid, false
	case err == nil && answer.State == "rolled_back" && answer.RolledBack == r.amount:
		r.accepted, r.cancel, r.open = true, cancelBack, false
	case client.KindOf(err) == budget.MayBeDone:
		r.cancel = cancelOpen
	case client.KindOf(err) != budget.NotDone:
		b.violation("cancel of id %s: %+v, %v", r.id, answer, err)
	}
}

// heardRollback records the answer to a rollback of an accepted id.
func (b *book) heardRollback(r *record, p *part, answer *client.Deduction, err error) {
	switch code := client.CodeOf(err); {
	case err == nil:
		p.done, p.open = true, false
		if answer.RolledBack < p.amount || answer.RolledBack > r.amount ||
			p.amount == 0 && answer.RolledBack != r.amount {
			b.violation("rollback of %d of id %s of %d units: %+v", p.amount, r.id, r.amount, *answer)
		}
	case code == budget.AlreadyRolledBack:
		// Another rollback took what was left: this one took nothing and never will.
		if p.done {
			b.violation("rollback of id %s was done and is refused now: %v", r.id, err)
		}
		p.open = false
	case b.store && code == budget.DeductionNotFound:
		p.open = false // what the loss of a store took
	case client.KindOf(err) == budget.MayBeDone:
		p.open = !p.done
	case client.KindOf(err) != budget.NotDone:
		b.violation("rollback of id %s: %v", r.id, err)
	}
}

// heardAdjust records the answer to an append or a shrink. A shrink that was not done may still be
// in progress.
func (b *book) heardAdjust(a *adjustment, err error) {
	switch kind := client.KindOf(err); {
	case err == nil:
		a.done, a.open = true, false
	case a.done && kind != budget.NotDone && kind != budget.MayBeDone:
		b.violation("adjustment %s was done and is refused now: %v", a.id, err)
	case client.CodeOf(err) == budget.AmountExceedsRemaining && a.quantity < 0:
		a.open = false
	case kind == budget.MayBeDone, kind == budget.NotDone && a.quantity < 0:
		a.open = !a.done
	case kind != budget.NotDone:
		b.violation("adjustment %s of %d: %v", a.id, a.quantity, err)
	}
}
