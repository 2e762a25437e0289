package books

import (
	"time"

	"github.com/budgetd/budgetd/allocation"
	"github.com/budgetd/budgetd/budget"
	"github.com/budgetd/budgetd/ledger"
)

// The words of rows.
const (
	Opening, Open    = Word("opening"), Word("open")
	Closing, Closed  = Word("closing"), Word("closed")
	lost             = Word("lost")
	void             = Word("void")
	Online, offline  = Word("online"), Word("offline")
	Apply, Again     = Word("apply"), Word("again")
	Collect          = Word("collect")
	Done, Pending    = Word("done"), Word("pending")
	inStore          = Word(budget.Store)
	byOperator       = Word("operator")
	byService        = Word("service")
	byResize         = Word("resize")
	firstGrantNumber = 1
)

// The steps move units between rows in memory. None can fail: Books.Check compares their sum with
// the accounting before anything is written.

// give moves units into the newest epoch of a bucket, with a numbered grant, which is pending if
// the bucket is in a store. The caller takes the units from their source. The totals of an
// unlimited budget's buckets stay 0: nothing is handed out of a total.
func (b *Books) give(u *Budget, row *Bucket, kind Word, units int64) {
	if units <= 0 {
		return
	}
	status := Done
	if u.Durability == inStore {
		status = Pending
	}
	e := b.newest(row)
	b.Grants.Add(Grant{Bucket: row.ID, Epoch: e.Number, Number: e.NextGrant, Budget: u.ID,
		Kind: kind, Amount: units, Status: status, CreatedAt: b.NowMS})
	e.Outstanding += units
	e.NextGrant++
	row.LastGrant = units
	row.UpdatedAt = b.NowMS
	if u.Unlimited == 0 {
		row.Out += units
	}
	switch kind {
	case Apply:
		row.OutCnt++
	case Collect:
		row.CollectCnt++
	}
}

// begin gives a bucket an epoch without units, with the bucket's present number. In a store it is
// opening until the store has it.
func (b *Books) begin(u *Budget, row *Bucket, incarnation int64) *Epoch {
	status := Open
	if u.Durability == inStore {
		status = Opening
	}
	return b.Epochs.Add(Epoch{Bucket: row.ID, Number: row.Epoch, Budget: u.ID, Status: status,
		Period: u.Period, PeriodEndMS: u.PeriodEndMS, Version: u.Version,
		NextGrant: firstGrantNumber, NextEntry: 1, Incarnation: incarnation, CreatedAt: b.NowMS})
}

// beginNext gives a bucket whose epoch has ended the next one, and brings it online.
func (b *Books) beginNext(u *Budget, row *Bucket) {
	entry := b.newest(row).NextEntry
	row.Epoch++
	row.Status, row.OfflineBy, row.UpdatedAt = Online, "", b.NowMS
	incarnation := int64(0)
	if p := b.Partitions.Get(row.Home()); p != nil {
		incarnation = p.Incarnation
	}
	b.begin(u, row, incarnation).NextEntry = entry
	u.ListVersion++
}

// end ends a live epoch, and returns its units to where its period says: in a store once that has
// closed it.
func (b *Books) end(u *Budget, e *Epoch) {
	if !e.live() {
		return
	}
	if units := b.takeOut(u, e); units > 0 {
		b.returnUnits(u, e, units, 0)
	}
}

// distribute divides the releasable part of U evenly over the buckets that can take it, the
// remainder to the first; under the rule free each gets a first step. A bucket that the service
// took offline begins an epoch, unless U is at most what a contraction left over: then the buckets
// that stayed online get it (Bring), and for buckets in stores it stays in U (Supply). Buckets on
// drained partitions are left out. It returns the units moved.
func (b *Books) distribute(u *Budget, kind Word) (moved int64) {
	units := u.releasable(b.NowMS)
	if units == 0 || u.IsOver == 1 || u.Durability == inStore && units <= u.ContractionBound {
		return 0
	}
	contracted := units <= u.ContractionBound && len(b.takers(u)) > 0
	if !contracted {
		u.ContractionBound = 0
	}
	var takers []*Bucket
	for _, row := range b.bucketsOf(u) {
		if b.mayTake(u, row) && (!contracted || row.Status == Online) {
			takers = append(takers, row)
		}
	}
	for i, share := range allocation.Shares(u.Definition(), units, len(takers)) {
		if share == 0 {
			break
		}
		if !b.newest(takers[i]).live() {
			b.beginNext(u, takers[i])
		}
		b.give(u, takers[i], kind, share)
		u.Undistributed -= share
		moved += share
	}
	return moved
}

// mayTake reports whether a bucket can be handed units: it is online with an epoch of the open
// period, or has no live epoch and was taken offline by the service. In a store it may also be
// online without a live epoch, because its units were collected or lost, and may have an epoch that
// is opening; its partition must not be drained.
func (b *Books) mayTake(u *Budget, row *Bucket) bool {
	e := b.newest(row)
	if u.Durability != inStore {
		return row.Status == Online && e.mayGrow() && e.Period == u.Period ||
			row.OfflineBy == byService && !e.live()
	}
	p := b.Partitions.Get(row.Home())
	switch {
	case p == nil || p.IsDraining == 1:
		return false
	case e.live():
		return row.Status == Online && e.Status != Closing && e.Halted == "" && e.Period == u.Period
	}
	return (row.Status == Online || row.OfflineBy == byService) && (e.Halted == "" || e.Status == lost)
}

// MayGrow is mayGrow for other packages.
func (e *Epoch) MayGrow() bool { return e.mayGrow() }

// Live reports whether the epoch has not ended.
func (e *Epoch) Live() bool { return e.live() }

// Newest returns a bucket's newest epoch, which is loaded or made with the bucket.
func (b *Books) Newest(row *Bucket) *Epoch { return b.newest(row) }

// mayGrow reports whether units may go into O.
func (e *Epoch) mayGrow() bool { return e.Status == Open && e.Halted == "" }

func (e *Epoch) live() bool { return ledger.Status(e.Status).Live() }

// releasable returns what apply and distribution may take of U.
func (u *Budget) releasable(nowMS int64) int64 {
	p := budget.Period{Start: at(u.PeriodStartMS), End: at(u.PeriodEndMS), Over: u.IsOver == 1}
	if p.OverAt(at(nowMS)) {
		return 0
	}
	return max(u.Undistributed-max(u.PendingShrink-u.Unfunded, 0), 0)
}

// clocksApartMS is the most by which the clocks of two nodes differ, each at most 1 s off SQL's.
const clocksApartMS = 2000

// Sweep moves R of a budget's loaded epochs to where it belongs, and returns the units. Halted
// epochs keep theirs. So do those with late units that wait for a rollover: one that is due,
// because the units do not belong to the period that it ends, or the one that ends their own
// period, which was over by the clock of the node that gave them back. Keeps I1.
func (b *Books) Sweep(u *Budget) (moved int64) {
	for _, e := range b.epochsOf(u) {
		if e.Budget != u.ID || e.Returning == 0 || e.Halted != "" || e.Late > 0 && b.waits(u, e) {
			continue
		}
		unused, late := e.Returning-e.Late, e.Late
		moved += e.Returning
		e.Swept += e.Returning
		e.Returning, e.Late = 0, 0
		b.returnUnits(u, e, unused, late)
	}
	return moved
}

func (b *Books) waits(u *Budget, e *Epoch) bool {
	return b.Due(u) || e.Period == u.Period && u.IsOver == 0 && u.PeriodEndMS != 0 &&
		u.PeriodEndMS <= b.NowMS+clocksApartMS
}

// returnUnits moves units that left an epoch to where its period says: to U if that is the open
// one, otherwise by the budget's rule to F, to U of the open period, or to X. Refunded units were
// used when their period ended, unused ones not. Those of an unlimited budget came from no total
// and go to none.
func (b *Books) returnUnits(u *Budget, e *Epoch, unused, refunded int64) {
	switch {
	case u.Unlimited == 1:
		return
	case e.Period == u.Period && u.IsOver == 0:
		u.Undistributed += unused + refunded
		return
	}
	m := allocation.Return(u.Definition(), b.PeriodOf(u), unused, refunded)
	u.Unfunded += m.Unfunded
	u.Undistributed += m.Undistributed
	u.Forfeited += m.Forfeited
	b.leave(u, e.Period, m)
	b.Periods.Get([2]int64{u.ID, u.Period}).Carried += m.Undistributed
}

// newest returns a bucket's newest epoch, which is loaded or made with the bucket.
func (b *Books) newest(row *Bucket) *Epoch { return b.Epochs.Get(Position{row.ID, row.Epoch}) }

// open makes a period, with its row, the budget's open one.
func (b *Books) open(u *Budget, p budget.Period) {
	u.Period = p.Number
	u.PeriodStartMS = ms(p.Start)
	u.PeriodEndMS = endMS(p.End)
	u.IsOver = 0
	u.RollOverMS = u.PeriodEndMS
	if p.Over {
		u.IsOver = 1
		u.RollOverMS = 0
	}
	b.Periods.Add(Period{Budget: u.ID, Number: p.Number, StartMS: u.PeriodStartMS,
		EndMS: u.PeriodEndMS, Funded: p.Funded, Carried: p.Carried, Before: p.Before,
		CreatedAt: b.NowMS})
}

// distributeFirst divides U of a new budget over its buckets.
func (b *Books) distributeFirst(u *Budget, d budget.Definition, list []*Bucket) {
	for i, units := range allocation.Shares(d, u.Undistributed, len(list)) {
		b.give(u, list[i], Apply, units)
		u.Undistributed -= max(units, 0)
	}
}

// at returns the instant of a column in ms.
func at(ms int64) time.Time {
	if ms == 0 {
		return time.Time{}
	}
	return time.UnixMilli(ms).UTC()
}

// ms is the inverse of at.
func ms(t time.Time) int64 {
	if t.IsZero() {
		return 0
	}
	return t.UnixMilli()
}

// endMS is ms for an exclusive end. The first instant of 1970 becomes one millisecond later,
// because 0 means no end.
func endMS(t time.Time) int64 {
	if t.IsZero() {
		return 0
	}
	return max(t.UnixMilli(), 1)
}

func one(is bool) int64 {
	if is {
		return 1
	}
	return 0
}
