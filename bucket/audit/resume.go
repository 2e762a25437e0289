package audit

import (
	"context"
	"slices"

	"github.com/budgetd/budgetd/bucket"
	"github.com/budgetd/budgetd/budget"
	"github.com/budgetd/budgetd/ledger"
)

// Resume resumes a halted bucket if a full audit of its budget finds nothing wrong in it. In
// store mode a missing entry does not prevent that: the next call that needs the entry quarantines
// what the epoch held. A bucket that is not halted is only audited. Errors: BudgetNotFound;
// BucketNotFound; BucketHalted with the discrepancies; Unavailable, also if the bucket's store
// cannot be read; OutcomeUnknown.
func (s *Service) Resume(ctx context.Context, ref bucket.BudgetRef, key string) (
	bucket.BucketView, error) {
	const op = "resume"
	var none bucket.BucketView
	b, err := s.budgets.Find(ctx, ref)
	if err != nil {
		return none, err
	}
	bk := b.Named(key)
	if bk == nil {
		return none, budget.Refuse(budget.BucketNotFound, op, "budget %s has no bucket %q", b.Name, key)
	}
	report, err := s.Audit(ctx, ref)
	if err != nil {
		return none, err
	}
	if slices.Contains(report.Unchecked, bk.Key) {
		e := budget.Refuse(budget.Unavailable, op, "the store of bucket %s cannot be read", bk.Key)
		e.Reason = budget.ReasonStoreDown
		return none, e
	}
	wrong := slices.IndexFunc(report.Discrepancies, func(d ledger.Discrepancy) bool {
		return d.Bucket == bk.Key && d.What != ledger.EntryInStore
	})
	if wrong >= 0 {
		return none, budget.Refuse(budget.BucketHalted, op, "the figures of bucket %s disagree: %s",
			bk.Key, report.Discrepancies[wrong].String())
	}
	if err := s.ledger.Resume(ctx, bk.ID); err != nil {
		return none, s.failed(err)
	}
	s.log.Info("halt lifted", "budget", b.Name, "bucket", bk.Key)
	if b, err = s.budgets.Reload(ctx, b.ID); err != nil {
		return none, &budget.Error{Code: budget.OutcomeUnknown, Op: op, Err: err,
			Message: "the halt was lifted, but the result could not be read"}
	}
	if bk = b.Named(bk.Key); bk == nil {
		return none, budget.Refuse(budget.BucketNotFound, op, "budget %s has no bucket %q", b.Name, key)
	}
	return b.View(bk), nil
}
