package bucket

import (
	"context"
	"errors"
	"time"

	"github.com/budgetd/budgetd/budget"
	"github.com/budgetd/budgetd/ledger"
)

// choresLimit bounds how much of each kind one look at the unfinished work takes on.
const choresLimit = 500

// finishUnfinished finishes what any node began and did not end: it is found by its status, and
// each step is harmless when done twice (DESIGN 6).
func (s *Service) finishUnfinished(ctx context.Context) {
	u, err := s.sql.Unfinished(ctx, choresLimit, s.unusable()...)
	if err != nil {
		s.failed("sql", err)
		return
	}
	s.observer.Unfinished("epochs", len(u.Epochs))
	s.observer.Unfinished("grants", len(u.Grants))
	s.observer.Unfinished("shrinks", len(u.Shrinks))
	s.observer.Unfinished("fenced", len(u.Fenced))
	s.observer.Unfinished("returning", len(u.Returning))
	opening := map[Lane][]Ref{}
	for _, e := range u.Epochs {
		ref := Ref{Bucket: e.Row.Bucket, Epoch: e.Row.Number, Activation: e.Row.Activation}
		switch {
		case e.Row.Status == ledger.Opening:
			opening[e.Lane] = append(opening[e.Lane], ref)
		case s.reachable(e.Lane, ref):
			if err := s.finishEnding(ctx, e.Budget, e.Lane, ref, nil); err != nil {
				s.log.Warn("epoch not closed yet", "bucket", ref.Bucket, "epoch", ref.Epoch, "error", err)
			}
		}
	}
	for id, refs := range opening {
		s.open(ctx, id, refs)
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
	for _, id := range u.Offline {
		b, err := s.sql.Budget(ctx, BudgetRef{ID: id})
		if err != nil {
			s.failed("sql", err)
			continue
		}
		s.settleBudget(ctx, &b)
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
	for id, list := range orders {
		s.sendGrants(ctx, id, list)
	}
}

// settleBudget gives buckets that are in the list, but whose epoch has ended, a new one, and the
// units that came back a home.
func (s *Service) settleBudget(ctx context.Context, b *Budget) {
	for i := range b.Buckets {
		if bk := &b.Buckets[i]; bk.Online && !bk.Epoch.Status.Live() {
			if err := s.reopen(ctx, b.ID, bk.ID); err != nil {
				s.log.Warn("bucket not reopened yet", "bucket", bk.Key, "error", err)
			}
		}
	}
	if err := s.handOut(ctx, b.ID); err != nil {
		s.log.Warn("units not handed out yet", "budget", b.Name, "error", err)
	}
}

// suspect is a fenced bucket that could not be recovered: it is looked at more and more rarely.
type suspect struct {
	next, pause time.Duration
}

// recoverFenced replaces the epochs of fenced buckets, if SQL's rows agree among themselves: what the
// ledger does not have of them never happened. Otherwise an operator must decide, and they stay
// fenced. It has a loop of its own, because it reads a budget's whole ledger.
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
		if s.now() >= seen[ref].next {
			fenced[e.Budget] = append(fenced[e.Budget], e)
		}
	}
	s.suspects = seen // what is no longer fenced is forgotten
	for budgetID, epochs := range fenced {
		s.recoverBuckets(ctx, budgetID, epochs)
	}
}

func (s *Service) recoverBuckets(ctx context.Context, budgetID int64, epochs []EpochOf) {
	accounts, err := s.sql.Accounts(ctx, budgetID)
	if err != nil {
		s.failed("sql", err)
		return
	}
	if found := ledger.Check(accounts.Figures, accounts.Adjusted, accounts.Epochs); len(found) > 0 {
		s.observer.Discrepancies(len(found))
		s.log.Error("fenced bucket not recovered: the books disagree", "budget", budgetID,
			"bucket", epochs[0].Row.Bucket, "discrepancy", found[0].String())
		const longest = 10 * time.Minute
		for _, e := range epochs {
			ref := Ref{Bucket: e.Row.Bucket, Epoch: e.Row.Number, Activation: e.Row.Activation}
			pause := min(max(2*s.suspects[ref].pause, time.Second), longest)
			s.suspects[ref] = suspect{next: s.now() + pause, pause: pause}
		}
		return
	}
	for _, e := range epochs {
		lost, err := s.lose(ctx, e)
		if err != nil {
			s.failed("sql", err)
			continue
		}
		if l := s.lanes[e.Lane]; lost && l != nil {
			ref := Ref{Bucket: e.Row.Bucket, Epoch: e.Row.Number, Activation: e.Row.Activation}
			if err := l.instance.Forget(ctx, l.id, []Ref{ref}); err != nil {
				s.failed("store", err)
			}
		}
	}
	b, err := s.sql.Budget(ctx, BudgetRef{ID: budgetID})
	if err != nil {
		s.failed("sql", err)
		return
	}
	s.settleBudget(ctx, &b)
}

// drainLive brings entries into the ledger that nobody on this node waits for: those of a node that
// stopped, of callers that gave up, and grants. Each time it looks at one page of each lane's open
// epochs, so the work stays the same however many there are.
func (s *Service) drainLive(ctx context.Context) {
	for _, id := range s.laneOrder {
		epochs, err := s.sql.Live(ctx, id, s.drainFrom[id], choresLimit)
		if err != nil {
			s.failed("sql", err)
			return
		}
		s.observer.Lag(id, s.drainBehind(ctx, s.lanes[id], epochs))
		s.drainFrom[id] = Ref{}
		if len(epochs) == choresLimit {
			last := epochs[len(epochs)-1].Row
			s.drainFrom[id] = Ref{Bucket: last.Bucket, Epoch: last.Number}
		}
	}
}

// drainBehind drains those epochs whose store is ahead of the ledger, and returns by how many
// entries they were.
func (s *Service) drainBehind(ctx context.Context, l *lane, epochs []EpochOf) (lag int64) {
	refs := make([]Ref, 0, len(epochs))
	rows := make([]ledger.Epoch, 0, len(epochs))
	for _, e := range epochs {
		ref := Ref{Bucket: e.Row.Bucket, Epoch: e.Row.Number, Activation: e.Row.Activation}
		if e.Row.Fenced == "" && s.usable(l, ref.Activation) {
			refs, rows = append(refs, ref), append(rows, e.Row)
		}
	}
	if len(refs) == 0 {
		return lag
	}
	under := l.current()
	balances, err := l.instance.Balances(ctx, l.id, refs)
	if err != nil {
		s.laneFailed(ctx, l, under, err)
		return lag
	}
	d := newDraining(s)
	for i, b := range balances {
		switch {
		case b.Verdict == EpochGone:
			s.checkGone(ctx, l, refs[i])
		case b.Verdict == Broken:
			s.fence(ctx, refs[i], b.Why)
		case b.Seq < rows[i].DrainedSeq:
			s.memoryLost(l, refs[i].Activation, "the store's log ends before what is in the ledger")
		case b.Seq > rows[i].DrainedSeq:
			lag += b.Seq - rows[i].DrainedSeq
			e := d.epoch(l, refs[i])
			e.from, e.upTo = rows[i].DrainedSeq, b.Seq
		}
	}
	for range commitRounds {
		if len(d.epochs) == 0 {
			return lag
		}
		d.round(ctx)
	}
	return lag
}

// continueShrink brings units back for a shrink that waits: returning ones first, then whole buckets.
func (s *Service) continueShrink(ctx context.Context, adjustment Adjustment) {
	if _, err := s.sql.Sweep(ctx, adjustment.Budget); err != nil {
		s.failed("sql", err)
		return
	}
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
	need := units - f.Undistributed
	var errs []error
	for i := range b.Buckets {
		bk := &b.Buckets[i]
		if need <= 0 {
			break
		}
		if bk.Epoch.Status != ledger.Open && bk.Epoch.Status != ledger.Closing || bk.Epoch.Outstanding == 0 {
			continue
		}
		need -= bk.Epoch.Outstanding
		if err := s.endEpoch(ctx, b.ID, bk.Lane, bk.Ref(), ByService, true, nil); err != nil {
			errs = append(errs, err)
			continue
		}
		if err := s.reopen(ctx, b.ID, bk.ID); err != nil {
			errs = append(errs, err)
		}
	}
	return errors.Join(errs...)
}
