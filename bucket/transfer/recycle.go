package transfer

import (
	"context"
	"time"

	"github.com/budgetd/budgetd/bucket"
	"github.com/budgetd/budgetd/budget"
	"github.com/budgetd/budgetd/fragment"
)

// runTime bounds how long one node works on a recycle. Any node can continue it.
const runTime = 5 * time.Minute

// Recycle returns the units of a budget's buckets to the total and hands them out again by recent
// demand. This joins fragments, resets out_cnt to 0, and contracts a budget with little left to
// fewer buckets. Requests continue meanwhile: after each step units are in buckets or in the total
// (I1), and I3's sum includes both. The run continues when ctx ends; EndedAt of the answer is zero
// then.
//
// Errors: BudgetNotFound; LedgerModeOnly; RecycleRunning if a recycle is open on any node;
// Unavailable; OutcomeUnknown (the history shows whether it began).
func (s *Service) Recycle(ctx context.Context, ref bucket.BudgetRef) (bucket.Recycle, error) {
	b, err := s.Budgets.Find(ctx, ref)
	if err == nil {
		err = ledgerOnly("recycle", b)
	}
	if err == nil {
		err = s.rollOverFirst(ctx, b)
	}
	if err != nil {
		return bucket.Recycle{}, err
	}
	run, began, err := s.beginRecycle(ctx, b.ID, bucket.OnDemand, time.Time{})
	if err != nil {
		return bucket.Recycle{}, err
	}
	if !began {
		return bucket.Recycle{}, budget.Refuse(budget.RecycleRunning, "recycle",
			"recycle %d of budget %s is open: %d buckets are done", run.Number, b.Name, run.Buckets)
	}
	done := make(chan bucket.Recycle, 1)
	s.running.Go(func() {
		step, cancel := context.WithTimeout(context.WithoutCancel(ctx), runTime)
		defer cancel()
		after, err := s.runRecycle(step, run)
		if err != nil {
			s.Log.Warn("recycle not finished; any node continues it", "budget", b.Name,
				"run", run.Number, "error", err)
		}
		done <- after
	})
	select {
	case run = <-done:
	case <-ctx.Done():
	}
	return run, nil
}

// Recycles reads at most limit recycles of a budget with numbers below before, the newest first.
// before is 0 for the first page. Errors: BudgetNotFound, Unavailable.
func (s *Service) Recycles(ctx context.Context, ref bucket.BudgetRef, before int64, limit int) (
	[]bucket.Recycle, error) {
	b, err := s.Budgets.Find(ctx, ref)
	if err != nil {
		return nil, err
	}
	return s.Ledger.Recycles.RecycleHistory(ctx, b.ID, before, limit)
}

// beginRecycle sweeps a budget and begins a recycle of it.
func (s *Service) beginRecycle(ctx context.Context, budgetID int64, cause bucket.RecycleCause,
	since time.Time) (bucket.Recycle, bool, error) {
	step, cancel := s.bounded(ctx)
	defer cancel()
	swept, err := s.Ledger.Periods.Sweep(step, []int64{budgetID})
	if err != nil {
		return bucket.Recycle{}, false, err
	}
	s.Moved("sweep", swept)
	return s.Ledger.Recycles.BeginRecycle(step, budgetID, cause, since)
}

// runRecycle continues a recycle until it has ended or ctx ends. It returns the run as it is then.
func (s *Service) runRecycle(ctx context.Context, run bucket.Recycle) (bucket.Recycle, error) {
	for run.EndedAt.IsZero() {
		next, err := s.Ledger.Recycles.StepRecycle(ctx, run.Budget, run.Number)
		if err != nil {
			return run, err
		}
		s.Moved("recycle", next.Moved-run.Moved)
		run = next
	}
	s.Log.Info("budget recycled", "budget", run.Budget, "run", run.Number, "cause", string(run.Cause),
		"buckets", run.Buckets, "skipped", run.Skipped, "units", run.Moved,
		"stranded_before", run.Before.Stranded, "stranded_after", run.After.Stranded)
	_, err := s.Budgets.Reload(ctx, run.Budget)
	return run, err
}

// RecycleSettings configure automatic recycles.
type RecycleSettings struct {
	// Next returns the schedule's first instant after another one. It is nil if there is no schedule.
	Next func(after time.Time) time.Time
	// StrandedShare is the part of a budget's units that may be stranded, 0 … 1; 1 allows all.
	StrandedShare float64
	// Recyclable is called with the number of stranded units in the budgets that were checked. It may
	// be nil.
	Recyclable func(units int64)
}

// Bounds of automatic recycles.
const (
	// automaticPause is the shortest time between two automatic recycles of a budget.
	automaticPause = time.Minute
	// abandonedAfter is how long a run makes no progress before other nodes continue it.
	abandonedAfter = 10 * time.Second
	// watchedBudgets bounds the budgets that one pass checks.
	watchedBudgets = 100
	// schedulePage is the number of budgets on one page of a scheduled recycle.
	schedulePage = 200
)

// RecycleLoop continues abandoned runs, and recycles budgets by schedule and by their stranded
// share.
type RecycleLoop struct {
	s   *Service
	set RecycleSettings
	due time.Time
}

// RunOnce does what is due. It returns the first error, after it has done the rest.
func (l *RecycleLoop) RunOnce(ctx context.Context) error {
	first := l.abandoned(ctx)
	if err := l.scheduled(ctx); first == nil {
		first = err
	}
	if err := l.stranded(ctx); first == nil {
		first = err
	}
	return first
}

// abandoned continues runs that make no progress. Two nodes that continue the same run take turns
// with its steps.
func (l *RecycleLoop) abandoned(ctx context.Context) error {
	open, err := l.s.Ledger.Recycles.OpenRecycles(ctx, watchedBudgets)
	if err != nil {
		return err
	}
	for _, run := range open {
		if l.s.Now().Sub(run.TouchedAt) < abandonedAfter {
			continue
		}
		if err := l.s.RollOver(ctx, run.Budget); err != nil {
			return err
		}
		l.s.Log.Info("abandoned recycle continued", "budget", run.Budget, "run", run.Number)
		if _, err := l.s.runRecycle(ctx, run); err != nil {
			return err
		}
	}
	return nil
}

// scheduled recycles all effective budgets at the schedule's time. All nodes do this; the first one
// to begin a budget's recycle runs it. After several missed times it recycles once.
func (l *RecycleLoop) scheduled(ctx context.Context) error {
	if l.set.Next == nil {
		return nil
	}
	now := l.s.Now()
	if l.due.IsZero() {
		l.due = l.set.Next(now)
	}
	if l.due.IsZero() || now.Before(l.due) {
		return nil
	}
	for after := (bucket.BudgetRef{}); ; {
		list, err := l.s.Pages.Budgets(ctx, bucket.Page{Status: budget.Effective, After: after,
			Size: schedulePage})
		if err != nil {
			return err // the next pass tries again
		}
		for i := range list {
			d := &list[i].Definition
			after = bucket.BudgetRef{Tenant: d.Tenant, Name: d.Name}
			if d.Durability != budget.Ledger {
				continue
			}
			if err := l.recycle(ctx, d.ID, bucket.OnSchedule, l.due); err != nil {
				return err
			}
		}
		if len(list) < schedulePage {
			break
		}
	}
	l.due = l.set.Next(l.s.Now())
	return nil
}

// recycle begins and runs a recycle of a budget, unless one is open or has begun since.
func (l *RecycleLoop) recycle(ctx context.Context, id int64, cause bucket.RecycleCause,
	since time.Time) error {
	if err := l.s.RollOver(ctx, id); err != nil {
		return err
	}
	run, began, err := l.s.beginRecycle(ctx, id, cause, since)
	if err != nil || !began {
		return err
	}
	_, err = l.s.runRecycle(ctx, run)
	return err
}

// stranded recycles budgets that this node used and of which too much is stranded.
func (l *RecycleLoop) stranded(ctx context.Context) error {
	units, first := int64(0), error(nil)
	for _, id := range l.s.recyclable.take(watchedBudgets) {
		layout, err := l.s.Ledger.Recycles.Layout(ctx, id)
		if err == nil {
			spread := layout.Spread()
			units += spread.Stranded
			if layout.Status == budget.Effective && fragment.Asks(spread.Stranded, spread.Units,
				layout.Least, l.set.StrandedShare) {
				err = l.recycle(ctx, id, bucket.Automatic, l.s.Now().Add(-automaticPause))
			}
		}
		if first == nil && !budget.Is(err, budget.BudgetNotFound) {
			first = err
		}
	}
	if l.set.Recyclable != nil {
		l.set.Recyclable(units)
	}
	return first
}
