package allocation

import (
	"math"
	"time"

	"github.com/budgetd/budgetd/budget"
)

// Bounds of a refill. A steadily used bucket applies about every StepTime, and never holds more
// than LowTime + StepTime of its use and one request.
const (
	// LowTime is the supply below which a bucket applies. It is twice the second that may pass
	// between two applies, so the next grant arrives before the bucket runs dry.
	LowTime = 2 * time.Second
	// StepTime is the supply that a bucket applies for.
	StepTime = 3 * time.Second
	// firstDivisor sets the first step: a tenth of the even share.
	firstDivisor = 10
)

// LowWater is the balance below which a bucket applies in the background: what it uses in LowTime
// at `rate` units a second, and at least one more request like the recent ones, whose mean is
// `request`. LowWater(10, 5) is 20, LowWater(0, 5) is 5.
func LowWater(rate float64, request int64) int64 { return max(lasting(rate, LowTime), request, 1) }

// Refill returns how many units a bucket applies for that lacks `need` and uses `rate` units a
// second: need plus StepTime of its use. The excess over need is at most the even share of the
// undistributed units, and the sum at most `bound` (sharding_quantity; 0 means no bound). A bucket
// that is hardly used gets only what it needs. Refill(5, 100, 1000, 10, 0) is 105, Refill(5, 100,
// 1000, 10, 50) is 50.
func Refill(need int64, rate float64, undistributed int64, buckets int, bound int64) int64 {
	more := min(lasting(rate, StepTime), undistributed/int64(max(buckets, 1)))
	step := min(max(need, 1)+more, budget.MaxAmount)
	if bound > 0 {
		step = min(step, bound)
	}
	return step
}

// lasting returns the use within d, rounded up to whole units.
func lasting(rate float64, d time.Duration) int64 {
	units := math.Ceil(rate * d.Seconds())
	if units >= float64(budget.MaxAmount) {
		return budget.MaxAmount
	}
	return int64(units)
}

// FirstStep returns the first grants of n buckets under a rule that hands out in steps (daily,
// free). There is no rate before the first use, so each is a tenth of the even share, at least 1
// while units last, and at most `bound` (sharding_quantity; 0 means no bound). FirstStep(1000, 4,
// 0) is 25, 25, 25, 25; FirstStep(3, 4, 0) is 1, 1, 1, 0. n below 1 gives nil. The shares never add
// up to more than units.
func FirstStep(units int64, n int, bound int64) []int64 {
	shares := Divide(units, n)
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
