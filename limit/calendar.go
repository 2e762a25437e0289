package limit

import (
	"time"

	"github.com/budgetd/budgetd/budget"
	"github.com/budgetd/budgetd/iana"
)

// calendarAt returns the calendar window that contains an instant: from inclusive, to exclusive.
// Seconds, minutes and hours are cut where the zone's offset changes. Longer windows begin at the
// first instant whose local time is that of their anchor or later, which covers days of 23 and 25
// hours and midnights that do not exist or occur twice. A month without the anchor's day begins on
// its last day, and a year begins on January 1.
func calendarAt(w budget.LimitWindow, zone *time.Location, at time.Time) (from, to time.Time) {
	local := at.In(zone)
	if unit := clockUnit(w.Every); unit > 0 {
		return clockAt(unit, local)
	}
	// Where midnight occurs twice, the next date has begun although the local clock shows the
	// previous one.
	hour := time.Duration(w.Anchor.Hour) * time.Hour
	for d := firstDate(w, local); ; {
		following := next(w, d)
		if to = following.start(zone, hour); to.After(at) {
			return d.start(zone, hour), to
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

// clockAt returns the second, minute or hour of local time, cut where the zone's offset changes.
func clockAt(unit time.Duration, local time.Time) (from, to time.Time) {
	zone, at, width := local.Location(), local.Unix(), int64(unit/time.Second)
	start := at - ((iana.ReadingAt(zone, at)%width)+width)%width
	end := iana.NextChange(zone, at, start+width)
	for change := start; change <= at; change = iana.NextChange(zone, change, at+1) {
		start = change
	}
	return time.Unix(start, 0), time.Unix(end, 0)
}

type date struct {
	year  int
	month time.Month
	day   int
}

// firstDate returns the first day of the day, week, month or year that contains local.
func firstDate(w budget.LimitWindow, local time.Time) date {
	year, month, day := local.Date()
	if local.Hour() < w.Anchor.Hour { // the day has not begun
		year, month, day = time.Date(year, month, day-1, 0, 0, 0, 0, time.UTC).Date()
	}
	switch w.Every {
	case budget.Week:
		weekday, _ := w.Anchor.Weekday.Index() // checked by Check
		since := int(time.Date(year, month, day, 0, 0, 0, 0, time.UTC).Weekday()) + 6 - weekday
		day -= since % 7
	case budget.Month:
		first := monthFrom(year, month, w.Anchor.Day)
		if day < first.day {
			first = monthFrom(year, month-1, w.Anchor.Day)
		}
		return first
	case budget.Year:
		month, day = time.January, 1
	}
	return date{year, month, day}.normal()
}

// next returns the first day of the window that follows the one beginning on d.
func next(w budget.LimitWindow, d date) date {
	switch w.Every {
	case budget.Week:
		d.day += 7
	case budget.Month:
		return monthFrom(d.year, d.month+1, w.Anchor.Day)
	case budget.Year:
		d.year++
	default:
		d.day++
	}
	return d.normal()
}

// monthFrom returns a day of a month, or the last day of a shorter month.
func monthFrom(year int, month time.Month, day int) date {
	last := time.Date(year, month+1, 0, 0, 0, 0, 0, time.UTC)
	return date{last.Year(), last.Month(), min(max(day, 1), last.Day())}
}

func (d date) normal() date {
	year, month, day := time.Date(d.year, d.month, d.day, 0, 0, 0, 0, time.UTC).Date()
	return date{year, month, day}
}

// start returns the first instant at which the zone's local time reaches hour on this date.
func (d date) start(zone *time.Location, hour time.Duration) time.Time {
	shown := time.Date(d.year, d.month, d.day, 0, 0, 0, 0, time.UTC).Add(hour)
	return time.Unix(iana.FirstAt(zone, shown.Unix()), 0)
}
