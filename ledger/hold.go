package ledger

import (
	"time"

	"github.com/budgetd/budgetd/budget"
)

// HoldEnd is a row of the ledger: how a hold ended, by its one confirm or because its time was up.
// One that was rolled back has a Rollback instead.
type HoldEnd struct {
	Budget    int64
	RequestID string
	// Kind is FeedConfirm or FeedExpire.
	Kind FeedKind
	// Amount is what was confirmed, or what expired; Returned what it gave back: the rest of a partial
	// confirm, all that expired. In minor units.
	Amount, Returned int64
	// Entry numbers it among the rows of the deduction's bucket.
	Entry int64
	// At is SQL's time of the commit.
	At time.Time
}

// GroupState is what became of a group of holds.
type GroupState string

// The states of a group. It stays what it first became, except that a confirmed one may be rolled
// back.
const (
	GroupOpen       GroupState = "open"
	GroupUsed       GroupState = "used"
	GroupRolledBack GroupState = "rolled_back"
)

// GroupRollbackID is the rollback id under which the rollback of a group gives back what is left of
// a member: no caller's id, as those hold no control characters.
const GroupRollbackID = "\x00group"

// DecideConfirm says how a hold ends that is confirmed at SQL's time now. d is the deduction,
// locked; earlier is how it ended, nil if it has not, or was rolled back; amount 0 confirms all
// that is held, less than that returns the rest. replay is true when earlier did the same.
//
// Errors, in order: RequestVoid for a tombstone; NotHeld for what never was a hold; RequestConflict
// where another amount was confirmed; HoldExpired; NotHeld where it was rolled back;
// AmountExceedsRemaining, with the figure. Keeps I5.
func DecideConfirm(
	d Deduction, earlier *HoldEnd, amount int64, now time.Time,
) (end HoldEnd, replay bool, err error) {
	left := d.Amount - d.RolledBack
	if err := neverHeld(d, "confirm"); err != nil {
		return end, false, err
	}
	if earlier != nil && earlier.Kind == FeedConfirm {
		if amount == 0 && earlier.Returned > 0 || amount != 0 && amount != earlier.Amount {
			return end, false, budget.Refuse(budget.RequestConflict, "confirm",
				"the hold %q was confirmed with another amount: %d", d.RequestID, earlier.Amount)
		}
		return *earlier, true, nil
	}
	if err := notHeld(d, now, "confirm"); err != nil {
		return end, false, err
	}
	if amount > left {
		e := budget.Refuse(budget.AmountExceedsRemaining, "confirm",
			"the hold %q has %d, %d were to be confirmed", d.RequestID, left, amount)
		e.Available = &left
		return end, false, e
	}
	if amount == 0 {
		amount = left
	}
	return HoldEnd{Budget: d.Budget, RequestID: d.RequestID, Kind: FeedConfirm, Amount: amount,
		Returned: left - amount}, false, nil
}

// DecideExtend says whether a hold may last longer, at SQL's time now. Errors as DecideConfirm;
// NotHeld where it was confirmed.
func DecideExtend(d Deduction, now time.Time) error {
	if err := neverHeld(d, "extend"); err != nil {
		return err
	}
	return notHeld(d, now, "extend")
}

// neverHeld refuses what never was a hold.
func neverHeld(d Deduction, op string) error {
	switch {
	case d.State == StateVoid:
		return budget.Refuse(budget.RequestVoid, op,
			"request %q was cancelled before it had an effect; nothing is held", d.RequestID)
	case d.HoldUntil.IsZero():
		return budget.Refuse(budget.NotHeld, op, "request %q is no hold: its units are used", d.RequestID)
	}
	return nil
}

// notHeld refuses what was a hold and is none any more.
func notHeld(d Deduction, now time.Time, op string) error {
	switch {
	case d.State == StateExpired, d.State == StateHeld && DueHold(d, now):
		return budget.Refuse(budget.HoldExpired, op, "the hold %q ended at %s", d.RequestID,
			d.HoldUntil.UTC().Format(time.RFC3339Nano))
	case d.State != StateHeld:
		return budget.Refuse(budget.NotHeld, op, "request %q is %s and not held any more", d.RequestID,
			d.State)
	}
	return nil
}

// DueHold reports whether a deduction is a hold whose time is up at SQL's time now.
func DueHold(d Deduction, now time.Time) bool {
	return d.State == StateHeld && !now.Before(d.HoldUntil)
}

// Expire says how a due hold ends: all that is left of it returns.
func Expire(d Deduction) HoldEnd {
	left := d.Amount - d.RolledBack
	return HoldEnd{Budget: d.Budget, RequestID: d.RequestID, Kind: FeedExpire, Amount: left,
		Returned: left}
}

// AfterEnd returns the deduction after its hold ended.
func AfterEnd(d Deduction, end HoldEnd) Deduction {
	d.RolledBack += end.Returned
	if end.Kind == FeedExpire {
		d.State = StateExpired
		return d
	}
	d.State, d.Confirmed = StateUsed, end.Amount
	return d
}

// Members are the deductions of a group, by request id; State what became of the group.
type Members struct {
	Group      string
	State      GroupState
	Deductions []Deduction
}

// Confirm says which members of the group a confirm at SQL's time now uses, all of what each holds;
// members that were confirmed or rolled back one by one stay what they are. replay: the group was
// confirmed before.
//
// Errors: DeductionNotFound where there is no member (yet); NotHeld where the group was rolled
// back, or nothing of it is held or was confirmed; HoldExpired where the time of one member was up:
// then none is used.
func (m *Members) Confirm(now time.Time) (use []HoldEnd, replay bool, err error) {
	if err := m.absent("confirm"); err != nil {
		return nil, false, err
	}
	switch m.State {
	case GroupUsed:
		return nil, true, nil
	case GroupRolledBack:
		return nil, false, budget.Refuse(budget.NotHeld, "confirm", "the group %q was rolled back",
			m.Group)
	}
	held, confirmed, err := m.held(now, "confirm")
	if err != nil {
		return nil, false, err
	}
	if len(held)+confirmed == 0 {
		return nil, false, budget.Refuse(budget.NotHeld, "confirm", "nothing of the group %q is held",
			m.Group)
	}
	for _, d := range held {
		use = append(use, HoldEnd{Budget: d.Budget, RequestID: d.RequestID, Kind: FeedConfirm,
			Amount: d.Amount - d.RolledBack})
	}
	return use, false, nil
}

// Extend says which members of the group may last longer: all that are held. Errors as Confirm;
// NotHeld also where all were confirmed.
func (m *Members) Extend(now time.Time) ([]Deduction, error) {
	if err := m.absent("extend"); err != nil {
		return nil, err
	}
	held, _, err := m.held(now, "extend")
	if err == nil && len(held) == 0 {
		err = budget.Refuse(budget.NotHeld, "extend", "nothing of the group %q is held", m.Group)
	}
	return held, err
}

// Rollback says what the rollback of the group gives back: what is left of each member, held or
// used. replay: it was rolled back before. Error: DeductionNotFound where there is no member (yet).
func (m *Members) Rollback() (back []Rollback, replay bool, err error) {
	if err := m.absent("rollback"); err != nil {
		return nil, false, err
	}
	if m.State == GroupRolledBack {
		return nil, true, nil
	}
	for _, d := range m.Deductions {
		if left := d.Amount - d.RolledBack; left > 0 {
			back = append(back, Rollback{Budget: d.Budget, RequestID: d.RequestID,
				RollbackID: GroupRollbackID,
				Amount:     left, Whole: true})
		}
	}
	return back, false, nil
}

func (m *Members) absent(op string) error {
	if len(m.Deductions) > 0 {
		return nil
	}
	return budget.Refuse(budget.DeductionNotFound, op, "nothing has been deducted for the group %q",
		m.Group)
}

// held lists the members that are held, and counts those that were confirmed; an error where one
// expired.
func (m *Members) held(now time.Time, op string) (held []Deduction, confirmed int, err error) {
	for _, d := range m.Deductions {
		switch {
		case d.Confirmed > 0:
			confirmed++
		case d.State == StateRolledBack:
		default:
			if err := notHeld(d, now, op); err == nil {
				held = append(held, d)
			} else {
				return nil, 0, err
			}
		}
	}
	return held, confirmed, nil
}
