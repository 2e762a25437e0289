package deduct

import (
	"context"

	"github.com/budgetd/budgetd/bucket"
	"github.com/budgetd/budgetd/budget"
)

// Rollback gives units of a deduction back to the budget, whatever became of its bucket (I5), and
// never more than was deducted; in store mode, within the record window. Repeating a rollback id
// replays its result; without an id, the request rolls back the whole deduction. In store mode ids
// are unique per routing key, so the request must contain the key or the receipt.
//
// Errors:
//   - BudgetNotFound.
//   - Invalid, Forbidden: in store mode, neither key nor receipt names the bucket, or the caller
//     may give back only its own deductions.
//   - DeductionNotFound: not final, because the deduction may still be in progress. Cancel makes
//     it so.
//   - RequestVoid, RequestConflict, AlreadyRolledBack, AmountExceedsRemaining.
//   - Unavailable: nothing happened.
//   - OutcomeUnknown: the caller must repeat the same rollback id, unless the message says that the
//     id is older than the record window.
func (s *Service) Rollback(ctx context.Context, r bucket.RollbackRequest) (
	bucket.DeductionView, error) {
	to, err := s.returner(ctx, "rollback", &r)
	if err != nil {
		return bucket.DeductionView{}, err
	}
	return to.Rollback(ctx, r)
}

// Cancel makes certain that a request id has no effect. It gives back what is left of its
// deduction. If there is no deduction, it writes a tombstone, which refuses one that arrives later.
// Repeating it returns the same answer. Errors: BudgetNotFound, Invalid, Forbidden, Unavailable,
// OutcomeUnknown.
func (s *Service) Cancel(ctx context.Context, r bucket.RollbackRequest) (
	bucket.DeductionView, error) {
	to, err := s.returner(ctx, "cancel", &r)
	if err != nil {
		return bucket.DeductionView{}, err
	}
	return to.Cancel(ctx, r)
}

// Deduction reads the deduction of a request id; in store mode, within the record window. Errors:
// BudgetNotFound; Invalid; DeductionNotFound (not final while the deduction is in progress);
// OutcomeUnknown if a record may have been lost or forgotten; Unavailable.
func (s *Service) Deduction(ctx context.Context, r bucket.RollbackRequest) (
	bucket.DeductionView, error) {
	if !r.IsSet() {
		r.OnlyBy = ""
	}
	to, err := s.returner(ctx, "read", &r)
	if err != nil {
		return bucket.DeductionView{}, err
	}
	return to.Deduction(ctx, r)
}

// returner returns what gives units of a budget back. A store does not record the principal:
// Forbidden if the caller may give back only its own deductions.
func (s *Service) returner(ctx context.Context, op string, r *bucket.RollbackRequest) (
	Returner, error) {
	if r.IsSet() {
		return s.inSQL.returns, nil
	}
	b, err := s.budgets.Find(ctx, r.Budget)
	if err != nil {
		return nil, err
	}
	if b.InStoreMode() && r.OnlyBy != "" {
		return nil, budget.Refuse(budget.Forbidden, op,
			"a store does not record who deducted; the call needs the role rollback")
	}
	return s.wayOf(b).returns, nil
}
