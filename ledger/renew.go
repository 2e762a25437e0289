package ledger

import (
	"fmt"
	"strconv"
	"time"

	"github.com/budgetd/budgetd/budget"
)

// MostSteps bounds the renewals of one hold: each may add a row of extra, and all of them are read
// at the next one.
const MostSteps = 10_000

// Renewal is what a step of a hold does, in minor units.
type Renewal struct {
	// Used becomes used of what is held, Above is what is used beyond that.
	Used, Above int64
	// Returned is given back of what is held, More is to be held in addition. One of them is 0.
	Returned, More int64
	// Released means that the hold has expired, which gave back, or will first give back, what was
	// held. Corrects means that its expiry has confirmed that, which is undone.
	Released, Corrects bool
}

// Takes returns what the step asks for of the budget.
func (r *Renewal) Takes() int64 { return r.Above + r.More }

// DecideRenew returns what a step of a hold does at SQL's time now: o.Used became used since the
// last one, and o.Hold are to be held until o.TTL from now. d is the locked deduction. After the
// expiry it is a late confirm of what was used, and then a new hold. replay is true if the same
// step was the last one.
//
// Errors, in order: RequestVoid for a tombstone; NotHeld if it never was a hold; RequestConflict if
// the last step has the number and another body; AlreadyRolledBack; NotHeld if it was confirmed, or
// a step ended it; StepConflict unless the number follows that of the last step; HoldExpired if it
// has expired and Above is AboveRefuse; AmountExceedsRemaining, with what is held, if more is used
// than that and Above is AboveRefuse; Invalid if a sum would exceed budget.MaxAmount. Keeps I5.
func DecideRenew(d Deduction, o *Order, now time.Time) (r Renewal, replay bool, err error) {
	if err := neverHeld(d, "renew"); err != nil {
		return r, false, err
	}
	id, late := CallerID(d.RequestID), hasExpired(d, now)
	r.Released = late && d.ExpiresAs != ExpiresUsed
	r.Corrects = late && d.State == StateUsed
	held := d.Held()
	if r.Released {
		held = 0
	}
	switch {
	case o.Step == d.Step && d.StepPrint == o.stepPrint():
		return r, true, nil
	case o.Step == d.Step:
		return r, false, budget.Refuse(budget.RequestConflict, "renew",
			"step %d of the hold %q had another body", o.Step, id)
	case d.State == StateRolledBack:
		return r, false, Gone("renew", id, d.State)
	case d.Late || !late && d.State != StateHeld:
		return r, false, budget.Refuse(budget.NotHeld, "renew",
			"request %q is %s and no longer held", id, d.State)
	case o.Step != d.Step+1:
		return r, false, budget.Refuse(budget.StepConflict, "renew",
			"the last step of the hold %q is %d, so step %d cannot follow", id, d.Step, o.Step)
	case r.Released && d.Above != AboveAvailable:
		return r, false, notHeld(d, now, "renew")
	case o.Used > held && d.Above != AboveAvailable:
		return r, false, tooMuch(d, "renew", held, o.Used)
	}
	r.Used = min(o.Used, held)
	r.Above = o.Used - r.Used
	r.More = max(0, o.Hold-(held-r.Used))
	r.Returned = max(0, held-r.Used-o.Hold)
	if max(d.Confirmed+d.Uncollected+o.Used, d.Amount+d.Extra+r.Takes()) > budget.MaxAmount {
		return r, false, &budget.Error{Code: budget.Invalid, Op: "renew",
			Message: fmt.Sprintf("the steps of the hold %q have a sum above %d", id, budget.MaxAmount)}
	}
	return r, false, nil
}

// stepPrint is what a repeat of the step must equal.
func (o *Order) stepPrint() string {
	return fmt.Sprintf("%d %d %d", o.Used, o.Hold, o.TTL.Milliseconds())
}

// AfterRenew returns the deduction after a step that took units of the budget. They are used first,
// then held. A hold of 0 ends the stream.
func AfterRenew(d Deduction, o *Order, r Renewal, taken int64, now time.Time) Deduction {
	if r.Corrects {
		d.Used -= d.Held()
		d.Confirmed -= d.Expired
	}
	above := min(taken, r.Above)
	d.Confirmed += r.Used + above
	d.Used += r.Used + above
	d.Uncollected += r.Above - above
	d.Extra += taken
	d.RolledBack += r.Returned
	d.Expired = 0
	d.State = StateHeld
	d.Step = o.Step
	d.StepPrint = o.stepPrint()
	d.StepUsed = d.Confirmed
	d.StepHeld = d.Held()
	d.IsFinal = d.StepHeld < o.Hold
	switch {
	case o.Hold > 0: // also if there was nothing: a confirm may follow
		d.HoldUntil = now.Add(o.TTL)
	case d.Left() > 0:
		d.State = StateUsed
	default:
		d.State = StateRolledBack
	}
	return d
}

// StepID is the rollback id of what an expiry gives back after the last step of a hold, and of what
// that step gave back.
func (d *Deduction) StepID() string {
	if d.Step == 0 {
		return ""
	}
	return strconv.FormatInt(d.Step, 10)
}
