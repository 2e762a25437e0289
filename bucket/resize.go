package bucket

import (
	"context"
	"errors"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/budgetd/budgetd/budget"
)

// resize goes on with a change of the number of a budget's buckets until it is done. Definitions.Change
// has noted the number wanted, so whoever finds it half done goes on with it. Unavailable while a bucket
// that has to end cannot be asked, or no lane can take a new one; OutcomeUnknown.
func (s *Service) resize(ctx context.Context, budgetID int64) error {
	const rounds, pause = 20, 20 * time.Millisecond
	target := 0
	for range rounds {
		b, err := s.sql.Budget(ctx, BudgetRef{ID: budgetID})
		if err != nil {
			return err
		}
		if target == 0 {
			target = len(b.Ring())
		}
		lanes, err := s.placeMore(b.Tenant, b.Name, b.Buckets, target)
		if err != nil {
			return err
		}
		if err := s.fitForStoreMode(b.Definition, lanes[min(len(b.Buckets), target):]); err != nil {
			return err
		}
		r, err := s.sql.Resize(ctx, budgetID, lanes)
		switch {
		case errors.Is(err, ErrDraining):
			s.seeLanes(ctx)
			continue
		case err != nil:
			return err
		case r.Target != 0 && r.Target != target:
			target = r.Target
			continue
		}
		s.carryOut(ctx, Handout{Opened: r.Opened})
		s.finishEndings(ctx, r.Ending)
		if r.Target == 0 {
			if len(r.Opened)+len(r.Ending) > 0 {
				s.log.Info("number of buckets changed", "budget", budgetID, "buckets", target)
			}
			return s.handOut(ctx, budgetID)
		}
		if err := s.clock.Sleep(ctx, pause); err != nil {
			break
		}
	}
	return budget.Refuse(budget.Unavailable, "resize", "not all buckets have ended yet; it goes on as soon as they have")
}

// finishEndings finishes closing epochs, several side by side. What fails stays closing.
func (s *Service) finishEndings(ctx context.Context, epochs []EpochOf) {
	const workers = 8
	var all errgroup.Group
	all.SetLimit(workers)
	for _, e := range epochs {
		ref := refOf(&e.Row)
		if e.Row.Fenced != "" || !s.reachable(e.Lane, ref) {
			continue
		}
		place := s.turns.take()
		all.Go(func() error {
			s.turns.wait(place)
			if err := s.finishEnding(ctx, e.Budget, e.Lane, ref, nil); err != nil {
				s.log.Warn("epoch not closed yet", "bucket", ref.Bucket, "epoch", ref.Epoch, "error", err)
			}
			return nil
		})
	}
	_ = all.Wait() // each has said what failed
}
