package bucket

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/budgetd/budgetd/budget"
	"github.com/budgetd/budgetd/ledger"
)

// choresLimit bounds how much of each kind one look at the unfinished work takes on.
const choresLimit = 500

// finishUnfinished finishes what any node began and did not end: it is found by its status, and
// each step is harmless when done twice (DESIGN 6).
func (s *Service) finishUnfinished(ctx context.Context) {
	const rounds = 100
	for range rounds {
		if more := s.finishSome(ctx); !more || ctx.Err() != nil {
			return
		}
	}
}

// finishSome takes on one page of the unfinished work. more says that another page may hold budgets to
// settle, and that something was done for those of this one.
func (s *Service) finishSome(ctx context.Context) (more bool) {
	u, err := s.sql.Unfinished(ctx, choresLimit, s.unusable()...)
	if err != nil {
		s.failed("sql", err)
		return false
	}
	s.observer.Unfinished("epochs", len(u.Epochs))
	s.observer.Unfinished("grants", len(u.Grants))
	s.observer.Unfinished("shrinks", len(u.Shrinks))
	s.observer.Unfinished("fenced", len(u.Fenced))
	s.observer.Unfinished("returning", len(u.Returning))
	opening, recycling := map[Lane][]Ref{}, s.recycling(u.Recycles)
	for _, e := range u.Epochs {
		ref := Ref{Bucket: e.Row.Bucket, Epoch: e.Row.Number, Activation: e.Row.Activation}
		switch {
		case e.Row.Status == ledger.Opening:
			opening[e.Lane] = append(opening[e.Lane], ref)
		case recycling[Planned{Bucket: ref.Bucket, Epoch: ref.Epoch}]:
		case s.reachable(e.Lane, ref):
			if err := s.finishEnding(ctx, e.Budget, e.Lane, ref, nil); err != nil {
				s.log.Warn("epoch not closed yet", "bucket", ref.Bucket, "epoch", ref.Epoch, "error", err)
			}
		}
	}
	for _, id := range inOrder(opening) {
		s.open(ctx, id, opening[id])
	}
	s.resendGrants(ctx, u.Grants)
	for _, id := range u.Returning {
		if moved, err := s.sql.Sweep(ctx, id); err != nil {
			s.failed("sql", err)
		} else {
			s.observer.Moved("sweep", moved)
			s.quiet.Remove(id)
		}
	}
	for _, adjustment := range u.Shrinks {
		s.continueShrink(ctx, adjustment)
	}
	for _, id := range u.Resizes {
		if err := s.resize(ctx, id); err != nil {
			s.log.Warn("number of buckets not changed yet", "budget", id, "error", err)
		}
	}
	s.endRuns(ctx, u.Runs)
	s.takeRecycles(ctx, u.Recycles)
	return s.settleBudgets(ctx, u.Offline) > 0 && len(u.Offline) == choresLimit
}

// abandoned reports whether nobody goes on with a run: a step takes no longer.
func (s *Service) abandoned(r OpenRun) bool { return s.sql.Now().Sub(r.Since) >= 2*s.set.StepTimeout }

// endRuns ends runs that their nodes have left open: one that is going on ends within the time that a
// collect may take, and its donors and grants are finished from their own statuses.
func (s *Service) endRuns(ctx context.Context, runs []OpenRun) {
	for _, r := range runs {
		if !s.abandoned(r) {
			continue
		}
		if err := s.sql.EndRun(ctx, r.Budget, r.Number, 0); err != nil {
			s.failed("sql", err)
			continue
		}
		s.log.Info("abandoned collect ended", "budget", r.Budget, "run", r.Number)
	}
}

func (s *Service) reachable(id Lane, ref Ref) bool {
	l := s.lanes[id]
	return l != nil && s.usable(l, ref.Activation)
}

// resendGrants sends pending grants again, in order.
func (s *Service) resendGrants(ctx context.Context, grants []PendingGrant) {
	orders := map[Lane][]GrantOrder{}
	for _, g := range grants {
		if s.reachable(g.Lane, g.Order.Ref) {
			orders[g.Lane] = append(orders[g.Lane], g.Order)
		}
	}
	for _, id := range inOrder(orders) {
		s.sendGrants(ctx, id, orders[id])
	}
}

// settleBudgets gives buckets that are in the list, but whose epoch has ended, a new one, and the units
// that came back a home: several budgets in one transaction. Buckets on lanes that this node cannot use
// are left alone until it can. It returns how many epochs and grants that made.
func (s *Service) settleBudgets(ctx context.Context, ids []int64) (made int) {
	const budgets, workers = 16, 4
	var all errgroup.Group
	all.SetLimit(workers)
	var count atomic.Int64
	without := s.unusable()
	for batch := range slices.Chunk(ids, budgets) {
		place := s.turns.take()
		all.Go(func() error {
			s.turns.wait(place)
			step, cancel := s.bounded(ctx)
			defer cancel()
			h, err := s.sql.Settle(step, batch, without...)
			if err != nil {
				s.failed("sql", err)
				s.log.Warn("buckets not reopened yet", "budgets", len(batch), "error", err)
				return nil
			}
			s.carryOut(step, h)
			for _, id := range batch {
				s.quiet.Remove(id)
			}
			count.Add(int64(len(h.Opened) + len(h.Grants)))
			return nil
		})
	}
	_ = all.Wait() // each has said what failed
	return int(count.Load())
}

// suspect is a fenced bucket that could not be recovered: it is looked at more and more rarely.
type suspect struct {
	next, pause time.Duration
}

// recoverFenced replaces the epochs of fenced buckets, if SQL's rows of the bucket agree among
// themselves: what the ledger does not have of them never happened. Otherwise an operator must decide,
// and they stay fenced. It has a loop of its own, because it reads a budget's whole ledger.
func (s *Service) recoverFenced(ctx context.Context) {
	u, err := s.sql.Unfinished(ctx, choresLimit)
	if err != nil {
		s.failed("sql", err)
		return
	}
	fenced := map[int64][]EpochOf{}
	seen := map[Ref]suspect{}
	for _, e := range u.Fenced {
		ref := Ref{Bucket: e.Row.Bucket, Epoch: e.Row.Number, Activation: e.Row.Activation}
		seen[ref] = s.suspects[ref]
		if known := seen[ref]; due(s.now(), known.next, known.pause) {
			fenced[e.Budget] = append(fenced[e.Budget], e)
		}
	}
	s.suspects = seen // what is no longer fenced is forgotten
	for _, budgetID := range slices.Sorted(maps.Keys(fenced)) {
		s.recoverBuckets(ctx, budgetID, fenced[budgetID])
	}
}

// lose ends a fenced epoch. In store mode its units are quarantined: callers may have been told
// "accepted" for some that the ledger does not have.
func (s *Service) lose(ctx context.Context, e EpochOf, ref Ref) (bool, error) {
	if inStore, err := s.storeMode(ctx, e.Budget); err != nil {
		return false, err
	} else if inStore {
		return s.settle(ctx, e, ref, true), nil
	}
	lost, err := s.sql.Lose(ctx, ref)
	if lost {
		s.observer.Moved("lose", e.Row.Outstanding)
		s.log.Info("fenced epoch lost; its units returned to the total", "budget", e.Budget, "bucket", ref.Bucket,
			"epoch", ref.Epoch, "units", e.Row.Outstanding)
	}
	return lost, err
}

// ofBucket recomputes the columns of a bucket's epochs from their rows.
func (a *Accounts) ofBucket(id int64) (found []ledger.Discrepancy) {
	for i := range a.Epochs {
		if e := &a.Epochs[i]; e.Row.Bucket == id {
			found = append(found, ledger.CheckEpoch(e)...)
		}
	}
	return found
}

func (s *Service) recoverBuckets(ctx context.Context, budgetID int64, epochs []EpochOf) {
	accounts, err := s.sql.Accounts(ctx, budgetID)
	if err != nil {
		s.failed("sql", err)
		return
	}
	for _, e := range epochs {
		ref := Ref{Bucket: e.Row.Bucket, Epoch: e.Row.Number, Activation: e.Row.Activation}
		if found := accounts.ofBucket(ref.Bucket); len(found) > 0 {
			s.observer.Discrepancies(len(found))
			s.log.Error("fenced bucket not recovered: the books disagree", "budget", budgetID,
				"bucket", ref.Bucket, "discrepancy", found[0].String())
			const longest = time.Minute
			pause := min(max(2*s.suspects[ref].pause, time.Second), longest)
			s.suspects[ref] = suspect{next: s.now() + pause, pause: pause}
			continue
		}
		lost, err := s.lose(ctx, e, ref)
		if err != nil {
			s.failed("sql", err)
			continue
		}
		if l := s.lanes[e.Lane]; lost && l != nil {
			if err := l.instance.Forget(ctx, l.id, []Ref{ref}); err != nil {
				s.failed("store", err)
			}
		}
	}
	s.settleBudgets(ctx, []int64{budgetID})
}

// continueShrink brings units back for a shrink that waits: returning ones first, then whole buckets.
func (s *Service) continueShrink(ctx context.Context, adjustment Adjustment) {
	if _, err := s.sql.Sweep(ctx, adjustment.Budget); err != nil {
		s.failed("sql", err)
		return
	}
	adjustment.Continue = true // another node may have refused it since it was found
	state, _, err := s.sql.Adjust(ctx, adjustment)
	if err != nil || state != AdjustmentPending {
		return // done, or refused with the figure: whoever asked is told when asking again
	}
	if err := s.recall(ctx, adjustment.Budget, -adjustment.Quantity); err != nil {
		s.log.Warn("shrink waits for units", "budget", adjustment.Budget, "error", err)
		return
	}
	if state, _, err = s.sql.Adjust(ctx, adjustment); err != nil && !budget.Is(err, budget.AmountExceedsRemaining) {
		s.failed("sql", err)
	}
	if state != AdjustmentPending {
		if err := s.handOut(ctx, adjustment.Budget); err != nil {
			s.log.Warn("units not handed out yet", "budget", adjustment.Budget, "error", err)
		}
	}
}

// recall brings units of open buckets back to the total until it covers `units`: each bucket's epoch
// is ended and, because the bucket stays in the list, a new empty one is opened.
func (s *Service) recall(ctx context.Context, budgetID int64, units int64) error {
	b, err := s.sql.Budget(ctx, BudgetRef{ID: budgetID})
	if err != nil {
		return err
	}
	f, err := s.sql.Figures(ctx, budgetID)
	if err != nil {
		return err
	}
	need, away := units-f.Undistributed-f.Unfunded, int64(0)
	var errs []error
	for i := range b.Buckets {
		bk := &b.Buckets[i]
		if need <= 0 {
			break
		}
		if bk.Epoch.Status != ledger.Open && bk.Epoch.Status != ledger.Closing || bk.Epoch.Outstanding == 0 {
			continue
		}
		if !s.reachable(bk.Lane, bk.Ref()) {
			away += bk.Epoch.Outstanding
			continue
		}
		if err := s.endEpoch(ctx, b.ID, bk.Lane, bk.Ref(), ByService, true, nil); err != nil {
			errs = append(errs, err)
			continue
		}
		need -= bk.Epoch.Outstanding
		if !bk.Online {
			continue // an operator took it offline
		}
		if err := s.reopen(ctx, b.ID, bk.ID); err != nil {
			errs = append(errs, err)
		}
	}
	if need > 0 && away > 0 {
		errs = append(errs, fmt.Errorf("%d units are in buckets out of reach", away))
	}
	return errors.Join(errs...)
}
