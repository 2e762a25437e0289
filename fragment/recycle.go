package fragment

import (
	"cmp"
	"math/bits"
	"slices"
	"time"
)

// Holding is what a bucket holds, in minor units, and how fast its units were used recently.
type Holding struct {
	Bucket int64
	Units  int64
	// Demand is a Rate: 0 … MaxRate.
	Demand int64
}

// MaxRate is the highest rate; higher ones count as MaxRate. The sum over 1,024 buckets fits an
// int64.
const MaxRate = int64(1) << 52

// Rate returns the demand of deductions of so many minor units over a time: minor units an hour,
// rounded down, at most MaxRate. Less than a millisecond counts as one. Rate(5, 10*time.Second) is
// 1800.
func Rate(units int64, over time.Duration) int64 {
	if units <= 0 {
		return 0
	}
	ms := uint64(max(over.Milliseconds(), 1))
	high, low := bits.Mul64(uint64(units), uint64(time.Hour.Milliseconds()))
	if high >= ms {
		return MaxRate
	}
	rate, _ := bits.Div64(high, low, ms)
	return int64(min(rate, uint64(MaxRate)))
}

// Least returns the smallest share worth a bucket of its own, in minor units. A bucket below it
// holds a fragment, or less than the largest of the recent requests, so that each request of that
// size would need a collect.
func Least(total int64, buckets int, largest int64) int64 {
	return max(total/int64(max(buckets, 1))/Divisor, largest)
}

// Shares divides units over buckets by demand, in the order of the holdings. The shares add up to
// units exactly.
//
// Each bucket's weight is its demand plus a tenth of the mean demand, so that a bucket without
// demand gets units again. The buckets with the largest weights share the units: as many as can
// have twice `least` each, but at least one. A budget thus contracts to one bucket as it runs out.
// Each of these buckets gets `least` and its part of the rest. Ties are broken by bucket, so all
// nodes divide alike. Shares(100, {demands 3000, 1000}, 0) is 72, 28: the weights are 3000 + 200
// and 1000 + 200.
func Shares(units int64, holdings []Holding, least int64) []int64 {
	shares := make([]int64, len(holdings))
	if len(holdings) == 0 || units <= 0 {
		return shares
	}
	order, weights := byWeight(holdings)
	if least > 0 {
		order = order[:min(int64(len(order)), max(units/2/least, 1))]
	}
	first := int64(0)
	if len(order) > 1 {
		first = least
	}
	sum := uint64(0)
	for _, i := range order {
		sum += weights[i]
	}
	// Each share is the difference of two rounded sums, so that no unit is lost by rounding.
	rest, before, until := units-first*int64(len(order)), int64(0), uint64(0)
	for _, i := range order {
		until += weights[i]
		after := part(rest, until, sum)
		shares[i], before = first+after-before, after
	}
	return shares
}

// byWeight returns the indexes of the holdings, heaviest first, and their weights.
func byWeight(holdings []Holding) (order []int, weights []uint64) {
	sum := uint64(0)
	for _, h := range holdings {
		sum += uint64(min(max(h.Demand, 0), MaxRate))
	}
	base := max(sum/uint64(10*len(holdings)), 1)
	weights = make([]uint64, len(holdings))
	order = make([]int, len(holdings))
	for i, h := range holdings {
		weights[i], order[i] = uint64(min(max(h.Demand, 0), MaxRate))+base, i
	}
	slices.SortFunc(order, func(a, b int) int {
		return cmp.Or(cmp.Compare(weights[b], weights[a]),
			cmp.Compare(holdings[a].Bucket, holdings[b].Bucket))
	})
	return order, weights
}

// part returns units · weight / sum, rounded down; weight ≤ sum.
func part(units int64, weight, sum uint64) int64 {
	high, low := bits.Mul64(uint64(units), weight)
	quotient, _ := bits.Div64(high, low, sum)
	return int64(quotient)
}

// Sum returns the units of all holdings, in minor units.
func Sum(holdings []Holding) (units int64) {
	for _, h := range holdings {
		units += h.Units
	}
	return units
}

// Stranded returns how many units are in buckets with too little demand for them, in minor units. A
// bucket that holds more than twice its share strands what it holds above that share. A bucket
// without a share strands all that it holds.
func Stranded(holdings []Holding, least int64) (units int64) {
	for i, share := range Shares(Sum(holdings), holdings, least) {
		if surplus := holdings[i].Units - share; surplus > share {
			units += surplus
		}
	}
	return units
}

// Asks reports whether stranded units justify a recycle: they are more than the part `above` (0 …
// 1) of units, and at least `least`.
func Asks(stranded, units, least int64, above float64) bool {
	return stranded > 0 && stranded >= least && float64(stranded) > above*float64(units)
}
