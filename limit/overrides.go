package limit

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/budgetd/budgetd/budget"
)

// Bounds of overrides.
const (
	// MaxOverrides bounds the overrides of a budget.
	MaxOverrides = 1_000_000
	// MaxOverrideList bounds the overrides of a list: those of a limit in a definition, or of a call.
	MaxOverrideList = 1_000
)

// Bound is the most that a value may take, in calls or minor units. An exempt value may take any
// amount.
type Bound struct {
	Max    int64
	Exempt bool
}

// BoundOf returns the bound that an override sets.
func BoundOf(o budget.Override) Bound { return Bound{o.Max, o.Exempt} }

// OverrideID identifies an override: the series of its limit within the budget, and the key of the
// value, which is that of the value's counters.
type OverrideID struct {
	Budget, Series int64
	Key            string
}

// Compare orders overrides as their rows.
func (id OverrideID) Compare(other OverrideID) int {
	return cmp.Or(cmp.Compare(id.Budget, other.Budget), cmp.Compare(id.Series, other.Series),
		strings.Compare(id.Key, other.Key))
}

// Bounds are bounds that were read from overrides. The zero value has none.
type Bounds struct{ own map[OverrideID]Bound }

// Put adds the bound of an override.
func (b *Bounds) Put(id OverrideID, bound Bound) {
	if b.own == nil {
		b.own = map[OverrideID]Bound{}
	}
	b.own[id] = bound
}

// Apply gives a usage of a budget's limit the bound of its value if that was read. The limit may be
// a later version than the usage's.
func (b *Bounds) Apply(budgetID int64, l *Limit, usage *Usage) {
	if !l.Overridden() {
		return
	}
	if own, ok := b.own[OverrideID{budgetID, l.OverrideSeries, usage.Key}]; ok {
		usage.Bound = own
	}
}

// SameSeries reports whether the same limits of two lists have overrides, of the same series.
func SameSeries(a, b *budget.Limits) bool {
	if a == nil || b == nil {
		return a == b
	}
	return slices.EqualFunc(a.List, b.List, func(x, y budget.Limit) bool {
		return x.OverrideSeries == y.OverrideSeries && (x.OverrideCount > 0) == (y.OverrideCount > 0)
	})
}

// Overridden reports whether values of the limit have overrides, so that they must be read before a
// value is judged.
func (l *Limit) Overridden() bool { return l.OverrideCount > 0 }

// Overrides returns which overrides must be read to judge charges of a budget, in the order of the
// charges.
func Overrides(budgetID int64, charges []Charge) (ids []OverrideID) {
	for i := range charges {
		if l := charges[i].Limit; l.Overridden() {
			ids = append(ids, OverrideID{budgetID, l.OverrideSeries, charges[i].Key})
		}
	}
	return ids
}

// override sets the count and the series of the overrides of one of the limits. was is the limit
// before, zero for a new one.
func override(limits *budget.Limits, l *budget.Limit, was budget.Limit) {
	l.OverrideCount, l.OverrideSeries = int64(len(l.Overrides)), 0
	switch {
	case l.Overrides == nil && l.Dimension == was.Dimension:
		l.OverrideCount, l.OverrideSeries = was.OverrideCount, was.OverrideSeries
	case len(l.Overrides) > 0:
		limits.OverridesVersion++
		l.OverrideSeries = limits.OverridesVersion
	}
}

// OverrideKey returns the key of an override's value, and the value's text if the key is a hash of
// it. ok is false if the override does not have a valid value for each of the dimensions.
func OverrideKey(o budget.Override, dimensions []string) (k, hashed string, ok bool) {
	values := overridden(o, dimensions)
	if values == nil {
		return "", "", false
	}
	k = key(values)
	if text := joined(values); len(values) > 1 && text != k {
		hashed = text
	}
	return k, hashed, true
}

// SetValue sets the value of an override from its key: the reverse of OverrideKey.
func SetValue(o *budget.Override, dimensions []string, key, hashed string) {
	if len(dimensions) == 1 {
		o.Value = key
		return
	}
	o.Values = valuesOf(dimensions, cmp.Or(hashed, key))
}

// CheckCount returns the fault of limits with too many overrides together, or nil.
func CheckCount(limits *budget.Limits) []budget.FieldError {
	n := int64(0)
	for i := range limits.List {
		n += limits.List[i].OverrideCount
	}
	if n <= MaxOverrides {
		return nil
	}
	return []budget.FieldError{{Field: "overrides",
		Message: fmt.Sprintf("must be at most %d of all limits of a budget", MaxOverrides)}}
}

// CheckOverrides returns the faults of overrides for a limit of a dimension, one per field
// (`overrides[1].max`), or nil. It is pure.
func CheckOverrides(list []budget.Override, dimension string) []budget.FieldError {
	return checkOverrides("overrides", list, strings.Split(dimension, "+"))
}

func checkOverrides(path string, list []budget.Override, dimensions []string) (faults faults) {
	if len(list) > MaxOverrideList {
		faults.add(path, "must be at most %d", MaxOverrideList)
		return faults
	}
	seen := make(map[string]bool, len(list))
	for i, o := range list {
		at := fmt.Sprintf("%s[%d].", path, i)
		values := overridden(o, dimensions)
		switch {
		case (o.Value == "") == (len(o.Values) == 0):
			faults.add(at+"value", "one of value and values must be given")
		case values == nil:
			faults.add(at+"value", "must be %d values, 1 to %d bytes each; give them as values, one by one",
				len(dimensions), maxDimensionBytes)
		case seen[key(values)]:
			faults.add(at+"value", "has another override already")
		default:
			seen[key(values)] = true
		}
		switch {
		case o.Max < 0 || o.Max > budget.MaxAmount:
			faults.add(at+"max", "must be 0 to %d", budget.MaxAmount)
		case o.Exempt && o.Max != 0:
			faults.add(at+"max", "does not belong to a value that is exempt")
		}
	}
	return faults
}

// overridden returns the values of an override, one per dimension, or nil if they are invalid.
func overridden(o budget.Override, dimensions []string) []string {
	values := o.Values
	if len(values) == 0 {
		values = []string{o.Value}
		if len(dimensions) > 1 {
			values = strings.Split(o.Value, "+")
		}
	}
	if len(values) != len(dimensions) {
		return nil
	}
	for _, value := range values {
		if value == "" || len(value) > maxDimensionBytes {
			return nil
		}
	}
	return values
}
