package allocation

import "math/bits"

// Figures are the inputs of a period's funding, in minor units, all at least 0.
type Figures struct {
	// NotFunded is F: the part of the total that no period has received.
	NotFunded int64
	// UsedAlready is what was used or held between the period's start and its opening. It is 0
	// unless a change of the rule replaced one period by this one.
	UsedAlready int64
	// Total is T. Before is the weight of the periods before this one. Left is the weight of this
	// one and all later ones; a Left below the period's own weight counts as that weight. Weights
	// are in millionths of a whole period. Only a calendar rule without a quantity uses these
	// fields.
	Total, Before, Left int64
}

// Fund returns how many units move F -> the period when it opens, 0 … F:
//
//	free, promo            F
//	with a quantity q      min(max(q − UsedAlready, 0), F); a cut period has its part of q
//	without a quantity     the units of T that are due in the period, and its part of the
//	                       difference between F and the units that are due from now on
//
// If T is spread over P periods, the n-th unit is due when n/T of the time has passed: period k
// gets ⌊kT/P⌋ − ⌊(k−1)T/P⌋. Of 7 units over 30 periods, 5, 9, 13, 18, 22, 26 and 30 get one.
// With L periods left, including this one, ⌈LT/P⌉ units are due from now on. F differs from that
// after a return, an append or a change of the rule. The difference is spread evenly, and the first
// periods get one unit more: ⌈(F − ⌈LT/P⌉) / L⌉. The last period gets all of F.
//
// Units carried from earlier periods (`unused: next`) come on top. The period is one of
// Schedule's under the same rule.
func Fund(rule Rule, period Span, f Figures) int64 {
	switch {
	case rule.Kind == Windows, rule.Kind == Calendar && rule.Quantity > 0:
		return min(max(period.Fixed()-f.UsedAlready, 0), f.NotFunded)
	case rule.Kind == Calendar:
		return due(period.weight(), f)
	}
	return f.NotFunded
}

// due returns a period's share, by its weight, of a total that is spread evenly.
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

// maxWeight exceeds the weight of all periods of any budget. Sums of weights fit an int64.
const maxWeight = 1 << 60

// mulDiv returns ⌊a × b / c⌋ for non-negative numbers with b ≤ c, so it is at most a.
func mulDiv(a, b, c int64) int64 {
	quotient, _ := divide(a, b, c)
	return quotient
}

// mulDivUp returns ⌈a × b / c⌉ under the same conditions.
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
