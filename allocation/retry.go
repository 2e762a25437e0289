package allocation

import (
	"time"

	"github.com/budgetd/budgetd/budget"
)

// Supply is what a budget has left, in minor units.
type Supply struct {
	// Left is what the present period has left. NotFunded is what only later periods may get.
	Left, NotFunded int64
}

// horizon bounds the periods that Covered examines. It is more than a year of days.
const horizon = 400

// Covered returns the start of the first period after p that can cover an amount if nothing is
// deducted until then. A period has what it is funded with and what earlier periods carry to it. ok
// is false if no period can cover the amount. If none of the next 400 periods can, Covered returns
// the start of the 400th.
//
// With 500 every hour and 300 of this hour left, `unused: next` covers 600 from the next hour on;
// `spread` and `forfeit` never do.
func Covered(d budget.Definition, p budget.Period, s Supply, amount int64) (at time.Time, ok bool) {
	if IsWhole(d) || p.End.IsZero() || amount > Most(d) {
		return time.Time{}, false
	}
	if s.Left+s.NotFunded < amount {
		return time.Time{}, false
	}
	p = budget.Period{Number: p.Number, Start: p.Start, End: p.End}
	for range horizon {
		next, follows := Next(d, p, p.End)
		if !follows {
			return time.Time{}, false
		}
		rolled := RollOver(d, p, next, true, Account{Unfunded: s.NotFunded, Undistributed: s.Left})
		s.NotFunded, s.Left = s.NotFunded+rolled.Moved.Unfunded, s.Left+rolled.Moved.Undistributed
		switch at, p = rolled.Period.Start, rolled.Period; {
		case s.Left >= amount:
			return at, true
		case s.Left+s.NotFunded < amount:
			return time.Time{}, false
		}
	}
	return at, true
}

// Most returns the largest amount that one period can ever have under the rule, in minor units. It
// is at most the total. A period has its quantity and what earlier periods carried to it, which
// without max_rollover may be everything.
func Most(d budget.Definition) int64 {
	if d.Rule == nil || Unused(d) == budget.Next && d.Rule.MaxRollover == 0 {
		return d.TotalQuantity
	}
	most := d.Rule.Quantity
	for _, w := range d.Rule.Windows {
		most = max(most, w.Quantity)
	}
	if most == 0 {
		return d.TotalQuantity
	}
	if Unused(d) == budget.Next {
		most += min(d.Rule.MaxRollover, d.TotalQuantity) // both at most 2^53 - 1
	}
	return min(most, d.TotalQuantity)
}

// Opens returns the first instant, not before from, at which a budget has a period. ok is false if
// the budget ends before its next period.
func Opens(d budget.Definition, from time.Time) (at time.Time, ok bool) {
	s := ScheduleOf(d)
	if _, within := s.PeriodAt(from); within {
		return from, true
	}
	next, ok := s.NextPeriod(from)
	if !ok {
		return time.Time{}, false
	}
	return next.Start, true
}
