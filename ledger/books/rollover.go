package books

import (
	"github.com/budgetd/budgetd/allocation"
	"github.com/budgetd/budgetd/budget"
	"github.com/budgetd/budgetd/limit"
)

// PeriodsAtOnce bounds the periods that one rollover skips.
const PeriodsAtOnce = 1000

// RolledOver is the result of a rollover.
type RolledOver struct {
	// Done says that a period ended. Otherwise nothing was due.
	Done bool
	// Closing are buckets in stores whose epochs must be closed before the period ends.
	Closing []int64
	// More says that the period that was opened is over too, after PeriodsAtOnce.
	More bool
	// Period is the open or last period afterwards.
	Period budget.Period
	// Buckets counts the buckets that began an epoch. Units is what they were handed out, and Granted
	// lists those that got some.
	Buckets int
	Units   int64
	Granted []int64
}

// Due reports whether a budget's period is over and its end was not yet carried out, or whether a
// changed definition has a period after the last one.
func (b *Books) Due(u *Budget) bool {
	return u.RollOverMS != 0 && b.NowMS >= u.RollOverMS && b.PeriodOf(u).OverAt(at(b.NowMS))
}

// CountFrom returns the start of the period that a rollover opens next, in ms, if it lies before
// the end of the previous one, because the rule was changed within that. What was used since then
// counts for both, so the rollover needs UsedSince. Otherwise, and once that is loaded, it returns
// 0.
func (b *Books) CountFrom(u *Budget) int64 {
	p := b.PeriodOf(u)
	if b.UsedSince != nil {
		return 0
	}
	next, ok := allocation.Next(u.Definition(), p, at(b.NowMS))
	if !ok || p.End.IsZero() || !next.Start.Before(p.End) {
		return 0
	}
	return ms(next.Start)
}

// RollOver ends a budget's period if that is due, and opens the one that contains the present
// instant. Periods that nobody opened are skipped, PeriodsAtOnce at most; their units go where the
// rule says, as if they had been open and unused. The buckets begin epochs of the open period,
// whose units are handed out. Epochs in stores are set to closing first, and the period ends once
// none is open; what still closes then goes where the rule says when it arrives. Halted epochs stay
// unchanged. After the last period all buckets go
// offline. The budget's buckets and their newest epochs are loaded, and UsedSince if CountFrom asks
// for it. Error: Unavailable for a time zone that is unknown here. Keeps I1.
func (b *Books) RollOver(u *Budget) (out RolledOver, err error) {
	out.Period = b.PeriodOf(u)
	if !b.Due(u) {
		return out, nil
	}
	if e := limit.UnknownZone("roll over", u.Definition()); e != nil {
		return out, e
	}
	held := int64(0)
	for _, row := range b.bucketsOf(u) {
		if e := b.newest(row); e.live() && e.Halted == "" {
			if u.Durability == inStore && e.Status != Closing {
				out.Closing = append(out.Closing, row.ID)
			}
			held += b.takeOut(u, e)
		}
	}
	if len(out.Closing) > 0 {
		return out, nil
	}
	b.endPeriods(u, held)
	out.Done, out.Period = true, b.PeriodOf(u)
	switch {
	case u.IsOver == 1:
		for _, row := range b.bucketsOf(u) {
			if row.Status == Online {
				row.Status, row.OfflineBy, row.UpdatedAt = offline, byService, b.NowMS
			}
		}
		return out, nil
	case out.Period.OverAt(at(b.NowMS)):
		out.More = true
		return out, nil
	}
	before := len(b.Epochs.All())
	b.RestartCounts(u)
	if u.Durability == inStore {
		u.ContractionBound = 0 // the end of the last period is not the end of this one
	}
	b.beginAll(u)
	out.Units, out.Granted = b.distribute(u, Apply), b.Granted()
	out.Buckets = len(b.Epochs.All()) - before
	return out, nil
}

// endPeriods ends a budget's period, whose epochs have ended and held units, and those after it
// that are over.
func (b *Books) endPeriods(u *Budget, held int64) {
	d, now, used := u.Definition(), at(b.NowMS), orZero(b.UsedSince)
	for range PeriodsAtOnce {
		p := b.PeriodOf(u)
		next, ok := allocation.Next(d, p, now)
		rolled := allocation.RollOver(d, p, next, ok, allocation.Account{Unfunded: u.Unfunded,
			Undistributed: u.Undistributed, Held: held, Pending: u.PendingShrink, Used: used})
		b.leave(u, u.Period, rolled.Left)
		u.Unfunded += rolled.Moved.Unfunded
		u.Undistributed += rolled.Moved.Undistributed
		u.Forfeited += rolled.Moved.Forfeited
		b.open(u, rolled.Period)
		held, used = 0, 0
		if p = rolled.Period; p.Over || !p.OverAt(now) {
			break
		}
	}
	b.Applied[u.ID] = 0
	u.ListVersion++
}

// leave notes where units went that left a period.
func (b *Books) leave(u *Budget, number int64, m allocation.Movement) {
	p := b.Periods.Get([2]int64{u.ID, number})
	p.Returned += m.Unfunded
	p.Passed += m.Undistributed
	p.Forfeited += m.Forfeited
}

// beginAll begins epochs of the buckets in SQL that are online without one. Those in stores begin
// theirs with their next units.
func (b *Books) beginAll(u *Budget) {
	for _, row := range b.bucketsOf(u) {
		if u.Durability != inStore && row.Status == Online && !b.newest(row).live() {
			b.beginNext(u, row)
		}
	}
}

// takeOut ends an epoch and takes its units out of O; the caller puts them elsewhere. In a store
// the epoch is closing from now on, and its units leave O when the store has told what it used of
// them.
func (b *Books) takeOut(u *Budget, e *Epoch) (units int64) {
	if u.Durability == inStore {
		if e.Status != Closing {
			e.Status = Closing
			u.ListVersion++
		}
		return 0
	}
	return b.finish(u, e, Closed)
}
