package books

import (
	"cmp"
	"slices"
	"time"

	"github.com/budgetd/budgetd/budget"
	"github.com/budgetd/budgetd/fragment"
)

// Used is what a bucket used recently, as its newest feed entries show, or a node's syncs of its
// store.
type Used struct {
	// Units is their sum and Largest the largest of them, in minor units. SinceMS is when the first
	// was counted.
	Units, Largest, SinceMS int64
}

// Layout is where the units of a budget are that a recycle may move.
type Layout struct {
	// Units is what total and buckets hold. Least is the smallest share worth a bucket of its own.
	Units, Least int64
	// Holdings are of the buckets that a recycle may use, by ordinal: those with an open epoch of
	// the open period, and those that the service took offline, unless a contraction left over at
	// least these units (Bring). In a store the epoch may be opening, and a bucket may be online
	// without one. Skipped counts those that are halted, closing or Away.
	Holdings []fragment.Holding
	Skipped  int64
	// Outgrown means that a contraction is over: its buckets again hold more than 16 recent amounts
	// for each bucket that was online then, and ten seconds have passed.
	Outgrown bool

	fit []*Bucket
}

// Stranded returns the units that are in buckets with too little demand for them.
func (l *Layout) Stranded() int64 { return fragment.Stranded(l.Holdings, l.Least) }

// Layout returns where the units of a budget are. Its buckets, their newest epochs, its open period
// and Used are loaded.
func (b *Books) Layout(u *Budget) (l Layout) {
	l.Units = u.Undistributed
	largest := int64(0)
	for _, used := range b.Used {
		largest = max(largest, used.Largest)
	}
	p := b.PeriodOf(u) // what the open period got is all that buckets share
	l.Least = fragment.Least(p.Funded+p.Carried, int(u.Buckets), largest)
	for _, row := range b.bucketsOf(u) {
		e, used := b.newest(row), b.Used[row.ID]
		if e == nil { // rows that were read without locks
			continue
		}
		if e.live() {
			l.Units += e.Outstanding
		}
		switch {
		case b.Away[row.ID], e.live() && (e.Halted != "" || e.Status == Closing):
			l.Skipped++
		case b.mayTake(u, row):
			l.fit = append(l.fit, row)
			l.Holdings = append(l.Holdings, fragment.Holding{Bucket: row.ID, Units: e.Outstanding,
				Demand: fragment.Rate(used.Units, time.Duration(b.NowMS-used.SinceMS)*time.Millisecond)})
		}
	}
	l.Outgrown = u.ContractionBound > 0 && l.Units > far*u.ContractionBound &&
		b.NowMS-u.ContractedMS >= contractedFor
	if l.Units <= u.ContractionBound && slices.ContainsFunc(l.fit, (*Bucket).isOnline) {
		l.leaveOffline()
	}
	return l
}

// leaveOffline leaves out the buckets that are offline.
func (l *Layout) leaveOffline() {
	fit, holdings := l.fit, l.Holdings
	l.fit, l.Holdings = nil, nil
	for i, row := range fit {
		if row.isOnline() {
			l.fit, l.Holdings = append(l.fit, row), append(l.Holdings, holdings[i])
		}
	}
}

func (r *Bucket) isOnline() bool { return r.Status == Online }

// Collected is what a recycle in stores found and did before its last step.
type Collected struct {
	// Units and Stranded are those of the layout before the first step, which began at BeganMS. Moved
	// is what the closed epochs had.
	Units, Stranded, Moved, BeganMS int64
}

// Recycle sweeps a budget, and brings each of its buckets to its share of all units by recent
// demand (fragment.Shares). Those above it give first, those below it get afterwards. A bucket
// without a share goes offline, unless it is the last one; one that the service took offline begins
// an epoch for its share. Counts of applications start from 0. It returns the report, a new row.
// In stores it is the last step, after those of CloseAbove: nobody gives, and none goes offline.
// Errors: BudgetExpired if the budget has no open period. Keeps I1.
func (b *Books) Recycle(u *Budget, cause Word, before *Collected) (*Run, error) {
	l, moved, err := b.ShareOut(u)
	if err != nil {
		return nil, err
	}
	run := b.Runs.Add(Run{Budget: u.ID, Number: u.NextRun, Cause: cause,
		Buckets: int64(len(l.fit)), Skipped: l.Skipped, Moved: moved, UnitsBefore: l.Units,
		StrandedBefore: l.Stranded(), BeganAt: b.NowMS, EndedAt: b.NowMS})
	if before != nil {
		run.UnitsBefore, run.StrandedBefore = before.Units, before.Stranded
		run.Moved, run.BeganAt = before.Moved, before.BeganMS
	}
	u.NextRun++
	after := b.Layout(u)
	run.UnitsAfter, run.StrandedAfter = after.Units, after.Stranded()
	return run, nil
}

// ShareOut is Recycle without a report. It returns the layout before it, and how many units left a
// bucket.
func (b *Books) ShareOut(u *Budget) (l Layout, moved int64, err error) {
	if err := b.mustBeOpen(u, "recycle"); err != nil {
		return l, 0, err
	}
	b.Sweep(u)
	l = b.Layout(u)
	if u.Unlimited == 1 {
		return l, 0, nil
	}
	for _, row := range l.fit {
		row.OutCnt, row.CollectCnt = 0, 0
	}
	if !u.stays(&l) {
		moved = b.exchange(u, &l)
	}
	return l, moved, nil
}

// stays reports whether a budget in stores is so near its end that its units stay in U (Supply).
func (u *Budget) stays(l *Layout) bool {
	return u.Durability == inStore && l.Units <= u.ContractionBound
}

// shares returns what the buckets of a layout are to hold, by recent demand.
func (b *Books) shares(u *Budget, l *Layout) []int64 {
	return fragment.Shares(u.releasable(b.NowMS)+fragment.Sum(l.Holdings), l.Holdings, l.Least)
}

// exchange brings buckets to their shares, and returns how many units left a bucket. A bucket in a
// store keeps what it has above its share.
func (b *Books) exchange(u *Budget, l *Layout) (moved int64) {
	if u.releasable(b.NowMS)+fragment.Sum(l.Holdings) > u.ContractionBound {
		u.ContractionBound = 0
	}
	shares := b.shares(u, l)
	for i, row := range l.fit {
		e, share := b.newest(row), shares[i]
		over := e.Outstanding - share
		switch {
		case u.Durability == inStore:
		case share == 0 && row.Status == Online && e.live() && !b.isLast(u, row):
			moved += over
			b.takeOffline(u, row, byService)
		case over > 0:
			moved += over
			e.Outstanding -= over
			e.Closed += over
			b.returnUnits(u, e, over, 0)
		}
	}
	for i, row := range l.fit {
		if shares[i] == 0 {
			continue
		}
		if !b.newest(row).live() {
			b.beginNext(u, row)
		}
		short := min(shares[i]-b.newest(row).Outstanding, u.releasable(b.NowMS))
		if short > 0 {
			b.give(u, row, Again, short)
			u.Undistributed -= short
		}
	}
	return moved
}

// CloseAbove is a step of a recycle in stores, before the last one, which is Recycle. It sets open
// epochs that have more than the share of their bucket to closing: mostDonors at most, those with
// the most above it first, and none of the buckets in done. Near the end of a budget nothing moves.
// It returns the layout before the step, and the units of all epochs that have to be closed now.
// Repeat it until nothing is to be closed. Errors: BudgetExpired if the budget has no open period.
// Keeps I1.
func (b *Books) CloseAbove(u *Budget, done map[int64]bool) (l Layout, closing map[int64]int64,
	err error) {
	if err := b.mustBeOpen(u, "recycle"); err != nil {
		return l, nil, err
	}
	b.Sweep(u)
	l = b.Layout(u)
	closing = map[int64]int64{}
	if u.Unlimited == 1 || u.stays(&l) {
		return l, closing, nil
	}
	above, donors := map[*Epoch]int64{}, []*Epoch(nil)
	for i, share := range b.shares(u, &l) {
		e := b.newest(l.fit[i])
		if above[e] = e.Outstanding - share; e.Status == Open && above[e] > 0 && !done[e.Bucket] {
			donors = append(donors, e)
		}
	}
	slices.SortStableFunc(donors, func(x, y *Epoch) int { return cmp.Compare(above[y], above[x]) })
	for _, e := range donors[:min(len(donors), mostDonors)] {
		b.end(u, e)
	}
	for _, row := range b.bucketsOf(u) { // an attempt with an unknown commit may have begun some
		e := b.newest(row)
		if e.Status == Closing && e.Halted == "" && !b.Away[row.ID] && !done[row.ID] {
			closing[row.ID] = e.Outstanding
		}
	}
	return l, closing, nil
}

// mustBeOpen refuses a movement of a budget without an open period: BudgetExpired.
func (b *Books) mustBeOpen(u *Budget, op string) error {
	if !b.PeriodOf(u).OverAt(at(b.NowMS)) {
		return nil
	}
	return budget.Refuse(budget.BudgetExpired, op,
		"budget %s has no open period: its last one ended at %s", u.Name,
		at(u.PeriodEndMS).Format(time.RFC3339))
}
