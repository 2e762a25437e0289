package allocation

import (
	"sort"
	"time"
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
	// maxOffset bounds offsets in both directions: those of the IANA database lie within ±16 h.
	maxOffset = 24 * secondsPerHour
)

// offsetAt returns the zone's offset from UTC at an instant, in seconds.
func offsetAt(zone *time.Location, at instant) int64 {
	_, offset := time.Unix(at, 0).In(zone).Zone()
	return int64(offset)
}

func readingAt(zone *time.Location, at instant) reading { return at + offsetAt(zone, at) }

// nextChange returns the first instant after `after` at which the zone's offset changes, or until
// if that comes first. A change of the zone's name alone does not count.
//
// It costs about thirty look-ups per year: the standard library reports the end of each span with
// one offset. After the last change in the database such a span also ends with every year. On the
// last day of a leap year the library reports an end that has passed already (Go 1.26,
// time/zoneinfo.go, tzset); there nextChange checks every hour.
func nextChange(zone *time.Location, after, until instant) instant {
	offset := offsetAt(zone, after)
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
		if offsetAt(zone, next-1) != offset { // within the hour
			return at + int64(sort.Search(int(next-at), func(i int) bool {
				return offsetAt(zone, at+int64(i)) != offset
			}))
		}
		if next < until && offsetAt(zone, next) != offset {
			return next
		}
		at = next
	}
	return until
}

// firstAt returns the first instant at which the zone's clock shows a reading or a later one. It
// never decreases as readings grow; skipped readings share the instant at which the clock is put
// forward.
func firstAt(zone *time.Location, shown reading) instant {
	last := shown + maxOffset // the clock shows it by then
	for from := shown - maxOffset; ; {
		change := nextChange(zone, from, last)
		if at := max(from, shown-offsetAt(zone, from)); at < change || change == last {
			return at
		}
		from = change
	}
}

// hourAt returns the hour that contains an instant: from the full hour of the local time before it
// to the one after it, cut where the offset changes in between.
func hourAt(zone *time.Location, at instant) (from, to instant) {
	offset := offsetAt(zone, at)
	from = floorDiv(at+offset, secondsPerHour)*secondsPerHour - offset
	to = nextChange(zone, at, from+secondsPerHour)
	for change := from; change <= at; change = nextChange(zone, change, at+1) {
		from = change
	}
	return from, to
}

// hoursBetween returns how many hours overlap [from, to). It computes them per stretch of one
// offset.
func hoursBetween(zone *time.Location, from, to instant) int64 {
	var hours int64
	for from < to {
		change, offset := nextChange(zone, from, to), offsetAt(zone, from)
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
