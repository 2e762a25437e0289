package budget

import "time"

// Daily releases the total period by period, under the budget's rule.
const Daily Type = "daily"

// RuleKind says how the periods of a daily budget are defined.
type RuleKind string

// The kinds of rules.
const (
	// Free has one period, the whole life of the budget. Buckets apply when they are empty.
	Free RuleKind = "free"
	// Calendar has a period every hour, day, week or month of the budget's zone.
	Calendar RuleKind = "calendar"
	// Windows has segments of every day of the budget's zone.
	Windows RuleKind = "windows"
)

// Every is the length of a calendar period.
type Every string

// The calendar periods. A week begins on Monday (ISO 8601) unless its Anchor says otherwise.
const (
	Hour  Every = "hour"
	Day   Every = "day"
	Week  Every = "week"
	Month Every = "month"
)

// Where is the destination of units whose period is over.
type Where string

// The destinations. Unused units of a period go to Spread, Next or Forfeit. A refund after the
// period of its deduction goes to ToTotal, Next or Forfeit.
const (
	// Spread and ToTotal lead to the unfunded units, hence to the remaining periods.
	Spread  Where = "spread"
	ToTotal Where = "total"
	// Next leads to the period that is open when they arrive, in addition to its own units.
	Next Where = "next"
	// Forfeit leads to X, where they can no longer be spent.
	Forfeit Where = "forfeit"
)

// Partial says how much a period gets that the budget's start or end cuts short.
type Partial string

// The shares of a cut period.
const (
	// Prorated is in proportion to its length, rounded up.
	Prorated Partial = "prorated"
	// Whole is as much as any other period.
	Whole Partial = "whole"
)

// Rule is the application rule of a daily budget.
type Rule struct {
	Kind  RuleKind `json:"kind" check:"required"`
	Every Every    `json:"every,omitzero" check:"word"`
	// Anchor is where the days, weeks and months of a calendar rule begin.
	Anchor Anchor `json:"anchor,omitzero"`
	// Quantity is what each calendar period gets; 0 means equal parts of the total.
	Quantity int64 `json:"quantity,omitzero" check:"1..max"`
	// Unused is the destination of a period's unused units; "" means Spread.
	Unused Where `json:"unused,omitzero" check:"word"`
	// MaxRollover is the most units that one period may pass to the next, with Unused Next; 0 means
	// no bound. The excess becomes unfunded again.
	MaxRollover int64 `json:"max_rollover,omitzero" check:"1..max"`
	// Partial applies to the first and last period if the budget's start or end cuts them; "" means
	// Prorated.
	Partial Partial `json:"partial,omitzero" check:"word"`
	// Windows are the segments of a day, in order.
	Windows []Window `json:"windows,omitempty" check:"most=windows"`
}

// Window is a part of every day as "HH:MM", To exclusive. To may be "24:00".
type Window struct {
	From     string `json:"from" check:"required"`
	To       string `json:"to" check:"required"`
	Quantity int64  `json:"quantity" check:"required 1..max"`
}

// Period is a stretch of time for which units of a budget are released. A promo budget has one.
type Period struct {
	// Number counts the budget's periods from 1.
	Number int64
	// Over means that the period has ended and no other follows under the present definition.
	Over bool
	// Start is the first instant, End the first one after the period; zero means unbounded.
	Start, End time.Time
	// Funded is what the period got of the total, less what a shrink or a rule change took back.
	// Carried is what earlier periods passed to it. Both in minor units.
	Funded, Carried int64
	// Before is what was used between Start and the moment it was opened, if a rule change opened
	// it.
	Before int64
}

// OverAt reports whether the units of the period can no longer be spent at an instant.
func (p Period) OverAt(now time.Time) bool {
	return p.Over || !p.End.IsZero() && !now.Before(p.End)
}
