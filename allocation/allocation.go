// Package allocation says what the next apply may take (DESIGN 7): pure functions of a rule,
// instants and figures, without a clock or a time zone database of their own.
//
// A promo budget hands out everything at once (Spread, Step, LowWater). A daily budget has
// periods:
//
//	Rule      what the operator wrote; CheckRule, Canonical, ReadRule
//	Schedule  the rule in a zone, from the budget's start to its end: which periods there are
//	Fund      how many of the units that are not yet funded a period gets when it opens
//	Begin     the first period; Next the one that follows another
//	RollOver  ends a period and opens the next one
//	Return    where units go that come back when their period is over
//	Change    what becomes of the open period under another definition
//	TopUp     how many units more it gets after an append, or under another rule
//
// # What a period is
//
// A pair of instants, so that no later look at a clock can move it. Both come from readings of
// the zone's clock, and a clock that is put forward or back must not lose, repeat or overlap a
// period:
//
//   - Days, weeks, months and windows begin at the first instant at which the clock reads their
//
// beginning or later. Where midnight is left out, the day begins with the first instant after the
// gap; a day, or a window, that is left out as a whole is no period. A reading that comes twice
//
//		counts when it comes first: the window 00:00-01:30 ends at the first 01:30, and 01:30-03:00
//		covers the rest of both hours.
//	  - Hours begin on the full hour of the clock and whenever the clock is put. So the hour that is
//	    repeated makes two periods of an hour each; where a clock is put by half an hour, or in the
//	    middle of an hour, the pieces are periods too.
//	  - A week begins on Monday (ISO 8601), a month on the first, a day at midnight, unless the rule
//
// has
//
//	an anchor. The month that has no 31st begins with its last day.
//
// - The budget's start and end cut the first and the last period. Each gets its part, by the
// time,
//
//	of what a whole one gets, unless the rule says that it counts as a whole one.
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

// Step is how many units a bucket applies for where applies are counted (adjust_cnt) or an
// operator
// asks for one: its even share of what is undistributed, so that a few applies do not starve the
// others, but never less than it needs and never more than `bound` (0: no bound). In all other
// cases: Refill.
func Step(need, undistributed int64, buckets int, bound int64) int64 {
	step := max(need, undistributed/int64(max(buckets, 1)))
	if bound > 0 {
		step = min(step, bound)
	}
	return step
}
