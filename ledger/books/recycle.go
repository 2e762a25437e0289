package books

import (
	"slices"
	"time"

	"github.com/budgetd/budgetd/budget"
	"github.com/budgetd/budgetd/fragment"
)

// Used is what a bucket used recently, as its newest feed entries show.
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
	// least these units (Bring). Skipped counts the halted ones.
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
	for _, row := range b.Buckets.All() {
		e, used := b.newest(row), b.Used[row.ID]
		if e == nil { // rows that were read without locks
			continue
		}
		if e.Status == Open {
			l.Units += e.Outstanding
		}
		switch {
		case e.live() && e.Halted != "":
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

// Recycle sweeps a budget, and brings each of its buckets to its share of all units by recent
// demand (fragment.Shares). Those above it give first, those below it get afterwards. A bucket
// without a share goes offline, unless it is the last one; one that the service took offline begins
// an epoch for its share. Counts of applications start from 0. It returns the report, a new row.
// Errors: BudgetExpired if the budget has no open period. Keeps I1.
func (b *Books) Recycle(u *Budget, cause Word) (*Run, error) {
	if err := b.mustBeOpen(u, "recycle"); err != nil {
		return nil, err
	}
	b.Sweep(u)
	l := b.Layout(u)
	run := b.Runs.Add(Run{Budget: u.ID, Number: u.NextRun, Cause: cause,
		Buckets: int64(len(l.fit)), Skipped: l.Skipped, UnitsBefore: l.Units,
		StrandedBefore: l.Stranded(), BeganAt: b.NowMS, EndedAt: b.NowMS})
	u.NextRun++
	if u.Unlimited == 0 {
		run.Moved = b.exchange(u, &l)
	}
	after := b.Layout(u)
	run.UnitsAfter, run.StrandedAfter = after.Units, after.Stranded()
	return run, nil
}

// exchange brings buckets to their shares, and returns how many units left a bucket.
func (b *Books) exchange(u *Budget, l *Layout) (moved int64) {
	units := u.releasable(b.NowMS) + fragment.Sum(l.Holdings)
	if units > u.ContractionBound {
		u.ContractionBound = 0
	}
	shares := fragment.Shares(units, l.Holdings, l.Least)
	for i, row := range l.fit {
		e, share := b.newest(row), shares[i]
		row.OutCnt, row.CollectCnt = 0, 0
		over := e.Outstanding - share
		switch {
		case share == 0 && row.Status == Online && e.live() && !b.isLast(u, row):
			moved += over
			b.takeOffline(u, row, byService)
		case over > 0:
			moved += over
			e.Outstanding -= over
			e.Closed += over
			b.comeBack(u, e, over, 0)
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

// mustBeOpen refuses a movement of a budget without an open period: BudgetExpired.
func (b *Books) mustBeOpen(u *Budget, op string) error {
	if !b.PeriodOf(u).OverAt(at(b.NowMS)) {
		return nil
	}
	return budget.Refuse(budget.BudgetExpired, op,
		"budget %s has no open period: its last one ended at %s", u.Name,
		at(u.PeriodEndMS).Format(time.RFC3339))
}
