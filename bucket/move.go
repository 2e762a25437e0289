package bucket

import (
	"context"
	"errors"

	"golang.org/x/sync/errgroup"

	"github.com/budgetd/budgetd/ledger"
)

// A lane that is being drained loses its buckets one by one (docs/adr/0011): the epoch ends as in any
// offline, drained to its close entry; then one transaction gives the bucket its new lane and the next
// epoch there. A node that stops between the two leaves a bucket that has ended on a lane where no epoch
// begins: whoever looks next moves it. When no bucket is left, the store is cleared.

// movePage is how many buckets are looked at in one query, moveWorkers how many budgets are moved side by
// side.
const movePage, moveWorkers = 200, 4

// moveAll goes on with every lane that is being drained, each in the background.
func (s *Service) moveAll(context.Context) {
	for _, id := range s.laneOrder {
		l := s.lanes[id]
		if !l.draining.Load() || !l.moving.CompareAndSwap(false, true) {
			continue
		}
		s.apart("move", func(ctx context.Context) { s.moveLane(ctx, l) }, func() { l.moving.Store(false) })
	}
}

// moveLane moves what it can of a lane's buckets until ctx ends. What cannot be moved now (its store is
// down, its bucket fenced) is left for the next look.
func (s *Service) moveLane(ctx context.Context, l *lane) {
	left := false
	for after := int64(0); ctx.Err() == nil; {
		page, err := s.sql.OnLane(ctx, l.id, after, movePage)
		if err != nil {
			s.failed("sql", err)
			return
		}
		left = left || len(page) > 0
		var all errgroup.Group
		all.SetLimit(moveWorkers)
		seen := map[int64]bool{}
		for _, e := range page {
			if after = e.Row.Bucket; seen[e.Budget] {
				continue
			}
			seen[e.Budget] = true
			place := s.turns.take()
			all.Go(func() error {
				s.turns.wait(place)
				s.moveBuckets(ctx, l, e.Budget)
				return nil
			})
		}
		_ = all.Wait() // each has said what failed
		if len(page) < movePage {
			break
		}
	}
	if !left && ctx.Err() == nil {
		s.clearLane(ctx, l)
	}
}

// moveBuckets moves a budget's buckets off a lane, one after the other, so that the others serve.
func (s *Service) moveBuckets(ctx context.Context, l *lane, budgetID int64) {
	b, err := s.sql.Budget(ctx, BudgetRef{ID: budgetID})
	if err != nil {
		s.failed("sql", err)
		return
	}
	for i := range b.Buckets {
		bk := &b.Buckets[i]
		if bk.Lane != l.id || ctx.Err() != nil {
			continue
		}
		to, ok := s.destination(&b, bk)
		if !ok {
			return // nothing ends before there is somewhere to go
		}
		if !s.endForMove(ctx, l, b.ID, bk) {
			continue
		}
		if err := s.move(ctx, b.ID, bk, to); err != nil {
			s.log.Warn("bucket not moved yet", "bucket", bk.ID, "lane", to.String(), "error", err)
		}
	}
}

// endForMove ends a bucket's epoch if it is live; false: not now.
func (s *Service) endForMove(ctx context.Context, l *lane, budgetID int64, bk *Bucket) bool {
	switch {
	case !bk.Epoch.Status.Live():
		return true
	case bk.Epoch.Fenced != "" || !s.usable(l, bk.Epoch.Activation):
		return false
	case bk.Epoch.Status == ledger.Opening:
		s.open(ctx, l.id, []Ref{bk.Ref()})
	}
	if err := s.endEpoch(ctx, budgetID, l.id, bk.Ref(), ByService, true, nil); err != nil {
		s.log.Warn("bucket not ended yet, to be moved", "bucket", bk.ID, "epoch", bk.Epoch.Number, "error", err)
		return false
	}
	return true
}

// move gives an ended bucket its new lane, in bk too, and opens its next epoch there.
func (s *Service) move(ctx context.Context, budgetID int64, bk *Bucket, to Lane) error {
	step, cancel := s.bounded(ctx)
	defer cancel()
	h, moved, err := s.sql.Move(step, Moving{Budget: budgetID, Bucket: bk.ID, From: bk.Lane, To: to})
	if errors.Is(err, ErrDraining) {
		s.seeLanes(step)
	}
	if err != nil || !moved {
		return err
	}
	s.log.Info("bucket moved", "budget", budgetID, "bucket", bk.ID, "from", bk.Lane.String(), "lane", to.String())
	bk.Lane = to
	s.carryOut(step, h)
	s.quiet.Remove(budgetID)
	return nil
}

// destination chooses where a bucket goes: by the ring, as for a new bucket.
func (s *Service) destination(b *Budget, bk *Bucket) (Lane, bool) {
	ring := b.Ring()
	load := map[Lane]int{}
	for i := range ring {
		load[ring[i].Lane]++
	}
	return s.nextLane(b.Tenant+"/"+bucketKey(b.Name, bk.Ordinal), len(ring), load, func(l *lane) bool {
		return s.takesBuckets(l) && !(b.inStoreMode() && s.forgets(l))
	})
}

// moveOne moves a bucket that has ended on a lane that is being drained, for a request that waits for it,
// and brings it online there.
func (s *Service) moveOne(ctx context.Context, budgetID, bucketID int64) error {
	b, err := s.sql.Budget(ctx, BudgetRef{ID: budgetID})
	if err != nil {
		return err
	}
	for i := range b.Buckets {
		bk := &b.Buckets[i]
		l := s.lanes[bk.Lane]
		if bk.ID != bucketID || bk.Epoch.Status.Live() || l == nil || !l.draining.Load() {
			continue
		}
		to, ok := s.destination(&b, bk)
		if !ok {
			return unavailable("move", errNoTarget)
		}
		if err := s.move(ctx, budgetID, bk, to); err != nil || bk.Online {
			return err
		}
		h, err := s.sql.Reopen(ctx, budgetID, bucketID)
		if err != nil {
			s.failed("sql", err)
			return err
		}
		s.carryOut(ctx, h)
	}
	return nil
}

// clearLane removes what a store keeps of buckets that have left it. The lane gets its next activation
// first, and every node that said "accepted" on its word has to report: then nothing that a late message
// could bring about there counts.
func (s *Service) clearLane(ctx context.Context, l *lane) {
	loads, err := s.sql.LaneLoads(ctx, []Lane{l.id})
	if err != nil {
		s.failed("sql", err)
		return
	}
	load := loads[l.id]
	switch {
	case load.Uncleared == 0 || load.Buckets > 0:
		return
	case load.Held > 0:
		if err := s.retireActivation(ctx, l); err != nil {
			s.failed("sql", err)
		}
		return
	case !s.usable(l, l.current()):
		return
	}
	refs, err := s.sql.Departed(ctx, l.id, useSilence, movePage)
	if err != nil || len(refs) == 0 {
		if err != nil {
			s.failed("sql", err)
		}
		return
	}
	s.forgetBefore(ctx, l, refs)
	err = l.instance.Forget(ctx, l.id, refs)
	if err == nil {
		err = l.instance.Leave(ctx, l.id, refs)
	}
	if err != nil {
		s.failed("store", err)
		return
	}
	if err := s.sql.Cleared(ctx, l.id, refs); err != nil {
		s.failed("sql", err)
		return
	}
	s.log.Info("keys of moved buckets removed", "lane", l.id.String(), "buckets", len(refs))
}

// retireActivation moves an empty lane to its next activation, unless somebody did already.
func (s *Service) retireActivation(ctx context.Context, l *lane) error {
	rows, err := s.sql.LaneRows(ctx, []Lane{l.id})
	if err != nil {
		return err
	}
	row, ok := rows[l.id]
	if !ok || !row.Draining {
		return nil
	}
	if _, err = s.sql.NextActivation(ctx, l.id, row.Activation, row.Identity); err == nil {
		s.seeLanes(ctx)
	}
	return err
}
