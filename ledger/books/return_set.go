package books

import (
	"cmp"
	"fmt"
	"slices"

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

// legOrder is the part of an order on a set that concerns one leg, or a part of a leg with sources.
type legOrder struct {
	ledger.Order
	d *ledger.Deduction
	// name is the budget by which callers name the leg, and tied that of its ledger.Leg.
	name int64
	tied bool
	// leftOut means that the order leaves the leg as it is; rest that a confirm uses nothing of it.
	leftOut, rest bool
}

// executeSet carries out an order on all legs of a set, or on none. The owner of a set of a budget
// is a leg itself, and an order on it is one on each leg.
func (t *returns) executeSet(o *ledger.Order, owner ledger.Deduction) (
	out ledger.Result, err error) {
	ids := legsOf(&owner)
	ofBudget := owner.Budget != 0
	out.Legs = make([]ledger.Deduction, len(ids))
	orders := make([]legOrder, len(ids))
	list, _ := owner.Legs.List()
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
			orders[i].name, orders[i].tied = list[i].Name(), list[i].Tied
			orders[i].leftOut = t.leavesOut(o, &orders[i])
		}
	}
	if !ofBudget {
		out.Err = t.ofLegs(o, orders)
	}
	if out.Err == nil {
		out.Err = t.refusesSet(o, orders)
	}
	if out.Err == nil {
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

// ofLegs sets what an order on a set of a tenant asks of each leg.
func (t *returns) ofLegs(o *ledger.Order, orders []legOrder) error {
	if err := namesLegs(o, orders); err != nil {
		return err
	}
	all := !slices.ContainsFunc(orders, func(lo legOrder) bool { return !lo.leftOut })
	for i := range orders { // if nothing of a hold is left, its legs say why
		orders[i].leftOut = orders[i].leftOut && (!all || o.Kind == ledger.OrderRollback)
	}
	return t.divide(o, orders)
}

// leavesOut reports whether an order on a set leaves a leg as it is: a rollback of parts does not
// name it, or it was given back.
func (t *returns) leavesOut(o *ledger.Order, lo *legOrder) bool {
	_, isNamed := o.Amounts[lo.name]
	switch o.Kind {
	case ledger.OrderRollback:
		return !isNamed && (o.Amounts != nil || lo.d.Left() == 0) &&
			t.earlierRollback(&lo.Order) == nil
	case ledger.OrderConfirm, ledger.OrderExtend:
		return !isNamed && lo.d.State == ledger.StateRolledBack
	}
	return false
}

// refusesSet returns why an order on a set changes nothing, before any leg is changed.
func (t *returns) refusesSet(o *ledger.Order, orders []legOrder) error {
	replays, leftOut := 0, 0
	for i := range orders {
		lo, replayed := &orders[i], false
		var err error
		switch {
		case lo.leftOut:
			leftOut++
		case lo.rest:
			replayed = t.earlierRest(lo) != nil
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
		return otherAmounts(o)
	}
	return nil
}

// otherAmounts refuses to repeat an order on a set that was recorded with other amounts.
func otherAmounts(o *ledger.Order) error {
	what := string(o.Kind)
	if o.RollbackID != "" {
		what += fmt.Sprintf(" %q", o.RollbackID)
	}
	return budget.Refuse(budget.RequestConflict, string(o.Kind),
		"the %s of request %q was recorded with other amounts", what, ledger.CallerID(o.RequestID))
}

// namesLegs refuses amounts for budgets that the set has no leg in, and for legs that are equal
// because one budget charges the other.
func namesLegs(o *ledger.Order, orders []legOrder) error {
	found := map[int64]bool{}
	for i := range orders {
		name := orders[i].name
		if _, is := o.Amounts[name]; !is {
			continue
		}
		if found[name] = true; orders[i].tied {
			return wrongAmounts(o, "must not name budgets that charge others or are charged")
		}
	}
	if len(found) == len(o.Amounts) {
		return nil
	}
	return wrongAmounts(o, "must name budgets of the set; a leg with sources goes by the first one")
}

// divide sets what an order with amounts asks of each leg. What it asks of a leg with sources comes
// back from the last one first, and is confirmed of the first one first. Errors: RequestConflict if
// another amount is recorded; AmountExceedsRemaining.
func (t *returns) divide(o *ledger.Order, orders []legOrder) error {
	for i := 0; i < len(orders); {
		n := i + 1
		for n < len(orders) && orders[i].name != 0 && orders[n].name == orders[i].name {
			n++
		}
		parts := orders[i:n]
		units := o.Amounts[parts[0].name]
		switch {
		case len(parts) == 1:
			parts[0].Amount = units
		case o.Kind == ledger.OrderRollback && units > 0, o.Kind == ledger.OrderConfirm:
			if err := t.divideLeg(o, units, parts); err != nil {
				return err
			}
		}
		i = n
	}
	return nil
}

// divideLeg is divide for the parts of one leg. units is 0 for all of it.
func (t *returns) divideLeg(o *ledger.Order, units int64, parts []legOrder) error {
	recorded, asked, left := false, int64(0), int64(0)
	for i := range parts {
		lo := &parts[i]
		left += lo.d.Left()
		if o.Kind == ledger.OrderRollback {
			if e := t.earlierRollback(&lo.Order); e != nil {
				recorded, lo.Amount = true, e.Amount
			}
		} else if e := t.earlierConfirm(lo.d); e != nil {
			recorded, lo.Amount = true, e.Asked
		} else if lo.rest = t.earlierRest(lo) != nil; lo.rest {
			recorded = true
		}
		asked += lo.Amount
	}
	switch {
	case recorded && units != asked && (units != 0 || slices.ContainsFunc(parts, isRest)):
		return otherAmounts(o)
	case recorded:
		for i := range parts {
			parts[i].leftOut = parts[i].Amount == 0 && !parts[i].rest
			if units == 0 {
				parts[i].Amount = 0
			}
		}
		return nil
	case units == 0:
		return nil
	case left == 0: // the first one says why
		parts[0].Amount, parts[0].leftOut = units, false
		return nil
	case units > left:
		e := budget.Refuse(budget.AmountExceedsRemaining, string(o.Kind),
			"the leg of request %q has %d left, fewer than the %d that were asked for",
			ledger.CallerID(o.RequestID), left, units)
		e.Available = &left
		return e
	}
	if o.Kind == ledger.OrderRollback {
		for i := len(parts) - 1; i >= 0; i-- {
			parts[i].Amount = min(units, parts[i].d.Left())
			parts[i].leftOut = parts[i].Amount == 0
			units -= parts[i].Amount
		}
		return nil
	}
	for i := range parts {
		lo := &parts[i]
		lo.Amount = min(units, lo.d.Left())
		lo.leftOut, lo.rest = lo.d.Left() == 0, lo.Amount == 0
		units -= lo.Amount
	}
	return nil
}

func isRest(lo legOrder) bool { return lo.rest }

// earlierRest returns the recorded rollback of a part of which a confirm used nothing, or nil.
func (t *returns) earlierRest(lo *legOrder) *ledger.Rollback {
	o := lo.Order
	o.RollbackID = ledger.ConfirmRestID
	return t.earlierRollback(&o)
}

func wrongAmounts(o *ledger.Order, message string) error {
	return &budget.Error{Code: budget.Invalid, Op: string(o.Kind),
		Message: "these parts of the set cannot be given",
		Fields:  []budget.FieldError{{Field: "amounts", Message: message}}}
}

// decideSet changes the legs that are not left out.
func (t *returns) decideSet(orders []legOrder) (replayed bool, err error) {
	for i := range orders {
		switch lo := &orders[i]; {
		case lo.leftOut:
		case lo.rest:
			if replayed = t.earlierRest(lo) != nil; !replayed {
				t.rollBack(lo.d, ledger.ConfirmRestID, lo.d.Left(), true)
			}
		default:
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
