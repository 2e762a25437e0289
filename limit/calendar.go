package limit

import (
	"time"

	"github.com/budgetd/budgetd/budget"
)

// calendarAt returns the window of a calendar that holds an instant: from inclusive, to exclusive.
// Seconds, minutes and hours are cut where the zone's clock is changed; days and longer ones begin at the
// first instant whose local date is theirs, so days of 23 and 25 hours, and midnights that do not exist or
// come twice, are windows like any other. Weeks begin on Monday.
func calendarAt(every budget.Every, zone *time.Location, at time.Time) (from, to time.Time) {
	local := at.In(zone)
	if unit := clockUnit(every); unit > 0 {
		return clockAt(unit, local)
	}
	// Where midnight comes twice, the next date has begun although its clock shows the one before.
	for d := firstDate(every, local); ; {
		following := next(every, d, 1)
		if to = following.start(zone); to.After(at) {
			return d.start(zone), to
		}
		d = following
	}
}

func clockUnit(every budget.Every) time.Duration {
	switch every {
	case budget.Second:
		return time.Second
	case budget.Minute:
		return time.Minute
	case budget.Hour:
		return time.Hour
	}
	return 0
}

// clockAt is the second, minute or hour of local time, cut where the zone's offset changes.
func clockAt(unit time.Duration, local time.Time) (from, to time.Time) {
	_, offset := local.Zone()
	seconds, width := local.Unix()+int64(offset), int64(unit/time.Second)
	start := seconds - ((seconds%width)+width)%width - int64(offset)
	from, to = time.Unix(start, 0), time.Unix(start+width, 0)
	since, until := local.ZoneBounds()
	if !since.IsZero() && since.After(from) {
		from = since
	}
	if !until.IsZero() && until.Before(to) {
		to = until
	}
	return from, to
}

// date is a day of the calendar.
type date struct {
	year  int
	month time.Month
	day   int
}

// firstDate is the first day of the local day, week, month or year.
func firstDate(every budget.Every, local time.Time) date {
	year, month, day := local.Date()
	switch every {
	case budget.Week:
		day -= (int(local.Weekday()) + 6) % 7
	case budget.Month:
		day = 1
	case budget.Year:
		month, day = time.January, 1
	}
	return date{year, month, day}.normal()
}

// next is the first day n windows later.
func next(every budget.Every, d date, n int) date {
	switch every {
	case budget.Week:
		d.day += 7 * n
	case budget.Month:
		d.month += time.Month(n)
	case budget.Year:
		d.year += n
	default:
		d.day += n
	}
	return d.normal()
}

func (d date) normal() date {
	year, month, day := time.Date(d.year, d.month, d.day, 0, 0, 0, 0, time.UTC).Date()
	return date{year, month, day}
}

// start is the first instant at which the zone's date is this one or a later one.
func (d date) start(zone *time.Location) time.Time {
	const most = 26 * time.Hour // no offset is as large
	midnight := time.Date(d.year, d.month, d.day, 0, 0, 0, 0, time.UTC)
	at := midnight.Add(-most).In(zone)
	for {
		_, offset := at.Zone()
		since, until := at.ZoneBounds()
		first := midnight.Add(-time.Duration(offset) * time.Second)
		if !since.IsZero() && first.Before(since) {
			first = since
		}
		if until.IsZero() || first.Before(until) {
			return first
		}
		at = until.In(zone)
	}
}
