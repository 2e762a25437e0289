package bucket

import (
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"time"

	"github.com/budgetd/budgetd/budget"
	"github.com/budgetd/budgetd/fragment"
	"github.com/budgetd/budgetd/ledger"
)

// Recycle takes a budget's buckets offline and opens them again, one after the other while the others
// serve, and hands out by recent demand (DESIGN 6). Fragments come together, out_cnt starts anew, and a
// budget of which little is left contracts. No request is refused because of it: what a bucket holds is
// in I3's sum all the time, and requests go on to the next bucket, or wait for theirs in store mode.
// Units are in exactly one place after each step (I1), and whoever finds the run finishes it: it goes on
// when ctx ends and when the node stops. The answer is the run's row: EndedAt is zero if ctx ended first.
//
// Errors: BudgetNotFound; RecycleRunning while another one goes on, on whatever node; Unavailable;
// OutcomeUnknown: look at the history. Safe for concurrent use.
func (s *Service) Recycle(ctx context.Context, ref BudgetRef) (Recycle, error) {
	entry, err := s.budgets.find(ctx, ref)
	if err != nil {
		return Recycle{}, err
	}
	run, began, err := s.beginRecycle(ctx, entry.id, OnDemand, time.Time{})
	if err != nil {
		return Recycle{}, s.sqlFailed(err)
	}
	if !began {
		return Recycle{}, budget.Refuse(budget.RecycleRunning, "recycle",
			"recycle %d of budget %s is going on: %d of %d buckets", run.Number, entry.value.Load().Name, run.Done, len(run.Plan))
	}
	done, place := make(chan struct{}), s.turns.take()
	s.atLength("recycle", func(ctx context.Context) { s.runRecycle(ctx, run) }, func() { close(done) })
	select {
	case <-done:
		s.turns.wait(place)
	case <-ctx.Done():
	}
	step, cancel := s.bounded(ctx)
	defer cancel()
	now, err := s.sql.RecycleHistory(step, entry.id, run.Number+1, 1)
	if err != nil || len(now) == 0 {
		return run, nil // as it began
	}
	return now[0], nil
}

// Recycles reads recycles of a budget, the newest first: at most limit with numbers below before, which is
// 0 for the first page. Errors: BudgetNotFound, Unavailable.
func (s *Service) Recycles(ctx context.Context, ref BudgetRef, before int64, limit int) ([]Recycle, error) {
	entry, err := s.budgets.find(ctx, ref)
	if err != nil {
		return nil, err
	}
	list, err := s.sql.RecycleHistory(ctx, entry.id, before, limit)
	return list, s.sqlFailed(err)
}

// layout is how a budget's units lie in the buckets that can be recycled now.
type layout struct {
	buckets  []*Bucket
	holdings []fragment.Holding // of buckets, in their order
	// spare is U less the pending shrinks.
	spare, least int64
	figures      ledger.Figures
}

// spread is the layout in two figures.
func (l *layout) spread() Spread {
	f := l.figures
	return Spread{Units: f.Undistributed + f.Remaining + f.Unsettled, Stranded: fragment.Stranded(l.holdings, l.least)}
}

// share is what a bucket is to hold; false where it cannot be recycled now.
func (l *layout) share(bucketID int64) (bk *Bucket, units int64, ok bool) {
	for i, bk := range l.buckets {
		if bk.ID == bucketID {
			return bk, fragment.Shares(l.spare+fragment.Sum(l.holdings), l.holdings, l.least)[i], true
		}
	}
	return nil, 0, false
}

// demanded is how a budget's units lie, by how fast each bucket's have been sold lately.
func (s *Service) demanded(ctx context.Context, budgetID int64) (*Budget, *layout, error) {
	used, err := s.sql.Demand(ctx, budgetID)
	if err != nil {
		return nil, nil, err
	}
	return s.layoutOf(ctx, budgetID, used)
}

// layoutOf reads how a budget's units lie.
func (s *Service) layoutOf(ctx context.Context, budgetID int64, used map[int64]Used) (*Budget, *layout, error) {
	b, err := s.sql.Budget(ctx, BudgetRef{ID: budgetID})
	if err != nil {
		return nil, nil, err
	}
	largest := int64(0)
	for _, u := range used {
		largest = max(largest, u.Largest)
	}
	l := &layout{}
	if l.figures, err = s.sql.Figures(ctx, budgetID); err != nil {
		return nil, nil, err
	}
	// Of what the open period got: that is all the buckets share.
	l.least = fragment.Least(l.figures.PeriodUnits, len(b.Ring()), largest)
	l.spare = max(l.figures.Undistributed-max(l.figures.PendingShrink-l.figures.Unfunded, 0), 0)
	now := s.sql.Now()
	for i := range b.Buckets {
		bk := &b.Buckets[i]
		lane := s.lanes[bk.Lane]
		if bk.OfflineBy == ByOperator || bk.OfflineBy == ByResize || bk.Epoch.Fenced != "" || lane == nil || !s.usable(lane, lane.current()) {
			continue
		}
		l.buckets = append(l.buckets, bk)
		u := used[bk.ID]
		l.holdings = append(l.holdings, fragment.Holding{Bucket: bk.ID, Units: bk.Epoch.Outstanding,
			Demand: fragment.Rate(u.Units, now.Sub(u.Since))})
	}
	return &b, l, nil
}

// beginRecycle begins a recycle of a budget. began is false where another one goes on, or one of that
// cause has begun since the instant given: run is that one.
func (s *Service) beginRecycle(ctx context.Context, budgetID int64, cause RecycleCause, since time.Time) (
	run Recycle, began bool, err error) {
	step, cancel := s.bounded(ctx)
	defer cancel()
	swept, err := s.sql.Sweep(step, budgetID)
	if err != nil {
		return Recycle{}, false, err
	}
	s.observer.Moved("sweep", swept)
	_, l, err := s.demanded(step, budgetID)
	if err != nil {
		return Recycle{}, false, err
	}
	order := RecycleOrder{Budget: budgetID, Cause: cause, Holder: hex.EncodeToString([]byte(s.nonce())),
		Before: l.spread(), Since: since}
	for _, i := range fragment.Order(l.holdings, l.least) {
		order.Plan = append(order.Plan, Planned{Bucket: l.buckets[i].ID, Epoch: l.buckets[i].Epoch.Number})
	}
	if run, err = s.sql.BeginRecycle(step, order); err != nil {
		return Recycle{}, false, err
	}
	return run, run.Holder == order.Holder, nil
}

// A recycle rests between two buckets, restTimes as long as the one before took and longestRest at most, so
// that it leaves the calls at least three quarters of what the databases can do.
const (
	restTimes   = 3
	longestRest = 750 * time.Millisecond
)

// runRecycle goes on with a recycle that this node holds until it is done, somebody else holds it, or
// ctx ends: then it stays open, and any node takes it over.
func (s *Service) runRecycle(ctx context.Context, run Recycle) {
	at := RecycleStep{Budget: run.Budget, Number: run.Number, Holder: run.Holder, Done: run.Done}
	moved, skipped := run.Moved, run.Skipped
	first, cancelFirst := s.bounded(ctx)
	used, err := s.sql.Demand(first, run.Budget)
	cancelFirst()
	if err != nil {
		s.failed("sql", err)
		return
	}
	collecting, ok := s.advance(ctx, at)
	for ok && at.Done < len(run.Plan) {
		if collecting && !s.afterCollects(ctx, at) {
			return
		}
		began := s.now()
		units, err := s.recycleBucket(ctx, run.Budget, run.Plan[at.Done], used, at.Done == len(run.Plan)-1)
		at.Moved, at.Skipped = units, 0
		if err != nil {
			at.Skipped = 1
			s.log.Warn("bucket not recycled", "budget", run.Budget, "run", run.Number,
				"bucket", run.Plan[at.Done].Bucket, "error", err)
		}
		at.Done++
		moved, skipped = moved+units, skipped+at.Skipped
		if collecting, ok = s.advance(ctx, at); ok {
			ok = s.clock.Sleep(ctx, min(max(restTimes*(s.now()-began), 0), longestRest)) == nil
		}
	}
	if ok {
		s.endRecycle(ctx, run, moved, skipped)
	}
}

// endRecycle ends a recycle all of whose buckets are behind it.
func (s *Service) endRecycle(ctx context.Context, run Recycle, moved int64, skipped int) {
	step, cancel := s.bounded(ctx)
	defer cancel()
	_, l, err := s.demanded(step, run.Budget)
	if err != nil {
		s.failed("sql", err)
		return // whoever takes it over has only this left to do
	}
	ended, err := s.sql.EndRecycle(step, run.Budget, run.Number, run.Holder, l.spread())
	if err != nil {
		s.failed("sql", err)
	}
	if !ended {
		return
	}
	s.quiet.Remove(run.Budget)
	s.observer.Moved("recycle", moved)
	s.log.Info("budget recycled", "budget", run.Budget, "run", run.Number, "cause", string(run.Cause),
		"buckets", len(run.Plan), "skipped", skipped, "units", moved,
		"stranded_before", run.Before.Stranded, "stranded_after", l.spread().Stranded)
}

// advance notes a step. ok is false when this node is to stop.
func (s *Service) advance(ctx context.Context, at RecycleStep) (collecting, ok bool) {
	const tries, pause = 3, 50 * time.Millisecond
	for range tries {
		step, cancel := s.bounded(ctx)
		ok, collecting, err := s.sql.AdvanceRecycle(step, at)
		cancel()
		if err == nil {
			return collecting, ok && ctx.Err() == nil
		}
		s.failed("sql", err)
		if s.clock.Sleep(ctx, pause) != nil {
			break
		}
	}
	return false, false // whoever takes it over goes on from its row
}

// afterCollects waits until no collect of the budget is open: requests wait for those. false: this node
// is to stop.
func (s *Service) afterCollects(ctx context.Context, at RecycleStep) bool {
	const pause = 10 * time.Millisecond
	for {
		collecting, ok := s.advance(ctx, at)
		if !ok || !collecting {
			return ok
		}
		if s.clock.Sleep(ctx, pause) != nil {
			return false
		}
	}
}

// recycleBucket recycles one bucket of a plan, a bounded number of times until it succeeds. moved minor
// units came back from it.
func (s *Service) recycleBucket(ctx context.Context, budgetID int64, p Planned, used map[int64]Used,
	last bool) (moved int64, err error) {
	const tries, pause = 3, 50 * time.Millisecond
	for range tries {
		step, cancel := s.bounded(ctx)
		units, err := s.tryRecycle(step, budgetID, p, used, last)
		cancel()
		if moved += units; err == nil {
			return moved, nil
		}
		if s.clock.Sleep(ctx, pause) != nil {
			return moved, err
		}
	}
	step, cancel := s.bounded(ctx)
	defer cancel()
	units, err := s.tryRecycle(step, budgetID, p, used, last)
	return moved + units, err
}

// errEndedElsewhere: somebody else ended the epoch; the bucket is looked at once more.
var errEndedElsewhere = errors.New("its epoch was ended by somebody else")

// tryRecycle ends the epoch that the plan names and gives the bucket its next one with its share by
// demand; the last bucket of the plan gets all that is undistributed then. A bucket whose share is
// nothing is left offline, unless its requests cannot move. A bucket that has a later epoch by now is
// left as it is.
func (s *Service) tryRecycle(ctx context.Context, budgetID int64, p Planned, used map[int64]Used,
	last bool) (moved int64, err error) {
	b, l, err := s.layoutOf(ctx, budgetID, used)
	if err != nil {
		return 0, err
	}
	bk, share, ok := l.share(p.Bucket)
	if !ok {
		return 0, unavailable("recycle", errors.New("its store cannot be reached, or it is fenced or offline"))
	}
	if last && share > 0 {
		share = budget.MaxAmount
	}
	ref := bk.Ref()
	switch status := bk.Epoch.Status; {
	case ref.Epoch != p.Epoch || status == ledger.Opening:
		return 0, nil
	case !status.Live():
		if share > 0 || bk.Online {
			return 0, s.renew(ctx, Renewal{Budget: b.ID, Ref: ref, Units: share})
		}
		return 0, nil
	}
	if b.inStoreMode() { // so that its log is short when it closes: its requests wait meanwhile
		if err := s.drainEpochs(ctx, []EpochOf{{Budget: b.ID, Lane: bk.Lane, Row: bk.Epoch}}); err != nil {
			return 0, err
		}
	}
	keep := share > 0 || b.inStoreMode()
	if _, err := s.sql.Ending(ctx, b.ID, ref, ByService, keep); budget.Is(err, budget.LastBucket) {
		return 0, nil // and nothing to hand out
	} else if err != nil {
		return 0, err
	}
	if !keep {
		return bk.Epoch.Outstanding, s.finishEnding(ctx, b.ID, bk.Lane, ref, nil)
	}
	closing, err := s.closeInStore(ctx, bk.Lane, ref)
	switch {
	case err != nil:
		return 0, err
	case closing == nil:
		return 0, errEndedElsewhere
	}
	if err := s.renew(ctx, Renewal{Budget: b.ID, Ref: ref, Close: closing, Units: share}); err != nil {
		return 0, err
	}
	s.observer.Moved("offline", closing.Amount)
	if lane, err := s.laneOf(bk.Lane); err == nil {
		s.forget(ctx, lane, ref, closing.Seq)
	}
	return closing.Amount, nil
}

// renew writes a bucket's next epoch, opens it and sends its grant.
func (s *Service) renew(ctx context.Context, order Renewal) error {
	h, err := s.sql.Renew(ctx, order)
	var wrong *ledger.Mismatch
	switch {
	case errors.As(err, &wrong):
		s.fence(ctx, order.Ref, wrong.Why)
		return fmt.Errorf("fenced: %w", err)
	case errors.Is(err, ledger.ErrEnded):
		return nil
	case err != nil:
		s.failed("sql", err)
		return err
	}
	s.carryOut(ctx, h)
	if entry, ok := s.budgets.byID.Peek(order.Budget); ok { // so that this node asks it again at once
		if err := s.budgets.reload(ctx, entry); err != nil {
			s.failed("sql", err)
		}
	}
	return nil
}
