// Package allocation says what the next apply may take (DESIGN 7): pure functions of a rule and
// figures. This version knows promo budgets, which hand out everything at once.
package allocation

// Spread divides units over n buckets: evenly, the remainder one by one to the first. The shares
// add up to units exactly. Spread(10, 4) is 3, 3, 2, 2. n below 1 gives nil.
func Spread(units int64, n int) []int64 {
	if n < 1 {
		return nil
	}
	shares := make([]int64, n)
	for i := range shares {
		shares[i] = units / int64(n)
		if int64(i) < units%int64(n) {
			shares[i]++
		}
	}
	return shares
}

// Step is how many units a bucket applies for when it needs `need` more: its even share of what is
// undistributed, so that a few applies do not starve the others, but never less than it needs and
// never more than `bound` (0: no bound).
func Step(need, undistributed int64, buckets int, bound int64) int64 {
	step := max(need, undistributed/int64(max(buckets, 1)))
	if bound > 0 {
		step = min(step, bound)
	}
	return step
}

// LowWater is the balance below which a bucket applies in the background: a tenth of its even
// share of the total, at least 1.
func LowWater(total int64, buckets int) int64 {
	return max(total/int64(max(buckets, 1))/10, 1)
}
