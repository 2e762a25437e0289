// Package allocation decides how many units an apply may take and what the periods of a daily
// budget are. Its functions are pure: they map rules, instants and figures to decisions, without
// reading a clock.
//
// A promo budget hands out everything at once (Divide, Step, LowWater). A daily budget has
// periods:
//
//	Rule      what the operator wrote; CheckRule, Canonical
//	Schedule  the rule in a zone, from the budget's start to its end: which periods there are
//	Fund      how many of the unfunded units a period gets when it opens
//	Begin     the first period; Next the one that follows another
//	RollOver  ends a period and opens the next one
//	Return    where units go that come back after the end of their period
//	Change    what happens to the open period under another definition
//	TopUp     how many more units it gets after an append, or under another rule
//
// # What a period is
//
// A period is a pair of instants, so a later change of a zone's rules cannot move it. Both instants
// are derived from the zone's local time. A change of the zone's offset must not lose, repeat or
// overlap a period:
//
//   - Days, weeks, months and windows begin at the first instant at which the clock shows their
//     beginning or later. Where midnight is skipped, the day begins with the first instant after
//     the gap; a day or window that is skipped as a whole is not a period. Where a local time
//     occurs twice, the first one counts: the window 00:00-01:30 ends at the first 01:30, and
//     01:30-03:00 covers the rest of both hours.
//   - Hours begin on the full hour of the clock and whenever the offset changes. A repeated hour
//     is two periods of an hour each; where the offset changes by half an hour, or in the middle
//     of an hour, the pieces are periods too.
//   - A week begins on Monday (ISO 8601), a month on the first, a day at midnight, unless the
//     rule has an anchor. A month without a 31st begins on its last day.
//   - The budget's start and end cut the first and the last period. Each gets its share, by
//     time, of a whole period, unless the rule counts it as a whole one.
package allocation

// Divide divides units evenly over n buckets; the first ones get one unit more while the remainder
// lasts. The shares add up to units exactly. Divide(10, 4) is 3, 3, 2, 2. n below 1 gives nil.
func Divide(units int64, n int) []int64 {
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

// Step returns how many units a bucket applies for if applies are counted (adjust_cnt) or an
// operator asks for one; Refill covers all other cases. The result is the even share of the
// undistributed units, so that a few applies do not starve the other buckets. It is at least need
// and at most `bound` (0 means no bound).
func Step(need, undistributed int64, buckets int, bound int64) int64 {
	step := max(need, undistributed/int64(max(buckets, 1)))
	if bound > 0 {
		step = min(step, bound)
	}
	return step
}
