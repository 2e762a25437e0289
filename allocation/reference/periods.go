// Package reference recomputes the results of package allocation slowly and by other means, for
// tests. It finds periods by reading a zone's clock minute by minute, and figures by dealing units
// out over a list of periods. It shares no code with the system, so a test can run a budget for a
// year on both and compare.
package reference

import (
	"math/big"
	"slices"
	"time"
)

// Rule is a type_rule with texts as in JSON.
type Rule struct {
	Kind, Every string
	Quantity    int64
	Unused      string
	// MaxRollover is 0 for no bound; Partial is "" or "whole".
	MaxRollover int64
	Partial     string
	// Day is the day of the month, Weekday counts from Monday as 0, Hour is the hour of the first day.
	Day, Weekday, Hour int
	Windows            []Window
}

// Window is a segment of the day, "HH:MM" to before "HH:MM".
type Window struct {
	From, To string
	Quantity int64
}

// Period is a pair of instants, the quantity that the rule fixes for a whole period (0 for none),
// and the length of the whole period if this is only a part.
type Period struct {
	Start, End time.Time
	Quantity   int64
	Whole      time.Duration
}

// of returns the period's part of the units of a whole period.
func (p Period) of(units int64, up bool) int64 {
	if p.Whole == 0 {
		return units
	}
	product := new(big.Int).Mul(big.NewInt(units), big.NewInt(int64(p.End.Sub(p.Start))))
	part, rest := product.DivMod(product, big.NewInt(int64(p.Whole)), new(big.Int))
	if up && rest.Sign() > 0 {
		return part.Int64() + 1
	}
	return part.Int64()
}

// weight returns the weight in millionths of a whole period.
func (p Period) weight() int64 { return max(p.of(whole, false), 1) }

const whole = 1_000_000

// reach exceeds the length of any period.
func reach(rule Rule) time.Duration {
	switch rule.Every {
	case "hour":
		return 3 * time.Hour
	case "week":
		return 9 * 24 * time.Hour
	case "month":
		return 33 * 24 * time.Hour
	}
	return 2 * 24 * time.Hour
}

// Periods lists the periods of a rule within [start, end), in order. It reads the clock of every
// minute, so offsets must be whole minutes; start and end need not be.
func Periods(rule Rule, zone *time.Location, start, end time.Time) []Period {
	if rule.Kind == "free" {
		return []Period{{Start: start, End: end}}
	}
	return cut(uncut(rule, zone, start.Add(-reach(rule)), end.Add(reach(rule))), rule.Partial, start,
		end)
}

// cut keeps the periods between two instants.
func cut(all []Period, partial string, start, end time.Time) (periods []Period) {
	for _, p := range all {
		full := p.End.Sub(p.Start)
		if p.Start.Before(start) {
			p.Start = start
		}
		if p.End.After(end) {
			p.End = end
		}
		part := p.End.Sub(p.Start)
		if part <= 0 {
			continue
		}
		if part < full && partial != "whole" {
			p.Whole = full
		}
		periods = append(periods, p)
	}
	return periods
}

// uncut lists the periods that begin at an instant or later; the first and last may be partial.
func uncut(rule Rule, zone *time.Location, start, end time.Time) []Period {
	var periods []Period
	var label [4]int   // of the minute before; zeros: no period
	var furthest shown // the latest reading: a clock that is put back starts no earlier period again
	for at := start.Truncate(time.Minute).Add(-72 * time.Hour); at.Before(end); at = at.Add(
		time.Minute) {
		clock := at.In(zone)
		now := read(clock)
		if slices.Compare(now[:], furthest[:]) > 0 {
			furthest = now
		}
		if !at.Add(time.Minute).After(start) {
			continue // before start only furthest matters
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
			next = labelOf(rule, furthest)
		}
		if next != label && next != [4]int{} {
			periods = append(periods, Period{Start: at, Quantity: quantity})
		}
		if label = next; next != [4]int{} {
			periods[len(periods)-1].End = at.Add(time.Minute)
		}
	}
	return periods
}

// shown is a clock reading: year, month, day, hour, minute.
type shown [5]int

func read(clock time.Time) shown {
	year, month, day := clock.Date()
	hour, minute, _ := clock.Clock()
	return shown{year, int(month), day, hour, minute}
}

// labelOf returns the day, week or month of a reading: that of a clock set back by the hour and
// weekday of the anchor, and by a month before its day.
func labelOf(rule Rule, s shown) [4]int {
	at := time.Date(s[0], time.Month(s[1]), s[2], s[3]-rule.Hour, s[4], 0, 0, time.UTC)
	switch rule.Every {
	case "day":
		return [4]int{at.Year(), int(at.Month()), at.Day()}
	case "month":
		first := at.AddDate(0, 0, 1-at.Day())
		if begins := min(rule.Day, first.AddDate(0, 1, -1).Day()); at.Day() < begins {
			first = first.AddDate(0, -1, 0)
		}
		return [4]int{first.Year(), int(first.Month())}
	}
	year, week := at.AddDate(0, 0, -rule.Weekday).ISOWeek()
	return [4]int{year, week}
}

// windowOf returns the window of a reading, zeros for none.
func windowOf(windows []Window, s shown) (label [4]int, quantity int64) {
	clock := string([]byte{'0' + byte(s[3]/10), '0' + byte(s[3]%10), ':', '0' + byte(s[4]/10),
		'0' + byte(s[4]%10)})
	for i, w := range windows {
		if w.From <= clock && clock < w.To {
			return [4]int{s[0], s[1], s[2], i + 1}, w.Quantity
		}
	}
	return [4]int{}, 0
}
