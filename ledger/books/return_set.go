package books

import (
	"cmp"
	"fmt"

	"github.com/budgetd/budgetd/budget"
	"github.com/budgetd/budgetd/ledger"
)

// LegsOf returns the ids of the rows of sets whose owners are loaded, in no order.
func (b *Books) LegsOf() (ids []ID, err error) {
	for _, row := range b.Deductions.All() {
		d, err := b.DeductionOf(row)
		if err != nil {
			return nil, err
		}
		legs, _ := d.Legs.List()
		for _, l := range legs {
			ids = append(ids, legID(&d, l))
		}
	}
	return ids, nil
}

// legID returns the id of the row of a leg.
func legID(owner *ledger.Deduction, l ledger.Leg) ID {
	return ID{l.Budget, ledger.LegID(owner.Budget, ledger.CallerID(owner.RequestID))}
}

// IsLegOf reports whether an id is that of a leg of the set that an order names.
func IsLegOf(id ID, o *ledger.Order) bool {
	requestID, owner, isLeg := ledger.Caller(id.RequestID)
	return isLeg && owner == o.Budget && requestID == ledger.CallerID(o.RequestID)
}

// legOrder is the part of an order on a set that concerns one leg.
type legOrder struct {
	ledger.Order
	d *ledger.Deduction
	// leftOut means that the order leaves the leg as it is.
	leftOut bool
}

// executeSet carries out an order on all legs of a set, or on none. The owner of a set of a budget
// is a leg itself, and an order on it is one on each leg.
func (t *returns) executeSet(o *ledger.Order, owner ledger.Deduction) (
	out ledger.Result, err error) {
	ids := legsOf(&owner)
	ofBudget := owner.Budget != 0
	out.Legs = make([]ledger.Deduction, len(ids))
	orders := make([]legOrder, len(ids))
	for i, id := range ids {
		row := t.Deductions.Get(id)
		if row == nil {
			return out, fmt.Errorf("request %q of budget %d is a leg and has no row", id.RequestID,
				id.Budget)
		}
		if out.Legs[i], err = t.DeductionOf(row); err != nil {
			return out, err
		}
		orders[i] = legOrder{Order: *o, d: &out.Legs[i]}
		orders[i].Budget, orders[i].RequestID = id.Budget, id.RequestID
		if !ofBudget {
			orders[i].Amount = o.Amounts[id.Budget]
			orders[i].leftOut = t.leavesOut(o, orders[i].d)
		}
	}
	if out.Err = t.refusesSet(o, orders, &owner); out.Err == nil {
		out.Replayed, out.Err = t.decideSet(orders)
	}
	if out.Err != nil {
		return ledger.Result{Err: out.Err}, nil
	}
	if ofBudget {
		out.Deduction = out.Legs[0]
		return out, nil
	}
	t.follow(&owner, out.Legs)
	out.Deduction = owner
	return out, nil
}

// legsOf returns the ids of the rows of a set: first that of its owner if it is a leg.
func legsOf(owner *ledger.Deduction) (ids []ID) {
	if owner.Budget != 0 {
		ids = append(ids, ID{owner.Budget, owner.RequestID})
	}
	legs, _ := owner.Legs.List()
	for _, l := range legs {
		ids = append(ids, legID(owner, l))
	}
	return ids
}

// leavesOut reports whether an order on a set leaves a leg as it is: a rollback of parts does not
// name it, or nothing of it is left.
func (t *returns) leavesOut(o *ledger.Order, d *ledger.Deduction) bool {
	if o.Kind != ledger.OrderRollback {
		return false
	}
	_, isNamed := o.Amounts[d.Budget]
	lo := *o
	lo.Budget, lo.RequestID = d.Budget, d.RequestID
	return !isNamed && (o.Amounts != nil || d.Left() == 0) && t.earlierRollback(&lo) == nil
}

// refusesSet returns why an order on a set changes nothing, before any leg is changed.
func (t *returns) refusesSet(o *ledger.Order, orders []legOrder,
	owner *ledger.Deduction) error {
	if err := namesLegs(o, orders, owner); err != nil {
		return err
	}
	replays, leftOut := 0, 0
	for i := range orders {
		lo, replayed := &orders[i], false
		var err error
		switch {
		case lo.leftOut:
			leftOut++
		case o.Kind == ledger.OrderRollback:
			_, replayed, err = ledger.DecideRollback(*lo.d, t.earlierRollback(&lo.Order), lo.Amount)
		case o.Kind == ledger.OrderConfirm:
			_, replayed, err = ledger.DecideConfirm(*lo.d, t.earlierConfirm(lo.d), lo.Amount,
				at(t.NowMS))
		case o.Kind == ledger.OrderExtend:
			err = ledger.DecideExtend(*lo.d, at(t.NowMS))
		}
		if err != nil {
			return err
		}
		if replayed {
			replays++
		}
	}
	switch {
	case leftOut == len(orders):
		return ledger.Gone(string(o.Kind), ledger.CallerID(o.RequestID), orders[0].d.State)
	case replays > 0 && replays+leftOut < len(orders):
		return budget.Refuse(budget.RequestConflict, string(o.Kind),
			"rollback %q of request %q was recorded with other amounts", o.RollbackID,
			ledger.CallerID(o.RequestID))
	}
	return nil
}

// namesLegs refuses amounts for budgets that the set has no leg in, and for legs that are equal
// because one budget charges the other.
func namesLegs(o *ledger.Order, orders []legOrder, owner *ledger.Deduction) error {
	if len(o.Amounts) == 0 {
		return nil
	}
	list, _ := owner.Legs.List()
	named := 0
	for i := range orders {
		if _, is := o.Amounts[orders[i].Budget]; !is {
			continue
		}
		if named++; list[i].Tied {
			return wrongAmounts(o, "must not name budgets that charge others or are charged")
		}
	}
	if named == len(o.Amounts) {
		return nil
	}
	return wrongAmounts(o, "must name budgets of the set")
}

func wrongAmounts(o *ledger.Order, message string) error {
	return &budget.Error{Code: budget.Invalid, Op: string(o.Kind),
		Message: "these parts of the set cannot be given",
		Fields:  []budget.FieldError{{Field: "amounts", Message: message}}}
}

// decideSet changes the legs that are not left out.
func (t *returns) decideSet(orders []legOrder) (replayed bool, err error) {
	for i := range orders {
		if lo := &orders[i]; !lo.leftOut {
			if replayed, err = t.decide(&lo.Order, lo.d); err != nil {
				return false, err
			}
		}
	}
	return replayed, nil
}

// follow makes the hold of a set's owner what those of the legs are.
func (t *returns) follow(owner *ledger.Deduction, legs []ledger.Deduction) {
	state := legs[0].State
	for i := range legs { // a leg that was given back alone leaves the others as they are
		if legs[i].Left() > 0 {
			state = legs[i].State
			owner.HoldUntil, owner.ExpiresAs = legs[i].HoldUntil, legs[i].ExpiresAs
		}
	}
	owner.State = state
	h := t.Holds.Get(ID{owner.Budget, owner.RequestID})
	if h == nil {
		return
	}
	h.State = Word(state)
	h.ExpiresAs = Word(cmp.Or(owner.ExpiresAs, ledger.ExpiresReleased))
	h.UntilMS, h.DueMS = ms(owner.HoldUntil), nil
	if state == ledger.StateHeld {
		due := h.UntilMS
		h.DueMS = &due
	}
}
