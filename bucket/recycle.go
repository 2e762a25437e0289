package bucket

import (
	"time"
)

// Spread is where a budget's units were: the sum held by the buckets and the total, and the
// stranded part of it (fragment.Stranded), in minor units.
type Spread struct{ Units, Stranded int64 }

// RecycleCause says why a recycle began.
type RecycleCause string

// Why recycles begin.
const (
	// OnDemand means that an operator asked for it.
	OnDemand RecycleCause = "operator"
	// OnSchedule means that the configured time had come.
	OnSchedule RecycleCause = "schedule"
	// Automatic means that the stranded part of the budget was above the configured share.
	Automatic RecycleCause = "automatic"
)

// Recycle is a run that returns the units of a budget's buckets to the total and hands them out
// again by recent demand. Its row is its report. Quantities are minor units.
type Recycle struct {
	Budget int64
	// Number counts the recycles of the budget, from 1.
	Number int64
	Cause  RecycleCause
	// Buckets counts the buckets that were recycled, and Skipped those of them that could not be.
	Buckets, Skipped int
	// Moved is how many units returned to the total.
	Moved         int64
	Before, After Spread
	// Both instants are by SQL's clock.
	BeganAt, EndedAt time.Time
}
