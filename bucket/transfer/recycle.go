package transfer

import (
	"context"
	"time"

	"github.com/budgetd/budgetd/bucket"
	"github.com/budgetd/budgetd/budget"
	"github.com/budgetd/budgetd/fragment"
)

// runTime bounds how long one node goes on with a recycle; any node continues it.
const runTime = 5 * time.Minute

// Recycle brings the units of a budget's buckets together and hands them out again by recent
// demand. Fragments come together, out_cnt starts from 0, and a budget of which little is left
// contracts. Nothing stops meanwhile: units are in buckets or in the total after each step (I1),
// and both are in I3's sum. The run goes on when ctx ends; EndedAt of the answer is zero then.
//
// Errors: BudgetNotFound; LedgerModeOnly; RecycleRunning while another one is open, on whatever
// node; Unavailable; OutcomeUnknown: look at the history.
func (s *Service) Recycle(ctx context.Context, ref bucket.BudgetRef) (bucket.Recycle, error) {
	b, err := s.Budgets.Find(ctx, ref)
	if err == nil {
		err = ledgerOnly("recycle", b)
	}
	if err == nil {
		err = s.turnFirst(ctx, b)
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

// Recycles reads recycles of a budget, the newest first: at most limit with numbers below before,
// which is 0 for the first page. Errors: BudgetNotFound, Unavailable.
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

// runRecycle goes on with a recycle until it has ended or ctx is over. It returns the run as it is
// then.
func (s *Service) runRecycle(ctx context.Context, run bucket.Recycle) (bucket.Recycle, error) {
	for run.EndedAt.IsZero() {
		step, err := s.Ledger.Recycles.StepRecycle(ctx, run.Budget, run.Number)
		if err != nil {
			return run, err
		}
		s.tell(ctx, step.Levels)
		s.Moved("recycle", step.Run.Moved-run.Moved)
		run = step.Run
	}
	s.Log.Info("budget recycled", "budget", run.Budget, "run", run.Number, "cause", string(run.Cause),
		"buckets", run.Buckets, "skipped", run.Skipped, "units", run.Moved,
		"stranded_before", run.Before.Stranded, "stranded_after", run.After.Stranded)
	_, err := s.Budgets.Reload(ctx, run.Budget)
	return run, err
}

// RecycleSettings say when budgets are recycled without being asked.
type RecycleSettings struct {
	// Next returns when the schedule's next time is, after an instant; nil: there is no schedule.
	Next func(after time.Time) time.Time
	// StrandedShare is the part of a budget's units that may be stranded, 0 … 1; 1: any.
	StrandedShare float64
	// Recyclable is told how many units were stranded in the budgets looked at; nil: nobody is.
	Recyclable func(units int64)
}

// Bounds of recycling without being asked.
const (
	// automaticPause is how long a budget is left alone after a recycle that began by itself.
	automaticPause = time.Minute
	// abandonedAfter is how long nobody has gone on with a run before any node does.
	abandonedAfter = 10 * time.Second
	// watchedBudgets bounds how many budgets one look takes on.
	watchedBudgets = 100
	// schedulePage is how many budgets one page of a scheduled recycle has.
	schedulePage = 200
)

// RecycleLoop continues runs that their nodes have left, and recycles budgets by schedule and by
// their stranded share.
type RecycleLoop struct {
	s   *Service
	set RecycleSettings
	due time.Time
}

// RunOnce does what is due. Error: the first that it met; the rest is done all the same.
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

// abandoned continues runs that nobody has gone on with. Two nodes that continue one run take turns
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

// scheduled recycles all effective budgets once the schedule's time has come. All nodes do this; a
// budget is recycled by the node that begins first. Missed times are made up for once.
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
	for after := int64(0); ; {
		list, err := l.s.Pages.Budgets(ctx, bucket.Page{Status: budget.Effective, AfterID: after,
			Size: schedulePage})
		if err != nil {
			return err // again with the next look
		}
		for i := range list {
			d := &list[i].Definition
			if after = d.ID; d.Durability != budget.Ledger {
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

// recycle begins and runs a recycle of a budget, unless another one is open or has begun since.
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

// stranded recycles budgets that were used through this node and of which too much is stranded.
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
