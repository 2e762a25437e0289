// Package fragment holds what a fragment is and which fragments are brought together: pure rules,
// asked by the services that move the units.
//
// A fragment is the rest of a bucket that is too small to be of use where it lies: the budget
// still has the units, but no single bucket covers a request.
package fragment

// Divisor makes the mark below which a bucket's rest is a fragment: a tenth of its even share.
const Divisor = 10

// Is reports whether a bucket that holds units is only a fragment of its even share of the total:
// less than a tenth of it. All in minor units.
func Is(units, total int64, buckets int) bool {
	return units < total/int64(max(buckets, 1))/Divisor
}
