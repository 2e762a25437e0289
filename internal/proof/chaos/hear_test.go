package chaos

import (
	"errors"
	"strings"
	"testing"

	"github.com/budgetd/budgetd/budget"
	"github.com/budgetd/budgetd/client"
)

// final reports whether an answer settles an attempt: done or refused.
func final(err error) bool {
	kind := client.KindOf(err)
	return kind != budget.NotDone && kind != budget.MayBeDone
}

// heard records the answer to a deduct attempt. For overlapping attempts with one id, call it with
// refusals first, then with first acceptances, then with replays.
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
		case r.accepted && b.store: // the record may have been lost with a store
		case r.accepted:
			b.violation("id %s was accepted before and is refused now: %v", r.id, err)
		case b.plenty && !b.store: // in store mode all units may be quarantined
			b.violation("id %s of %d units: refused although it cannot run out: %v", r.id, r.amount, err)
		case p.Available == nil || *p.Available >= r.amount:
			b.violation("id %s of %d units: refused without reason: %v", r.id, r.amount, err)
		// The client cancelled, because an earlier attempt with an unknown outcome may have taken effect.
		case p.Cancelled:
			r.cancel, r.open = cancelOpen, false
		}
	case code == budget.LimitExceeded && b.limited:
		var p *client.Problem
		errors.As(err, &p)
		switch {
		case r.accepted && b.store: // the record may have been lost with a store
		case r.accepted:
			b.violation("id %s was accepted before and is refused now: %v", r.id, err)
		case p.Limit == nil || p.Limit.Max == nil || *p.Limit.Max != perMinute ||
			p.Limit.Used+r.amount <= perMinute:
			b.violation("id %s of %d units: a limit refuses it without reason: %v", r.id, r.amount, err)
		case p.Cancelled:
			r.cancel, r.open = cancelOpen, false
		}
	case code == budget.RequestVoid:
		if r.cancel == notCancelled {
			b.violation("id %s was never cancelled: %v", r.id, err)
			return
		}
		r.cancel, r.open = cancelVoid, false
	case code == budget.AlreadyRolledBack:
		if r.cancel == notCancelled && len(r.parts) == 0 {
			b.violation("id %s was never given back: %v", r.id, err)
		}
		r.accepted, r.open = true, false
	case client.KindOf(err) == budget.MayBeDone:
		r.open = r.open || !r.accepted
		r.unsure++
	case client.KindOf(err) != budget.NotDone:
		b.violation("id %s: %v", r.id, err)
	}
}

func (b *book) heardAccepted(r *record, answer *client.DeductAnswer) {
	switch {
	case answer.Amount != r.amount:
		b.violation("id %s of %d units: answered %+v", r.id, r.amount, *answer)
	case r.cancel == cancelVoid:
		b.violation("id %s was cancelled before it took effect, and is accepted: %+v", r.id, *answer)
	case r.accepted && !answer.Replayed && !b.store: // a store that lost the record may accept it again
		b.violation("id %s was accepted twice: %+v", r.id, *answer)
	case r.accepted && r.bucket != "" && answer.Bucket != r.bucket:
		b.violation("id %s was accepted in %s, and its replay says %s", r.id, r.bucket, answer.Bucket)
	}
	r.accepted, r.open, r.bucket = true, false, answer.Bucket
	if !answer.Replayed {
		r.fresh++
	}
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
		p.open = false // the record may have been lost with a store
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

// TestHeard checks that answers that no correct service gives are recorded, and that correct ones
// are not.
func TestHeard(t *testing.T) {
	refused := func(code budget.Code) error { return &client.Problem{Status: 409, Code: code} }
	exhausted := func(available int64) error {
		return &client.Problem{Status: 409, Code: budget.BudgetExhausted, Available: &available}
	}
	yes := func(replayed bool) *client.DeductAnswer {
		return &client.DeductAnswer{Amount: 5, Bucket: "a", Replayed: replayed}
	}
	lost := &client.UnknownOutcome{Last: refused(budget.OutcomeUnknown)}
	back := func(state string, units int64) *client.Deduction {
		return &client.Deduction{State: state, RolledBack: units}
	}
	part2 := func(r *record) *part { r.parts["p"] = &part{amount: 2}; return r.parts["p"] }
	for _, tt := range []struct {
		name string
		hear func(b *book, r *record)
		want string // part of the violation; "": none
	}{
		{"accepted, then replayed", func(b *book, r *record) {
			b.heard(r, yes(false), nil)
			b.heard(r, yes(true), nil)
		}, ""},
		{"accepted twice", func(b *book, r *record) {
			b.heard(r, yes(false), nil)
			b.heard(r, yes(false), nil)
		}, "accepted twice"},
		{"open, then replayed", func(b *book, r *record) { b.heard(r, nil, lost); b.heard(r, yes(true), nil) }, ""},
		{"moved", func(b *book, r *record) {
			b.heard(r, yes(false), nil)
			b.heard(r, &client.DeductAnswer{Amount: 5, Bucket: "b", Replayed: true}, nil)
		}, "its replay says b"},
		{"another amount", func(b *book, r *record) { b.heard(r, &client.DeductAnswer{Amount: 6}, nil) },
			"answered"},
		{"refused", func(b *book, r *record) { b.heard(r, nil, exhausted(4)) }, ""},
		{"refused without reason", func(b *book, r *record) { b.heard(r, nil, exhausted(5)) }, "without reason"},
		{"refused although there is plenty", func(b *book, r *record) {
			b.plenty = true
			b.heard(r, nil, exhausted(4))
		}, "cannot run out"},
		{"an accepted id refused", func(b *book, r *record) {
			b.heard(r, yes(false), nil)
			b.heard(r, nil, exhausted(4))
		}, "refused now"},
		{"void, never cancelled", func(b *book, r *record) { b.heard(r, nil, refused(budget.RequestVoid)) },
			"never cancelled"},
		{"another code", func(b *book, r *record) { b.heard(r, nil, refused(budget.BudgetPaused)) },
			"budget_paused"},
		{"a conflict with itself", func(b *book, r *record) {
			b.heard(r, nil, refused(budget.RequestConflict))
		}, "request_conflict"},
		{"cancelled, then accepted", func(b *book, r *record) {
			b.heardCancel(r, back("void", 0), nil)
			b.heard(r, yes(false), nil)
		}, "cancelled before"},
		{"cancelled, then void", func(b *book, r *record) {
			b.heardCancel(r, back("void", 0), nil)
			b.heard(r, nil, refused(budget.RequestVoid))
		}, ""},
		{"accepted, and its cancel says void", func(b *book, r *record) {
			b.heard(r, yes(false), nil)
			b.heardCancel(r, back("void", 0), nil)
		}, "its cancel says void"},
		{"a cancel gives back too little", func(b *book, r *record) {
			b.heard(r, yes(false), nil)
			b.heardCancel(r, back("rolled_back", 4), nil)
		}, "cancel of id"},
		{"given back too much", func(b *book, r *record) { b.heardRollback(r, part2(r), back("used", 6), nil) },
			"rollback of 2"},
		{"given back too little", func(b *book, r *record) {
			b.heardRollback(r, part2(r), back("used", 1), nil)
		}, "rollback of 2"},
		{"given back", func(b *book, r *record) { b.heardRollback(r, part2(r), back("used", 2), nil) }, ""},
		{"an accepted id not found", func(b *book, r *record) {
			b.heardRollback(r, part2(r), nil, refused(budget.DeductionNotFound))
		}, "deduction_not_found"},
		{"a rollback done and refused", func(b *book, r *record) {
			p := part2(r)
			b.heardRollback(r, p, back("used", 2), nil)
			b.heardRollback(r, p, nil, refused(budget.AlreadyRolledBack))
		}, "is refused now"},
		{"another amount accepted", func(b *book, r *record) { b.heardConflict(r, yes(true), nil) },
			"was sent with 6"},
		{"another amount refused", func(b *book, r *record) {
			b.heardConflict(r, nil, refused(budget.RequestConflict))
		}, ""},
		{"an append refused", func(b *book, _ *record) {
			b.heardAdjust(b.adjust("a", 5), refused(budget.AmountExceedsRemaining))
		}, "adjustment a"},
		{"an append done and refused", func(b *book, _ *record) {
			a := b.adjust("a", -5)
			b.heardAdjust(a, nil)
			b.heardAdjust(a, refused(budget.AmountExceedsRemaining))
		}, "is refused now"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			b := newBook("b", 100)
			tt.hear(b, b.add("id", 5, ""))
			got := strings.Join(b.wrong, "\n")
			if tt.want == "" && got != "" || !strings.Contains(got, tt.want) {
				t.Errorf("violations %q, want one with %q", got, tt.want)
			}
		})
	}
}

// TestOpenUntilSettled checks that an uncertain outcome stays open until an answer settles it.
func TestOpenUntilSettled(t *testing.T) {
	lost := &client.UnknownOutcome{}
	available := int64(0)
	b := newBook("b", 100)
	r := b.add("id", 5, "")
	b.heard(r, nil, lost)
	if r.settled() {
		t.Error("an unknown outcome is settled")
	}
	b.heard(r, nil, &client.Problem{Status: 409, Code: budget.BudgetExhausted, Available: &available})
	if r.settled() {
		t.Error("a refusal settled an earlier attempt")
	}
	b.heard(r, nil, &client.Problem{Status: 409, Code: budget.BudgetExhausted, Available: &available,
		Cancelled: true})
	if r.cancel != cancelOpen || r.settled() {
		t.Error("after the client's cancel, the outcome is not open")
	}
	b.heardCancel(r, &client.Deduction{State: "rolled_back", RolledBack: 5}, nil)
	if !r.settled() || !r.accepted || r.returned() != 5 {
		t.Errorf("after the cancel: %+v", *r)
	}
	p := &part{amount: 2}
	r.parts["p"] = p
	b.heardRollback(r, p, nil, lost)
	if r.settled() {
		t.Error("an unknown rollback is settled")
	}
	b.heardRollback(r, p, nil, &client.Problem{Status: 409, Code: budget.AlreadyRolledBack})
	if !r.settled() || p.done || len(b.wrong) > 0 {
		t.Errorf("after the refusal: %+v, %v", *p, b.wrong)
	}
}
