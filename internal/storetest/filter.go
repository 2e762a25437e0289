package storetest

import "github.com/budgetd/budgetd/bucket"

// set sets one content.
func (k *kit) set(fill, outstanding, added int64) {
	k.Helper()
	k.must(
		k.Store.Set(k.Context(), k.partition(0),
			[]bucket.Level{{Bucket: 1, Fill: fill, Outstanding: outstanding, Added: added}}),
	)
}

// take takes from one content.
func (k *kit) take(fill, back int64, amounts []int64, want bucket.Taken) {
	k.Helper()
	got, err := k.Store.Take(k.Context(), k.partition(0),
		[]bucket.Take{{Bucket: 1, Fill: fill, Back: back, Amounts: amounts}})
	k.must(err)
	k.same("take", got, []bucket.Taken{want})
}

// filterSet checks that the effect of a set depends on the present fill.
func filterSet(k *kit) {
	stale := bucket.Taken{Stale: true, Fits: []bool{}}
	k.take(1, 0, []int64{}, stale)
	k.set(3, 100, 7) // missing
	k.take(3, 0, []int64{}, bucket.Taken{Fill: 3, Balance: 100, Fits: []bool{}})
	k.set(3, 500, 500) // again
	k.set(2, 500, 500) // late
	k.take(3, 0, []int64{}, bucket.Taken{Fill: 3, Balance: 100, Fits: []bool{}})
	k.set(4, 500, 11) // the next
	k.take(3, 0, []int64{}, bucket.Taken{Fill: 4, Balance: 111, Fits: []bool{}})
	k.set(9, 42, 11) // some were lost
	k.take(9, 0, []int64{}, bucket.Taken{Fill: 9, Balance: 42, Fits: []bool{}})
	k.take(10, 0, []int64{}, stale)
}

// filterTake checks that amounts are taken in order, that those that do not fit are skipped, and
// that returned units are added first.
func filterTake(k *kit) {
	k.set(1, 10, 10)
	k.take(1, 0, []int64{4, 7, 6, 1},
		bucket.Taken{Fill: 1, Balance: 0, Fits: []bool{true, false, true, false}})
	k.take(1, 5, []int64{6, 5, 1}, bucket.Taken{Fill: 1, Balance: 0, Fits: []bool{false, true, false}})
	k.take(2, 5, []int64{1}, bucket.Taken{Stale: true, Fits: []bool{false}})
	k.take(1, 0, []int64{1}, bucket.Taken{Fill: 1, Balance: 0, Fits: []bool{false}})
	var levels []bucket.Level
	var takes []bucket.Take
	const many = 2500 // more than one run of a script handles
	for i := range int64(many) {
		levels = append(levels, bucket.Level{Bucket: i + 100, Fill: 1, Outstanding: i})
		takes = append(takes, bucket.Take{Bucket: i + 100, Fill: 1, Amounts: []int64{1250, 1}})
	}
	k.must(k.Store.Set(k.Context(), k.partition(0), levels))
	got, err := k.Store.Take(k.Context(), k.partition(0), takes)
	k.must(err)
	for i, taken := range got {
		want := bucket.Taken{Fill: 1, Balance: int64(i), Fits: []bool{i >= 1250, i > 0 && i != 1250}}
		for j, fits := range want.Fits {
			if fits {
				want.Balance -= takes[i].Amounts[j]
			}
		}
		k.same("many", taken, want)
	}
}

// filterFar checks that a fill far above SQL's, or out of range, is ignored.
func filterFar(k *kit) {
	k.set(1<<33, 10, 10)
	k.take(1, 0, []int64{1}, bucket.Taken{Stale: true, Fits: []bool{false}})
	k.take(1<<33, 0, []int64{1}, bucket.Taken{Stale: true, Fits: []bool{false}}) // it was removed
	k.set(1<<33, 10, 10)
	k.take(1<<33-1<<32, 0, []int64{1}, bucket.Taken{Fill: 1 << 33, Balance: 9, Fits: []bool{true}})
	k.set(5, 3, 3)
	k.take(5, 0, []int64{1}, bucket.Taken{Fill: 5, Balance: 2, Fits: []bool{true}})
}
