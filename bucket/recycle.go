package bucket

import (
	"time"
)

// Spread says how a budget's units lay: all that buckets and total held, and how much of it was
// stranded (fragment.Stranded). Minor units.
type Spread struct{ Units, Stranded int64 }

// RecycleCause says why a recycle began.
type RecycleCause string

// Why recycles begin.
const (
	// OnDemand: an operator asked for it.
	OnDemand RecycleCause = "operator"
	// OnSchedule: the configured time had come.
	OnSchedule RecycleCause = "schedule"
	// Automatic: the part of the budget that is stranded was above the configured one.
	Automatic RecycleCause = "automatic"
)

// Recycle is a run that brings the units of a budget's buckets back to the total and hands them out
// again by recent demand. Its row is its report. Quantities are minor units.
type Recycle struct {
	Budget int64
	// Number counts the recycles of the budget, from 1.
	Number int64
	Cause  RecycleCause
	// Buckets were recycled, of which Skipped could not be.
	Buckets, Skipped int
	// Moved units came back to the total.
	Moved         int64
	Before, After Spread
	// TouchedAt is when somebody last went on with it, EndedAt zero while it is open. By SQL's
	// clock.
	BeganAt, TouchedAt, EndedAt time.Time
}

// Used is what a bucket sold lately.
type Used struct {
	// Units of its last deductions and the Largest of these, minor units; Since is when the first
	// of them was counted.
	Units, Largest int64
	Since          time.Time
}
