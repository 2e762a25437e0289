package ledger

import "github.com/budgetd/budgetd/budget"

// Rollback is a ledger row: units of a deduction were given back.
type Rollback struct {
	RequestID  string
	RollbackID string
	Amount     int64
	// Whole means that the caller asked for all that was left.
	Whole bool
}

// DecideRollback returns how many minor units a rollback gives back. d is the locked deduction,
// earlier is the recorded rollback with the same rollback id, or nil. amount 0 asks for all that is
// left. replay is true if earlier is the same rollback.
//
// Errors, in order: RequestVoid for a tombstone; RequestConflict if the rollback id was used with
// another amount; AlreadyRolledBack if nothing is left; AmountExceedsRemaining, with what is left,
// if that is less than amount. It keeps I5: never more than was deducted.
func DecideRollback(
	d Deduction, earlier *Rollback, amount int64,
) (units int64, replay bool, err error) {
	left := d.Left()
	switch {
	case d.State == StateVoid:
		return 0, false, budget.Refuse(budget.RequestVoid, "rollback",
			"request %q was cancelled before it had an effect; there is nothing to give back",
			CallerID(d.RequestID))
	case earlier != nil && earlier.Whole != (amount == 0), earlier != nil && amount != 0 &&
		earlier.Amount != amount:
		return 0, false, budget.Refuse(budget.RequestConflict, "rollback",
			"rollback %q of request %q was recorded with another amount", earlier.RollbackID,
			CallerID(d.RequestID))
	case earlier != nil:
		return earlier.Amount, true, nil
	case left == 0:
		return 0, false, Gone("rollback", CallerID(d.RequestID), d.State)
	case amount > left:
		e := budget.Refuse(budget.AmountExceedsRemaining, "rollback",
			"request %q has %d left to give back, %d were asked for", CallerID(d.RequestID), left,
			amount)
		e.Available = &left
		return 0, false, e
	case amount == 0:
		return left, false, nil
	}
	return amount, false, nil
}

// Gone refuses a call that needs something of a deduction of which nothing is left: it was rolled
// back or cancelled, or its hold expired. The error has its state.
func Gone(op, id string, state State) *budget.Error {
	why := "was rolled back completely"
	if state == StateExpired {
		why = "was a hold, which has expired"
	}
	e := budget.Refuse(budget.AlreadyRolledBack, op,
		"request %q %s; nothing of it is left; another request needs another id", id, why)
	e.State = string(state)
	return e
}

// AfterRollback returns the deduction after units were given back, those that are held before those
// that are used. Its state becomes rolled_back when nothing is left, and used when nothing of a
// hold is held any more.
func AfterRollback(d Deduction, units int64) Deduction {
	ofUsed := units
	if d.State == StateHeld {
		ofUsed = max(0, units-d.Held())
	}
	d.RolledBack += units
	d.Used = max(0, d.Used-ofUsed)
	switch {
	case d.Left() == 0:
		d.State = StateRolledBack // it was held or used
	case d.State == StateHeld && d.Held() == 0:
		d.State = StateUsed
	}
	return d
}
