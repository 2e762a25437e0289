package allocation

import (
	"math"
	"sync"
	"time"

	"github.com/budgetd/budgetd/budget"
)

// Account is what a roll-over reads of a budget, in minor units.
type Account struct {
	// Unfunded and Undistributed are F and U of DESIGN 3.
	Unfunded, Undistributed int64
	// Held is what the epochs that end with the period bring back.
	Held int64
	// Pending is the sum of the shrinks that wait: no period gets that.
	Pending int64
	// Used is what was used since the start of the period that opens, where that is before the end
	// of the one that is over: a rule was changed within it.
	Used int64
}

// Movement is by how much F, U and X grow, in minor units.
type Movement struct{ Unfunded, Undistributed, Forfeited int64 }

// Plus adds another movement.
func (m Movement) Plus(o Movement) Movement {
	return Movement{m.Unfunded + o.Unfunded, m.Undistributed + o.Undistributed,
		m.Forfeited + o.Forfeited}
}

// Turn is what a roll-over does.
type Turn struct {
	// Period follows; it is Over where none does.
	Period budget.Period
	// Left is where the units went that the period which is over did not use.
	Left Movement
	// Moved is how F, U and X change in all: its sum is what left the epochs.
	Moved Movement
}

// Begin returns the first period of a new budget, funded, and what is left of the total: the period
// that now is in, or the first one to come; none (Over) where the budget has ended already.
func Begin(d budget.Definition, now time.Time) (unfunded int64, p budget.Period) {
	next, ok := Next(d, budget.Period{Over: true}, now)
	turn := RollOver(d, budget.Period{}, next, ok, Account{Unfunded: d.TotalQuantity})
	return d.TotalQuantity - turn.Period.Funded, turn.Period
}

// Next returns the period that follows one that is over: the one that its end lies in (its start is
// before that end only after a change of the rule), else the first one after it. Where no period
// was open it is the one that now is in, else the first one to come. false: there is none before
// the budget's end.
func Next(d budget.Definition, p budget.Period, now time.Time) (Span, bool) {
	at := p.End
	if p.Over || at.IsZero() {
		at = now
	}
	if span, ok := PeriodOf(d, at); ok {
		return span, true
	}
	return ScheduleOf(d).NextPeriod(at)
}

// RollOver ends a period and opens the next one. What the period did not use (U and what its epochs
// held) goes where the rule says; where the period did not end by itself, because the rule was
// changed within it or before it began, and where no period follows, back to F, except what is
// forfeited at the end of the budget. The next period gets Fund of what is in F then.
func RollOver(d budget.Definition, p budget.Period, next Span, ok bool, a Account) Turn {
	rest := a.Undistributed + a.Held
	t := Turn{Period: budget.Period{Number: p.Number + 1, Over: true, Start: p.End, End: p.End}}
	changed := ok && !endsByItself(d, p)
	switch where := Unused(d); {
	case where == budget.Forfeit && !changed:
		t.Left.Forfeited = rest
	case where == budget.Next && ok && !changed:
		t.Left.Undistributed = min(rest, rollover(d))
		t.Left.Unfunded = rest - t.Left.Undistributed
	default:
		t.Left.Unfunded = rest
	}
	t.Moved = t.Left
	t.Moved.Undistributed -= a.Undistributed
	if !ok {
		return t
	}
	t.Period = budget.Period{Number: p.Number + 1, Start: next.Start, End: next.End,
		Carried: t.Left.Undistributed,
		Before:  a.Used}
	t.Period.Funded = funding(d, next, t.Period.Number, Fundable(d, a.Unfunded+t.Left.Unfunded,
		a.Pending),
		a.Used)
	t.Moved.Unfunded -= t.Period.Funded
	t.Moved.Undistributed += t.Period.Funded
	return t
}

// rollover is the most that a period may leave to the next.
func rollover(d budget.Definition) int64 {
	if d.Rule == nil || d.Rule.MaxRollover == 0 {
		return math.MaxInt64
	}
	return d.Rule.MaxRollover
}

// endsByItself reports whether a period's end is that of the rule as it stands, and not the instant
// at which another rule was given.
func endsByItself(d budget.Definition, p budget.Period) bool {
	span, ok := PeriodOf(d, p.Start)
	return ok && span.End.Equal(p.End)
}

// Return says where units go that come back from an epoch of a period that is over: never were not
// used, late ones were used when it ended. current is the open or last period. An open period that
// got all there was gets them too: no later one would. What was not used is carried only as far as
// the rule's maximum is above what current.Carried has already; the rest goes to what is not
// funded.
func Return(d budget.Definition, current budget.Period, never, late int64) Movement {
	var m Movement
	for _, part := range []struct {
		units  int64
		where  budget.Where
		unused bool
	}{{never, Unused(d), true}, {late, d.LateRefund, false}} {
		switch {
		case part.where == budget.Forfeit:
			m.Forfeited += part.units
		case current.Over:
			m.Unfunded += part.units
		case IsWhole(d):
			m.Undistributed += part.units
		case part.where == budget.Next:
			carried := part.units
			if part.unused {
				carried = min(carried, max(rollover(d)-current.Carried, 0))
			}
			m.Undistributed += carried
			m.Unfunded += part.units - carried
		default:
			m.Unfunded += part.units
		}
	}
	return m
}

// Change returns the end of the open or last period after a change of the definition, and when a
// roll-over is due (zero: never). The period goes on where the new definition has one with its
// start that now is in and gives it no less, also when its end had come and nobody had rolled it
// over; otherwise it ends, now if it had not, and the one that follows counts what was used since
// its start. After the last period, another one may follow at once.
func Change(before, after budget.Definition, p budget.Period, now time.Time) (end, due time.Time) {
	if p.Over {
		if _, ok := Next(after, p, now); ok {
			return p.End, now
		}
		return p.End, time.Time{}
	}
	at := now
	if p.Start.After(now) {
		at = p.Start
	}
	span, ok := PeriodOf(after, at)
	switch {
	case ok && span.Start.Equal(p.Start) && (SameRule(before.Rule, after.Rule) ||
		span.Quantity > 0 && span.Fixed() >= p.Funded+p.Before):
		return span.End, span.End
	case p.OverAt(now):
		return p.End, p.End
	}
	return now, now
}

// Shares divides what a hand-out may take over n buckets: all of it, evenly; under the rule free a
// first step for each (FirstStep), because buckets apply there when they are used up. The shares
// never add up to more than units, and none that is 0 comes before one that is not.
func Shares(d budget.Definition, units int64, n int) []int64 {
	if d.Rule != nil && d.Rule.Kind == budget.Free {
		return FirstStep(units, n, d.ShardingQuantity)
	}
	return Spread(units, n)
}

// IsWhole reports whether a period gets all that is not funded, and not a part of it: promo and
// free.
func IsWhole(d budget.Definition) bool {
	return d.Rule == nil || (Schedule{Rule: *d.Rule}).whole()
}

// Unused is where what a period did not use goes.
func Unused(d budget.Definition) budget.Where {
	if d.Rule == nil || d.Rule.Unused == "" {
		return budget.Spread
	}
	return d.Rule.Unused
}

// ScheduleOf is the schedule of a budget; its zone must be known.
func ScheduleOf(d budget.Definition) Schedule {
	s := Schedule{Zone: time.UTC, Start: d.StartAt, End: d.EndAt}
	if d.Rule != nil {
		s.Rule = *d.Rule
	}
	if zone, err := zoneOf(d.Timezone); err == nil {
		s.Zone = zone
	}
	return s
}

// zones are those that were read, by name: reading one costs more than all that is done with it.
var zones sync.Map

// zoneOf is the zone of a name; "" is UTC. Only zones that exist are kept, so there are some
// hundred.
func zoneOf(name string) (*time.Location, error) {
	if zone, ok := zones.Load(name); ok {
		return zone.(*time.Location), nil
	}
	zone, err := time.LoadLocation(name)
	if err == nil {
		zones.Store(name, zone)
	}
	return zone, err
}

// PeriodOf returns the period of a budget that contains an instant.
func PeriodOf(d budget.Definition, at time.Time) (Span, bool) { return ScheduleOf(d).PeriodAt(at) }

// funding is Fund of units that are Fundable, for the period of a number.
func funding(d budget.Definition, next Span, number, units, used int64) int64 {
	s := ScheduleOf(d)
	f := Figures{NotFunded: max(units, 0), UsedAlready: used, Total: d.TotalQuantity}
	if s.Rule.Kind == Calendar && s.Rule.Quantity == 0 {
		f.Left = s.weightLeft(next)
		f.Before = s.weightBefore(number, f.Left)
	}
	return Fund(s.Rule, next, f)
}

// Fundable is what of F a period may get while shrinks of so many units wait. Those of a promo
// budget, and under the rule free, are kept from apply and not from the period: all that such a
// budget has counts for whether it is exhausted (I3), and it has one period only.
func Fundable(d budget.Definition, unfunded, pending int64) int64 {
	if ScheduleOf(d).whole() {
		return unfunded
	}
	return max(unfunded-pending, 0)
}

// TopUp is what moves F -> the open period after an append, or after a change of its rule, at least
// 0. unfunded is Fundable of what is not funded, the append included.
//
//	a fixed quantity q:  min(max(q − funded − before, 0), unfunded)
//	compressed:          min(max(what Fund gives of unfunded + funded − funded, 0), unfunded)
//	promo, free:         unfunded
func TopUp(d budget.Definition, p budget.Period, unfunded int64) int64 {
	s := ScheduleOf(d)
	span, ok := s.PeriodAt(p.Start)
	if !ok || unfunded <= 0 {
		return 0
	}
	funds := funding(d, span, p.Number, unfunded+p.Funded, p.Before)
	return min(max(funds-p.Funded, 0), unfunded)
}

// SameRule reports whether two rules make the same periods with the same quantities.
func SameRule(a, b *budget.Rule) bool {
	if a == nil || b == nil {
		return a == b
	}
	return Canonical(*a) == Canonical(*b)
}

// CheckDefinition returns every fault of a definition, its rule included; nil if there is none.
func CheckDefinition(d budget.Definition) []budget.FieldError {
	faults := d.Check()
	fault := func(field, message string) {
		faults = append(faults, budget.FieldError{Field: field, Message: message})
	}
	switch {
	case d.Type == budget.Promo && d.Rule != nil:
		fault("type_rule", `belongs to type "daily" only`)
	case d.Type == budget.Daily && d.Rule == nil:
		fault("type_rule", `must be given for type "daily"`)
	}
	if _, err := zoneOf(d.Timezone); err != nil || d.Timezone == "Local" {
		fault("timezone", `must be an IANA zone such as "Europe/Berlin", or absent for UTC`)
		return faults
	}
	switch d.LateRefund {
	case "", budget.ToTotal, budget.Next, budget.Forfeit:
	default:
		fault("late_refund", `must be "total", "next" or "forfeit"`)
	}
	if d.Rule == nil {
		return faults
	}
	found := CheckRule(*d.Rule)
	if len(found) == 0 && len(budget.CheckSpan(d.StartAt, d.EndAt)) == 0 {
		found = ScheduleOf(d).Check()
	}
	return append(faults, found...)
}
