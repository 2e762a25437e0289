// Package fragment decides which units are fragments, how a recycle shares units out, and when a
// recycle pays. Its functions are pure.
//
// A fragment is a rest in a bucket that is too small to be useful there: the budget still has
// units, but no single bucket covers a request.
package fragment

// Divisor sets the threshold of a fragment: a tenth of a bucket's even share.
const Divisor = 10

// Is reports whether units are only a fragment: less than a tenth of the bucket's even share of the
// total. Units and total are minor units.
func Is(units, total int64, buckets int) bool {
	return units < total/int64(max(buckets, 1))/Divisor
}
