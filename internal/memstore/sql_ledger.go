package memstore

import (
	"cmp"
	"context"
	"slices"
	"time"

	"github.com/budgetd/budgetd/allocation"
	"github.com/budgetd/budgetd/bucket"
	"github.com/budgetd/budgetd/budget"
	"github.com/budgetd/budgetd/internal/safeguard"
	"github.com/budgetd/budgetd/ledger"
)

// Commit drains logs into the ledger, in the order of (bucket, epoch). See bucket.Ledger.
func (s *SQL) Commit(ctx context.Context, logs []ledger.Log) (bucket.CommitReport, error) {
	return transact(ctx, s, "Commit", func(now time.Time) (bucket.CommitReport, error) {
		report := bucket.CommitReport{Epochs: make([]bucket.EpochReport, len(logs))}
		order := make([]int, len(logs))
		for i := range order {
			order[i] = i
		}
		slices.SortStableFunc(order, func(i, j int) int {
			return cmp.Or(cmp.Compare(logs[i].Bucket, logs[j].Bucket),
				cmp.Compare(logs[i].Epoch, logs[j].Epoch))
		})
		for _, i := range order {
			report.Epochs[i] = s.drain(logs[i], now, false)
		}
		return report, nil
	})
}

// drain commits one log.
func (s *SQL) drain(log ledger.Log, now time.Time, direct bool) bucket.EpochReport {
	epoch := s.epoch(bucket.Ref{Bucket: log.Bucket, Epoch: log.Epoch})
	if epoch == nil {
		return bucket.EpochReport{Err: ledger.ErrEnded}
	}
	b := epoch.bucket.budget
	// Rows made by this log are visible to its later entries, and to others only if all of it is
	// committed.
	made := map[string]*ledger.Deduction{}
	known := func(id string) *ledger.Deduction {
		if d := made[id]; d != nil {
			return d
		}
		return copied(b.deductions[id])
	}
	remember := func(d *ledger.Deduction) { made[d.RequestID] = d }
	log.Granted = map[int64]int64{}
	for i, g := range epoch.grants {
		log.Granted[int64(i)+1] = g.amount
	}
	drained, err := ledger.Drain(epoch.Epoch, now, log, known, remember, b.judgeGroups(b.judge(now, direct)))
	if err != nil {
		return bucket.EpochReport{Row: epoch.Epoch, Err: err}
	}
	if drained.Changed() {
		epoch.write(drained)
		s.verify(b)
	}
	return bucket.EpochReport{Row: epoch.Epoch, Outcomes: drained.Outcomes, Close: drained.Close}
}

func copied[T any](row *T) *T {
	if row == nil {
		return nil
	}
	c := *row
	return &c
}

// At returns what became of log entries.
func (s *SQL) At(ctx context.Context, positions []ledger.Position) (
	map[ledger.Position]ledger.Outcome, error) {
	return transact(ctx, s, "At", func(time.Time) (map[ledger.Position]ledger.Outcome, error) {
		out := map[ledger.Position]ledger.Outcome{}
		for _, at := range positions {
			epoch := s.epoch(bucket.Ref{Bucket: at.Bucket, Epoch: at.Epoch})
			if epoch == nil {
				continue
			}
			if d := epoch.deductions[at.Seq]; d != nil {
				out[at] = ledger.Outcome{Position: at, Deduction: copied(d)}
			}
			if d, found := epoch.duplicates[at.Seq]; found {
				outcome := ledger.Outcome{Position: at, Duplicate: &d}
				if !d.Reason.KeepsIDFree() {
					outcome.Deduction = copied(epoch.bucket.budget.deductions[d.RequestID])
				}
				out[at] = outcome
			}
		}
		return out, nil
	})
}

// Recorded reads the ledger's rows of many ids.
func (s *SQL) Recorded(ctx context.Context, ids []bucket.ID) (
	map[bucket.ID]ledger.Deduction, error) {
	return transact(ctx, s, "Recorded", func(time.Time) (map[bucket.ID]ledger.Deduction, error) {
		out := map[bucket.ID]ledger.Deduction{}
		for _, id := range ids {
			b, err := s.find(id.Budget)
			if err != nil {
				continue
			}
			if d := b.deductions[id.RequestID]; d != nil {
				out[id] = *d
			}
		}
		return out, nil
	})
}

// Judge reads ids of one budget and I3's sum.
func (s *SQL) Judge(ctx context.Context, budgetID int64, requestIDs []string) (
	bucket.Judgement, error) {
	return transact(ctx, s, "Judge", func(time.Time) (bucket.Judgement, error) {
		b, err := s.find(budgetID)
		if err != nil {
			return bucket.Judgement{}, err
		}
		out := bucket.Judgement{Recorded: map[string]ledger.Deduction{}, Cover: b.cover(), Period: b.period}
		for _, id := range requestIDs {
			if d := b.deductions[id]; d != nil {
				out.Recorded[id] = *d
			}
		}
		return out, nil
	})
}

// Covers reads I3's sum of many budgets.
func (s *SQL) Covers(ctx context.Context, budgetIDs []int64) (map[int64]bucket.Cover, error) {
	return transact(ctx, s, "Covers", func(time.Time) (map[int64]bucket.Cover, error) {
		out := map[int64]bucket.Cover{}
		for _, id := range budgetIDs {
			if b, err := s.find(id); err == nil {
				out[id] = b.cover()
			}
		}
		return out, nil
	})
}

// cover is I3's sum. U counts where some bucket may apply for it: one that no operator took offline
// and that has not used up adjust_cnt.
func (b *sqlBudget) cover() bucket.Cover {
	var c bucket.Cover
	if !slices.ContainsFunc(b.buckets, (*sqlBucket).mayApply) {
		c.Undistributed = b.undistributed // for the one that is brought online
	}
	for _, shard := range b.buckets {
		if shard.mayApply() && b.mayApply(shard) {
			c.Undistributed = b.undistributed
		}
		for _, e := range shard.epochs {
			var may allocation.Movement // as far as the open period may get it
			if may.Undistributed = e.Outstanding; e.Period != b.period.Number {
				may = allocation.Return(b.definition, budget.Period{}, e.Outstanding, 0)
			}
			c.Outstanding += may.Undistributed
			c.Later += e.Outstanding - may.Undistributed
			if may.Undistributed = e.Returning; e.Period != b.period.Number {
				may = allocation.Return(b.definition, budget.Period{}, e.Returning-e.Late, e.Late)
			}
			c.Returning += may.Undistributed
			c.Later += e.Returning - may.Undistributed
		}
	}
	c.Later += b.unfunded
	return c
}

// mayApply reports whether a bucket has not used up adjust_cnt.
func (b *sqlBudget) mayApply(shard *sqlBucket) bool {
	return b.definition.AdjustCnt == 0 || shard.OutCnt < b.definition.AdjustCnt
}

// Epochs reads epoch rows.
func (s *SQL) Epochs(ctx context.Context, refs []bucket.Ref) (map[bucket.Ref]ledger.Epoch, error) {
	return transact(ctx, s, "Epochs", func(time.Time) (map[bucket.Ref]ledger.Epoch, error) {
		out := map[bucket.Ref]ledger.Epoch{}
		for _, ref := range refs {
			if e := s.epoch(ref); e != nil {
				out[ref] = e.Epoch
			}
		}
		return out, nil
	})
}

type rolledBack struct {
	deduction ledger.Deduction
	replayed  bool
}

// Rollback moves units S -> R. See bucket.Returns.
func (s *SQL) Rollback(ctx context.Context, order bucket.RollbackOrder) (
	ledger.Deduction, bool, error) {
	r, err := transact(ctx, s, "Rollback", func(now time.Time) (rolledBack, error) {
		b, err := s.find(order.Budget)
		if err != nil {
			return rolledBack{}, err
		}
		d := b.deductions[order.RequestID]
		if d == nil {
			return rolledBack{}, budget.Refuse(budget.DeductionNotFound, "rollback",
				"request %q has not been deducted", order.RequestID)
		}
		earlier := b.rollbacks[sqlRollback{order.RequestID, order.RollbackID}]
		units, replay, err := ledger.DecideRollback(*d, earlier, order.Amount)
		if err != nil {
			return rolledBack{}, err
		}
		if replay {
			return rolledBack{*d, true}, nil
		}
		s.giveBack(b, d, ledger.Rollback{
			Budget: order.Budget, RequestID: order.RequestID, RollbackID: order.RollbackID,
			Amount: units, Whole: order.Amount == 0,
		}, now)
		s.verify(b)
		return rolledBack{*d, false}, nil
	})
	return r.deduction, r.replayed, err
}

// Cancel rolls back what is left of a deduction, or leaves a tombstone. See bucket.Returns.
func (s *SQL) Cancel(ctx context.Context, budgetID int64, requestID string) (
	ledger.Deduction, error) {
	return transact(ctx, s, "Cancel", func(now time.Time) (ledger.Deduction, error) {
		b, err := s.find(budgetID)
		if err != nil {
			return ledger.Deduction{}, err
		}
		return s.cancel(b, requestID, now), nil
	})
}

// cancel gives back what is left of a deduction, or leaves a tombstone.
func (s *SQL) cancel(b *sqlBudget, requestID string, now time.Time) ledger.Deduction {
	d := b.deductions[requestID]
	if d == nil {
		d = &ledger.Deduction{
			Budget: b.definition.ID, RequestID: requestID, State: ledger.StateVoid, CountedAt: now,
		}
		if !safeguard.Off(safeguard.Tombstone) {
			b.deductions[requestID] = d
		}
	}
	if left := d.Amount - d.RolledBack; left > 0 {
		s.giveBack(b, d, ledger.Rollback{
			Budget: d.Budget, RequestID: requestID, RollbackID: ledger.CancelID, Amount: left, Whole: true,
		}, now)
	}
	s.verify(b)
	return *d
}

// Sweep moves all R of a budget to U. See bucket.Returns.
func (s *SQL) Sweep(ctx context.Context, budgetID int64) (int64, error) {
	return transact(ctx, s, "Sweep", func(now time.Time) (int64, error) {
		b, err := s.find(budgetID)
		if err != nil {
			return 0, err
		}
		moved := int64(0)
		for _, shard := range b.buckets {
			for _, e := range shard.epochs {
				if e.Late > 0 && (b.due(now) || e.Period == b.period.Number && !b.period.Over) {
					continue // for a roll-over, which is due or will be
				}
				moved += e.Returning
				e.Swept += e.Returning
				b.comeBack(e, e.Returning-e.Late, e.Late)
				e.Returning, e.Late = 0, 0
			}
		}
		s.verify(b)
		return moved, nil
	})
}
