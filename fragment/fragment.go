// Package fragment holds what a fragment is and which fragments are brought together: pure rules,
// asked by the services that move the units.
//
// A fragment is the rest of a bucket that is too small to be of use where it lies: the budget
// still has the units, but no single bucket covers a request.
package fragment

import "slices"

// Divisor makes the mark below which a bucket's rest is a fragment: a tenth of its even share.
const Divisor = 10

// Is reports whether a bucket that holds units is only a fragment of its even share of the total:
// less than a tenth of it. All in minor units.
func Is(units, total int64, buckets int) bool {
	return units < total/int64(max(buckets, 1))/Divisor
}

// Donor is a bucket that may give what it holds, in minor units.
type Donor struct {
	Bucket int64
	Units  int64
}

// Part is how much of a donor's units a collect brings to its target where requests do not move to
// where units are: half, which leaves the other half for the requests of the rest, or all where
// that does not cover need. In minor units.
func Part(units, need int64) int64 {
	if units/2 >= need {
		return units / 2
	}
	return units
}

// Donors chooses the buckets whose units a collect brings to its target: the largest first, so that
// as few as possible go offline, until need is covered, or all of them if it is not. Buckets that
// hold nothing are left alone. Equal ones are taken in the order of their ids, so every node
// chooses alike. donors is not changed.
func Donors(donors []Donor, need int64) []Donor {
	chosen := slices.DeleteFunc(slices.Clone(donors), func(d Donor) bool { return d.Units <= 0 })
	slices.SortFunc(chosen, func(a, b Donor) int {
		if a.Units != b.Units {
			return int(min(max(b.Units-a.Units, -1), 1))
		}
		return int(min(max(a.Bucket-b.Bucket, -1), 1))
	})
	for i, d := range chosen {
		if need <= 0 {
			return chosen[:i]
		}
		need -= d.Units
	}
	return chosen
}
