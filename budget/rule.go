package budget

import "time"

// Daily hands the total out period by period, by the budget's rule.
const Daily Type = "daily"

// RuleKind says what the periods of a daily budget are.
type RuleKind string

// The kinds of rules.
const (
	// Free: one period, the whole life of the budget; buckets apply when they are used up.
	Free RuleKind = "free"
	// Calendar: every hour, day, week or month of the budget's zone.
	Calendar RuleKind = "calendar"
	// Windows: segments of every day of the budget's zone.
	Windows RuleKind = "windows"
)

// Every is the length of a calendar period.
type Every string

// The calendar periods. A week begins on Monday (ISO 8601).
const (
	Hour  Every = "hour"
	Day   Every = "day"
	Week  Every = "week"
	Month Every = "month"
)

// Where says what becomes of units whose period is over.
type Where string

// The destinations. What a period did not use goes to Spread, Next or Forfeit; a refund that comes
// after the period of its deduction to ToTotal, Next or Forfeit.
const (
	// Spread and ToTotal: back to what is not funded yet, so over the periods left.
	Spread  Where = "spread"
	ToTotal Where = "total"
	// Next: to the period that is open when they come, beside its own units.
	Next Where = "next"
	// Forfeit: to X; nobody can spend them any more.
	Forfeit Where = "forfeit"
)

// Partial says what a period gets that the budget's start or end cuts.
type Partial string

// What a period gets that is cut.
const (
	// Prorated: its part of the time, rounded up.
	Prorated Partial = "prorated"
	// Whole: as much as any other period.
	Whole Partial = "whole"
)

// Rule is the application rule of a daily budget.
type Rule struct {
	Kind  RuleKind `json:"kind"`
	Every Every    `json:"every,omitzero"`
	// Anchor is where the days, weeks and months of a calendar rule begin.
	Anchor Anchor `json:"anchor,omitzero"`
	// Quantity is what each calendar period gets; 0: the total in equal parts.
	Quantity int64 `json:"quantity,omitzero"`
	// Unused is where what a period did not use goes; "": Spread.
	Unused Where `json:"unused,omitzero"`
	// MaxRollover is the most that one period may leave to the next, with Unused Next; 0: no bound.
	// What is above it goes back to what is not funded yet.
	MaxRollover int64 `json:"max_rollover,omitzero"`
	// Partial is what the first and the last period get where the budget's start or end cuts them;
	// "": Prorated.
	Partial Partial `json:"partial,omitzero"`
	// Windows are the segments of a day, in order.
	Windows []Window `json:"windows,omitempty"`
}

// Window is a segment of every day, from its first instant to before its last, as "HH:MM"; To may
// be "24:00".
type Window struct {
	From     string `json:"from"`
	To       string `json:"to"`
	Quantity int64  `json:"quantity"`
}

// Period is a stretch of time for which units of a budget are released. A promo budget has one.
type Period struct {
	// Number counts the budget's periods from 1.
	Number int64
	// Over says that it has ended and that no other follows as the definition stands.
	Over bool
	// Start is its first instant, End the first one after it; zero: none.
	Start, End time.Time
	// Funded is what it got of the total, less what a shrink or a changed rule took back; Carried
	// is what earlier periods left to it. Minor units.
	Funded, Carried int64
	// Before is what was used since its Start when it was opened: a rule was changed within it.
	Before int64
}

// OverAt reports whether nothing of the period can be spent any more at an instant.
func (p Period) OverAt(now time.Time) bool {
	return p.Over || !p.End.IsZero() && !now.Before(p.End)
}
