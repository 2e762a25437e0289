package allocation

import (
	"math"
	"time"

	"github.com/budgetd/budgetd/budget"
	"github.com/budgetd/budgetd/iana"
)

// Account is a budget's figures at a rollover, in minor units.
type Account struct {
	// Unfunded and Undistributed are F and U.
	Unfunded, Undistributed int64
	// Held is what the epochs that end with the period return.
	Held int64
	// Pending is the sum of the pending shrinks, which no period gets.
	Pending int64
	// Used is what was used since the start of the opening period, if that start precedes the end
	// of the previous period because the rule changed within it.
	Used int64
}

// Movement is the increase of F, U and X, in minor units.
type Movement struct{ Unfunded, Undistributed, Forfeited int64 }

// Plus adds another movement.
func (m Movement) Plus(o Movement) Movement {
	return Movement{m.Unfunded + o.Unfunded, m.Undistributed + o.Undistributed,
		m.Forfeited + o.Forfeited}
}

// RolledOver is the result of a rollover.
type RolledOver struct {
	// Period is the next period, or Over after the last one.
	Period budget.Period
	// Left is where the unused units of the ended period went.
	Left Movement
	// Moved is the total change of F, U and X; its sum is what left the epochs.
	Moved Movement
}

// Begin returns the first period of a new budget, funded, and the unfunded rest of the total. The
// first period is the one that contains now, else the next one. It is Over if the budget has ended.
func Begin(d budget.Definition, now time.Time) (unfunded int64, p budget.Period) {
	next, ok := Next(d, budget.Period{Over: true}, now)
	rolled := RollOver(d, budget.Period{}, next, ok, Account{Unfunded: d.TotalQuantity})
	return d.TotalQuantity - rolled.Period.Funded, rolled.Period
}

// Next returns the period that follows a period that has ended. That is the period that contains
// p.End, else the first one after it. Only after a change of the rule may the next period begin
// before p.End. If no period was open, Next returns the period that contains now, else the first
// one after now. It returns false if the budget ends before another period begins.
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

// RollOver ends a period and opens the next one. The unused units (U and those of its epochs) go
// where the rule says. If a change of the rule ended the period, or none follows, they go back to
// F, except what is forfeited at the end of the budget. The next period then gets Fund of F.
func RollOver(d budget.Definition, p budget.Period, next Span, ok bool, a Account) RolledOver {
	rest := a.Undistributed + a.Held
	t := RolledOver{Period: budget.Period{Number: p.Number + 1, Over: true, Start: p.End, End: p.End}}
	changed := ok && !endsByRule(d, p)
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
		Carried: t.Left.Undistributed, Before: a.Used}
	fundable := Fundable(d, a.Unfunded+t.Left.Unfunded, a.Pending)
	t.Period.Funded = funding(d, next, t.Period.Number, fundable, a.Used)
	t.Moved.Unfunded -= t.Period.Funded
	t.Moved.Undistributed += t.Period.Funded
	return t
}

// rollover returns the most that a period may carry to the next.
func rollover(d budget.Definition) int64 {
	if d.Rule == nil || d.Rule.MaxRollover == 0 {
		return math.MaxInt64
	}
	return d.Rule.MaxRollover
}

// endsByRule reports whether a period ends where the present rule ends it. It is false after a
// change of the rule has ended the period early.
func endsByRule(d budget.Definition, p budget.Period) bool {
	span, ok := PeriodOf(d, p.Start)
	return ok && span.End.Equal(p.End)
}

// Return returns where units of an epoch go whose period is over. The unused units were not used
// when the period ended; the late ones were, and came back afterwards. current is the open or last
// period. If the rule gives all units to one period and that is open, it gets these too. Unused
// units are carried only up to the rule's max_rollover less current.Carried; the excess becomes
// unfunded.
func Return(d budget.Definition, current budget.Period, unused, late int64) Movement {
	var m Movement
	for _, part := range []struct {
		units   int64
		where   budget.Where
		bounded bool // by max_rollover
	}{{unused, Unused(d), true}, {late, d.LateRefund, false}} {
		switch {
		case part.where == budget.Forfeit:
			m.Forfeited += part.units
		case current.Over:
			m.Unfunded += part.units
		case IsWhole(d):
			m.Undistributed += part.units
		case part.where == budget.Next:
			carried := part.units
			if part.bounded {
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
// rollover is due (zero means never). The period continues if the new definition has a period with
// the same start that contains now and gets no less, even if the old end has passed without a
// rollover. Otherwise it ends, at the latest now, and the next period counts what was used since
// its start. If the last period is over, a rollover is due at once if the new definition has
// another one.
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
	case ok && span.Start.Equal(p.Start) && (SameRule(before.Rule, after.Rule) &&
		before.Timezone == after.Timezone || span.Quantity > 0 && span.Fixed() >= p.Funded+p.Before):
		return span.End, span.End
	case p.OverAt(now):
		return p.End, p.End
	}
	return now, now
}

// Shares divides units that are handed out evenly over n buckets. Under the rule free each bucket
// gets a first step (FirstStep), because there a bucket applies when it is empty. The shares never
// add up to more than units, and zeros come last.
func Shares(d budget.Definition, units int64, n int) []int64 {
	if d.Rule != nil && d.Rule.Kind == budget.Free {
		return FirstStep(units, n, d.ShardingQuantity)
	}
	return Divide(units, n)
}

// IsWhole reports whether a period gets all unfunded units: promo and free.
func IsWhole(d budget.Definition) bool {
	return d.Rule == nil || (Schedule{Rule: *d.Rule}).whole()
}

// Unused returns the destination of a period's unused units.
func Unused(d budget.Definition) budget.Where {
	if d.Rule == nil || d.Rule.Unused == "" {
		return budget.Spread
	}
	return d.Rule.Unused
}

// ScheduleOf returns the schedule of a budget. It has no period if the zone is unknown, which
// callers refuse first (limit.UnknownZone).
func ScheduleOf(d budget.Definition) Schedule {
	s := Schedule{Zone: time.UTC, Start: d.StartAt, End: d.EndAt}
	if d.Rule != nil {
		s.Rule = *d.Rule
	}
	zone, err := iana.Zone(d.Timezone)
	if err != nil {
		nothing := time.Unix(0, 0)
		return Schedule{Rule: s.Rule, Zone: time.UTC, Start: nothing, End: nothing}
	}
	s.Zone = zone
	return s
}

// PeriodOf returns the period of a budget that contains an instant.
func PeriodOf(d budget.Definition, at time.Time) (Span, bool) { return ScheduleOf(d).PeriodAt(at) }

// funding returns Fund of Fundable units for a period with a number.
func funding(d budget.Definition, next Span, number, units, used int64) int64 {
	s := ScheduleOf(d)
	f := Figures{NotFunded: max(units, 0), UsedAlready: used, Total: d.TotalQuantity}
	if s.Rule.Kind == Calendar && s.Rule.Quantity == 0 {
		f.Left = s.weightLeft(next)
		f.Before = s.weightBefore(number, f.Left)
	}
	return Fund(s.Rule, next, f)
}

// Fundable returns the part of F that a period may get while shrinks are pending. For promo budgets
// and the rule free that is all of F: they have only one period, and all its units count when it is
// decided whether the budget is exhausted (I3). Pending shrinks are withheld from apply instead.
func Fundable(d budget.Definition, unfunded, pending int64) int64 {
	if ScheduleOf(d).whole() {
		return unfunded
	}
	return max(unfunded-pending, 0)
}

// TopUp returns how many units move F -> the open period after an append or a change of its rule,
// at least 0. unfunded is Fundable of the unfunded units, including those of the append.
//
//	a fixed quantity q:  min(max(q − funded − before, 0), unfunded)
//	compressed:          min(max(Fund of unfunded + funded, less funded, 0), unfunded)
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

// SameRule reports whether two rules define the same periods with the same quantities.
func SameRule(a, b *budget.Rule) bool {
	if a == nil || b == nil {
		return a == b
	}
	return Canonical(*a) == Canonical(*b)
}

// CheckDefinition returns the faults of a definition, including its rule, or nil.
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
	if _, err := iana.Zone(d.Timezone); err != nil {
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
