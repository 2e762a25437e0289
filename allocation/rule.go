package allocation

import (
	"encoding/json"
	"fmt"
	"slices"
	"time"

	"github.com/budgetd/budgetd/budget"
)

// Package budget defines Rule and the other terms of rules.
type (
	Rule   = budget.Rule
	Window = budget.Window
	Every  = budget.Every
	Where  = budget.Where
)

// The constants of rules, from package budget.
const (
	Free, Calendar, Windows = budget.Free, budget.Calendar, budget.Windows
	Hour, Day, Week, Month  = budget.Hour, budget.Day, budget.Week, budget.Month
	SpreadOut, ToNext       = budget.Spread, budget.Next
	Forfeit                 = budget.Forfeit
)

// MaxWindows bounds the segments of a day: one every quarter of an hour.
const MaxWindows = 96

// CheckRule returns the faults of a rule, one per field (`type_rule.windows[1].to`), or nil.
// Schedule.Check checks the rule against the budget's other fields. It is pure.
func CheckRule(rule Rule) []budget.FieldError {
	var faults faults
	switch rule.Kind {
	case Free, Calendar, Windows:
	default:
		faults.add("kind", `must be "free", "calendar" or "windows"`)
	}
	known := len(faults) == 0 // only a known kind tells which fields belong to it
	switch {
	case known && rule.Kind != Calendar && rule.Every != "":
		faults.add("every", "belongs to the kind calendar only")
	case rule.Kind == Calendar || rule.Every != "":
		if !slices.Contains([]Every{Hour, Day, Week, Month}, rule.Every) {
			faults.add("every", `must be "hour", "day", "week" or "month"`)
		}
	}
	switch {
	case known && rule.Kind != Calendar && rule.Quantity != 0:
		faults.add("quantity", "belongs to the kind calendar only; a window has a quantity of its own")
	case rule.Quantity != 0 && !budget.ValidAmount(rule.Quantity):
		faults.add("quantity", "must be 1 to %d, or absent to compress the total into equal periods",
			budget.MaxAmount)
	}
	switch {
	case rule.Kind == Free && rule.Unused != "":
		faults.add("unused", "does not belong to the kind free, which has one period only")
	case !slices.Contains([]Where{"", SpreadOut, ToNext, Forfeit}, rule.Unused):
		faults.add("unused", `must be "spread", "next" or "forfeit"`)
	}
	faults.edges(rule)
	switch {
	case known && rule.Kind != Windows && len(rule.Windows) > 0:
		faults.add("windows", "belongs to the kind windows only")
	case rule.Kind == Windows && len(rule.Windows) == 0:
		faults.add("windows", "must list at least one segment of the day")
	case len(rule.Windows) > MaxWindows:
		faults.add("windows", "must list at most %d segments of the day", MaxWindows)
	default:
		faults.windows(rule.Windows)
	}
	return faults
}

type faults []budget.FieldError

func (f *faults) add(field, format string, args ...any) {
	*f = append(*f, budget.FieldError{Field: "type_rule." + field,
		Message: fmt.Sprintf(format, args...)})
}

// windows checks that the segments of a day can be parsed and are in order without overlap.
func (f *faults) windows(windows []Window) {
	latest := 0 // the latest end so far, in minutes of the day
	for i, w := range windows {
		field := func(name string) string { return fmt.Sprintf("windows[%d].%s", i, name) }
		from, fromOK := minuteOfDay(w.From)
		to, toOK := minuteOfDay(w.To)
		switch {
		case !fromOK || from == minutesPerDay:
			fromOK = false
			f.add(field("from"), `must be a time of the day as HH:MM, "00:00" to "23:59"`)
		case from < latest:
			f.add(field("from"), "must not be before %02d:%02d, the end of an earlier window",
				latest/60, latest%60)
		}
		switch {
		case !toOK:
			f.add(field("to"), `must be a time of the day as HH:MM, "00:01" to "24:00"`)
		case fromOK && to <= from:
			f.add(field("to"), "must be after from, on the same day: write a window that crosses "+
				"midnight as two, %s-24:00 and 00:00-%s", w.From, w.To)
		default:
			latest = max(latest, to)
		}
		if !budget.ValidAmount(w.Quantity) {
			f.add(field("quantity"), "must be 1 to %d", budget.MaxAmount)
		}
	}
}

// edges checks where periods begin and what one carries to the next.
func (f *faults) edges(rule Rule) {
	for _, fault := range rule.Anchor.Check(rule.Every) {
		f.add(fault.Field, "%s", fault.Message)
	}
	switch {
	case rule.MaxRollover != 0 && rule.Unused != ToNext:
		f.add("max_rollover", `belongs to unused "next" only`)
	case rule.MaxRollover != 0 && !budget.ValidAmount(rule.MaxRollover):
		f.add("max_rollover", "must be 1 to %d, or absent for no bound", budget.MaxAmount)
	}
	switch {
	case rule.Partial != "" && rule.Kind == Free:
		f.add("partial", "does not belong to the kind free, which has one period only")
	case !slices.Contains([]budget.Partial{"", budget.Prorated, budget.Whole}, rule.Partial):
		f.add("partial", `must be "prorated" or "whole"`)
	}
}

const minutesPerDay = 24 * 60

// minuteOfDay parses "HH:MM" as minutes since midnight, 0 … 1440. ok is false for anything else.
func minuteOfDay(text string) (minute int, ok bool) {
	if len(text) != 5 || text[2] != ':' {
		return 0, false
	}
	for _, i := range [...]int{0, 1, 3, 4} {
		if text[i] < '0' || text[i] > '9' {
			return 0, false
		}
	}
	hours := int(text[0]-'0')*10 + int(text[1]-'0')
	minutes := int(text[3]-'0')*10 + int(text[4]-'0')
	minute = hours*60 + minutes
	return minute, minutes < 60 && minute <= minutesPerDay
}

// Check returns the faults of a rule in combination with the budget's other fields, or nil. A rule
// that compresses the total requires an end, and a schedule needs at least one period, because it
// would never release a unit otherwise. The rule must have passed CheckRule, Start and End
// budget.CheckSpan.
func (s Schedule) Check() []budget.FieldError {
	if s.Rule.Kind == Calendar && s.Rule.Quantity == 0 && s.End.IsZero() {
		return []budget.FieldError{{Field: "end_at",
			Message: "must be given: without type_rule.quantity the total is compressed into the periods " +
				"up to it"}}
	}
	if _, ok := s.NextPeriod(time.Time{}); !ok {
		return []budget.FieldError{{Field: "type_rule",
			Message: "has no period between start_at and end_at: nothing would ever be released"}}
	}
	return nil
}

// Canonical returns the canonical text of a rule: compact JSON, members in a fixed order, `unused`
// written out where it applies. Two rules are the same if and only if their texts are equal. The
// rule must have passed CheckRule.
func Canonical(rule Rule) string {
	text, err := json.Marshal(Written(rule))
	if err != nil { // strings and integers only
		panic(err)
	}
	return string(text)
}

// Written returns a rule with its defaults as Canonical has them.
func Written(rule Rule) Rule {
	if rule.Unused == "" && rule.Kind != Free {
		rule.Unused = SpreadOut
	}
	if rule.Partial == budget.Prorated {
		rule.Partial = ""
	}
	if rule.Anchor.Day == 1 {
		rule.Anchor.Day = 0
	}
	if rule.Anchor.Weekday == "monday" {
		rule.Anchor.Weekday = ""
	}
	return rule
}
