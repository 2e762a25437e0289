package memstore

import (
	"cmp"
	"context"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/budgetd/budgetd/bucket"
	"github.com/budgetd/budgetd/budget"
	"github.com/budgetd/budgetd/ledger"
)

// Lane reads the row of a lane, or makes it. See bucket.Lanes.
func (s *SQL) Lane(ctx context.Context, lane bucket.Lane, identity string) (bucket.LaneRow, error) {
	return transact(ctx, s, "Lane", func(time.Time) (bucket.LaneRow, error) {
		row := s.lanes[lane]
		if row == nil {
			row = &bucket.LaneRow{Lane: lane, Identity: identity, Activation: 1}
			s.lanes[lane] = row
		}
		return *row, nil
	})
}

// NextActivation moves a lane to its next activation. See bucket.Lanes.
func (s *SQL) NextActivation(ctx context.Context, lane bucket.Lane, from int64, identity string) (
	bucket.LaneRow, error) {
	return transact(ctx, s, "NextActivation", func(time.Time) (bucket.LaneRow, error) {
		row := s.lanes[lane]
		if row == nil {
			return bucket.LaneRow{}, budget.Refuse(budget.InstanceNotFound, "recover",
				"lane %d of instance %q is not known", lane.Index, lane.Instance)
		}
		if row.Activation == from {
			row.Activation, row.Identity = from+1, identity
		}
		return *row, nil
	})
}

// Reached notes that lanes were reached. See bucket.Lanes.
func (s *SQL) Reached(ctx context.Context, lanes []bucket.Lane) error {
	_, err := transact(ctx, s, "Reached", func(now time.Time) (struct{}, error) {
		for _, lane := range slices.CompactFunc(slices.SortedFunc(slices.Values(lanes), compareLanes), sameLane) {
			if row := s.lanes[lane]; row != nil {
				row.ReachedMS = max(row.ReachedMS+1, now.UnixMilli())
			}
		}
		return struct{}{}, nil
	})
	return err
}

func compareLanes(a, b bucket.Lane) int {
	return cmp.Or(cmp.Compare(a.Instance, b.Instance), cmp.Compare(a.Index, b.Index))
}

func sameLane(a, b bucket.Lane) bool { return a == b }

// LaneRows reads rows of lanes. See bucket.Lanes.
func (s *SQL) LaneRows(ctx context.Context, lanes []bucket.Lane) (
	map[bucket.Lane]bucket.LaneRow, error) {
	return transact(ctx, s, "LaneRows", func(time.Time) (map[bucket.Lane]bucket.LaneRow, error) {
		out := map[bucket.Lane]bucket.LaneRow{}
		for _, lane := range lanes {
			if row := s.lanes[lane]; row != nil {
				out[lane] = *row
			}
		}
		return out, nil
	})
}

// DeclareDown moves a lane that nobody reaches on. See bucket.Lanes.
func (s *SQL) DeclareDown(ctx context.Context, seen bucket.LaneRow) (
	bucket.LaneRow, bool, error) {
	type result struct {
		row      bucket.LaneRow
		declared bool
	}
	r, err := transact(ctx, s, "DeclareDown", func(time.Time) (result, error) {
		row := s.lanes[seen.Lane]
		if row == nil {
			return result{}, budget.Refuse(budget.InstanceNotFound, "declare down",
				"lane %d of instance %q is not known", seen.Lane.Index, seen.Lane.Instance)
		}
		declared := row.Activation == seen.Activation && row.ReachedMS == seen.ReachedMS
		if declared {
			row.Activation++
		}
		return result{*row, declared}, nil
	})
	return r.row, r.declared, err
}

// Stale lists live epochs of older activations of a lane that are not fenced.
func (s *SQL) Stale(ctx context.Context, lane bucket.Lane, activation int64, limit int) (
	[]bucket.EpochOf, error) {
	return transact(ctx, s, "Stale", func(time.Time) ([]bucket.EpochOf, error) {
		return s.list(limit, func(e *sqlEpoch) bool {
			return e.bucket.Lane == lane && e.Status.Live() && e.Activation < activation &&
				e.Fenced == "" && e.bucket.budget.definition.Durability == budget.Ledger
		}), nil
	})
}

// Live lists open and closing epochs of a lane.
func (s *SQL) Live(ctx context.Context, lane bucket.Lane, after bucket.Ref, limit int) (
	[]bucket.EpochOf, error) {
	return transact(ctx, s, "Live", func(time.Time) ([]bucket.EpochOf, error) {
		return s.list(limit, func(e *sqlEpoch) bool {
			return e.bucket.Lane == lane && (e.Status == ledger.Open || e.Status == ledger.Closing) &&
				(e.Bucket > after.Bucket || e.Bucket == after.Bucket && e.Number > after.Epoch)
		}), nil
	})
}

// UnfinishedOf reads the opening and closing epochs and the pending grants of one budget.
func (s *SQL) UnfinishedOf(ctx context.Context, budgetID int64) (bucket.Unfinished, error) {
	return transact(ctx, s, "UnfinishedOf", func(time.Time) (bucket.Unfinished, error) {
		b, err := s.find(budgetID)
		if err != nil {
			return bucket.Unfinished{}, err
		}
		return bucket.Unfinished{
			Epochs: s.list(math.MaxInt, func(e *sqlEpoch) bool {
				return e.bucket.budget == b && e.between()
			}),
			Grants: pending(b.buckets, math.MaxInt),
		}, nil
	})
}

// between reports whether the epoch is on its way to open or to closed.
func (e *sqlEpoch) between() bool {
	return e.Status == ledger.Opening || e.Status == ledger.Closing
}

// list returns the first epochs that are wanted, in the order of (bucket, epoch).
func (s *SQL) list(limit int, wanted func(*sqlEpoch) bool) (out []bucket.EpochOf) {
	for _, shard := range s.buckets {
		for _, e := range shard.epochs {
			if len(out) < limit && wanted(e) {
				out = append(out, e.of())
			}
		}
	}
	return out
}

// Unfinished reads what is left to do. See bucket.Chores.
func (s *SQL) Unfinished(ctx context.Context, limit int, without ...bucket.Lane) (
	bucket.Unfinished, error) {
	return transact(ctx, s, "Unfinished", func(time.Time) (bucket.Unfinished, error) {
		var within []*sqlBucket
		for _, shard := range s.buckets {
			if !slices.Contains(without, shard.Lane) {
				within = append(within, shard)
			}
		}
		out := bucket.Unfinished{
			Epochs: s.list(limit, func(e *sqlEpoch) bool {
				return e.between() && e.Fenced == "" && !slices.Contains(without, e.bucket.Lane)
			}),
			Grants: pending(within, limit),
			Fenced: s.list(limit, func(e *sqlEpoch) bool { return e.Status.Live() && e.Fenced != "" }),
		}
		for _, b := range s.budgets {
			id := b.definition.ID
			if b.figures().Returning > 0 && len(out.Returning) < limit {
				out.Returning = append(out.Returning, id)
			}
			if b.resize > 0 && len(out.Resizes) < limit {
				out.Resizes = append(out.Resizes, id)
			}
			if s.unsettled(b, without) && len(out.Offline) < limit {
				out.Offline = append(out.Offline, id)
			}
			if b.run != nil {
				out.Runs = append(out.Runs, bucket.OpenRun{Budget: id, Number: b.run.Number, Since: b.runSince})
			}
			if r := b.openRecycle(); r != nil {
				out.Recycles = append(out.Recycles, r.Open())
			}
			out.Shrinks = append(out.Shrinks, b.shrinks()...)
		}
		slices.SortStableFunc(out.Recycles, func(x, y bucket.OpenRun) int { return x.Since.Compare(y.Since) })
		out.Recycles = out.Recycles[:min(len(out.Recycles), limit)]
		slices.SortStableFunc(out.Runs, func(x, y bucket.OpenRun) int { return x.Since.Compare(y.Since) })
		out.Runs = out.Runs[:min(len(out.Runs), limit)]
		out.Shrinks = out.Shrinks[:min(len(out.Shrinks), limit)]
		return out, nil
	})
}

// idle reports whether the bucket is in the list and its newest epoch has ended.
func (b *sqlBucket) idle() bool { return b.Online && !b.newest().Status.Live() }

// unsettled reports whether the budget is for Settle. See bucket.Unfinished.
func (s *SQL) unsettled(b *sqlBudget, without []bucket.Lane) bool {
	idle, reachable, taker, onlines := false, false, false, 0
	for _, shard := range b.buckets {
		out := slices.Contains(without, shard.Lane) || s.draining(shard.Lane)
		idle = idle || shard.idle()
		reachable = reachable || shard.idle() && !out
		taker = taker || !shard.idle() && shard.mayApply() && !out
		if shard.Online {
			onlines++
		}
	}
	return reachable || b.undistributed > 0 && (onlines == 0 || idle) && taker
}

// pending lists pending grants of opening and open epochs.
func pending(buckets []*sqlBucket, limit int) (out []bucket.PendingGrant) {
	for _, shard := range buckets {
		e := shard.newest()
		if e.Status != ledger.Opening && e.Status != ledger.Open || e.Fenced != "" {
			continue
		}
		for i, g := range e.grants {
			if g.status == grantPending && len(out) < limit {
				order := bucket.GrantOrder{Ref: e.ref(), Number: int64(i) + 1, Amount: g.amount}
				out = append(out, bucket.PendingGrant{Lane: shard.Lane, Order: order})
			}
		}
	}
	return out
}

// shrinks lists the pending shrinks by request id.
func (b *sqlBudget) shrinks() (out []bucket.Adjustment) {
	if b.pendingShrink == 0 {
		return nil
	}
	for _, a := range b.adjustments {
		if a.state == bucket.AdjustmentPending {
			out = append(out, a.Adjustment)
		}
	}
	slices.SortFunc(out, func(x, y bucket.Adjustment) int {
		return strings.Compare(x.RequestID, y.RequestID)
	})
	return out
}

// BeginRun starts a run, or returns the one that goes on.
func (s *SQL) BeginRun(ctx context.Context, run bucket.Run) (bucket.Run, error) {
	return transact(ctx, s, "BeginRun", func(now time.Time) (bucket.Run, error) {
		b, err := s.find(run.Budget)
		if err != nil {
			return bucket.Run{}, err
		}
		if b.run == nil {
			run.Number = b.nextRun
			b.nextRun++
			b.run, b.runSince = &run, now
		}
		return *b.run, nil
	})
}

// EndRun ends a run.
func (s *SQL) EndRun(ctx context.Context, budgetID, number, _ int64) error {
	_, err := transact(ctx, s, "EndRun", func(time.Time) (struct{}, error) {
		b, err := s.find(budgetID)
		if err == nil && b.run != nil && b.run.Number == number {
			b.run = nil
		}
		return struct{}{}, err
	})
	return err
}

// Figures reads a budget's figures.
func (s *SQL) Figures(ctx context.Context, budgetID int64) (ledger.Figures, error) {
	return transact(ctx, s, "Figures", func(time.Time) (ledger.Figures, error) {
		b, err := s.find(budgetID)
		if err != nil {
			return ledger.Figures{}, err
		}
		return b.figures(), nil
	})
}

// Accounts reads columns beside what the rows give.
func (s *SQL) Accounts(ctx context.Context, budgetID int64) (bucket.Accounts, error) {
	return transact(ctx, s, "Accounts", func(time.Time) (bucket.Accounts, error) {
		b, err := s.find(budgetID)
		if err != nil {
			return bucket.Accounts{}, err
		}
		out := bucket.Accounts{Figures: b.figures(), Current: b.period, Periods: b.periodRows(), Adjusted: b.adjusted(), Shrinks: b.waiting()}
		rolledBack := map[*sqlEpoch]int64{}
		for _, r := range b.rollbacks {
			at := b.deductions[r.RequestID].Position
			rolledBack[s.epoch(bucket.Ref{Bucket: at.Bucket, Epoch: at.Epoch})] += r.Amount
		}
		for _, h := range b.holdEnds {
			at := b.deductions[h.RequestID].Position
			rolledBack[s.epoch(bucket.Ref{Bucket: at.Bucket, Epoch: at.Epoch})] += h.Returned
		}
		for _, shard := range b.buckets {
			for _, e := range shard.epochs {
				f := e.count()
				f.RolledBack = rolledBack[e]
				b.countQuarantine(e, &f)
				out.Epochs = append(out.Epochs, f)
			}
		}
		return out, nil
	})
}

// count sums an epoch's rows anew, those of its rollbacks apart.
func (e *sqlEpoch) count() ledger.EpochFigures {
	f := ledger.EpochFigures{Bucket: e.bucket.Key, Row: e.Epoch, Closed: e.closed}
	for _, g := range e.grants {
		f.Granted += g.amount
	}
	for _, d := range e.deductions {
		f.Deducted += d.Amount
		f.Noted += d.RolledBack
	}
	for _, d := range e.duplicates {
		f.Duplicates += d.Amount
	}
	f.Held = e.heldUnits()
	return f
}

// countQuarantine sums an epoch's rows of quarantine and of its releases.
func (b *sqlBudget) countQuarantine(e *sqlEpoch, f *ledger.EpochFigures) {
	for _, q := range b.quarantines {
		if q.epoch == e {
			f.Quarantined, f.NotedRelease = q.Quantity, q.Released
		}
	}
	for _, r := range b.releases {
		if r.epoch == e {
			f.Released += r.quantity
		}
	}
}

// Prefix sums what the ledger holds of an epoch up to a log position.
func (s *SQL) Prefix(ctx context.Context, ref bucket.Ref, seq, grantSeq int64) (
	granted, deducted int64, err error) {
	type sums struct{ granted, deducted int64 }
	r, err := transact(ctx, s, "Prefix", func(time.Time) (sums, error) {
		var out sums
		e := s.epoch(ref)
		if e == nil {
			return out, nil
		}
		for i, g := range e.grants {
			if int64(i)+1 <= grantSeq {
				out.granted += g.amount
			}
		}
		for at, d := range e.deductions {
			if at <= seq {
				out.deducted += d.Amount
			}
		}
		for at, d := range e.duplicates {
			if at <= seq {
				out.deducted += d.Amount
			}
		}
		return out, nil
	})
	return r.granted, r.deducted, err
}
