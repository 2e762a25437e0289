package transfer

import (
	"context"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/budgetd/budgetd/allocation"
)

// Loop is a loop for the daemon, which calls RunOnce at the interval Every, with jitter, and never
// concurrently.
type Loop struct {
	Name  string
	Every time.Duration
	// RunOnce does a bounded amount of work. Its error is logged; the next run tries again.
	RunOnce func(ctx context.Context) error
}

// Settings configure what the loops do automatically.
type Settings struct {
	Recycle RecycleSettings
	// Rebalance gives new and returning instances their share of the buckets.
	Rebalance bool
}

// The intervals of the loops.
const (
	rolloverEvery  = 500 * time.Millisecond
	statusEvery    = 500 * time.Millisecond
	sweepEvery     = 250 * time.Millisecond
	settleEvery    = 250 * time.Millisecond
	refillEvery    = time.Second
	recycleEvery   = 10 * time.Second
	drainEvery     = 2 * time.Second
	rebalanceEvery = time.Minute
	countersEvery  = 10 * time.Second
)

// Loops returns the loops of a service.
func (s *Service) Loops(set Settings) []Loop {
	recycle := &RecycleLoop{s: s, set: set.Recycle}
	refill := &RefillLoop{s: s, seen: map[int64]allocation.Pace{}}
	loops := []Loop{
		{"rollover", rolloverEvery, (&RolloverLoop{s}).RunOnce},
		{"status", statusEvery, (&StatusLoop{s}).RunOnce},
		{"sweep", sweepEvery, (&SweepLoop{s}).RunOnce},
		{"settle", settleEvery, (&SettleLoop{s}).RunOnce},
		{"refill", refillEvery, refill.RunOnce},
		{"recycle", recycleEvery, recycle.RunOnce},
		{"drain", drainEvery, (&DrainLoop{s}).RunOnce},
		{"limit counters", countersEvery, (&CounterLoop{s}).RunOnce},
	}
	if set.Rebalance {
		loops = append(loops, Loop{"rebalance", rebalanceEvery, (&RebalanceLoop{s}).RunOnce})
	}
	return loops
}

// RolloverLoop rolls over budgets whose period is over. Requests do not depend on it: they call
// RollOver.
type RolloverLoop struct{ s *Service }

// RunOnce rolls over at most 200 budgets, four of them concurrently.
func (l *RolloverLoop) RunOnce(ctx context.Context) error {
	const limit, workers = 200, 4
	ids, err := l.s.Ledger.Over(ctx, limit)
	if err != nil {
		return err
	}
	var all errgroup.Group
	all.SetLimit(workers)
	for _, id := range shuffled(ids) {
		all.Go(func() error { return l.s.RollOver(ctx, id) })
	}
	return all.Wait()
}

// StatusLoop keeps the status column of budgets up to date for readers of the table.
type StatusLoop struct{ s *Service }

// RunOnce writes the status of at most 500 budgets.
func (l *StatusLoop) RunOnce(ctx context.Context) error {
	const limit = 500
	return l.s.Ledger.Restate(ctx, limit)
}

// SweepLoop moves returned units to where they belong.
type SweepLoop struct{ s *Service }

// RunOnce sweeps at most 1,024 budgets.
func (l *SweepLoop) RunOnce(ctx context.Context) error {
	const limit = 1024
	ids, err := l.s.Ledger.Returning(ctx, limit)
	if err != nil || len(ids) == 0 {
		return err
	}
	units, err := l.s.Ledger.Sweep(ctx, ids)
	l.s.Moved("sweep", units)
	return err
}

// SettleLoop moves what budgets of families have left at their ends to their parents. Requests do
// not depend on it: a parent that lacks units settles its descendants.
type SettleLoop struct{ s *Service }

// RunOnce settles at most 1,024 parts of budgets for each level of a family, the deepest first.
func (l *SettleLoop) RunOnce(ctx context.Context) error {
	const limit, levels = 1024, 8
	for range levels {
		found, err := l.s.Ledger.Settle(ctx, limit)
		if err != nil || !found {
			return err
		}
	}
	return nil
}

// CounterLoop removes limit counters whose windows have ended, and overrides that no limit has any
// more.
type CounterLoop struct{ s *Service }

// RunOnce removes at most 10,000 counters and as many overrides.
func (l *CounterLoop) RunOnce(ctx context.Context) error {
	const limit, rounds = 500, 20
	for range rounds {
		n, err := l.s.Ledger.ExpireCounters(ctx, limit)
		if err != nil {
			return err
		}
		if n < limit {
			break
		}
	}
	for range rounds {
		more, err := l.s.Ledger.RemoveOverrides(ctx, limit)
		if err != nil || !more {
			return err
		}
	}
	return nil
}

// maxUsed bounds the budgets that are remembered between two passes. The loop misses further ones
// until they are used again.
const maxUsed = 10_000

// used is the set of budgets that were used since the last pass of a loop. The zero value is empty.
// It is safe for concurrent use.
type used struct {
	mu  sync.RWMutex
	ids map[int64]struct{}
}

// note adds a budget. It takes no exclusive lock if the budget is in the set.
func (u *used) note(id int64) {
	u.mu.RLock()
	_, known := u.ids[id]
	u.mu.RUnlock()
	if known {
		return
	}
	u.mu.Lock()
	defer u.mu.Unlock()
	if u.ids == nil {
		u.ids = map[int64]struct{}{}
	}
	if len(u.ids) < maxUsed {
		u.ids[id] = struct{}{}
	}
}

// take removes at most n budgets and returns them.
func (u *used) take(n int) (ids []int64) {
	u.mu.Lock()
	defer u.mu.Unlock()
	for id := range u.ids {
		if len(ids) == n {
			break
		}
		delete(u.ids, id)
		ids = append(ids, id)
	}
	return ids
}
