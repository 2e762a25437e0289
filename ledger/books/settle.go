package books

import (
	"fmt"
	"strings"
)

// Returned is the request id of the adjustment with what a child has given back since its end. No
// caller can name it: their ids have no control characters.
const Returned = "\x01returned"

// Left is what a budget of a family that has ended has for its parent: a part of F, U, O or R.
type Left struct {
	Child, Parent int64
	// Ancestors are those of the child, as in its row.
	Ancestors string
	// Buckets is how many the child has.
	Buckets int64
	Units   int64
	// Halted means that nobody may move the units now.
	Halted bool
}

// Depth returns how many ancestors the child has.
func (l *Left) Depth() int { return strings.Count(l.Ancestors, "/") - 1 }

// IsBelow reports whether the child is a descendant of a budget.
func (l *Left) IsBelow(id int64) bool {
	return strings.Contains(l.Ancestors, fmt.Sprintf("/%d/", id))
}

// Unsettled is the error of a movement that needs units which budgets that have ended have left:
// see Settle. It changes nothing.
type Unsettled struct{ Left []Left }

func (e *Unsettled) Error() string {
	return fmt.Sprintf("%d parts of budgets that have ended are to be settled first", len(e.Left))
}

// UnsettledOf returns an Unsettled if descendants that have ended have units for one of the budgets
// that somebody may move.
func (b *Books) UnsettledOf(ids []int64) error {
	var list []Left
	for _, id := range ids {
		for _, l := range b.Ended {
			if l.IsBelow(id) && !l.Halted {
				list = append(list, l)
			}
		}
	}
	if list == nil {
		return nil
	}
	return &Unsettled{list}
}

// Settle moves all that a child neither uses nor holds back to its parent, if the child has ended,
// or else if end is set: then it ends it now. It returns the units. T of the child and A of the
// parent fall by them; what it forfeited stays with the child. It may be repeated: units that come
// back to the child later follow.
//
// The child is wholly loaded, with its adjustment Returned, and both budgets' periods, also that
// which the child was carved from. The parent's rollover, if one is due, came first; none of the
// child's own children is open. Error: Unavailable for a time zone that is unknown here. Keeps I1,
// I10.
func (b *Books) Settle(parent, u *Budget, end bool) (units int64, err error) {
	if !u.HasEnded(b.NowMS) {
		if !end {
			return 0, nil
		}
		if err := b.endNow(u); err != nil {
			return 0, err
		}
	}
	if _, err := b.RollOver(u); err != nil {
		return 0, err
	}
	b.Restate(u)
	b.Sweep(u)
	units = u.Unfunded + u.Undistributed
	if units == 0 {
		return 0, nil
	}
	b.takeTotal(u, units)
	row := b.Adjustments.Get(ID{u.ID, Returned})
	if row == nil {
		row = b.Adjustments.Add(Adjustment{Budget: u.ID, RequestID: Returned, Status: Done,
			CreatedAt: b.NowMS})
	}
	row.Quantity -= units
	row.UpdatedAt = b.NowMS
	b.giveParent(parent, u, units)
	return units, nil
}

// endNow gives a budget its end.
func (b *Books) endNow(u *Budget) error {
	before := u.Definition()
	after := before
	after.EndAt = at(b.NowMS)
	if !after.StartAt.Before(after.EndAt) { // it has not begun
		after.StartAt = at(b.NowMS - 1)
	}
	return b.Change(u, Redefinition{Before: before, After: after})
}
