package memstore

import (
	"fmt"
	"time"

	"github.com/budgetd/budgetd/bucket"
	"github.com/budgetd/budgetd/budget"
	"github.com/budgetd/budgetd/ledger"
)

// begin inserts a bucket's next epoch, in status opening and without units, under its lane's
// present activation, and puts the bucket into the bucket list.
func (s *SQL) begin(shard *sqlBucket, now time.Time) *sqlEpoch {
	number, nextEntry := int64(len(shard.epochs))+1, int64(1)
	if number > 1 {
		nextEntry = shard.newest().NextEntry
	}
	activation := s.lanes[shard.Lane].Activation
	if number == 1 || shard.newest().Activation != activation || shard.newest().Status == ledger.Lost {
		shard.CountersFrom = number
	}
	epoch := &sqlEpoch{
		bucket: shard,
		Epoch: ledger.Epoch{
			Budget: shard.budget.definition.ID, Bucket: shard.ID, Number: number,
			Status: ledger.Opening, Activation: activation,
			NextGrant: 1, NextEntry: nextEntry,
			DrainedChain: ledger.OpenChain(shard.ID, number, activation),
			Period:       shard.budget.period.Number,
			EndAt:        shard.budget.commitsEnd(),
		},
		deductions: map[int64]*ledger.Deduction{},
		duplicates: map[int64]ledger.Duplicate{},
	}
	shard.epochs = append(shard.epochs, epoch)
	shard.Online, shard.OfflineBy, shard.UpdatedAt = true, "", now
	shard.budget.listVersion++
	return epoch
}

// grant moves units U -> O with a grant row. The caller decides whether it counts in out_cnt.
func (e *sqlEpoch) grant(units int64, now time.Time) *bucket.GrantOrder {
	order := &bucket.GrantOrder{Ref: e.ref(), Number: e.NextGrant, Amount: units}
	e.grants = append(e.grants, sqlGrant{amount: units, status: grantPending})
	e.sums.Granted += units
	e.NextGrant++
	e.Outstanding += units
	e.bucket.OutQuantity = min(e.bucket.OutQuantity+units, budget.MaxAmount)
	e.bucket.UpdatedAt = now
	e.bucket.budget.undistributed -= units
	return order
}

// end moves what an epoch holds to where its period says, in a final status.
func (e *sqlEpoch) end(status ledger.Status) {
	e.bucket.budget.comeBack(e, e.finish(status), 0)
}

// finish ends an epoch and returns what it held. Grants that no log showed are void; the bucket's next
// epoch counts its applications anew.
func (e *sqlEpoch) finish(status ledger.Status) (units int64) {
	for i := range e.grants {
		if e.grants[i].status == grantPending {
			e.grants[i].status = grantVoid
		}
	}
	units = e.Outstanding
	e.closed += units
	e.Outstanding = 0
	e.Status = status
	e.bucket.OutCnt = 0
	e.bucket.budget.listVersion++
	return units
}

// write inserts what draining a log gave and replaces the epoch row.
func (e *sqlEpoch) write(drained ledger.Drained) {
	for _, number := range drained.Arrived {
		e.grants[number-1].status = grantApplied
	}
	for i := range drained.Deductions {
		d := drained.Deductions[i]
		e.deductions[d.Position.Seq] = &d
		e.bucket.budget.deductions[d.RequestID] = &d
		e.bucket.budget.carry(&d)
		if d.State == ledger.StateHeld {
			e.bucket.budget.holds[d.RequestID] = &d
			e.sums.Held += d.Amount
		}
		e.bucket.record(d.Entry, feedRow{deduction: &d})
		e.sums.Deducted += d.Amount
	}
	for _, d := range drained.Duplicates {
		e.duplicates[d.Position.Seq] = d
		e.sums.Duplicates += d.Amount
	}
	e.Epoch = drained.After
}

// giveBack moves units of a deduction S -> R with a rollback row.
func (s *SQL) giveBack(b *sqlBudget, d *ledger.Deduction, row ledger.Rollback, now time.Time) {
	epoch := s.epoch(bucket.Ref{Bucket: d.Position.Bucket, Epoch: d.Position.Epoch})
	newest := epoch.bucket.newest()
	row.Entry, row.At = newest.NextEntry, now
	newest.NextEntry++
	epoch.bucket.record(row.Entry, feedRow{deduction: d, rollback: &row})
	b.rollbacks[sqlRollback{row.RequestID, row.RollbackID}] = &row
	epoch.sums.RolledBack += row.Amount
	epoch.sums.Noted += row.Amount
	if d.State == ledger.StateHeld {
		epoch.Held -= row.Amount
		epoch.sums.Held -= row.Amount
	} else {
		epoch.Used -= row.Amount
	}
	if *d = ledger.AfterRollback(*d, row.Amount); d.State != ledger.StateHeld {
		delete(b.holds, d.RequestID)
	}
	epoch.Returning += row.Amount
	if end := b.periods[epoch.Period-1].End; !end.IsZero() && !now.Before(end) {
		epoch.Late += row.Amount
	}
}

// figures sums the budget's columns.
func (b *sqlBudget) figures() ledger.Figures {
	f := ledger.Figures{
		Total: b.definition.TotalQuantity, Undistributed: b.undistributed,
		PendingShrink: b.pendingShrink, Quarantined: b.quarantined, Unfunded: b.unfunded, Forfeited: b.forfeited,
		Period: b.period,
	}
	for _, shard := range b.buckets {
		if shard.Online {
			f.Online++
		} else if shard.OfflineBy != bucket.ByResize {
			f.Offline++
		}
		for _, e := range shard.epochs {
			switch e.Status {
			case ledger.Open:
				f.Remaining += e.Outstanding
			default: // 0 in closed and lost ones
				f.Unsettled += e.Outstanding
			}
			f.Held += e.Held
			f.Used += e.Used
			if e.Period == b.period.Number {
				f.PeriodUsed += e.Used
			}
			f.Returning += e.Returning
		}
	}
	current := b.periods[b.period.Number-1]
	f.PeriodUnits = current.Funded + current.Carried
	return f
}

// adjusted sums the adjustments that were done.
func (b *sqlBudget) adjusted() (sum int64) {
	for _, a := range b.adjustments {
		if a.state == bucket.AdjustmentDone {
			sum += a.Quantity
		}
	}
	return sum
}

// waiting sums the shrinks that wait, positive.
func (b *sqlBudget) waiting() (sum int64) {
	for _, a := range b.adjustments {
		if a.state == bucket.AdjustmentPending {
			sum -= a.Quantity
		}
	}
	return sum
}

// verify tells Watch of a budget that was just written, and panics unless I1 holds for it.
func (s *SQL) verify(b *sqlBudget) {
	if s.Watch != nil {
		s.watch(b)
	}
	b.fresh = b.fresh[:0]
	if s.Unchecked {
		return
	}
	var epochs []ledger.EpochFigures
	for _, shard := range b.buckets {
		for _, e := range shard.epochs {
			sums := e.sums
			sums.Bucket, sums.Row, sums.Closed = shard.Key, e.Epoch, e.closed
			epochs = append(epochs, sums)
		}
	}
	faults := ledger.Check(b.figures(), b.adjusted(), epochs)
	faults = append(faults, ledger.CheckPeriods(b.figures(), b.period, b.periodRows(), epochs)...)
	if faults = append(faults, ledger.CheckShrinks(b.figures(), b.waiting())...); faults != nil {
		panic(fmt.Sprintf("memstore: I1 is violated: %v", faults))
	}
}
