package books

import (
	"cmp"
	"slices"
)

// mostDonors bounds the epochs that one CloseDonors takes.
const mostDonors = 16

// CloseDonors sets epochs in stores to closing, those with the most units first and mostDonors at
// most, until they and U cover the need of a bucket. Without a bucket the need is the budget's: F
// counts as well. Epochs that are closing already count. It returns the buckets whose units are on
// their way.
func (b *Books) CloseDonors(u *Budget, target, need int64) (donors []int64) {
	missing := need - u.Undistributed
	if target == 0 {
		missing -= u.Unfunded
	}
	var open []*Epoch
	for _, row := range b.Buckets.All() {
		e := b.newest(row)
		switch {
		case row.ID == target || e.Halted != "":
		case e.Status == Closing: // somebody has begun with it
			missing -= e.Outstanding
			donors = append(donors, row.ID)
		case e.Status == Open && e.Outstanding > 0:
			open = append(open, e)
		}
	}
	slices.SortStableFunc(open, func(x, y *Epoch) int {
		return cmp.Compare(y.Outstanding, x.Outstanding)
	})
	for _, e := range open[:min(len(open), mostDonors)] {
		if missing <= 0 {
			break
		}
		missing -= e.Outstanding
		b.end(u, e)
		donors = append(donors, e.Bucket)
	}
	return donors
}

// Close sets the epoch of a bucket in a store to closing, unless it has ended or is halted.
func (b *Books) Close(u *Budget, row *Bucket) {
	if e := b.newest(row); e.live() && e.Halted == "" {
		b.end(u, e)
	}
}

// RestartCounts lets the counts of applications of all buckets start from 0.
func (b *Books) RestartCounts() {
	for _, row := range b.Buckets.All() {
		row.OutCnt, row.CollectCnt = 0, 0
	}
}

// Granted returns the buckets that got new grants.
func (b *Books) Granted() (buckets []int64) {
	for _, g := range b.Grants.All() {
		buckets = append(buckets, g.Bucket)
	}
	return buckets
}
