package bucket

import (
	"context"
	"encoding/hex"
	"time"

	"github.com/budgetd/budgetd/budget"
	"github.com/budgetd/budgetd/fragment"
)

// takeRecycles goes on with recycles that nobody has gone on with for longer than a step may take: their
// nodes have stopped. Where a node was only slow, it hears with its next step that it is no longer the
// holder; what both did meanwhile is harmless.
func (s *Service) takeRecycles(ctx context.Context, open []OpenRun) {
	for _, r := range open {
		if !s.abandoned(r) {
			continue
		}
		holder := hex.EncodeToString([]byte(s.nonce()))
		run, err := s.sql.TakeRecycle(ctx, r.Budget, r.Number, r.Since, holder)
		if err != nil {
			s.failed("sql", err)
			continue
		}
		if run == nil {
			continue // somebody else has
		}
		s.log.Info("abandoned recycle taken over", "budget", run.Budget, "run", run.Number, "done", run.Done,
			"buckets", len(run.Plan))
		s.atLength("recycle", func(ctx context.Context) { s.runRecycle(ctx, *run) }, func() {})
	}
}

// recycling is what recycles work on now. A chore that ended such an epoch too would leave its bucket
// without one, and what came back from it would be spread evenly instead of by demand.
func (s *Service) recycling(open []OpenRun) map[Planned]bool {
	at := map[Planned]bool{}
	for _, r := range open {
		if !s.abandoned(r) {
			at[r.At] = true
		}
	}
	return at
}

const (
	// automaticPause is how long a budget is left alone after a recycle that began by itself. In store mode
	// it is as long as the ids of young epochs are looked up.
	automaticPause = time.Minute
	// watchedBudgets bounds how many budgets one look takes on.
	watchedBudgets = 100
)

// recycleStranded recycles budgets that were sold from through this node, in which the part of the units
// that is stranded is above the configured one: one after the other, so that a node has one such run at a
// time.
func (s *Service) recycleStranded(ctx context.Context) {
	stranded, seen := int64(0), 0
	for _, id := range s.budgets.byID.Keys() {
		entry, ok := s.budgets.byID.Peek(id)
		if !ok || !entry.asked.Swap(false) {
			continue
		}
		stranded += s.recycleIfStranded(ctx, id)
		if seen++; seen == watchedBudgets || ctx.Err() != nil {
			break
		}
	}
	s.observer.Recyclable(stranded)
}

// recycleIfStranded looks at one budget, and recycles it where that is worth it. It returns how many
// minor units were stranded.
func (s *Service) recycleIfStranded(ctx context.Context, budgetID int64) int64 {
	step, cancel := s.bounded(ctx)
	defer cancel()
	b, l, err := s.demanded(step, budgetID)
	if err != nil {
		s.failed("sql", err)
		return 0
	}
	now, units := s.sql.Now(), l.spread()
	if b.StatusAt(now) != budget.Effective || !fragment.Asks(units.Stranded, units.Units, l.least, s.set.StrandedShare) {
		return units.Stranded
	}
	pause := automaticPause
	if b.inStoreMode() {
		pause = max(pause, 2*s.set.RecordWindow)
	}
	run, began, err := s.beginRecycle(ctx, budgetID, Automatic, now.Add(-pause))
	if err != nil {
		s.failed("sql", err)
	} else if began {
		s.runRecycle(ctx, run)
	}
	return units.Stranded
}

// recycleScheduled recycles all effective budgets once the schedule's time has come, and returns when it
// comes again: times that were missed are not made up for, beyond one. All nodes do this; a budget is
// recycled by the one that begins first.
func (s *Service) recycleScheduled(ctx context.Context, due time.Time) (next time.Time) {
	now := s.sql.Now()
	if due.IsZero() || now.Before(due) {
		return due
	}
	const page = 200
	for after := int64(0); ctx.Err() == nil; {
		list, err := s.sql.Budgets(ctx, Page{Status: budget.Effective, AfterID: after, Size: page})
		if err != nil {
			s.failed("sql", err)
			return due // again with the next look
		}
		for i := range list {
			run, began, err := s.beginRecycle(ctx, list[i].ID, OnSchedule, due)
			if err != nil {
				s.failed("sql", err)
			} else if began {
				s.runRecycle(ctx, run)
			}
			after = list[i].ID
		}
		if len(list) < page {
			break
		}
	}
	return s.set.RecycleAt(s.sql.Now())
}
