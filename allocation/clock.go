package allocation

import (
	"time"

	"github.com/budgetd/budgetd/iana"
)

// A reading is the local time of a zone, as seconds since its 1970-01-01 00:00:00. An instant is
// Unix seconds. They differ by the offset: reading = instant + offset. Offsets and everything that
// a rule names are whole seconds.
type (
	reading = int64
	instant = int64
)

const (
	secondsPerHour = 60 * 60
	secondsPerDay  = 24 * secondsPerHour
)

// hourAt returns the hour that contains an instant: from the full hour of the local time before it
// to the one after it, cut where the offset changes in between.
func hourAt(zone *time.Location, at instant) (from, to instant) {
	offset := iana.OffsetAt(zone, at)
	from = floorDiv(at+offset, secondsPerHour)*secondsPerHour - offset
	to = iana.NextChange(zone, at, from+secondsPerHour)
	for change := from; change <= at; change = iana.NextChange(zone, change, at+1) {
		from = change
	}
	return from, to
}

// hoursBetween returns how many hours overlap [from, to). It computes them per stretch of one
// offset.
func hoursBetween(zone *time.Location, from, to instant) int64 {
	var hours int64
	for from < to {
		change, offset := iana.NextChange(zone, from, to), iana.OffsetAt(zone, from)
		hours += floorDiv(change-1+offset, secondsPerHour) - floorDiv(from+offset, secondsPerHour) + 1
		from = change
	}
	return hours
}

// floorDiv divides and rounds down: floorDiv(-1, 7) is -1.
func floorDiv(a, b int64) int64 {
	q := a / b
	if a%b < 0 {
		q--
	}
	return q
}
