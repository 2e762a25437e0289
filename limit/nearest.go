package limit

import (
	"cmp"
	"math/bits"
	"slices"
	"strconv"
	"strings"

	"github.com/budgetd/budgetd/budget"
)

// Settled reports whether counters hold everything that counts at an instant. It is false while the
// window contains the last change of the limit: a value without a deduction since then has counts
// that only the ledger has.
func (l *Limit) Settled(nowMS int64) bool {
	from, _ := l.span(nowMS)
	return !l.loads(from, nowMS)
}

// State returns the usage of the limit by the value of a row at an instant; see Now. Counts from
// before the last change of the limit are ignored. bounds has the override of the value, if there
// is one.
func (c *Counters) State(l *Limit, key string, bounds *Bounds, budgetID, nowMS int64,
) budget.LimitState {
	usage := c.Usage(l, key, c.Now(nowMS))
	if _, _, stale := usage.Stale(); stale {
		usage = NewUsage(l, key, nowMS)
	}
	bounds.Apply(budgetID, l, &usage)
	charge := Charge{Limit: l, Values: valuesOf(l.dimensions, key), Key: key}
	return charge.State(&usage)
}

// Nearest returns the states that have used the largest shares of their maximums, at most keep of
// them, the largest first. States without usage or without a maximum are left out. It sorts the
// list in place.
func Nearest(list []budget.LimitState, keep int) []budget.LimitState {
	list = slices.DeleteFunc(list, func(s budget.LimitState) bool { return s.Used <= 0 || s.Exempt })
	slices.SortFunc(list, func(a, b budget.LimitState) int {
		return cmp.Or(compareShares(&b, &a), cmp.Compare(b.Used, a.Used), strings.Compare(a.Value,
			b.Value))
	})
	return list[:min(len(list), keep)]
}

// compareShares compares used / max of two states without rounding. Usage of a maximum of 0 is the
// largest share.
func compareShares(a, b *budget.LimitState) int {
	high, low := bits.Mul64(uint64(a.Used), uint64(b.Max))   //nolint:gosec // not negative
	high2, low2 := bits.Mul64(uint64(b.Used), uint64(a.Max)) //nolint:gosec // not negative
	return cmp.Or(cmp.Compare(high, high2), cmp.Compare(low, low2))
}

// valuesOf returns the values that a row's key stands for, in the order of a limit's dimensions.
// It returns the key itself if that is a hash, which cannot be undone.
func valuesOf(dimensions []string, key string) []string {
	if len(dimensions) == 1 {
		return []string{key}
	}
	values := make([]string, 0, len(dimensions))
	for rest := key; rest != ""; {
		length, tail, _ := strings.Cut(rest, ":")
		n, err := strconv.Atoi(length)
		if err != nil || n < 0 || n > len(tail) {
			return []string{key}
		}
		values, rest = append(values, tail[:n]), tail[n:]
	}
	return values
}
