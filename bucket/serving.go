package bucket

import (
	"time"

	"github.com/budgetd/budgetd/allocation"
	"github.com/budgetd/budgetd/budget"
	"github.com/budgetd/budgetd/ledger"
)

// Serving says whether a budget serves deductions now.
type Serving string

// The words of Serving, besides those of budget.Status of a budget that is not effective.
const (
	// ServesFully means that every bucket serves, or would if units came to it.
	ServesFully Serving = "full"
	// ServesPartly means that some buckets are offline, or on stores that do not answer.
	ServesPartly Serving = "partly"
	// PeriodUsedUp means that the open period has nothing left, and that a later one may get more.
	PeriodUsedUp Serving = "period_exhausted"
	// UsedUp means that the budget has nothing left.
	UsedUp Serving = "budget_exhausted"
	// StoreDown means that no bucket can be reached, or that all that is left is in those that cannot.
	StoreDown Serving = "store_down"
)

// Away is what a budget in store mode has on stores that a node does not reach.
type Away struct {
	// Instances are their names, sorted.
	Instances []string
	// Buckets counts the online buckets there, Units what they have left in the ledger, in minor
	// units.
	Buckets int
	Units   int64
}

// State is what decides whether a budget serves.
type State struct {
	Definition *budget.Definition
	// Begin is the start of the open period.
	Begin   time.Time
	Figures ledger.Figures
	Away    Away
}

// Serving returns whether the budget serves deductions at an instant, and what they can take then,
// in minor units. If they can begin only later, opensAt says when; otherwise it is zero.
func (s *State) Serving(now time.Time) (word Serving, units int64, opensAt time.Time) {
	units, opensAt = Remaining(s.Definition, s.Begin, s.Figures.Available(), now)
	units = max(0, units-s.Away.Units)
	status := s.Definition.StatusAt(now)
	none := !s.Definition.Unlimited && units == 0
	switch {
	case status != budget.Effective:
		return Serving(status), units, opensAt
	case !opensAt.IsZero():
		return Serving(budget.Pending), units, opensAt
	case s.Away.Buckets > 0 && (s.Away.Buckets >= s.Figures.Online || none && s.Away.Units > 0):
		return StoreDown, units, opensAt
	case none && s.Figures.Unfunded > 0:
		return PeriodUsedUp, units, opensAt
	case none:
		return UsedUp, units, opensAt
	case s.Figures.Offline > 0 || s.Away.Buckets > 0:
		return ServesPartly, units, opensAt
	}
	return ServesFully, units, opensAt
}

// state returns what decides whether the view's budget serves.
func (v *View) state() *State {
	return &State{Definition: &v.Definition, Begin: v.Period.Start, Figures: v.Figures, Away: v.Away}
}

// At sets what depends on the time: the status, and what deductions can take.
func (v *View) At(now time.Time) {
	v.Status = v.Definition.StatusAt(now)
	v.Serving, v.Remaining, v.OpensAt = v.state().Serving(now)
}

// OutOfReach returns what is neither used nor held and cannot be deducted now: units of later
// periods, of a budget that is not effective, and on stores that do not answer. It is in minor
// units, and 0 for an unlimited budget.
func (v *View) OutOfReach() int64 {
	if v.Definition.Unlimited {
		return 0
	}
	return max(0, v.Figures.Unfunded+v.Figures.Available()-v.Remaining)
}

// Until returns when the budget serves again by itself: the start of a pending one, and the next
// period of one whose period is used up. It is zero if no such instant is known.
func (v *View) Until() time.Time {
	switch v.Serving {
	case Serving(budget.Pending):
		return v.OpensAt
	case PeriodUsedUp:
		if next, ok := allocation.Next(v.Definition, v.Period, v.Period.Start); ok {
			return next.Start
		}
	}
	return time.Time{}
}

// Gauge is what a budget has left, for pages that list many budgets.
type Gauge struct {
	// Remaining is that of View, or nil for an unlimited budget.
	Remaining *int64
	Serving   Serving
	// AsOf is when the figures were read, by SQL's clock.
	AsOf time.Time
}

// Gauge returns what the view shows, as of an instant.
func (v *View) Gauge(asOf time.Time) *Gauge {
	g := &Gauge{Serving: v.Serving, AsOf: asOf}
	if !v.Definition.Unlimited {
		g.Remaining = &v.Remaining
	}
	return g
}
