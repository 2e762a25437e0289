package allocation

import (
	"math"
	"time"

	"github.com/budgetd/budgetd/budget"
)

// Schedule is a checked rule in a zone over a budget's life. It is a value; safe for concurrent
// use.
type Schedule struct {
	// Rule must have passed CheckRule.
	Rule Rule
	// Zone is the budget's zone; never nil.
	Zone *time.Location
	// Start is the budget's first instant, zero: from the beginning; End the first one after it,
	// zero: without an end.
	Start, End time.Time
}

// Span is a period: it includes Start and excludes End. A zero Start stands for the beginning of
// time and a zero End for no end; only Free has such periods.
type Span struct {
	Start, End time.Time
	// Quantity is what the rule fixes for a whole period, in minor units; 0: nothing, it is Free or
	// the total is compressed.
	Quantity int64
	// Whole is how long the period would be if the budget's start or end did not cut it; 0: nothing
	// cuts it, or the rule says that it counts as a whole one.
	Whole time.Duration
}

// Fixed returns what the rule fixes for the period: Quantity, of one that is cut its part by the
// time, rounded up.
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

// WithoutEnd is the number of periods left of a budget that has no end.
const WithoutEnd = math.MaxInt64

// PeriodAt returns the period that contains an instant, cut to the budget's life. ok is false in a
// gap between two windows and outside of the budget's life. It costs some twenty look-ups in the
// zone, whatever the instant.
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

// NextPeriod returns the first period that starts at an instant or later, cut to the budget's life:
// the budget's start begins a period if the rule has one there. ok is false if there is none.
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

// PeriodsLeft returns how many periods overlap [from, End), the one that contains from and the one
// that the end cuts included; WithoutEnd if there is no end. It counts exactly: a day that a zone
// left out does not count. It costs some thirty look-ups in the zone per year of what is left,
// whatever the length of the periods: 2 ms for a century. A rule with quantities does not need it.
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

// cut makes a period of two instants, within the budget's life.
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
