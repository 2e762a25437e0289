// Package naive recomputes what package allocation says, slowly and in another way, for tests: periods
// by looking at a zone's clock minute by minute, figures by dealing units out over a written list of
// periods. It shares no code with the system; a test that runs a budget for a year can ask it what
// must have come out.
package naive

import (
	"slices"
	"time"
)

// Rule is a type_rule with its texts as in JSON.
type Rule struct {
	Kind, Every string
	Quantity    int64
	Unused      string
	Windows     []Window
}

// Window is a segment of the day, "HH:MM" to before "HH:MM".
type Window struct {
	From, To string
	Quantity int64
}

// Period is a pair of instants and what the rule fixes for it, 0 for nothing.
type Period struct {
	Start, End time.Time
	Quantity   int64
}

// Periods lists the periods of a rule within [start, end), in order. It looks at the clock of every
// minute, so offsets must be whole minutes; start and end need not be.
func Periods(rule Rule, zone *time.Location, start, end time.Time) []Period {
	if rule.Kind == "free" {
		return []Period{{Start: start, End: end}}
	}
	var periods []Period
	var label [4]int   // of the minute before; zeros: no period
	var furthest shown // a clock that is put back takes no day, week, month or window back
	for at := start.Truncate(time.Minute).Add(-72 * time.Hour); at.Before(end); at = at.Add(time.Minute) {
		clock := at.In(zone)
		now := read(clock)
		if slices.Compare(now[:], furthest[:]) > 0 {
			furthest = now
		}
		if !at.Add(time.Minute).After(start) {
			continue // only how far the clock has come matters
		}
		quantity := rule.Quantity
		var next [4]int
		switch {
		case rule.Kind == "windows":
			next, quantity = windowOf(rule.Windows, furthest)
		case rule.Every == "hour":
			_, offset := clock.Zone()
			next = [4]int{now[0]*100 + now[1], now[2], now[3], offset}
		default:
			next = labelOf(rule.Every, furthest)
		}
		if next != label && next != [4]int{} {
			periods = append(periods, Period{Start: at, Quantity: quantity})
		}
		if label = next; next != [4]int{} {
			periods[len(periods)-1].End = at.Add(time.Minute)
		}
	}
	if n := len(periods); n > 0 { // the minutes that the budget's start and end are in
		if periods[0].Start.Before(start) {
			periods[0].Start = start
		}
		if periods[n-1].End.After(end) {
			periods[n-1].End = end
		}
	}
	return periods
}

// shown is what a clock shows: year, month, day, hour, minute.
type shown [5]int

func read(clock time.Time) shown {
	year, month, day := clock.Date()
	hour, minute, _ := clock.Clock()
	return shown{year, int(month), day, hour, minute}
}

// labelOf names the day, week or month that the clock shows.
func labelOf(every string, s shown) [4]int {
	switch every {
	case "day":
		return [4]int{s[0], s[1], s[2]}
	case "month":
		return [4]int{s[0], s[1]}
	}
	year, week := time.Date(s[0], time.Month(s[1]), s[2], 0, 0, 0, 0, time.UTC).ISOWeek()
	return [4]int{year, week}
}

// windowOf names the window that the clock shows, zeros for none.
func windowOf(windows []Window, s shown) (label [4]int, quantity int64) {
	clock := string([]byte{'0' + byte(s[3]/10), '0' + byte(s[3]%10), ':', '0' + byte(s[4]/10), '0' + byte(s[4]%10)})
	for i, w := range windows {
		if w.From <= clock && clock < w.To {
			return [4]int{s[0], s[1], s[2], i + 1}, w.Quantity
		}
	}
	return [4]int{}, 0
}
