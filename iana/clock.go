package iana

import (
	"sort"
	"time"
)

// A reading is the local time of a zone, as seconds since its 1970-01-01 00:00:00. An instant is
// Unix seconds. They differ by the offset: reading = instant + offset.

const (
	secondsPerHour = 60 * 60
	// maxOffset bounds offsets in both directions: those of the database lie within ±16 h.
	maxOffset = 24 * secondsPerHour
)

// OffsetAt returns the zone's offset from UTC at an instant, in seconds.
func OffsetAt(zone *time.Location, at int64) int64 {
	_, offset := time.Unix(at, 0).In(zone).Zone()
	return int64(offset)
}

// ReadingAt returns what the clocks of the zone show at an instant, as if it were UTC, in seconds.
func ReadingAt(zone *time.Location, at int64) int64 { return at + OffsetAt(zone, at) }

// NextChange returns the first instant after `after` at which the zone's offset changes, or until
// if that comes first. A change of the zone's name alone does not count.
//
// It costs about thirty look-ups per year: the standard library reports the end of each span with
// one offset. After the last change in the database such a span also ends with every year. On the
// last day of a leap year the library reports an end that has passed already (Go 1.26,
// time/zoneinfo.go, tzset); there NextChange checks every hour.
func NextChange(zone *time.Location, after, until int64) int64 {
	offset := OffsetAt(zone, after)
	for at := after; at < until; {
		_, end := time.Unix(at, 0).In(zone).ZoneBounds()
		next := until
		switch {
		case end.IsZero():
		case end.Unix() > at:
			next = min(end.Unix(), until)
		default:
			next = min(at+secondsPerHour, until)
		}
		if OffsetAt(zone, next-1) != offset { // within the hour
			return at + int64(sort.Search(int(next-at), func(i int) bool {
				return OffsetAt(zone, at+int64(i)) != offset
			}))
		}
		if next < until && OffsetAt(zone, next) != offset {
			return next
		}
		at = next
	}
	return until
}

// FirstAt returns the first instant at which the zone's clock shows a reading or a later one. It
// never decreases as readings grow; skipped readings share the instant at which the clock is put
// forward.
func FirstAt(zone *time.Location, shown int64) int64 {
	last := shown + maxOffset // the clock shows it by then
	for from := shown - maxOffset; ; {
		change := NextChange(zone, from, last)
		if at := max(from, shown-OffsetAt(zone, from)); at < change || change == last {
			return at
		}
		from = change
	}
}
