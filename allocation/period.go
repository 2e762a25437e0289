package allocation

import (
	"math"
	"time"

	"github.com/budgetd/budgetd/budget"
)

// Schedule is a checked rule in a zone over a budget's life. It is an immutable value.
type Schedule struct {
	// Rule must have passed CheckRule.
	Rule Rule
	// Zone is the budget's zone; never nil.
	Zone *time.Location
	// Start is the budget's first instant, End the first one after it; zero means unbounded.
	Start, End time.Time
}

// Span is a period, Start inclusive, End exclusive. A zero instant means unbounded; only periods of
// the rule Free are.
type Span struct {
	Start, End time.Time
	// Quantity is what the rule fixes for a whole period, in minor units; 0 if the rule is Free or
	// spreads the total.
	Quantity int64
	// Whole is the length that a period would have if the budget's start or end did not cut it; 0
	// if it is not cut or the rule treats it as whole.
	Whole time.Duration
}

// Fixed returns Quantity, or its proportion for a cut period, rounded up.
func (s Span) Fixed() int64 {
	if s.Whole == 0 {
		return s.Quantity
	}
	return mulDivUp(s.Quantity, int64(s.End.Sub(s.Start)), int64(s.Whole))
}

// Contains reports whether an instant is within the period.
func (s Span) Contains(at time.Time) bool {
	return !at.Before(s.Start) && (s.End.IsZero() || at.Before(s.End))
}

// WithoutEnd is the number of periods left of a budget without an end.
const WithoutEnd = math.MaxInt64

// PeriodAt returns the period that contains an instant, cut to the budget's life. ok is false
// between two windows and outside the budget's life. It costs some twenty look-ups in the zone.
func (s Schedule) PeriodAt(now time.Time) (period Span, ok bool) {
	if !s.life().Contains(now) {
		return Span{}, false
	}
	switch {
	case s.whole():
		return s.life(), true
	case s.hourly():
		from, to := hourAt(s.Zone, now.Unix())
		return s.cut(from, to, s.Rule.Quantity), true
	}
	g := newGrid(s.Rule, s.Zone)
	number := g.numberAt(now.Unix())
	from, to := g.instants(number)
	if now.Unix() >= to { // between two windows
		return Span{}, false
	}
	return s.cut(from, to, g.quantity(number)), true
}

// NextPeriod returns the first period that starts at an instant or later, cut to the budget's life.
// The budget's start begins a period if the rule has one there. ok is false if no further period
// begins.
func (s Schedule) NextPeriod(after time.Time) (period Span, ok bool) {
	if after.Before(s.Start) || s.Start.Equal(after) {
		if first, ok := s.PeriodAt(s.Start); ok {
			return first, true
		}
		after = s.Start
	}
	if s.whole() || !s.life().Contains(after) {
		return Span{}, false
	}
	at := after.Unix()
	if after.Nanosecond() > 0 {
		at++ // periods begin on whole seconds
	}
	if s.hourly() {
		from, to := hourAt(s.Zone, at)
		if from < at {
			from, to = hourAt(s.Zone, to)
		}
		period = s.cut(from, to, s.Rule.Quantity)
	} else {
		g := newGrid(s.Rule, s.Zone)
		number, from, to := g.firstFrom(at)
		period = s.cut(from, to, g.quantity(number))
	}
	return period, s.life().Contains(period.Start)
}

// PeriodsLeft returns how many periods overlap [from, End), including the one that contains from
// and the one that the end cuts. It returns WithoutEnd if there is no end. The count is exact: a
// day that a zone skipped does not count. It costs some thirty look-ups in the zone per remaining
// year: 2 ms for a century. A rule with quantities does not need it.
func (s Schedule) PeriodsLeft(from time.Time) int64 {
	if from.Before(s.Start) {
		from = s.Start
	}
	switch {
	case !s.End.IsZero() && !from.Before(s.End):
		return 0
	case s.whole():
		return 1
	case s.End.IsZero():
		return WithoutEnd
	}
	first, after := from.Unix(), s.End.Unix()
	if s.End.Nanosecond() > 0 {
		after++
	}
	if s.hourly() {
		return hoursBetween(s.Zone, first, after)
	}
	return newGrid(s.Rule, s.Zone).overlapping(first, after)
}

func (s Schedule) life() Span   { return Span{Start: s.Start, End: s.End} }
func (s Schedule) whole() bool  { return s.Rule.Kind == Free || s.Rule.Kind == "" }
func (s Schedule) hourly() bool { return s.Rule.Kind == Calendar && s.Rule.Every == Hour }

// cut returns the period between two instants, within the budget's life.
func (s Schedule) cut(from, to instant, quantity int64) Span {
	period := Span{Start: time.Unix(from, 0).UTC(), End: time.Unix(to, 0).UTC(), Quantity: quantity}
	whole := period.End.Sub(period.Start)
	if period.Start.Before(s.Start) {
		period.Start = s.Start
	}
	if !s.End.IsZero() && period.End.After(s.End) {
		period.End = s.End
	}
	if period.End.Sub(period.Start) < whole && s.Rule.Partial != budget.Whole {
		period.Whole = whole
	}
	return period
}
