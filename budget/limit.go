package budget

import (
	"strings"
	"time"
)

// Limit bounds how much each value of a dimension, such as one person or device, may take in a
// window. A Rule bounds all callers together. A name identifies a limit within its budget.
type Limit struct {
	// Name matches `[a-z][a-z0-9-]{0,62}` and is unique within the budget.
	Name string `json:"name"`
	// Dimension is the caller's name for what is bounded, or several joined by "+" ("user+ad").
	Dimension string `json:"dimension"`
	// Optional exempts deductions without the dimension. Otherwise they are Invalid, because
	// leaving out the dimension would evade the limit.
	Optional bool        `json:"optional,omitzero"`
	Window   LimitWindow `json:"window"`
	// Max is the most per value and window, in calls or minor units; 0 … MaxAmount.
	Max     int64   `json:"max"`
	Measure Measure `json:"measure"`
	// Enforce false counts and never refuses, even above Max.
	Enforce bool `json:"enforce"`
	// Overrides are those that a new definition gives the limit; nil leaves them as they are. A limit
	// that is read has none: SQL has a row for each.
	Overrides []Override `json:"overrides,omitempty"`
	// OverrideCount is how many values have an override. OverrideSeries identifies their rows; 0 if
	// there never were any. SQL assigns both.
	OverrideCount  int64 `json:"-"`
	OverrideSeries int64 `json:"-"`
	// ChangedVersion and ChangedAt are the limits version and the SQL time of the last change to
	// what is counted (dimension, window or measure). SQL assigns them.
	ChangedVersion int64     `json:"-"`
	ChangedAt      time.Time `json:"-"`
}

// Dimensions returns the parts of the limit's dimension, in its order.
func (l *Limit) Dimensions() []string { return strings.Split(l.Dimension, "+") }

// Limits are the limits of a budget, in the order given.
type Limits struct {
	// Version increases with each change.
	Version int64
	// OverridesVersion increases with each change of overrides.
	OverridesVersion int64
	List             []Limit
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
	// WindowCalendar is a second, minute, hour, day, week, month or year of a zone. An Anchor says
	// when it begins.
	WindowCalendar WindowKind = "calendar"
	// WindowSliding is the last Length, in slots of Slot. A deduction counts for up to Length +
	// Slot.
	WindowSliding WindowKind = "sliding"
	// WindowFirstHit is Length from the first deduction. The next deduction after that begins
	// another window.
	WindowFirstHit WindowKind = "first_hit"
	// WindowLifetime is the whole life of the budget.
	WindowLifetime WindowKind = "lifetime"
)

// The calendar windows that a Rule cannot have.
const (
	Second Every = "second"
	Minute Every = "minute"
	Year   Every = "year"
)

// LimitWindow is the time over which a limit counts.
type LimitWindow struct {
	Kind WindowKind `json:"kind"`
	// Every, Anchor and Timezone (IANA; "" means the budget's) belong to calendar windows.
	Every    Every  `json:"every,omitzero"`
	Anchor   Anchor `json:"anchor,omitzero"`
	Timezone string `json:"timezone,omitzero"`
	// Length belongs to sliding and first_hit windows, Slot to sliding ones. Both are whole
	// milliseconds.
	Length time.Duration `json:"length,omitzero,format:units"`
	Slot   time.Duration `json:"slot,omitzero,format:units"`
}

// Override replaces the bound of a limit for one value of its dimension.
type Override struct {
	// Value is the value of the dimension. For a combined dimension it joins the values by "+" in
	// the order of the limit's Dimension, and Values lists them.
	Value  string   `json:"value,omitzero"`
	Values []string `json:"values,omitempty"`
	// Max replaces the limit's maximum; Exempt removes it. Exempt values are still counted.
	Max    int64 `json:"max,omitzero"`
	Exempt bool  `json:"exempt,omitzero"`
}

// LimitState is the usage of a limit by one value.
type LimitState struct {
	// Limit and Dimension identify the limit. Value is the deduction's; combined values are joined
	// by "+".
	Limit, Dimension, Value string
	// Used is the count in the window, Max the bound for this value, both in calls or minor units.
	// Exempt means there is no bound.
	Used, Max int64
	Exempt    bool
	// Asked is the count that a refused deduction would have added; 0 after an accepted one.
	Asked int64
	// Overflow means that the count would pass MaxAmount; Max did not cause the refusal.
	Overflow bool
	// ResetAt is when the window ends; for a sliding one, when its oldest slot leaves it. For a
	// refused deduction it is the first instant at which the deduction fits if nothing else is
	// counted. Zero means never.
	ResetAt time.Time
}

// Never reports whether a refused deduction exceeds what the limit can ever allow.
func (s *LimitState) Never() bool { return !s.Exempt && !s.Overflow && s.Asked > s.Max }
