package ledger

import (
	"cmp"
	"time"

	"github.com/budgetd/budgetd/budget"
)

// HoldEnd is the ledger row of a hold that was confirmed or expired. A hold that was rolled back
// has a Rollback instead.
type HoldEnd struct {
	RequestID string
	// Kind is FeedConfirm or FeedExpire.
	Kind FeedKind
	// Amount was confirmed or has expired. Returned was given back: the rest of a partial confirm,
	// or all that expired unless that counts as used. Both in minor units.
	Amount, Returned int64
	// Above is what a confirm asked for above what was held, in minor units: all of it if it was Late,
	// after the expiry.
	Above int64
	Late  bool
	// Asked is what a confirm asked for, in minor units. Whole means that this was all.
	Asked int64
	Whole bool
}

// Above says what a confirm of more than is held does.
type Above string

// The values of Above.
const (
	// AboveRefuse refuses it.
	AboveRefuse Above = "refuse"
	// AboveAvailable takes the rest from the free units of the budget, as far as there are any.
	AboveAvailable Above = "available"
)

// ExpiresAs says what the expiry of a hold does with what is held.
type ExpiresAs string

// The values of ExpiresAs.
const (
	// ExpiresReleased gives it back.
	ExpiresReleased ExpiresAs = "released"
	// ExpiresUsed confirms it. One late confirm may correct that.
	ExpiresUsed ExpiresAs = "used"
)

// GroupState is the state of a group of holds.
type GroupState string

// The states of a group. A state is final, except that a confirmed group may be rolled back.
const (
	GroupOpen       GroupState = "open"
	GroupUsed       GroupState = "used"
	GroupRolledBack GroupState = "rolled_back"
)

// GroupRollbackID is the rollback id under which rolling back a group gives back what is left of a
// member. It contains a control character, so no caller's id can equal it.
const GroupRollbackID = "\x00group"

// ConfirmRestID is the rollback id under which the confirm of a part of a leg gives back a source
// of the leg of which it uses nothing. No caller's id can equal it.
const ConfirmRestID = "\x00confirm"

// DecideConfirm returns the end of a hold that is confirmed at SQL's time now. d is the locked
// deduction, earlier is its recorded confirm, or nil. amount 0 confirms all that is held; a smaller
// amount gives the rest back, and a larger one asks for Above if the deduction allows that. Then it
// may also be confirmed after its expiry, which asks for all again. If the expiry confirmed what
// was held, a confirm after it corrects that, as if what is left of it were still held.
// replay is true if earlier is the same confirm.
//
// Errors, in order: RequestVoid for a tombstone; NotHeld if it never was a hold; RequestConflict if
// another amount was confirmed; if it was rolled back, AlreadyRolledBack if Above is
// AboveAvailable, and NotHeld otherwise; if Above is AboveRefuse, HoldExpired, and
// AmountExceedsRemaining, with what is held, if that is less than amount. It keeps I5.
func DecideConfirm(d Deduction, earlier *HoldEnd, amount int64, now time.Time) (
	end HoldEnd, replay bool, err error) {
	if err := neverHeld(d, "confirm"); err != nil {
		return end, false, err
	}
	if earlier != nil {
		if amount == 0 && !earlier.Whole || amount != 0 && amount != earlier.Asked {
			return end, false, budget.Refuse(budget.RequestConflict, "confirm",
				"the hold %q was confirmed with another amount: %d", CallerID(d.RequestID),
				earlier.Asked)
		}
		return *earlier, true, nil
	}
	held := d.Held()
	if d.State == StateExpired {
		held = d.Expired
	}
	end = HoldEnd{RequestID: d.RequestID, Kind: FeedConfirm, Late: hasExpired(d, now),
		Asked: cmp.Or(amount, held), Whole: amount == 0 || amount == held}
	switch {
	case d.State == StateRolledBack && d.Above == AboveAvailable:
		return HoldEnd{}, false, Gone("confirm", CallerID(d.RequestID), d.State)
	case end.Late && d.ExpiresAs == ExpiresUsed: // what is left of it counts as held
	case end.Late && d.Above == AboveAvailable:
		end.Above = end.Asked
		return end, false, nil
	default:
		if err := notHeld(d, now, "confirm"); err != nil {
			return HoldEnd{}, false, err
		}
	}
	switch {
	case amount == 0:
		end.Amount = held
	case amount <= held:
		end.Amount, end.Returned = amount, held-amount
	case d.Above == AboveAvailable:
		end.Amount, end.Above = held, amount-held
	default:
		return HoldEnd{}, false, tooMuch(d, "confirm", held, amount)
	}
	return end, false, nil
}

// tooMuch refuses to use more than is held.
func tooMuch(d Deduction, op string, held, amount int64) error {
	e := budget.Refuse(budget.AmountExceedsRemaining, op,
		"the hold %q has %d left, fewer than the %d to %s", CallerID(d.RequestID), held, amount, op)
	e.Available = &held
	return e
}

// MayTake reports whether an order at SQL's time now may take units above the hold. again means
// that the expiry gave back all that the deduction had, so that limits count it as a new one.
func MayTake(d Deduction, o *Order, now time.Time) (takes, again bool) {
	late := hasExpired(d, now)
	released := late && d.ExpiresAs != ExpiresUsed
	switch o.Kind {
	case OrderConfirm:
		takes = released || (late || d.State == StateHeld) && o.Amount > d.Held()
		takes = takes && d.Above == AboveAvailable
	case OrderRenew:
		r, replay, err := DecideRenew(d, o, now)
		takes = err == nil && !replay && r.Takes() > 0
	}
	return takes, released && d.Used == 0
}

// TakesAgain reports whether a late confirm takes again all that the deduction had, which the
// expiry has given back.
func (d *Deduction) TakesAgain() bool {
	return d.Late && d.ExpiresAs != ExpiresUsed && d.Used == 0
}

// IsOpen reports whether a hold of which nothing is left may still be confirmed, late.
func IsOpen(d Deduction) bool {
	return d.State == StateExpired && d.Above == AboveAvailable && !d.Late
}

// hasExpired reports whether a hold has expired, though its units may still be held, and nothing
// has become of it since.
func hasExpired(d Deduction, now time.Time) bool {
	return d.State == StateExpired || DueHold(d, now) ||
		d.State == StateUsed && d.Expired > 0 && !d.Late
}

// DecideExtend returns an error unless a hold may be extended at SQL's time now: RequestVoid,
// HoldExpired or NotHeld, as DecideConfirm does, and NotHeld if it was confirmed.
func DecideExtend(d Deduction, now time.Time) error {
	if err := neverHeld(d, "extend"); err != nil {
		return err
	}
	return notHeld(d, now, "extend")
}

// neverHeld refuses a deduction that never was a hold.
func neverHeld(d Deduction, op string) error {
	switch {
	case d.State == StateVoid:
		return budget.Refuse(budget.RequestVoid, op,
			"request %q was cancelled before it had an effect; nothing is held", CallerID(d.RequestID))
	case d.HoldUntil.IsZero():
		return budget.Refuse(budget.NotHeld, op, "request %q is not a hold: its units are used",
			CallerID(d.RequestID))
	}
	return nil
}

// notHeld refuses a deduction that is no longer a hold.
func notHeld(d Deduction, now time.Time, op string) error {
	switch {
	case hasExpired(d, now):
		return budget.Refuse(budget.HoldExpired, op, "the hold %q ended at %s", CallerID(d.RequestID),
			d.HoldUntil.UTC().Format(time.RFC3339Nano))
	case d.State != StateHeld:
		return budget.Refuse(budget.NotHeld, op, "request %q is %s and no longer held",
			CallerID(d.RequestID), d.State)
	}
	return nil
}

// DueHold reports whether a deduction is a hold that has expired at SQL's time now.
func DueHold(d Deduction, now time.Time) bool {
	return d.State == StateHeld && !now.Before(d.HoldUntil)
}

// Expire returns the end of a due hold: all that is left of it is given back, or used.
func Expire(d Deduction) HoldEnd {
	end := HoldEnd{RequestID: d.RequestID, Kind: FeedExpire, Amount: d.Held()}
	if d.ExpiresAs != ExpiresUsed {
		end.Returned = end.Amount
	}
	return end
}

// AfterEnd returns the deduction after its hold ended, before a confirm takes anything above it.
func AfterEnd(d Deduction, end HoldEnd) Deduction {
	corrects := end.Late && d.State == StateUsed
	d.RolledBack += end.Returned
	d.Asked = end.Asked
	d.Late = end.Late
	isUsed := d.ExpiresAs == ExpiresUsed || end.Kind == FeedConfirm && !end.Late
	switch {
	case corrects:
		d.Confirmed += end.Amount - d.Expired
		d.Used -= end.Returned
	case isUsed:
		d.Confirmed += end.Amount
		d.Used += end.Amount
	}
	if end.Kind == FeedExpire {
		d.Expired = end.Amount
	}
	switch {
	case isUsed, end.Late && d.Left() > 0:
		d.State = StateUsed
	default: // after a late confirm it is used if something is taken
		d.State = StateExpired
	}
	return d
}

// Members are the deductions of a group, ordered by request id, and the state of the group.
type Members struct {
	Group      string
	State      GroupState
	Deductions []Deduction
}

// Confirm returns how the held members end when the group is confirmed at SQL's time now: all that
// each of them holds is used. Members that were confirmed or rolled back one by one do not change.
// replay is true if the group was confirmed before.
//
// Errors: DeductionNotFound if the group has no member yet; NotHeld if it was rolled back, or if no
// member is held or was confirmed; HoldExpired if a member has expired, and then no member is used.
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
		use = append(use, HoldEnd{RequestID: d.RequestID, Kind: FeedConfirm,
			Amount: d.Held(), Asked: d.Held(), Whole: true})
	}
	return use, false, nil
}

// Extend returns the members of the group that may be extended: all that are held. Its errors are
// those of Confirm, and NotHeld if no member is held.
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

// Rollback returns what rolling back the group gives back: what is left of each member, held or
// used. replay is true if the group was rolled back before. It returns DeductionNotFound if the
// group has no member yet.
func (m *Members) Rollback() (back []Rollback, replay bool, err error) {
	if err := m.absent("rollback"); err != nil {
		return nil, false, err
	}
	if m.State == GroupRolledBack {
		return nil, true, nil
	}
	for _, d := range m.Deductions {
		if left := d.Left(); left > 0 {
			back = append(back, Rollback{RequestID: d.RequestID, RollbackID: GroupRollbackID,
				Amount: left, Whole: true})
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

// held lists the held members and counts the confirmed ones. It returns an error if one has
// expired.
func (m *Members) held(now time.Time, op string) (held []Deduction, confirmed int, err error) {
	for _, d := range m.Deductions {
		switch {
		case d.Confirmed > 0 && d.State != StateHeld && d.State != StateExpired,
			d.ExpiresAs == ExpiresUsed && DueHold(d, now):
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
