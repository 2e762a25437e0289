package books

import (
	"cmp"
	"slices"

	"github.com/budgetd/budgetd/allocation"
	"github.com/budgetd/budgetd/ledger"
)

const (
	// near is how many recent amounts a bucket has to hold to stay online: see Bring.
	near = 4
	// far is how many times what a contraction left over makes a bucket too full: 16 recent amounts
	// for each bucket that was online.
	far = 4
	// contractedFor is the shortest time, in ms, after which such a budget is recycled.
	contractedFor = 10_000
)

// bucketsOf returns the loaded buckets of a budget.
func (b *Books) bucketsOf(u *Budget) []*Bucket {
	if len(b.Budgets.All()) < 2 {
		return b.Buckets.All()
	}
	var list []*Bucket
	for _, row := range b.Buckets.All() {
		if row.Budget == u.ID {
			list = append(list, row)
		}
	}
	return list
}

// epochsOf returns the loaded epochs of a budget.
func (b *Books) epochsOf(u *Budget) []*Epoch {
	if len(b.Budgets.All()) < 2 {
		return b.Epochs.All()
	}
	var list []*Epoch
	for _, e := range b.Epochs.All() {
		if e.Budget == u.ID {
			list = append(list, e)
		}
	}
	return list
}

// Availability returns I3's sum of a budget in ledger mode, before anything is moved. Its buckets,
// their newest epochs and every epoch with units are loaded, and Applied.
func (b *Books) Availability(u *Budget) ledger.Availability {
	c := ledger.Availability{Undistributed: u.Undistributed, Allocated: u.Allocated,
		Later: u.Unfunded}
	if !b.anyMayApply(u) {
		c.Undistributed = b.returnedUnits(u)
	}
	passes := u.Unused == "next" || u.Unused == "whole"
	late := u.LateRefund == "next" || u.Unused == "whole" && u.LateRefund != "forfeit"
	for _, e := range b.epochsOf(u) {
		own := e.Period == u.Period
		outstanding, returning := int64(0), int64(0)
		if own || passes {
			outstanding, returning = e.Outstanding, e.Returning-e.Late
		}
		if own || late {
			returning += e.Late
		}
		c.Outstanding += outstanding
		c.Returning += returning
		c.Later += e.Outstanding + e.Returning - outstanding - returning
	}
	for i := range b.Ended {
		if b.Ended[i].IsBelow(u.ID) {
			c.Descendants += b.Ended[i].Units
		}
	}
	return c
}

// anyMayApply reports whether some bucket may apply for units that no bucket had before. A budget
// without a bucket for that has none because an operator took all of them offline, and one that is
// brought online may apply.
func (b *Books) anyMayApply(u *Budget) bool {
	none := true
	for _, row := range b.bucketsOf(u) {
		if row.OfflineBy == "" || row.OfflineBy == byService {
			none = false
			if u.AdjustCnt == 0 || row.OutCnt < u.AdjustCnt {
				return true
			}
		}
	}
	return none
}

// Serving returns the bucket that serves the operations that wait for a budget: of those that are
// online and may take units, the fullest. If no bucket is online, one that the service took offline
// begins its next epoch. The result is nil if only an operator can bring a bucket online.
func (b *Books) Serving(u *Budget) *Bucket {
	if list := b.takers(u); len(list) > 0 {
		return list[0]
	}
	for _, row := range b.bucketsOf(u) {
		if row.OfflineBy == byService && !b.newest(row).live() {
			b.beginNext(u, row)
			return row
		}
	}
	return nil
}

// takers returns the buckets that are online and may take units of the open period, the fullest
// first.
func (b *Books) takers(u *Budget) (list []*Bucket) {
	for _, row := range b.bucketsOf(u) {
		if e := b.newest(row); row.Status == Online && e.mayGrow() && e.Period == u.Period {
			list = append(list, row)
		}
	}
	slices.SortStableFunc(list, func(x, y *Bucket) int {
		return cmp.Compare(b.newest(y).Outstanding, b.newest(x).Outstanding)
	})
	return list
}

// Alone reports whether at most one bucket takes deductions of the open period.
func (b *Books) Alone(u *Budget) bool { return len(b.takers(u)) <= 1 }

// Reach returns the most units that a bucket can have after Bring: its own, those of U that some
// bucket may apply for, and those of the others.
func (b *Books) Reach(u *Budget, target *Bucket) int64 {
	units := u.releasable(b.NowMS)
	if b.applicant(u, target) == nil {
		units = min(units, b.returnedUnits(u))
	}
	for _, row := range b.donors(u, target) {
		units += b.newest(row).Outstanding
	}
	return units + b.newest(target).Outstanding
}

// donors returns the buckets other than the target that have units for the open period, the fullest
// first.
func (b *Books) donors(u *Budget, target *Bucket) (list []*Bucket) {
	for _, row := range b.bucketsOf(u) {
		e := b.newest(row)
		if row != target && e.mayGrow() && e.Period == u.Period && e.Outstanding > 0 {
			list = append(list, row)
		}
	}
	slices.SortStableFunc(list, func(x, y *Bucket) int {
		return cmp.Compare(b.newest(y).Outstanding, b.newest(x).Outstanding)
	})
	return list
}

// applicant returns the bucket on which an application for units of the target counts: the target,
// or another that may still apply (adjust_cnt). It is nil if none may.
func (b *Books) applicant(u *Budget, target *Bucket) *Bucket {
	if u.AdjustCnt == 0 || target.OutCnt < u.AdjustCnt {
		return target
	}
	for _, row := range b.bucketsOf(u) {
		if row.OutCnt < u.AdjustCnt && (row.OfflineBy == "" || row.OfflineBy == byService) {
			return row
		}
	}
	return nil
}

// Bring moves units into O of a bucket, so that it has at least taken, which is within Reach: first
// units of U that came back, then the usual step of U, then units of other buckets, the fullest
// first. R is swept before.
//
// Near the end of a budget it brings everything: if what is in reach is at most four times the
// recent amount for each bucket that is online, the target gets all of it, and the others go
// offline, by the service. They come back when more than that bound is handed out again. recent is
// what a usual deduction takes; 0 means that nobody knows, and nothing contracts.
func (b *Books) Bring(u *Budget, target *Bucket, taken, recent int64) {
	reach, online := b.Reach(u, target), b.takers(u)
	bound := near * int64(len(online)) * recent
	contract := len(online) > 1 && reach <= bound
	if contract {
		taken = reach
	}
	b.bring(u, target, taken-b.newest(target).Outstanding)
	if !contract {
		return
	}
	u.ContractionBound, u.ContractedMS = bound, b.NowMS
	for _, row := range online {
		if row != target {
			b.takeOffline(u, row, byService)
		}
	}
}

func (b *Books) bring(u *Budget, target *Bucket, need int64) {
	free := u.releasable(b.NowMS)
	if u.AdjustCnt > 0 {
		if back := min(b.returnedUnits(u), need, free); back > 0 {
			b.give(u, target, Again, back)
			u.Undistributed -= back
			need, free = need-back, free-back
		}
	}
	if by := b.applicant(u, target); by != nil && min(need, free) > 0 {
		usual := allocation.Step(need, free, int(b.takersOf(u)), u.Sharding)
		units := min(max(usual, need), free)
		b.give(u, target, Apply, units)
		target.OutCnt--
		by.OutCnt++
		u.Undistributed -= units
		need -= units
	}
	sum := int64(0)
	for _, row := range b.donors(u, target) {
		e := b.newest(row)
		units := min(e.Outstanding, need-sum)
		if units <= 0 {
			break
		}
		e.Outstanding -= units
		e.Closed += units
		sum += units
	}
	b.give(u, target, Collect, sum)
}
