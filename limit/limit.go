package limit

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"math/bits"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"github.com/budgetd/budgetd/budget"
	"github.com/budgetd/budgetd/iana"
)

// Set is the compiled limits of a budget. It is immutable.
type Set struct {
	Version int64
	// InStores marks a budget in store mode: its stores count, and SQL has no counters.
	InStores bool
	List     []*Limit
}

// Limit is a compiled limit.
type Limit struct {
	budget.Limit
	dimensions   []string
	zone         *time.Location
	length, slot int64 // ms
	changedMS    int64
	// calendar caches the latest calendar window: most calls ask for the present one.
	calendar atomic.Pointer[calendarWindow]
}

// calendarWindow is in ms, its end exclusive.
type calendarWindow struct{ from, to int64 }

// Compile prepares limits; nil gives an empty set. It returns an error for a limit in which
// CheckDefinition finds a fault.
func Compile(limits *budget.Limits) (*Set, error) {
	set := &Set{}
	if limits == nil {
		return set, nil
	}
	set.Version = limits.Version
	for _, l := range limits.List {
		c := &Limit{Limit: l, dimensions: strings.Split(l.Dimension, "+"), zone: time.UTC,
			length: l.Window.Length.Milliseconds(), slot: l.Window.Slot.Milliseconds()}
		if faults := checkLimit("", l); len(faults) > 0 {
			return nil, fmt.Errorf("limit %q: %s %s", l.Name, faults[0].Field, faults[0].Message)
		}
		if !l.ChangedAt.IsZero() {
			c.changedMS = l.ChangedAt.UnixMilli()
		}
		if l.Window.Timezone != "" {
			zone, err := iana.Zone(l.Window.Timezone)
			if err != nil {
				return nil, fmt.Errorf("limit %q: %w", l.Name, err)
			}
			c.zone = zone
		}
		set.List = append(set.List, c)
	}
	return set, nil
}

// Limit returns the limit with that name, or nil.
func (s *Set) Limit(name string) *Limit {
	for _, l := range s.List {
		if l.Name == name {
			return l
		}
	}
	return nil
}

// Dimensions returns the parts of the limit's dimension, in its order.
func (l *Limit) Dimensions() []string { return l.dimensions }

// Charge is the count of a deduction in one limit.
type Charge struct {
	Limit *Limit
	// Values are the deduction's, in the order of the limit's Dimensions. Key identifies them in
	// rows.
	Values []string
	Key    string
	// Counts is the count in calls or minor units, above 0.
	Counts int64
}

// Charges returns what a deduction counts in each limit, in the order of the set: the amount in
// counts if it names the limit (0 counts nothing), else 1 call or the deduction's amount. Unknown
// names in counts are ignored. missing is the first limit with a required dimension that the
// deduction lacks, or nil; the other limits are still listed. Adjacent limits of the same dimension
// share their Values.
func (s *Set) Charges(amount int64, dimensions map[string]string, counts map[string]int64) (
	charges []Charge, missing *Limit) {
	var values []string
	var of *Limit // the limit that values were looked up for
	for _, l := range s.List {
		if of == nil || !slices.Equal(of.dimensions, l.dimensions) {
			values, of = l.values(dimensions), l
		}
		if values == nil {
			if !l.Optional && missing == nil {
				missing = l
			}
			continue
		}
		if counted := l.countedAs(amount, counts); counted > 0 {
			charges = append(charges,
				Charge{Limit: l, Values: values, Key: key(values), Counts: counted})
		}
	}
	return charges, missing
}

// ExtraCharges returns what units that a deduction took later count in each limit: see CountsExtra.
func (s *Set) ExtraCharges(units int64, dimensions map[string]string, counts map[string]int64) (
	charges []Charge) {
	charges, _ = s.Charges(units, dimensions, counts)
	return slices.DeleteFunc(charges, func(c Charge) bool { return !c.Limit.CountsExtra(counts) })
}

// CountsExtra reports whether units that a deduction took later count in the limit: by amount, but
// no call again, and nothing where the deduction has a count of its own.
func (l *Limit) CountsExtra(counts map[string]int64) bool {
	_, own := counts[l.Name]
	return !own && l.Measure == budget.MeasureAmount
}

// countedAs returns what a deduction counts, in calls or minor units; 0 means nothing.
func (l *Limit) countedAs(amount int64, counts map[string]int64) int64 {
	counted, own := counts[l.Name]
	switch {
	case own:
		return counted
	case l.Measure == budget.MeasureCount:
		return 1
	}
	return amount
}

// Counted returns what a deduction still counts in the limit after a refund of rolledBack. counted
// is false if it never counted anything.
func (l *Limit) Counted(
	amount, rolledBack int64, counts map[string]int64,
) (kept int64, counted bool) {
	as := l.countedAs(amount, counts)
	return l.Kept(as, amount, rolledBack), as > 0
}

// values returns a deduction's values in the order of the limit's Dimensions, or nil if it lacks
// one.
func (l *Limit) values(dimensions map[string]string) []string {
	values := make([]string, len(l.dimensions))
	for i, name := range l.dimensions {
		var ok bool
		if values[i], ok = dimensions[name]; !ok {
			return nil
		}
	}
	return values
}

// longestKey is the longest value that rows carry verbatim, in bytes.
const longestKey = 512

// key returns the row key of values: a single value verbatim, several values each prefixed by its
// length, and a key that would be too long as a hash. A limit has either single or combined values,
// so the forms cannot collide. Requests cannot have a long single value, but a tampered store can,
// and a value that does not fit the column would fail the whole transaction.
func key(values []string) string {
	if len(values) == 1 && len(values[0]) <= longestKey {
		return values[0]
	}
	text := joined(values)
	if len(text) <= longestKey {
		return text
	}
	sum := sha256.Sum256([]byte(text))
	return "#" + hex.EncodeToString(sum[:])
}

// joined returns values one after the other, each prefixed by its length.
func joined(values []string) string {
	var out strings.Builder
	for _, value := range values {
		out.WriteString(strconv.Itoa(len(value)))
		out.WriteByte(':')
		out.WriteString(value)
	}
	return out.String()
}

// Kept returns what a deduction still counts after a refund of rolledBack. A call counts as long as
// a unit is left. An amount is reduced in proportion and rounded up: a deduction of 3 with its own
// count of 5 keeps 4 after a refund of 1.
func (l *Limit) Kept(counts, amount, rolledBack int64) int64 {
	left := amount - rolledBack
	switch {
	case left <= 0:
		return 0
	case left >= amount || l.Measure == budget.MeasureCount:
		return counts
	}
	high, low := bits.Mul64(uint64(counts), uint64(left)) //nolint:gosec // both positive
	kept, rest := bits.Div64(high, low, uint64(amount))   //nolint:gosec // left < amount: it fits
	if rest > 0 {
		kept++
	}
	return int64(kept) //nolint:gosec // at most counts
}

// Begin returns the limits of a new budget, or nil for none. They count from its creation, so no
// count is loaded from the ledger for them. See Change about overrides.
func Begin(list []budget.Limit, now time.Time) *budget.Limits {
	if len(list) == 0 {
		return nil
	}
	out := &budget.Limits{Version: createdVersion, List: make([]budget.Limit, len(list))}
	for i, l := range list {
		l.ChangedVersion, l.ChangedAt = createdVersion, now
		override(out, &l, budget.Limit{})
		out.List[i] = l
	}
	return out
}

// createdVersion is the version of limits created with their budget; later ones are higher.
const createdVersion = 1

// Change returns the limits after a change, under a new version. A limit whose dimension, window
// and measure are unchanged keeps counting; any other is marked as changed now. A limit that gets a
// list of overrides has them under a new series. Without one it keeps those that it has, unless its
// dimension changes.
func Change(before *budget.Limits, list []budget.Limit, now time.Time) *budget.Limits {
	out := &budget.Limits{Version: createdVersion + 1, List: make([]budget.Limit, len(list))}
	old := map[string]budget.Limit{}
	if before != nil {
		out.Version, out.OverridesVersion = before.Version+1, before.OverridesVersion
		for _, l := range before.List {
			old[l.Name] = l
		}
	}
	for i, l := range list {
		was, known := old[l.Name]
		if known && was.Dimension == l.Dimension && was.Window == l.Window && was.Measure == l.Measure {
			l.ChangedVersion, l.ChangedAt = was.ChangedVersion, was.ChangedAt
		} else {
			l.ChangedVersion, l.ChangedAt = out.Version, now
		}
		override(out, &l, was)
		out.List[i] = l
	}
	return out
}
