package allocation

import (
	"time"

	"github.com/budgetd/budgetd/iana"
)

// grid numbers the days, weeks, months or windows of a zone's local time, here called stretches.
// The numbers are consecutive; firstAt determines which instants a stretch covers. A stretch that
// the clock skips covers no instant.
type grid struct {
	rule Rule
	zone *time.Location
	// windows are the rule's, nil for calendar rules.
	windows []segment
	// weekday and hour are the rule's anchor, in seconds after Monday and after midnight.
	weekday, hour int64
}

// segment is a window in minutes of the day.
type segment struct{ from, to int64 }

func newGrid(rule Rule, zone *time.Location) grid {
	weekday, _ := rule.Anchor.Weekday.Index() // checked by CheckRule
	g := grid{rule: rule, zone: zone, weekday: int64(weekday) * secondsPerDay,
		hour: int64(rule.Anchor.Hour) * secondsPerHour}
	for _, w := range rule.Windows {
		from, _ := minuteOfDay(w.From) // checked by CheckRule
		to, _ := minuteOfDay(w.To)
		g.windows = append(g.windows, segment{int64(from), int64(to)})
	}
	return g
}

const (
	secondsPerWeek = 7 * secondsPerDay
	firstMonday    = 4 * secondsPerDay // 1970-01-05
	monthsPerYear  = 12
)

// number returns the stretch that contains a reading or, between two windows, the one before it.
func (g grid) number(shown reading) int64 {
	switch g.rule.Every {
	case Day:
		return floorDiv(shown-g.hour, secondsPerDay)
	case Week:
		return floorDiv(shown-g.hour-g.weekday-firstMonday, secondsPerWeek)
	case Month:
		year, month, _ := time.Unix(shown, 0).UTC().Date()
		number := int64(year)*monthsPerYear + int64(month-time.January)
		if shown < g.beginningOfMonth(number) {
			number--
		}
		return number
	}
	day := floorDiv(shown, secondsPerDay)
	number := day*int64(len(g.windows)) - 1
	for _, w := range g.windows {
		if shown >= day*secondsPerDay+w.from*60 {
			number++
		}
	}
	return number
}

// readings returns the local time at the beginning of a stretch and right after its end.
func (g grid) readings(number int64) (from, to reading) {
	switch g.rule.Every {
	case Day:
		from = number*secondsPerDay + g.hour
		return from, from + secondsPerDay
	case Week:
		from = number*secondsPerWeek + firstMonday + g.weekday + g.hour
		return from, from + secondsPerWeek
	case Month:
		return g.beginningOfMonth(number), g.beginningOfMonth(number + 1)
	}
	day := floorDiv(number, int64(len(g.windows)))
	w := g.windows[number-day*int64(len(g.windows))]
	return day*secondsPerDay + w.from*60, day*secondsPerDay + w.to*60
}

// beginningOfMonth takes the number of a month counted from the year 0. A month without the
// anchor's day begins on its last day.
func (g grid) beginningOfMonth(number int64) reading {
	year := floorDiv(number, monthsPerYear)
	month := time.January + time.Month(number-year*monthsPerYear)
	last := time.Date(int(year), month+1, 0, 0, 0, 0, 0, time.UTC).Day()
	day := min(max(g.rule.Anchor.Day, 1), last)
	return time.Date(int(year), month, day, 0, 0, 0, 0, time.UTC).Unix() + g.hour
}

// quantity returns the rule's quantity for a stretch, or 0 if it has none.
func (g grid) quantity(number int64) int64 {
	if g.windows == nil {
		return g.rule.Quantity
	}
	n := int64(len(g.windows))
	return g.rule.Windows[number-floorDiv(number, n)*n].Quantity
}

// instants returns the stretch's instants; from == to if the clock skips it.
func (g grid) instants(number int64) (from, to instant) {
	begin, end := g.readings(number)
	return iana.FirstAt(g.zone, begin), iana.FirstAt(g.zone, end)
}

// numberAt returns the stretch that contains an instant or, between two windows, the one before it.
// While the clock repeats readings, that is the stretch in which it was put back. The loop ends at
// that stretch, so it visits only the stretches within the repeated time.
func (g grid) numberAt(at instant) int64 {
	number := g.number(iana.ReadingAt(g.zone, at))
	for {
		begin, _ := g.readings(number + 1)
		if iana.FirstAt(g.zone, begin) > at {
			return number
		}
		number++
	}
}

// firstFrom returns the first stretch that is not skipped and begins at an instant or later. The
// loop visits at most the stretches of a day, because no clock was ever put forward by more.
func (g grid) firstFrom(at instant) (number int64, from, to instant) {
	for number = g.numberAt(at); ; number++ {
		if from, to = g.instants(number); from >= at && from < to {
			return number, from, to
		}
	}
}

// overlapping returns how many stretches overlap [from, to): the difference of two numbers, less
// the skipped stretches. A skipped stretch lies between the readings just before and just after the
// clock was put forward, so only those are examined.
func (g grid) overlapping(from, to instant) int64 {
	first, last := g.numberAt(from), g.numberAt(to-1)
	if _, end := g.instants(first); end <= from {
		first++
	}
	count, next := last-first+1, first
	for change := iana.NextChange(g.zone, from, to); change < to; {
		before, after := change+iana.OffsetAt(g.zone, change-1), iana.ReadingAt(g.zone, change)
		for next = max(next, g.number(before)); next <= last; next++ {
			if _, end := g.readings(next); end > after {
				break
			}
			if from, to := g.instants(next); from == to {
				count--
			}
		}
		change = iana.NextChange(g.zone, change, to)
	}
	return count
}
