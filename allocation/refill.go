package allocation

import (
	"math"
	"time"

	"github.com/budgetd/budgetd/budget"
)

// Bounds of a refill. Between two applies of a steadily used bucket lies StepTime, so it asks SQL
// about every three seconds, and it never holds more than LowTime + StepTime of its use (and one
// request).
const (
	// LowTime is how long what is left must last: a bucket that holds less of its use applies.
	// Twice the second that may lie between two applies, so that the next grant is there before it
	// runs dry.
	LowTime = 2 * time.Second
	// StepTime is how long what a bucket applies for is to last.
	StepTime = 3 * time.Second
	// firstDivisor makes the first step: a tenth of the even share.
	firstDivisor = 10
)

// LowWater is the balance below which a bucket applies in the background: what it uses in LowTime
// at `rate` units a second, and at least one more request like the last one. LowWater(10, 5) is 20,
// LowWater(0, 5) is 5.
func LowWater(rate float64, request int64) int64 { return max(lasting(rate, LowTime), request, 1) }

// Refill is how many units a bucket applies for that is short of `need` and uses `rate` units a
// second: what it needs and StepTime of its use, but beside the need no more than its even share of
// what is undistributed, and never more than `bound` (sharding_quantity; 0: no bound). A bucket
// that is hardly used gets what it needs and no more. Refill(5, 100, 1000, 10, 0) is 105, Refill(5,
// 100, 1000, 10, 50) is 50.
func Refill(need int64, rate float64, undistributed int64, buckets int, bound int64) int64 {
	more := min(lasting(rate, StepTime), undistributed/int64(max(buckets, 1)))
	step := min(max(need, 1)+more, budget.MaxAmount)
	if bound > 0 {
		step = min(step, bound)
	}
	return step
}

// lasting is what is used within d, rounded up to whole units.
func lasting(rate float64, d time.Duration) int64 {
	units := math.Ceil(rate * d.Seconds())
	if units >= float64(budget.MaxAmount) {
		return budget.MaxAmount
	}
	return int64(units)
}

// FirstStep is what each of n buckets gets at first under a rule that hands out in steps (daily,
// free): before anything is used there is no rate, so it is a tenth of the even share, at least 1
// while there are units, and never more than `bound` (sharding_quantity; 0: no bound).
// FirstStep(1000, 4, 0) is 25, 25, 25, 25; FirstStep(3, 4, 0) is 1, 1, 1, 0. n below 1 gives nil.
// The shares never add up to more than units.
func FirstStep(units int64, n int, bound int64) []int64 {
	shares := Spread(units, n)
	for i, share := range shares {
		if share == 0 {
			continue
		}
		shares[i] = max(share/firstDivisor, 1)
		if bound > 0 {
			shares[i] = min(shares[i], bound)
		}
	}
	return shares
}
