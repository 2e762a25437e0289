package bucket

import (
	"context"
	"errors"

	"github.com/budgetd/budgetd/budget"
	"github.com/budgetd/budgetd/internal/safeguard"
	"github.com/budgetd/budgetd/ledger"
)

// findable makes sure, in store mode, that a deduction which was answered before this call is in the
// ledger: the log of the bucket that the receipt names is drained, or else those of all the budget's
// live epochs. Unavailable when one cannot be reached.
func (s *Service) findable(ctx context.Context, entry *cached, receipt string) error {
	if !entry.value.Load().inStoreMode() {
		return nil
	}
	return s.patiently(ctx, func(ctx context.Context) error { return s.drainFor(ctx, entry, receipt) })
}

func (s *Service) drainFor(ctx context.Context, entry *cached, receipt string) error {
	at, named := parseReceipt(receipt)
	if !named {
		_, err := s.upToDate.do(ctx, entry.id, entry)
		return err
	}
	epochs, err := s.liveOf(ctx, entry.id)
	if err != nil {
		return err
	}
	for _, e := range epochs {
		if e.Row.Bucket == at.Bucket && e.Row.Number == at.Epoch {
			return s.drainEpochs(ctx, []EpochOf{e})
		}
	}
	return nil // its epoch has ended, and was drained before
}

// cancelInStore is Cancel in store mode: a void record in every live epoch keeps the id from being
// deducted there, then their logs are drained, then the tombstone is made, unless an epoch has begun
// meanwhile: then all of it once more.
func (s *Service) cancelInStore(ctx context.Context, entry *cached, requestID string) (d ledger.Deduction, err error) {
	written := false // a void record, by any of the tries
	err = s.patiently(ctx, func(ctx context.Context) error {
		d, err = s.tryCancelInStore(ctx, entry, requestID, &written)
		return afterWrite("cancel", written, err)
	})
	return d, err
}

func (s *Service) tryCancelInStore(ctx context.Context, entry *cached, requestID string, written *bool) (
	ledger.Deduction, error) {
	const tries = 10
	for range tries {
		b, err := s.sql.Budget(ctx, BudgetRef{ID: entry.id})
		if err != nil {
			return ledger.Deduction{}, s.sqlFailed(err)
		}
		known := make([]Ref, len(b.Buckets))
		for i := range b.Buckets {
			known[i] = b.Buckets[i].Ref()
		}
		live := b.live()
		opened, voided, err := s.voidEverywhere(ctx, live, requestID)
		*written = *written || voided
		if err != nil {
			return ledger.Deduction{}, err
		}
		if opened {
			continue // their positions are known only now
		}
		if safeguard.Off(safeguard.DrainedTombstone) {
			live = nil
		}
		if err := s.drainEpochs(ctx, live); err != nil {
			return ledger.Deduction{}, err
		}
		d, stale, err := s.sql.CancelKnown(ctx, entry.id, requestID, known)
		if err != nil {
			return ledger.Deduction{}, s.sqlFailed(err)
		}
		if !stale {
			return d, nil
		}
	}
	return ledger.Deduction{}, unknown("cancel", errors.New("the budget's buckets kept changing"))
}

// voidEverywhere leaves a void record in every live epoch; one that holds the id's deduction already
// says so and is left as it is. opened: an epoch had to be opened first. written: some may be there.
func (s *Service) voidEverywhere(ctx context.Context, live []EpochOf, requestID string) (opened, written bool, err error) {
	orders := map[Lane][]VoidOrder{}
	for _, e := range live {
		ref := Ref{Bucket: e.Row.Bucket, Epoch: e.Row.Number, Activation: e.Row.Activation}
		l := s.lanes[e.Lane]
		switch {
		case l != nil && l.direct != nil: // there the ledger's primary key decides
		case l == nil || e.Row.Fenced != "" || s.isDown(e.Lane):
			return false, false, budget.Refuse(budget.Unavailable, "cancel",
				"bucket %d cannot be told: its store cannot be reached, or it is fenced", ref.Bucket)
		case !s.usable(l, ref.Activation):
			return false, false, recovering("cancel", ref)
		case e.Row.Status == ledger.Opening:
			s.open(ctx, e.Lane, []Ref{ref})
			opened = true
		default:
			orders[e.Lane] = append(orders[e.Lane], VoidOrder{Ref: ref, RequestID: requestID})
		}
	}
	if opened {
		return true, false, nil
	}
	for _, id := range s.laneOrder {
		some, err := s.void(ctx, id, orders[id])
		if written = written || some; err != nil {
			return false, written, err
		}
	}
	return false, written, nil
}

// void leaves void records in epochs of one lane. written: some may be there, also where it failed.
func (s *Service) void(ctx context.Context, id Lane, orders []VoidOrder) (written bool, err error) {
	if len(orders) == 0 || safeguard.Off(safeguard.VoidRecord) {
		return false, nil
	}
	l := s.lanes[id]
	records, ok := l.instance.(Records)
	if !ok {
		return false, budget.Refuse(budget.Unavailable, "cancel", "instance %s keeps no records", id.Instance)
	}
	under := l.current()
	replies, err := records.Void(ctx, id, orders)
	if err != nil {
		return budget.CodeOf(err).Kind() != budget.NotDone, s.laneFailed(ctx, l, under, err)
	}
	for i, r := range replies {
		switch ref := orders[i].Ref; r.Verdict {
		case OK, Recorded, EpochClosed:
			written = true
		case Broken:
			s.fence(ctx, ref, r.Why)
			err = budget.Refuse(budget.Unavailable, "cancel", "bucket %d is fenced: %s", ref.Bucket, r.Why)
		default:
			s.standsAfterAll(ctx, l, ref)
			err = recovering("cancel", ref)
		}
	}
	return written, err
}
