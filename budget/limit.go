package budget

import "time"

// Limit bounds what each value of a dimension may take in a window: of one person, device or ad,
// not of everybody (that is a Rule). Limits of a budget are told apart by their names.
type Limit struct {
	// Name matches `[a-z][a-z0-9-]{0,62}` and is unique within the budget.
	Name string `json:"name"`
	// Dimension is the caller's name of what is bounded, or several joined by "+" ("user+ad").
	Dimension string `json:"dimension"`
	// Optional: a deduction that does not carry the dimension is not counted. Otherwise it is
	// Invalid, so that nobody gets round a limit by leaving it out.
	Optional bool        `json:"optional,omitzero"`
	Window   LimitWindow `json:"window"`
	// Max is the most per value and window, in calls or minor units; 0 … MaxAmount.
	Max     int64   `json:"max"`
	Measure Measure `json:"measure"`
	// Enforce false counts and never refuses, also above Max.
	Enforce   bool       `json:"enforce"`
	Overrides []Override `json:"overrides,omitempty"`
	// ChangedVersion and ChangedAt are the budget's limits version and SQL's time when what is
	// counted (dimension, window, measure) was last another; SQL hands them out.
	ChangedVersion int64     `json:"-"`
	ChangedAt      time.Time `json:"-"`
}

// Limits are those of a budget, in the order in which they were given.
type Limits struct {
	// Version grows with each change of them.
	Version int64
	List    []Limit
}

// Measure says what a limit counts.
type Measure string

// MeasureCount counts calls, MeasureAmount minor units.
const (
	MeasureCount  Measure = "count"
	MeasureAmount Measure = "amount"
)

// WindowKind says when a limit's window begins and ends.
type WindowKind string

// The kinds of windows.
const (
	// WindowCalendar: a second, minute, hour, day, week (from Monday), month or year of a zone.
	WindowCalendar WindowKind = "calendar"
	// WindowSliding: the last Length, in slots of Slot: a deduction counts for up to Length + Slot.
	WindowSliding WindowKind = "sliding"
	// WindowFirstHit: Length from the first deduction, then nothing until the next one begins
	// another.
	WindowFirstHit WindowKind = "first_hit"
	// WindowLifetime: as long as the budget lives.
	WindowLifetime WindowKind = "lifetime"
)

// The calendar windows that no Rule has.
const (
	Second Every = "second"
	Minute Every = "minute"
	Year   Every = "year"
)

// LimitWindow is the time over which a limit counts.
type LimitWindow struct {
	Kind WindowKind `json:"kind"`
	// Every, Anchor and Timezone (IANA; "": the budget's) are of a calendar window.
	Every    Every  `json:"every,omitzero"`
	Anchor   Anchor `json:"anchor,omitzero"`
	Timezone string `json:"timezone,omitzero"`
	// Length is of a sliding and a first_hit window, Slot of a sliding one: whole milliseconds.
	Length time.Duration `json:"length,omitzero,format:units"`
	Slot   time.Duration `json:"slot,omitzero,format:units"`
}

// Override is another bound for one value of a limit's dimension.
type Override struct {
	// Value is the dimension's; of combined ones the values joined by "+" in the order of the
	// limit's Dimension: Values has them one by one.
	Value  string   `json:"value,omitzero"`
	Values []string `json:"values,omitempty"`
	// Max replaces the limit's; Exempt: no bound at all. What is exempt is counted all the same.
	Max    int64 `json:"max,omitzero"`
	Exempt bool  `json:"exempt,omitzero"`
}

// LimitState is how far a limit is used for one value.
type LimitState struct {
	// Limit and Dimension are the limit's; Value the deduction's, combined ones joined by "+".
	Limit, Dimension, Value string
	// Used is what is counted in the window, Max the bound for this value: calls or minor units.
	// Exempt: there is none.
	Used, Max int64
	Exempt    bool
	// Asked is what a refused deduction would have counted; 0 in the state after an accepted one.
	Asked int64
	// Overflow: it was refused because no count passes MaxAmount, not by Max.
	Overflow bool
	// ResetAt is when the window is over, or, sliding, when the oldest slot leaves it; of a refused
	// deduction the first instant at which it fits if nothing else is counted. Zero: never.
	ResetAt time.Time
}

// Never reports whether a refused deduction is above what the limit ever allows.
func (s *LimitState) Never() bool { return !s.Exempt && !s.Overflow && s.Asked > s.Max }
