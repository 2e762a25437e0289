package transfer

import (
	"cmp"
	"context"
	"time"

	"github.com/budgetd/budgetd/bucket"
	"github.com/budgetd/budgetd/budget"
	"github.com/budgetd/budgetd/fragment"
)

// Recycle brings the units of a budget's buckets together and hands them out again by recent
// demand. This joins fragments, resets out_cnt to 0, and contracts a budget with little left to
// fewer buckets. In ledger mode it is one transaction. In store mode it goes on selling meanwhile:
// epochs of buckets above their share are closed, some at a time, and stores that do not answer are
// left out. Repeating it is harmless, also if it was interrupted.
//
// Errors: BudgetNotFound; BudgetExpired if no period is open; Unavailable; OutcomeUnknown (the
// history shows whether it was done).
func (s *Service) Recycle(ctx context.Context, ref bucket.BudgetRef) (bucket.Recycle, error) {
	b, err := s.Budgets.Find(ctx, ref)
	if err != nil {
		return bucket.Recycle{}, err
	}
	return s.recycle(ctx, b, bucket.OnDemand, time.Time{})
}

// recycle recycles a budget, unless one with this cause has begun since an instant. It returns that
// one then.
func (s *Service) recycle(ctx context.Context, b *bucket.Budget, cause bucket.RecycleCause,
	since time.Time) (run bucket.Recycle, err error) {
	want := Recycling{Cause: cause, Since: since}
	if b.InStoreMode() {
		if b, err = s.Budgets.Reload(ctx, b.ID); err != nil {
			return run, err
		}
		found, err := s.collect(ctx, b, &want)
		if err != nil || found != nil {
			return *cmp.Or(found, &run), err
		}
	}
	out, err := s.distribute(ctx, b, want)
	for i := 0; err == nil && len(out.Closing) > 0 && i < mostWaits; i++ { // of a period that is over
		if _, err = s.told(ctx, out.Closing); err == nil {
			out, err = s.distribute(ctx, b, want)
		}
	}
	switch {
	case err != nil:
		return run, err
	case len(out.Closing) > 0:
		return run, budget.Refuse(budget.Unavailable, "recycle",
			"the last period of budget %s is being closed", b.Name)
	}
	if b.InStoreMode() {
		if err := s.deliver(ctx, b); err != nil {
			return run, err
		}
	}
	if run = out.Run; !out.Began {
		return run, nil
	}
	s.Moved("recycle", run.Moved)
	s.Log.Info("budget recycled", "budget", run.Budget, "run", run.Number, "cause", string(run.Cause),
		"buckets", run.Buckets, "skipped", run.Skipped, "units", run.Moved,
		"stranded_before", run.Before.Stranded, "stranded_after", run.After.Stranded)
	return run, nil
}

// distribute is the last step of a recycle.
func (s *Service) distribute(ctx context.Context, b *bucket.Budget, want Recycling) (
	out Recycled, err error) {
	step, cancel := s.bounded(ctx)
	defer cancel()
	_, err = s.Budgets.Learn(func() (after bucket.Budget, err error) {
		after, out, err = s.Ledger.Recycle(step, b, want)
		return after, err
	})
	s.rolledOver(b.ID, out.RolledOver)
	return out, err
}

// collect closes the epochs of a budget's buckets that are above their share by recent demand. It
// returns the recycle since want.Since, if there is one.
func (s *Service) collect(ctx context.Context, b *bucket.Budget, want *Recycling) (
	found *bucket.Recycle, err error) {
	const most = 100 // 1,024 buckets take 64 steps
	step, cancel := s.bounded(ctx)
	lately, largest, failed := s.Stores.Lately(step, b)
	cancel()
	want.Lately, want.Largest = lately, largest
	want.Away, want.Done = map[int64]bool{}, map[int64]bool{}
	want.without(b, failed)
	for range most {
		step, cancel := s.bounded(ctx)
		got, err := s.Ledger.Collect(step, b, *want)
		cancel()
		if err != nil || got.Found != nil {
			return got.Found, err
		}
		if want.BeganAt.IsZero() && !got.Waits {
			want.BeganAt, want.Before = got.At, got.Before
		}
		if len(got.Tell) == 0 {
			break
		}
		failed, err := s.told(ctx, got.Tell)
		if err != nil {
			return nil, err
		}
		if !got.Waits {
			want.without(b, failed)
		}
		for id, units := range got.Closing {
			if !want.Away[id] {
				want.Done[id] = true
				want.Moved += units
			}
		}
	}
	return nil, nil
}

// without leaves the buckets of stores that do not answer out of the next steps.
func (r *Recycling) without(b *bucket.Budget, failed map[bucket.Partition]error) {
	for i := range b.Buckets {
		if bk := &b.Buckets[i]; failed[bk.Partition] != nil {
			r.Away[bk.ID] = true
		}
	}
}

// told tells the stores of buckets what was decided in SQL.
func (s *Service) told(ctx context.Context, buckets []int64) (map[bucket.Partition]error, error) {
	step, cancel := s.bounded(ctx)
	defer cancel()
	return s.tellAll(step, buckets)
}

// deliver tells the stores of a budget what they get.
func (s *Service) deliver(ctx context.Context, b *bucket.Budget) error {
	ids := make([]int64, len(b.Buckets))
	for i := range b.Buckets {
		ids[i] = b.Buckets[i].ID
	}
	_, err := s.told(ctx, ids)
	if err == nil {
		_, err = s.Budgets.Reload(ctx, b.ID)
	}
	return afterWrite("recycle", true, err)
}

// Recycles reads at most limit recycles of a budget with numbers below before, the newest first.
// before is 0 for the first page. Errors: BudgetNotFound, Unavailable.
func (s *Service) Recycles(ctx context.Context, ref bucket.BudgetRef, before int64, limit int) (
	[]bucket.Recycle, error) {
	b, err := s.Budgets.Find(ctx, ref)
	if err != nil {
		return nil, err
	}
	return s.Ledger.RecycleHistory(ctx, b.ID, before, limit)
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
	// watchedBudgets bounds the budgets that one pass checks.
	watchedBudgets = 100
	// schedulePage is the number of budgets on one page of a scheduled recycle.
	schedulePage = 200
)

// RecycleLoop recycles budgets by schedule and by their stranded share.
type RecycleLoop struct {
	s   *Service
	set RecycleSettings
	due time.Time
}

// RunOnce does what is due. It returns the first error, after it has done the rest.
func (l *RecycleLoop) RunOnce(ctx context.Context) error {
	first := l.scheduled(ctx)
	if err := l.stranded(ctx); first == nil {
		first = err
	}
	return first
}

// scheduled recycles all effective budgets at the schedule's time. All nodes do this; the first one
// that comes to a budget recycles it. After several missed times it recycles once.
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
			b, err := l.s.Budgets.Find(ctx, bucket.BudgetRef{ID: d.ID})
			if err == nil {
				err = l.recycle(ctx, b, bucket.OnSchedule, l.due)
			}
			if err != nil && !budget.Is(err, budget.BudgetNotFound) {
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

// recycle recycles a budget, unless one has begun since or no period is open.
func (l *RecycleLoop) recycle(ctx context.Context, b *bucket.Budget, cause bucket.RecycleCause,
	since time.Time) error {
	_, err := l.s.recycle(ctx, b, cause, since)
	if budget.Is(err, budget.BudgetExpired) {
		return nil
	}
	return err
}

// stranded recycles budgets that this node used and of which too much is stranded, or which have
// outgrown a contraction.
func (l *RecycleLoop) stranded(ctx context.Context) error {
	units, first := int64(0), error(nil)
	for _, id := range l.s.recyclable.take(watchedBudgets) {
		var layout Layout
		b, err := l.s.Budgets.Reload(ctx, id)
		if err == nil {
			layout, err = l.s.Ledger.Layout(ctx, b)
		}
		if err == nil {
			spread := layout.Spread()
			units += spread.Stranded
			if layout.Status == budget.Effective && (layout.Outgrown || fragment.Asks(spread.Stranded,
				spread.Units, layout.Least, l.set.StrandedShare)) {
				err = l.recycle(ctx, b, bucket.Automatic, l.s.Now().Add(-automaticPause))
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
