package audit

import (
	"context"
	"slices"

	"github.com/budgetd/budgetd/bucket"
	"github.com/budgetd/budgetd/budget"
	"github.com/budgetd/budgetd/internal/sql/bookkeeper"
	"github.com/budgetd/budgetd/ledger"
	"github.com/budgetd/budgetd/ledger/books"
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
	if err := s.lift(ctx, bk.ID); err != nil {
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

// Halt stops deductions from an epoch until an operator decides. Nodes send nothing there once
// they have read the bucket list again. halted is false if the epoch was halted before. Errors:
// Unavailable, OutcomeUnknown. It is idempotent.
func (s *Service) Halt(ctx context.Context, ref bucket.Ref, why string) (halted bool, err error) {
	at := books.Position{Bucket: ref.Bucket, Epoch: ref.Epoch}
	n, err := s.changeHalt(ctx, ref.Bucket, bookkeeper.EpochsAt([]books.Position{at}),
		func(e *books.Epoch) bool { return e.Halt(why) })
	return n == 1, err
}

// lift lifts the halts of a bucket's epochs, so that nodes send requests there again. Errors:
// Unavailable, OutcomeUnknown. It is idempotent.
func (s *Service) lift(ctx context.Context, bucketID int64) error {
	_, err := s.changeHalt(ctx, bucketID, bookkeeper.HaltedOf(bucketID), func(e *books.Epoch) bool {
		e.Halted = ""
		return true
	})
	return err
}

// changeHalt changes epochs of a bucket, under the lock of its budget.
func (s *Service) changeHalt(ctx context.Context, bucketID int64, epochs bookkeeper.Query,
	change func(*books.Epoch) bool) (n int, err error) {
	load := append(bookkeeper.BudgetsOf([]int64{bucketID}), epochs)
	err = bookkeeper.Do(ctx, s.db, "halt", load, func(b *books.Books) ([]bookkeeper.Query, error) {
		n = 0
		for _, e := range b.Epochs.All() {
			if change(e) {
				n++
				b.Budgets.Get(e.Budget).ListVersion++
			}
		}
		return nil, nil
	})
	return n, err
}
