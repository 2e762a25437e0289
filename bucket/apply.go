package bucket

import (
	"context"
	"time"

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

// applyWish is a request that waits for an apply of its bucket, short of `need` minor units.
type applyWish struct {
	budget              *Budget
	bucket              *Bucket
	need, undistributed int64
}

// applyFor is one apply for all requests that wait for the same bucket: enough for all of them if it
// can be had, and for one at least. Each is told what was granted, and tries again.
func (s *Service) applyFor(_ int64, wishes []applyWish) []result[int64] {
	ctx, cancel := s.bounded(context.Background())
	defer cancel()
	first, least, sum := wishes[0], wishes[0].need, int64(0)
	for _, w := range wishes {
		least, sum = min(least, w.need), min(sum+w.need, budget.MaxAmount)
	}
	w := want(first.budget, first.bucket.Ref(), sum, first.undistributed)
	w.Need = min(w.Need, least)
	got, err := int64(0), error(nil)
	if w.Need <= first.undistributed {
		got, err = s.apply(ctx, first.budget, first.bucket, w)
	}
	out := make([]result[int64], len(wishes))
	for i := range out {
		out[i] = result[int64]{answer: got, err: err}
	}
	return out
}

// want is what a bucket asks for when it is short of `need` minor units.
func want(b *Budget, ref Ref, need, undistributed int64) Want {
	if b.ShardingQuantity > 0 {
		need = min(need, b.ShardingQuantity)
	}
	return Want{Ref: ref, Need: need,
		Units: allocation.Step(need, undistributed, len(b.Buckets), b.ShardingQuantity)}
}

// sendGrants sends grants of one lane, in order, and acts on the answers that need it.
func (s *Service) sendGrants(ctx context.Context, id Lane, orders []GrantOrder) {
	l, err := s.laneOf(id)
	if err != nil || len(orders) == 0 {
		return
	}
	under := l.current()
	replies, err := l.instance.Grant(ctx, id, orders)
	if err != nil {
		err = s.laneFailed(ctx, l, under, err)
		s.log.Warn("grants not sent; the chores send them again", "lane", id.String(), "error", err)
		return
	}
	for i, r := range replies {
		switch r.Verdict {
		case EpochGone:
			s.checkGone(ctx, l, orders[i].Ref)
		case Broken:
			s.fence(ctx, orders[i].Ref, r.Why)
		}
	}
}

// checkGone tells a store that lost an epoch from a message that came too late: only when SQL says,
// after the store's answer, that the epoch is still open has something been lost. If the store has
// the balance after all, it is only the log that does not take entries: that bucket is broken alone.
func (s *Service) checkGone(ctx context.Context, l *lane, ref Ref) {
	rows, err := s.sql.Epochs(ctx, []Ref{ref})
	if err != nil {
		s.failed("sql", err)
		return
	}
	row, ok := rows[ref]
	if !ok || row.Status != ledger.Open && row.Status != ledger.Closing || row.Fenced != "" {
		return
	}
	balances, err := l.instance.Balances(ctx, l.id, []Ref{ref})
	switch {
	case err != nil:
		s.failed("store", err)
	case balances[0].Verdict == EpochGone:
		s.memoryLost(l, ref.Activation, "the store does not have an epoch that is open")
	default:
		s.fence(ctx, ref, "the log holds a later epoch than this one, which is open")
	}
}

// quietFor is how long background applies of a budget pause after there was nothing to grant.
const quietFor = time.Second

// kickApply applies in the background when a bucket is below its low-water mark.
func (s *Service) kickApply(entry *cached, bk *Bucket, balance int64) {
	b := entry.value.Load()
	low := allocation.LowWater(b.TotalQuantity, len(b.Buckets))
	if balance >= low {
		return
	}
	if until, ok := s.quiet.Get(b.ID); ok && s.now() < until {
		return
	}
	if _, busy := s.busy.LoadOrStore(bk.ID, struct{}{}); busy {
		return
	}
	s.later("apply", func(ctx context.Context) {
		c, err := s.cover(ctx, entry)
		if err != nil {
			return
		}
		got := int64(0)
		if c.Undistributed > 0 {
			got, err = s.apply(ctx, b, bk, want(b, bk.Ref(), 1, c.Undistributed))
		}
		if err == nil && got == 0 {
			s.quiet.Add(b.ID, s.now()+quietFor)
		}
	}, func() { s.busy.Delete(bk.ID) })
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
	for id, list := range refs {
		s.open(ctx, id, list)
	}
	orders := map[Lane][]GrantOrder{}
	units := int64(0)
	for _, g := range h.Grants {
		orders[g.Lane] = append(orders[g.Lane], g.Order)
		units += g.Order.Amount
	}
	for id, list := range orders {
		s.sendGrants(ctx, id, list)
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
		if _, err := s.apply(ctx, b, bk, want(b, bk.Ref(), 1, j.Cover.Undistributed)); err != nil {
			return BucketView{}, afterWrite("apply", swept > 0, err)
		}
	}
	v, err := s.bucketView(ctx, ref, key)
	return v, afterWrite("apply", true, err)
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
	for i := range b.Buckets {
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
