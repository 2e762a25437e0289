package memstore

import (
	"fmt"
	"time"

	"github.com/budgetd/budgetd/bucket"
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
	epoch := &sqlEpoch{
		bucket: shard,
		Epoch: ledger.Epoch{
			Budget: shard.budget.definition.ID, Bucket: shard.ID, Number: number,
			Status: ledger.Opening, Activation: activation,
			NextGrant: 1, NextEntry: nextEntry,
			DrainedChain: ledger.OpenChain(shard.ID, number, activation),
			EndAt:        shard.budget.definition.EndAt,
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
	e.bucket.OutQuantity += units
	e.bucket.UpdatedAt = now
	e.bucket.budget.undistributed -= units
	return order
}

// end moves what an epoch holds O -> U, in a final status. Grants that no log showed are void; the
// bucket's next epoch counts its applications anew.
func (e *sqlEpoch) end(status ledger.Status) {
	for i := range e.grants {
		if e.grants[i].status == grantPending {
			e.grants[i].status = grantVoid
		}
	}
	e.bucket.budget.undistributed += e.Outstanding
	e.closed += e.Outstanding
	e.Outstanding = 0
	e.Status = status
	e.bucket.OutCnt = 0
	e.bucket.budget.listVersion++
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
		e.sums.Deducted += d.Amount
	}
	for _, d := range drained.Duplicates {
		e.duplicates[d.Position.Seq] = d
		e.sums.Duplicates += d.Amount
	}
	e.Epoch = drained.After
}

// giveBack moves units of a deduction S -> R with a rollback row.
func (s *SQL) giveBack(b *sqlBudget, d *ledger.Deduction, row ledger.Rollback) {
	epoch := s.epoch(bucket.Ref{Bucket: d.Position.Bucket, Epoch: d.Position.Epoch})
	newest := epoch.bucket.newest()
	row.Entry = newest.NextEntry
	newest.NextEntry++
	b.rollbacks[sqlRollback{row.RequestID, row.RollbackID}] = &row
	epoch.sums.RolledBack += row.Amount
	epoch.sums.Noted += row.Amount
	*d = ledger.AfterRollback(*d, row.Amount)
	epoch.Used -= row.Amount
	epoch.Returning += row.Amount
}

// figures sums the budget's columns.
func (b *sqlBudget) figures() ledger.Figures {
	f := ledger.Figures{
		Total: b.definition.TotalQuantity, Undistributed: b.undistributed,
		PendingShrink: b.pendingShrink,
	}
	for _, shard := range b.buckets {
		if shard.Online {
			f.Online++
		} else {
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
			f.Returning += e.Returning
		}
	}
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

// verify panics unless I1 holds for a budget that was just written.
func (s *SQL) verify(b *sqlBudget) {
	if s.Unchecked {
		return
	}
	var epochs []ledger.EpochFigures
	for _, shard := range b.buckets {
		for _, e := range shard.epochs {
			sums := e.sums
			sums.Bucket, sums.Row, sums.Closed, sums.Swept = shard.Key, e.Epoch, e.closed, e.swept
			epochs = append(epochs, sums)
		}
	}
	if faults := ledger.Check(b.figures(), b.adjusted(), epochs); faults != nil {
		panic(fmt.Sprintf("memstore: I1 is violated: %v", faults))
	}
}
