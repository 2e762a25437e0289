package allocation

import "math/bits"

// Figures are what the funding of a period depends on, in minor units. All are at least 0.
type Figures struct {
	// NotFunded is F: the part of the total that no period has got yet.
	NotFunded int64
	// UsedAlready is what was used or held since the period's start before it was opened: 0, unless
	// the rule was changed within it, so that another period was closed for this one.
	UsedAlready int64
	// Total is T. Before and Left are the weights of the periods before this one, and of this one
	// and all that follow, in millionths of a whole period. Only a calendar rule without a quantity
	// looks at the three. A Left below the period's weight counts as that.
	Total, Before, Left int64
}

// Fund returns how many units move F -> the period when it opens, 0 … F:
//
//	free, promo            F
//	quantity q of the rule, or of the window, in proportion where the budget's start or end cuts
//
// the
//
//	period:                min(max(q − UsedAlready, 0), F)
//	without a quantity:    the units of T that are due in the period, and its part of what F is
//
// more or
//
//	less than the units that are due from now on
//
// Where T has to be spread over P periods, the n-th unit is due when n/T of the time has passed:
// period k gets ⌊kT/P⌋ − ⌊(k−1)T/P⌋, 7 over 30 one in each of the periods 5, 9, 13,
// 18, 22, 26 and 30. With L periods left, this one included, ⌈LT/P⌉ units are due from now
// on. F differs from that
// after units came back, an append or a change of the rule; the difference is spread evenly, the
// first periods one unit more: ⌈(F − ⌈LT/P⌉) / L⌉. The last period gets all of F.
//
// What earlier periods left to it (`unused: next`) comes on top and is no part of this. The
// period
// is one of Schedule's under the same rule.
func Fund(rule Rule, period Span, f Figures) int64 {
	switch {
	case rule.Kind == Windows, rule.Kind == Calendar && rule.Quantity > 0:
		return min(max(period.Fixed()-f.UsedAlready, 0), f.NotFunded)
	case rule.Kind == Calendar:
		return due(period.weight(), f)
	}
	return f.NotFunded
}

// due returns what a period of a weight gets of a total that is spread evenly.
func due(weight int64, f Figures) int64 {
	left := min(max(f.Left, weight, 1), maxWeight)
	all := f.Before + left
	share := mulDiv(f.Total, f.Before+weight, all) - mulDiv(f.Total, f.Before, all)
	switch rest := f.NotFunded - mulDivUp(f.Total, left, all); {
	case rest > 0:
		share += mulDivUp(rest, weight, left)
	case rest < 0:
		share -= mulDiv(-rest, weight, left)
	}
	return min(max(share, 0), f.NotFunded)
}

// maxWeight is more than the periods of any budget weigh: its sums fit an int64.
const maxWeight = 1 << 60

// mulDiv returns ⌊a × b / c⌋ of numbers that are not negative, b not above c, so that it is
// at most
// a.
func mulDiv(a, b, c int64) int64 {
	quotient, _ := divide(a, b, c)
	return quotient
}

// mulDivUp returns ⌈a × b / c⌉, as mulDiv.
func mulDivUp(a, b, c int64) int64 {
	quotient, rest := divide(a, b, c)
	if rest > 0 {
		quotient++
	}
	return quotient
}

func divide(a, b, c int64) (quotient, rest int64) {
	high, low := bits.Mul64(uint64(a), uint64(b)) //nolint:gosec // not negative
	q, r := bits.Div64(high, low, uint64(c))      //nolint:gosec // b <= c: it fits
	return int64(q), int64(r)                     //nolint:gosec // at most a, below c
}
