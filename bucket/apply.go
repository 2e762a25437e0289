package bucket

import (
	"context"

	"github.com/budgetd/budgetd/allocation"
	"github.com/budgetd/budgetd/budget"
	"github.com/budgetd/budgetd/ledger"
)

// apply moves units total -> bucket: the grant is written in SQL, then sent. It returns the units
// granted, 0 when there was nothing to grant. A grant that could not be sent stays pending; the
// chores send it again, and its number lets it arrive once.
func (s *Service) apply(ctx context.Context, b *Budget, bk *Bucket, want Want) (int64, error) {
	step, cancel := s.bounded(ctx)
	defer cancel()
	order, err := s.sql.Apply(step, b.ID, want)
	if err != nil {
		s.failed("sql", err)
		return 0, err
	}
	if order == nil {
		return 0, nil
	}
	s.observer.Moved("apply", order.Amount)
	s.sendGrants(step, bk.Lane, []GrantOrder{*order})
	return order.Amount, nil
}

// sendGrants sends grants of one lane, in order, and acts on the answers that need it. An epoch may be
// opening still when its grants are found, so a store that does not know one is asked once more, after SQL
// has said that it is open: only then does the answer say something about its log.
func (s *Service) sendGrants(ctx context.Context, id Lane, orders []GrantOrder) {
	l, err := s.laneOf(id)
	if err != nil || len(orders) == 0 {
		return
	}
	var again []GrantOrder
	for _, order := range s.sendOnce(ctx, l, orders) {
		if s.standsAfterAll(ctx, l, order.Ref) {
			again = append(again, order)
		}
	}
	for _, order := range s.sendOnce(ctx, l, again) {
		s.checkGone(ctx, l, order.Ref)
	}
}

// sendOnce sends grants of one lane, and returns those whose epochs the store does not know.
func (s *Service) sendOnce(ctx context.Context, l *lane, orders []GrantOrder) (gone []GrantOrder) {
	if len(orders) == 0 {
		return nil
	}
	under := l.current()
	replies, err := l.instance.Grant(ctx, l.id, orders)
	if err != nil {
		err = s.laneFailed(ctx, l, under, err)
		s.log.Warn("grants not sent; the chores send them again", "lane", l.id.String(), "error", err)
		return nil
	}
	for i, r := range replies {
		switch r.Verdict {
		case EpochGone:
			gone = append(gone, orders[i])
		case Broken:
			s.fence(ctx, orders[i].Ref, r.Why)
		}
	}
	return gone
}

// checkGone acts on EpochGone as the answer to a message that appends to the log, and was sent after SQL
// had said that the epoch is open. If the store has the balance after all, it is only the log that does
// not take entries: that bucket is broken alone.
func (s *Service) checkGone(ctx context.Context, l *lane, ref Ref) {
	if s.standsAfterAll(ctx, l, ref) {
		s.fence(ctx, ref, "the log holds a later epoch than this one, which is open")
	}
}

// standsAfterAll acts on EpochGone as the answer to any message. It tells a store that lost an epoch from
// a message that came too early or too late: only when SQL says, before and after the store has said that
// it has no balance, that the epoch is open or closing, has something been lost. It reports whether the
// store has the balance of an epoch that SQL says is open or closing.
func (s *Service) standsAfterAll(ctx context.Context, l *lane, ref Ref) bool {
	if !s.goesOnInSQL(ctx, ref) {
		return false
	}
	balances, err := l.instance.Balances(ctx, l.id, []Ref{ref})
	switch {
	case err != nil:
		s.failed("store", err)
		return false
	case balances[0].Verdict != EpochGone:
		return true
	case s.goesOnInSQL(ctx, ref):
		s.memoryLost(l, ref.Activation, "the store does not have an epoch that is open")
	}
	return false
}

// goesOnInSQL reports whether SQL says that an epoch is open or closing, and not fenced.
func (s *Service) goesOnInSQL(ctx context.Context, ref Ref) bool {
	rows, err := s.sql.Epochs(ctx, []Ref{ref})
	if err != nil {
		s.failed("sql", err)
		return false
	}
	row, ok := rows[ref]
	return ok && (row.Status == ledger.Open || row.Status == ledger.Closing) && row.Fenced == ""
}

// handOut spreads what is undistributed over the buckets, and brings those online again that the
// service had taken offline: at creation, after an append.
func (s *Service) handOut(ctx context.Context, budgetID int64) error {
	h, err := s.sql.HandOut(ctx, budgetID, s.unusable()...)
	if err != nil {
		s.failed("sql", err)
		return err
	}
	s.carryOut(ctx, h)
	s.quiet.Remove(budgetID)
	return nil
}

// carryOut opens epochs in their stores and sends the grants. What fails stays opening or pending,
// and the chores do it again.
func (s *Service) carryOut(ctx context.Context, h Handout) {
	refs := map[Lane][]Ref{}
	for i := range h.Opened {
		refs[h.Opened[i].Lane] = append(refs[h.Opened[i].Lane], h.Opened[i].Ref())
	}
	for _, id := range inOrder(refs) {
		s.open(ctx, id, refs[id])
	}
	orders := map[Lane][]GrantOrder{}
	units := int64(0)
	for _, g := range h.Grants {
		orders[g.Lane] = append(orders[g.Lane], g.Order)
		units += g.Order.Amount
	}
	for _, id := range inOrder(orders) {
		s.sendGrants(ctx, id, orders[id])
	}
	s.observer.Moved("handout", units)
}

// ApplyTo makes a bucket apply for units, as an operator asks. It returns the bucket as it is then.
// Errors: BudgetNotFound, BucketNotFound, Unavailable (nothing was moved), OutcomeUnknown.
func (s *Service) ApplyTo(ctx context.Context, ref BudgetRef, key string) (BucketView, error) {
	entry, bk, err := s.bucketOf(ctx, ref, key)
	if err != nil {
		return BucketView{}, err
	}
	b := entry.value.Load()
	swept, err := s.sql.Sweep(ctx, b.ID)
	if err != nil {
		return BucketView{}, s.sqlFailed(err)
	}
	j, err := s.sql.Judge(ctx, b.ID, nil)
	if err != nil {
		return BucketView{}, afterWrite("apply", swept > 0, err)
	}
	if j.Cover.Undistributed > 0 {
		if _, err := s.apply(ctx, b, bk, evenShare(b, bk.Ref(), j.Cover.Undistributed)); err != nil {
			return BucketView{}, afterWrite("apply", swept > 0, err)
		}
	}
	v, err := s.bucketView(ctx, ref, key)
	return v, afterWrite("apply", true, err)
}

// evenShare is what a bucket gets when an operator makes it apply.
func evenShare(b *Budget, ref Ref, undistributed int64) Want {
	return Want{Ref: ref, Need: 1, Units: allocation.Step(1, undistributed, len(b.Ring()), b.ShardingQuantity)}
}

// afterWrite keeps "certainly not done" from being said of a call that has written something.
func afterWrite(op string, written bool, err error) error {
	if err == nil || !written || budget.CodeOf(err).Kind() != budget.NotDone && budget.CodeOf(err) != budget.Internal {
		return err
	}
	return unknown(op, err)
}

// bucketOf finds a bucket by its key in the budget as SQL has it now.
func (s *Service) bucketOf(ctx context.Context, ref BudgetRef, key string) (*cached, *Bucket, error) {
	entry, err := s.budgets.find(ctx, ref)
	if err != nil {
		return nil, nil, err
	}
	if err := s.budgets.reload(ctx, entry); err != nil {
		return nil, nil, err
	}
	b := entry.value.Load()
	for i := range b.Ring() {
		if b.Buckets[i].Key == key {
			return entry, &b.Buckets[i], nil
		}
	}
	return nil, nil, budget.Refuse(budget.BucketNotFound, "find", "budget %s has no bucket %q", b.Name, key)
}

func (s *Service) bucketView(ctx context.Context, ref BudgetRef, key string) (BucketView, error) {
	_, bk, err := s.bucketOf(ctx, ref, key)
	if err != nil {
		return BucketView{}, err
	}
	return BucketView{Bucket: *bk, Remaining: bk.Epoch.Outstanding}, nil
}
