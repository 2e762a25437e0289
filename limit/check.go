package limit

import (
	"fmt"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/budgetd/budgetd/budget"
	"github.com/budgetd/budgetd/iana"
)

// Bounds of definitions.
const (
	MaxLimits     = 32
	MaxDimensions = 4      // combined in one limit
	MaxSlots      = 10_000 // of one window; a commit reads all slots of a value
	MaxLength     = 10 * 366 * 24 * time.Hour

	maxDimensionBytes = 256
)

var validName = regexp.MustCompile(`^[a-z][a-z0-9-]{0,62}$`)

// CheckDefinition returns the faults of a definition's limits and routing dimension, one per field
// (`limits[1].window.every`), or nil. It is pure.
func CheckDefinition(d budget.Definition) []budget.FieldError {
	var faults faults
	if d.RoutingDimension != "" {
		if why := checkDimension(d.RoutingDimension); why != "" {
			faults.add("routing_dimension", "%s", why)
		}
	}
	if d.Unlimited && d.Type != budget.Promo {
		faults.add("type", "does not belong to an unlimited budget")
	}
	if d.Limits == nil {
		return faults
	}
	if len(d.Limits.List) > MaxLimits {
		faults.add("limits", "must be at most %d", MaxLimits)
	}
	seen := map[string]bool{}
	for i, l := range d.Limits.List {
		path := fmt.Sprintf("limits[%d].", i)
		if seen[l.Name] {
			faults.add(path+"name", "is already used by another limit")
		}
		seen[l.Name] = true
		faults = append(faults, checkLimit(path, l)...)
		if d.Durability == budget.Store && l.Dimension != d.RoutingDimension {
			faults.add(path+"dimension",
				"must be the routing_dimension: store mode counts no other; use durability ledger")
		}
	}
	return faults
}

type faults []budget.FieldError

func (f *faults) add(field, format string, args ...any) {
	*f = append(*f, budget.FieldError{Field: field, Message: fmt.Sprintf(format, args...)})
}

func checkLimit(path string, l budget.Limit) []budget.FieldError {
	var faults faults
	if !validName.MatchString(l.Name) {
		faults.add(path+"name", "must be a letter a-z, then up to 62 of a-z, 0-9 and -")
	}
	dimensions := strings.Split(l.Dimension, "+")
	if why := checkDimensions(dimensions); why != "" {
		faults.add(path+"dimension", "%s", why)
	}
	if l.Max < 0 || l.Max > budget.MaxAmount {
		faults.add(path+"max", "must be 0 to %d", budget.MaxAmount)
	}
	if l.Measure != budget.MeasureCount && l.Measure != budget.MeasureAmount {
		faults.add(path+"measure", `must be "amount" or "count"`)
	}
	faults = append(faults, checkWindow(path+"window", l.Window)...)
	return append(faults, checkOverrides(path+"overrides", l.Overrides, dimensions)...)
}

func checkDimensions(names []string) string {
	if len(names) > MaxDimensions {
		return fmt.Sprintf("must be at most %d joined by +", MaxDimensions)
	}
	for i, name := range names {
		if why := checkDimension(name); why != "" {
			return why
		}
		if slices.Contains(names[:i], name) {
			return "names a dimension twice"
		}
	}
	return ""
}

func checkDimension(name string) string {
	if strings.Contains(name, "+") {
		return "must not contain +, which joins several"
	}
	return budget.CheckKey(name)
}

// everies are the calendar windows.
var everies = []budget.Every{budget.Second, budget.Minute, budget.Hour, budget.Day, budget.Week,
	budget.Month, budget.Year}

func checkWindow(path string, w budget.LimitWindow) []budget.FieldError {
	var faults faults
	switch w.Kind {
	case budget.WindowCalendar, budget.WindowSliding, budget.WindowFirstHit, budget.WindowLifetime:
	default:
		faults.add(path+".kind", `must be "calendar", "sliding", "first_hit" or "lifetime"`)
		return faults
	}
	calendar := w.Kind == budget.WindowCalendar
	switch {
	case !calendar && w.Every != "":
		faults.add(path+".every", "belongs to the kind calendar only")
	case calendar && !slices.Contains(everies, w.Every):
		faults.add(path+".every", `must be "second", "minute", "hour", "day", "week", "month" or "year"`)
	}
	for _, fault := range w.Anchor.Check(w.Every) {
		faults.add(path+"."+fault.Field, "%s", fault.Message)
	}
	switch {
	case !calendar && w.Timezone != "":
		faults.add(path+".timezone", "belongs to the kind calendar only")
	default:
		if _, err := iana.Zone(w.Timezone); err != nil {
			faults.add(path+".timezone", "must be a zone of the IANA database, release %s",
				iana.Release())
		}
	}
	long := w.Kind == budget.WindowSliding || w.Kind == budget.WindowFirstHit
	switch {
	case !long && w.Length != 0:
		faults.add(path+".length", "belongs to the kinds sliding and first_hit only")
	case long && (w.Length < time.Millisecond || w.Length > MaxLength ||
		w.Length%time.Millisecond != 0):
		faults.add(path+".length", "must be 1ms to %dh, in whole milliseconds", MaxLength/time.Hour)
	}
	switch {
	case w.Kind != budget.WindowSliding && w.Slot != 0:
		faults.add(path+".slot", "belongs to the kind sliding only")
	case w.Kind != budget.WindowSliding:
	case w.Slot < time.Millisecond || w.Slot%time.Millisecond != 0 || w.Slot > w.Length &&
		w.Length > 0:
		faults.add(path+".slot", "must be 1ms to the length, in whole milliseconds")
	case w.Length/w.Slot > MaxSlots:
		faults.add(path+".slot", "must be at least a %d-th of the length", MaxSlots)
	}
	return faults
}

// CheckCounts returns the faults of the counts in a request: an unknown limit, or an amount out of
// range.
func (s *Set) CheckCounts(counts map[string]int64) []budget.FieldError {
	var faults faults
	for name, n := range counts {
		switch {
		case s.Limit(name) == nil:
			faults.add("counts."+name, "there is no limit of that name")
		case n < 0 || n > budget.MaxAmount:
			faults.add("counts."+name, "must be 0 to %d", budget.MaxAmount)
		}
	}
	slices.SortFunc(faults,
		func(a, b budget.FieldError) int { return strings.Compare(a.Field, b.Field) })
	return faults
}

// CheckDimensions returns a fault for each required dimension that a request does not carry.
func (s *Set) CheckDimensions(dimensions map[string]string) []budget.FieldError {
	var faults faults
	missing := map[string]bool{}
	for _, l := range s.List {
		for _, name := range l.dimensions {
			if _, given := dimensions[name]; !given && !l.Optional && !missing[name] {
				missing[name] = true
				faults.add("dimensions."+name, "is missing: limit %s counts by it", l.Name)
			}
		}
	}
	return faults
}
