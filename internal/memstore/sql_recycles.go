package memstore

import (
	"context"
	"slices"
	"time"

	"github.com/budgetd/budgetd/bucket"
	"github.com/budgetd/budgetd/ledger"
)

// openRecycle is the recycle that is going on, nil if none is.
func (b *sqlBudget) openRecycle() *bucket.Recycle {
	if n := len(b.recycles); n > 0 && b.recycles[n-1].EndedAt.IsZero() {
		return b.recycles[n-1]
	}
	return nil
}

// BeginRecycle starts a recycle, or returns the one that goes on. See bucket.Recycles.
func (s *SQL) BeginRecycle(ctx context.Context, order bucket.RecycleOrder) (bucket.Recycle, error) {
	return transact(ctx, s, "BeginRecycle", func(now time.Time) (bucket.Recycle, error) {
		b, err := s.find(order.Budget)
		if err != nil {
			return bucket.Recycle{}, err
		}
		if r := b.openRecycle(); r != nil {
			return *r, nil
		}
		for _, r := range slices.Backward(b.recycles) {
			if !order.Since.IsZero() && r.Cause == order.Cause && !r.BeganAt.Before(order.Since) {
				return *r, nil
			}
		}
		r := &bucket.Recycle{Budget: order.Budget, Number: b.nextRun, Cause: order.Cause, Holder: order.Holder,
			Plan: slices.Clone(order.Plan), Before: order.Before, BeganAt: now, TouchedAt: now}
		b.nextRun++
		b.recycles = append(b.recycles, r)
		return *r, nil
	})
}

// touch notes that somebody has gone on with a recycle.
func touch(r *bucket.Recycle, now time.Time) {
	if now.After(r.TouchedAt) {
		r.TouchedAt = now
	} else {
		r.TouchedAt = r.TouchedAt.Add(time.Millisecond)
	}
}

// AdvanceRecycle notes how far a recycle has come. See bucket.Recycles.
func (s *SQL) AdvanceRecycle(ctx context.Context, step bucket.RecycleStep) (ok, collecting bool, err error) {
	type result struct{ ok, collecting bool }
	out, err := transact(ctx, s, "AdvanceRecycle", func(now time.Time) (result, error) {
		b, err := s.find(step.Budget)
		if err != nil {
			return result{}, err
		}
		r := b.openRecycle()
		if r == nil || r.Number != step.Number || r.Holder != step.Holder || r.Done > step.Done {
			return result{false, b.run != nil}, nil
		}
		if step.Done > r.Done {
			r.Done, r.Skipped, r.Moved = step.Done, r.Skipped+step.Skipped, r.Moved+step.Moved
		}
		touch(r, now)
		return result{true, b.run != nil}, nil
	})
	return out.ok, out.collecting, err
}

// TakeRecycle gives an open recycle to another holder. See bucket.Recycles.
func (s *SQL) TakeRecycle(ctx context.Context, budgetID, number int64, seen time.Time, holder string) (
	*bucket.Recycle, error) {
	return transact(ctx, s, "TakeRecycle", func(now time.Time) (*bucket.Recycle, error) {
		b, err := s.find(budgetID)
		if err != nil {
			return nil, err
		}
		r := b.openRecycle()
		if r == nil || r.Number != number || !r.TouchedAt.Equal(seen) {
			return nil, nil
		}
		r.Holder = holder
		touch(r, now)
		return copied(r), nil
	})
}

// EndRecycle ends a recycle. See bucket.Recycles.
func (s *SQL) EndRecycle(ctx context.Context, budgetID, number int64, holder string, after bucket.Spread) (
	bool, error) {
	return transact(ctx, s, "EndRecycle", func(now time.Time) (bool, error) {
		b, err := s.find(budgetID)
		if err != nil {
			return false, err
		}
		r := b.openRecycle()
		if r == nil || r.Number != number || r.Holder != holder {
			return false, nil
		}
		r.After, r.TouchedAt, r.EndedAt = after, now, now
		return true, nil
	})
}

// RecycleHistory reads recycles of a budget, the newest first. See bucket.Recycles.
func (s *SQL) RecycleHistory(ctx context.Context, budgetID, before int64, limit int) ([]bucket.Recycle, error) {
	return transact(ctx, s, "RecycleHistory", func(time.Time) (out []bucket.Recycle, err error) {
		b, err := s.find(budgetID)
		if err != nil {
			return nil, nil // as a database that has no row of it
		}
		for _, r := range slices.Backward(b.recycles) {
			if (before <= 0 || r.Number < before) && len(out) < limit {
				out = append(out, *r)
			}
		}
		return out, nil
	})
}

// Renew ends a bucket's epoch and gives the bucket its next one. See bucket.Recycles.
func (s *SQL) Renew(ctx context.Context, order bucket.Renewal) (bucket.Handout, error) {
	return transact(ctx, s, "Renew", func(now time.Time) (out bucket.Handout, err error) {
		b, err := s.find(order.Budget)
		if err != nil {
			return out, err
		}
		e := s.epoch(order.Ref)
		if e == nil || e.bucket.budget != b || e != e.bucket.newest() {
			return out, nil
		}
		if e.Status.Live() {
			if order.Close == nil || e.Status != ledger.Closing {
				return out, nil
			}
			if _, err := ledger.CloseAmount(e.Epoch, *order.Close, e.missing(order.Close.Number)); err != nil {
				return out, err
			}
			e.end(ledger.Closed)
		}
		shard := e.bucket
		if !shard.Online && shard.OfflineBy != bucket.ByService || b.period.Over {
			s.verify(b)
			return out, nil
		}
		s.begin(shard, now)
		if units := min(order.Units, b.releasable(now)); units > 0 {
			grant := shard.newest().grant(units, now)
			shard.OutCnt = 1
			out.Grants = []bucket.PendingGrant{{Lane: shard.Lane, Order: *grant}}
		}
		out.Opened = []bucket.Bucket{shard.view()}
		s.verify(b)
		return out, nil
	})
}

// Demand reads what each bucket of a budget sold lately. See bucket.Recycles.
func (s *SQL) Demand(ctx context.Context, budgetID int64) (map[int64]bucket.Used, error) {
	return transact(ctx, s, "Demand", func(time.Time) (map[int64]bucket.Used, error) {
		out := map[int64]bucket.Used{}
		b, err := s.find(budgetID)
		if err != nil {
			return out, nil
		}
		for _, shard := range b.buckets {
			from := max(len(shard.feed)-bucket.LastDeductions, int(shard.archived))
			for _, row := range shard.feed[min(from, len(shard.feed)):] {
				if row.rollback != nil {
					continue
				}
				used, ok := out[shard.ID]
				if !ok || row.deduction.CountedAt.Before(used.Since) {
					used.Since = row.deduction.CountedAt
				}
				used.Units += row.deduction.Amount
				used.Largest = max(used.Largest, row.deduction.Amount)
				out[shard.ID] = used
			}
		}
		return out, nil
	})
}
