package books

import (
	"fmt"
	"slices"

	"github.com/budgetd/budgetd/ledger"
	"github.com/budgetd/budgetd/limit"
)

// AreMembers reports whether the loaded deductions are those of the loaded holds, as in a group.
// One that joined the group before it was locked would be missing.
func (b *Books) AreMembers() bool {
	for _, h := range b.Holds.All() {
		if b.Deductions.Get(ID{h.Budget, h.RequestID}) == nil {
			return false
		}
	}
	return len(b.Holds.All()) == len(b.Deductions.All())
}

// ReturnGroup carries out an order on a group as a whole. Its members are loaded as for Return, in
// the order of their ids, with the group's row. It returns the members, and of an extension those
// that it changed. Errors: BudgetNotFound; Forbidden if a member is another principal's; those of
// ledger.Members; rows that cannot be read. Keeps I1, I5, I6.
func (b *Books) ReturnGroup(o *ledger.GroupOrder, sets map[int64]*limit.Set) (
	out []ledger.Result, err error) {
	if b.Budgets.Get(o.Budget) == nil {
		return nil, noBudget(o.Kind, o.Budget)
	}
	row := b.Groups.Get(ID{o.Budget, o.Group})
	m := ledger.Members{Group: o.Group, State: ledger.GroupOpen}
	members := map[string][]*ledger.Deduction{}
	out = make([]ledger.Result, 0, len(b.Deductions.All()))
	for _, r := range b.Deductions.All() {
		if ledger.IsLegID(r.RequestID) {
			continue // of a set whose owner is a member
		}
		out = append(out, ledger.Result{})
		d := &out[len(out)-1].Deduction
		if *d, err = b.DeductionOf(r); err != nil {
			return nil, err
		}
		if row == nil {
			return nil, fmt.Errorf("the group %q of budget %d has no row", o.Group, o.Budget)
		}
		if err := refuseOthers(o.Kind, o.OnlyBy, d); err != nil {
			return nil, err
		}
		m.State = ledger.GroupState(row.State)
		m.Deductions = append(m.Deductions, *d)
		if members[r.RequestID], err = b.withLegs(d); err != nil {
			return nil, err
		}
	}
	t := b.returns(sets)
	replayed, err := t.decideGroup(o, &m, members, row)
	if err != nil {
		return nil, err
	}
	for i := range out {
		out[i].Replayed = replayed
	}
	if o.Kind == ledger.OrderExtend {
		out = slices.DeleteFunc(out, func(r ledger.Result) bool {
			return t.was[ID{o.Budget, r.Deduction.RequestID}].RequestID == ""
		})
	}
	return out, t.lower()
}

// withLegs returns a deduction and the legs of the set that it is the owner of, which always have
// the same amount and state.
func (b *Books) withLegs(d *ledger.Deduction) (all []*ledger.Deduction, err error) {
	all = append(all, d)
	for _, id := range legsOf(d)[1:] {
		row := b.Deductions.Get(id)
		if row == nil {
			return nil, fmt.Errorf("request %q of budget %d is a leg and has no row", id.RequestID,
				id.Budget)
		}
		leg, err := b.DeductionOf(row)
		if err != nil {
			return nil, err
		}
		all = append(all, &leg)
	}
	return all, nil
}

// decideGroup decides an order on a group, and changes its members.
func (t *returns) decideGroup(o *ledger.GroupOrder, m *ledger.Members,
	members map[string][]*ledger.Deduction, row *Group) (replayed bool, err error) {
	now := at(t.NowMS)
	switch o.Kind {
	case ledger.OrderConfirm:
		use, replayed, err := m.Confirm(now)
		if err != nil || replayed {
			return replayed, err
		}
		for _, end := range use {
			for _, d := range members[end.RequestID] {
				t.endHold(d, end)
			}
		}
		row.State = Word(ledger.GroupUsed)
	case ledger.OrderRollback:
		back, replayed, err := m.Rollback()
		if err != nil || replayed {
			return replayed, err
		}
		for _, r := range back {
			for _, d := range members[r.RequestID] {
				t.rollBack(d, r.RollbackID, r.Amount, r.Whole)
			}
		}
		row.State = Word(ledger.GroupRolledBack)
	case ledger.OrderExtend:
		longer, err := m.Extend(now)
		for i := range longer {
			for _, d := range members[longer[i].RequestID] {
				t.extend(d, o.TTL, o.ExpiresAs)
			}
		}
		return false, err
	default:
		return false, fmt.Errorf("an order of kind %q for a group", o.Kind)
	}
	return false, nil
}
