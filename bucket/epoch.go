package bucket

import (
	"context"
	"errors"
	"fmt"

	"github.com/budgetd/budgetd/ledger"
)

// open creates epochs in their store and marks them open in SQL.
func (s *Service) open(ctx context.Context, id Lane, refs []Ref) {
	l, err := s.laneOf(id)
	if err != nil {
		return
	}
	under := l.current()
	usable := refs[:0:0]
	for _, ref := range refs {
		if s.usable(l, ref.Activation) {
			usable = append(usable, ref)
		}
	}
	if len(usable) == 0 {
		return
	}
	replies, err := l.instance.Open(ctx, id, usable)
	if err != nil {
		err = s.laneFailed(ctx, l, under, err)
		s.log.Warn("epochs not opened; the chores open them", "lane", id.String(), "error", err)
		return
	}
	var opened []Ref
	for i, r := range replies {
		switch r.Verdict {
		case OK, Already:
			opened = append(opened, usable[i])
		case Broken:
			s.fence(ctx, usable[i], r.Why)
		case EpochGone, EpochClosed:
			s.checkOpening(ctx, l, usable[i], r.Why)
		}
	}
	if len(opened) == 0 {
		return
	}
	if err := s.sql.MarkOpen(ctx, opened); err != nil {
		s.failed("sql", err)
	}
	s.forgetBefore(ctx, l, opened)
}

// forgetBefore removes the balances of the lives before these: a lane that was declared down, or came
// back with old data, still has those of epochs that were lost without it. Two for each, in case the
// one before was lost before its store ever saw it.
func (s *Service) forgetBefore(ctx context.Context, l *lane, refs []Ref) {
	var before []Ref
	for _, ref := range refs {
		for back := int64(1); back <= 2 && back < ref.Epoch; back++ {
			before = append(before, Ref{Bucket: ref.Bucket, Epoch: ref.Epoch - back, Activation: ref.Activation})
		}
	}
	if err := l.instance.Forget(ctx, l.id, before); err != nil {
		s.failed("store", err)
	}
}

// checkOpening acts on an epoch that its store refuses to create although SQL still waits for it. A log
// that ends beyond the bucket's newest epoch has entries that nobody of us made: it is discarded, and
// the chores open the epoch then. Otherwise (it was closed already, or its balance is gone) the epoch is
// fenced, and replaced.
func (s *Service) checkOpening(ctx context.Context, l *lane, ref Ref, last string) {
	rows, err := s.sql.Epochs(ctx, []Ref{ref})
	if err != nil {
		s.failed("sql", err)
		return
	}
	if row, ok := rows[ref]; !ok || row.Status != ledger.Opening || row.Fenced != "" {
		return
	}
	if last != "" {
		gone, err := l.instance.Discard(ctx, l.id, []LogEnd{{Ref: ref, Last: last}})
		if err != nil {
			s.failed("store", err)
			return
		}
		if gone[0] {
			s.log.Error("log discarded: it ended beyond every epoch of its bucket", "lane", l.id.String(),
				"bucket", ref.Bucket, "epoch", ref.Epoch, "last", last)
			return
		}
	}
	s.fence(ctx, ref, "the store refuses to create this epoch: its log holds it already, or a later one")
}

// endEpoch takes a bucket's epoch through closing to closed (DESIGN 6, offline): SQL first, then the
// store, then the log up to the close entry, then the transaction that moves what is left to the
// total, or to target. keep leaves the bucket in the list, for a new epoch. Any node finishes it
// from its status; doing it twice is harmless. An error is Unavailable only if nothing was written.
func (s *Service) endEpoch(ctx context.Context, budgetID int64, id Lane, ref Ref, by OfflineBy, keep bool, target *Target) error {
	step, cancel := s.bounded(ctx)
	defer cancel()
	began, err := s.sql.Ending(step, budgetID, ref, by, keep)
	if err != nil {
		return err
	}
	if !began {
		rows, err := s.sql.Epochs(step, []Ref{ref})
		if err != nil {
			return err
		}
		switch row := rows[ref]; {
		case row.Status == ledger.Opening:
			return unavailable("offline", errors.New("the bucket is coming online just now"))
		case row.Status != ledger.Closing:
			return nil // it has ended
		}
	}
	// An operator's claim may have been noted.
	return afterWrite("offline", began || by == ByOperator, s.finishEnding(step, budgetID, id, ref, target))
}

// Target is where a collect brings a donor's units: AtMost of them, in minor units, or all where that is 0.
type Target struct {
	Lane   Lane
	Ref    Ref
	AtMost int64
}

// finishEnding finishes an epoch that is closing.
func (s *Service) finishEnding(ctx context.Context, budgetID int64, id Lane, ref Ref, target *Target) error {
	closing, err := s.closeInStore(ctx, id, ref)
	if err != nil || closing == nil {
		return err
	}
	order, err := s.sql.CloseEpoch(ctx, budgetID, ref, *closing, target)
	var wrong *ledger.Mismatch
	switch {
	case errors.As(err, &wrong):
		s.fence(ctx, ref, wrong.Why)
		return nil
	case errors.Is(err, ledger.ErrEnded):
		return nil
	case err != nil:
		return err
	}
	s.observer.Moved("offline", closing.Amount)
	if order != nil && target != nil {
		s.sendGrants(ctx, target.Lane, []GrantOrder{*order})
	}
	if l, err := s.laneOf(id); err == nil {
		s.forget(ctx, l, ref, closing.Seq)
	}
	return nil
}

// closeInStore closes an epoch in its store and brings its log into the ledger up to the close entry,
// which it returns; nil when the epoch has ended by then, or was fenced.
func (s *Service) closeInStore(ctx context.Context, id Lane, ref Ref) (*ledger.Entry, error) {
	l, err := s.laneOf(id)
	if err != nil {
		return nil, err
	}
	under := l.current()
	replies, err := l.instance.Close(ctx, id, []Ref{ref})
	if err != nil {
		return nil, s.laneFailed(ctx, l, under, err)
	}
	switch r := replies[0]; r.Verdict {
	case OK, Already:
		return s.drainToClose(ctx, l, ref)
	case EpochGone:
		s.checkGone(ctx, l, ref)
		return nil, nil // ended by somebody else, or recovered with its lane
	case Broken:
		s.fence(ctx, ref, r.Why)
		return nil, nil
	default:
		return nil, unavailable("offline", fmt.Errorf("store answered verdict %d to close", r.Verdict))
	}
}

// forget removes what a store keeps of an epoch that has ended, but for the last entry of its log:
// that one refuses late messages. What is left behind when this fails is closed and holds nothing.
func (s *Service) forget(ctx context.Context, l *lane, ref Ref, last int64) {
	if err := l.instance.Forget(ctx, l.id, []Ref{ref}); err != nil {
		s.failed("store", err)
	}
	if err := l.instance.Trim(ctx, l.id, []Cursor{{Ref: ref, From: last}}); err != nil {
		s.failed("store", err)
	}
}

// drainToClose brings the log into the ledger up to the close entry, and returns it; nil when the
// epoch has ended already.
func (s *Service) drainToClose(ctx context.Context, l *lane, ref Ref) (*ledger.Entry, error) {
	d := newDraining(s)
	d.epoch(l, ref).toClose = true
	for range commitRounds {
		if len(d.epochs) == 0 {
			break
		}
		d.round(ctx)
	}
	if e, ok := d.closes[ref]; ok {
		return &e, nil
	}
	if err := d.errs[ref]; err != nil {
		return nil, err
	}
	if row, ok := d.rows[ref]; ok && !row.Status.Live() {
		return nil, nil
	}
	return nil, unavailable("offline", errors.New("the log's close entry was not reached"))
}

// Offline takes a bucket offline until an operator brings it online again: what it holds returns to
// the total. In store mode the next request of one of its keys brings it back. Errors: BudgetNotFound, BucketNotFound, LastBucket, Unavailable, OutcomeUnknown.
// Repeating it is harmless.
func (s *Service) Offline(ctx context.Context, ref BudgetRef, key string) (BucketView, error) {
	entry, bk, err := s.bucketOf(ctx, ref, key)
	if err != nil {
		return BucketView{}, err
	}
	if err := s.endEpoch(ctx, entry.id, bk.Lane, bk.Ref(), ByOperator, false, nil); err != nil {
		return BucketView{}, err
	}
	v, err := s.bucketView(ctx, ref, key)
	return v, afterWrite("offline", true, err)
}

// Online gives an offline bucket a new epoch and a share of what is undistributed. Errors:
// BudgetNotFound, BucketNotFound, Unavailable, OutcomeUnknown. Repeating it is harmless.
func (s *Service) Online(ctx context.Context, ref BudgetRef, key string) (BucketView, error) {
	entry, bk, err := s.bucketOf(ctx, ref, key)
	if err != nil {
		return BucketView{}, err
	}
	if bk.Epoch.Status == ledger.Closing {
		step, cancel := s.bounded(ctx)
		err := s.finishEnding(step, entry.id, bk.Lane, bk.Ref(), nil)
		cancel()
		if err != nil {
			return BucketView{}, err
		}
	}
	if err := s.reopen(ctx, entry.id, bk.ID); err != nil {
		return BucketView{}, err
	}
	if _, bk, err = s.bucketOf(ctx, ref, key); err != nil {
		return BucketView{}, afterWrite("online", true, err)
	}
	if bk.Epoch.Status == ledger.Open && bk.Epoch.Outstanding == 0 {
		v, err := s.ApplyTo(ctx, ref, key)
		return v, afterWrite("online", true, err)
	}
	return BucketView{Bucket: *bk, Remaining: bk.Epoch.Outstanding}, nil
}

func (s *Service) reopen(ctx context.Context, budgetID, bucketID int64) error {
	step, cancel := s.bounded(ctx)
	defer cancel()
	h, err := s.sql.Reopen(step, budgetID, bucketID)
	if err != nil {
		s.failed("sql", err)
		return err
	}
	if len(h.Opened) == 0 {
		return s.moveOne(step, budgetID, bucketID)
	}
	s.carryOut(step, h)
	return nil
}
