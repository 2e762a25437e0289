package books

import (
	"cmp"
	"strconv"
	"time"

	"github.com/budgetd/budgetd/allocation"
	"github.com/budgetd/budgetd/budget"
)

// MaxDepth is the most ancestors that a budget may have.
const MaxDepth = 7

// Carve creates a child: n of its parent's units become its total. n is what the definition asks
// for, or what the parent has, if that is at least AtLeast. The child starts no earlier than its
// parent and ends no later, and not after the parent's open period either if the parent is daily.
// A TTL ends it so long after its start, or after now if that is later.
// The parent's rollover, if one is due, comes first; the whole parent is loaded.
//
// Errors: Invalid for a parent that cannot have such a child; BudgetExpired and BudgetPaused of the
// parent; BudgetExhausted with what the parent has; Unavailable if the parent's epochs have units
// that nobody may move now. Keeps I1, I3, I10.
func (b *Books) Carve(parent *Budget, c Creation) (*Budget, error) {
	d := &c.Definition
	if faults := mayHave(parent, d); len(faults) > 0 {
		return nil, &budget.Error{Code: budget.Invalid, Op: "create", Fields: faults,
			Message: "the definition has faults"}
	}
	if err := b.serves(parent, "create"); err != nil {
		return nil, err
	}
	if start := at(parent.StartMS); d.StartAt.Before(start) {
		d.StartAt = start
	}
	if d.TTL > 0 {
		d.EndAt = earlier(d.EndAt, at(max(b.NowMS, d.StartAt.UnixMilli())).Add(d.TTL))
	}
	d.EndAt = earlier(d.EndAt, parent.LastOfChildren())
	if faults := budget.CheckSpan(d.StartAt, d.EndAt); len(faults) > 0 {
		return nil, &budget.Error{Code: budget.Invalid, Op: "create", Fields: faults,
			Message: "the child would not begin before its parent ends"}
	}
	units, err := b.takeFree(parent, "create", d.TotalQuantity, d.AtLeast)
	if err != nil {
		return nil, err
	}
	d.TotalQuantity = units
	parent.Allocated += units
	u := b.Create(c)
	u.Parent, u.ParentPeriod, u.Depth = parent.ID, parent.Period, parent.Depth+1
	u.Ancestors = Below(parent.Ancestors, parent.ID)
	return u, nil
}

// LastOfChildren returns the latest end that a child may have: that of the open period of a daily
// budget, else the budget's. The zero time means none.
func (u *Budget) LastOfChildren() time.Time {
	if u.Type == Word(budget.Promo) {
		return at(u.EndMS)
	}
	return earlier(at(u.EndMS), at(u.PeriodEndMS))
}

// mayHave returns why a budget cannot be the parent of a child with a definition; nil if it can.
func mayHave(parent *Budget, d *budget.Definition) (faults []budget.FieldError) {
	fault := func(field, message string) {
		faults = append(faults, budget.FieldError{Field: field, Message: message})
	}
	switch {
	case parent.Unlimited == 1:
		fault("parent", "has no total: an unlimited budget has no children")
	case parent.Durability != Word(budget.Ledger):
		fault("parent", "is in store mode: families are of ledger mode")
	case parent.AdjustCnt > 0:
		fault("parent", "has adjust_cnt: remove it there first")
	case parent.Depth >= MaxDepth:
		fault("parent", "has 7 ancestors already: a family has at most 8 levels")
	}
	if parent.Unit != Word(d.Unit) {
		fault("unit", "must be the parent's: "+string(parent.Unit))
	}
	if parent.Tenant != d.Tenant {
		fault("tenant", "must be the parent's")
	}
	return faults
}

// serves refuses what takes units of a parent that is over or paused.
func (b *Books) serves(parent *Budget, op string) error {
	switch status := parent.Definition().StatusAt(at(b.NowMS)); {
	case status == budget.Expired || parent.IsOver == 1:
		return budget.Refuse(budget.BudgetExpired, op,
			"budget %s is over: nothing can be carved out of it", parent.Name)
	case status == budget.Paused:
		return budget.Refuse(budget.BudgetPaused, op, "budget %s is paused", parent.Name)
	}
	return nil
}

// Below returns the ancestors of the children of a budget that has its own.
func Below(ancestors string, id int64) string {
	return cmp.Or(ancestors, "/") + strconv.FormatInt(id, 10) + "/"
}

// HasEnded reports whether a budget's end has passed. A child that has ended stays so.
func (u *Budget) HasEnded(nowMS int64) bool { return u.EndMS != 0 && nowMS >= u.EndMS }

// earlier returns the earlier end; zero means none.
func earlier(a, b time.Time) time.Time {
	if a.IsZero() || !b.IsZero() && b.Before(a) {
		return b
	}
	return a
}

// takeFree takes units out of U, which is brought there from R and from O of the buckets if
// necessary: units, or what there is, if that is at least least, which is not 0. Errors:
// BudgetExhausted with what there is; Unavailable if units that cannot be moved now would suffice.
func (b *Books) takeFree(u *Budget, op string, units, least int64) (int64, error) {
	available := b.Availability(u).Sum()
	if u.Undistributed < units {
		b.Sweep(u)
		b.collect(u, units-u.Undistributed)
	}
	if least == 0 {
		least = units
	}
	free := u.Undistributed
	if free < units {
		if err := b.UnsettledOf([]int64{u.ID}); err != nil {
			return 0, err
		}
	}
	switch {
	case free < least && available >= least:
		return 0, budget.Refuse(budget.Unavailable, op, "budget %s has %d units of which %d cannot be "+
			"moved now: buckets are halted, or a period is about to end", u.Name, available,
			available-free)
	case free < least:
		e := budget.Refuse(budget.BudgetExhausted, op, "budget %s has %d left, %d were asked for",
			u.Name, free, units)
		e.Available = &free
		return 0, e
	}
	units = min(units, free)
	u.Undistributed -= units
	return units, nil
}

// AdjustChild is Adjust of a child: an append takes the units from its parent, and a shrink gives
// them back. Both are wholly loaded, and the parent's rollover, if one is due, came first. Errors:
// those of Adjust; BudgetExpired of a child that is over; those of Carve. Keeps I1, I10.
func (b *Books) AdjustChild(parent, u *Budget, o Order) (out Adjusted, err error) {
	if known := b.Adjustments.Get(ID{u.ID, o.RequestID}); known != nil {
		return b.Adjust(u, o)
	}
	if u.HasEnded(b.NowMS) {
		return out, budget.Refuse(budget.BudgetExpired, "adjust", "budget %s is over", u.Name)
	}
	if err := checkOrder(u, o.Quantity); err != nil {
		return out, err
	}
	if o.Quantity > 0 {
		if err := b.serves(parent, "adjust"); err != nil {
			return out, err
		}
		if _, err := b.takeFree(parent, "adjust", o.Quantity, 0); err != nil {
			return out, err
		}
		parent.Allocated += o.Quantity
		return b.Adjust(u, o)
	}
	if out, err = b.Adjust(u, o); err != nil {
		return out, err
	}
	b.giveParent(parent, u, -o.Quantity)
	return out, nil
}

// giveParent moves units that left the total of a child out of A of its parent: to U if the period
// that they were carved from is open, and else where late_refund says.
func (b *Books) giveParent(parent, u *Budget, units int64) {
	parent.Allocated -= units
	if u.ParentPeriod == parent.Period && parent.IsOver == 0 {
		parent.Undistributed += units
	} else {
		m := allocation.Return(parent.Definition(), b.PeriodOf(parent), 0, units)
		parent.Unfunded += m.Unfunded
		parent.Undistributed += m.Undistributed
		parent.Forfeited += m.Forfeited
		b.leave(parent, u.ParentPeriod, m)
		b.Periods.Get([2]int64{parent.ID, parent.Period}).Carried += m.Undistributed
	}
}
