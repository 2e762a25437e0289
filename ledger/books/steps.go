package books

import (
	"time"

	"github.com/budgetd/budgetd/allocation"
	"github.com/budgetd/budgetd/budget"
)

// The words of rows.
const (
	Opening, Open    = Word("opening"), Word("open")
	Online           = Word("online")
	Apply            = Word("apply")
	Done, Pending    = Word("done"), Word("pending")
	inStore          = Word(budget.Store)
	firstGrantNumber = 1
)

// The steps move units between rows in memory. None can fail: Books.Check compares their sum with
// the accounting before anything is written.

// give moves units into the newest epoch of a bucket, with a numbered grant, which is pending if the
// bucket is in a store. The caller takes the units from their source. The totals of an unlimited
// budget's buckets stay 0: nothing is handed out of a total.
func (b *Books) give(u *Budget, row *Bucket, kind Word, units int64) {
	if units <= 0 {
		return
	}
	status := Done
	if u.Durability == inStore {
		status = Pending
	}
	e := b.newest(row)
	b.Grants.Add(Grant{Bucket: row.ID, Epoch: e.Number, Number: e.NextGrant, Budget: u.ID, Kind: kind,
		Amount: units, Status: status, CreatedAt: b.NowMS})
	e.Outstanding += units
	e.NextGrant++
	row.LastGrant = units
	row.UpdatedAt = b.NowMS
	if u.Unlimited == 0 {
		row.Out += units
	}
	if kind == Apply {
		row.OutCnt++
	}
}

// begin gives a bucket an epoch without units. In a store it is opening until the store has it.
func (b *Books) begin(u *Budget, row *Bucket, incarnation int64) *Epoch {
	status := Open
	if u.Durability == inStore {
		status = Opening
	}
	return b.Epochs.Add(Epoch{Bucket: row.ID, Number: row.Epoch, Budget: u.ID, Status: status,
		Period: u.Period, PeriodEndMS: u.PeriodEndMS, Version: u.Version, NextGrant: firstGrantNumber,
		NextEntry: 1, Incarnation: incarnation, CreatedAt: b.NowMS})
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

// handOutFirst divides U of a new budget over its buckets.
func (b *Books) handOutFirst(u *Budget, d budget.Definition, list []*Bucket) {
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

// endMS is ms for an exclusive end. The first instant of 1970 becomes one millisecond later, because
// 0 means no end.
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
