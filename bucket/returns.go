package bucket

import (
	"context"

	"github.com/budgetd/budgetd/budget"
	"github.com/budgetd/budgetd/ledger"
)

// Rollback gives units of a deduction back to the budget, whatever became of its bucket (I5): never
// more than was deducted. The same rollback id, default the whole, replays.
//
// Errors: BudgetNotFound; DeductionNotFound, which is not final, as the deduction may still be under
// way: Cancel is; RequestVoid; RequestConflict; AlreadyRolledBack; AmountExceedsRemaining;
// Unavailable; OutcomeUnknown: repeat the same rollback id. Safe for concurrent use.
func (s *Service) Rollback(ctx context.Context, r RollbackRequest) (DeductionView, error) {
	entry, err := s.budgets.find(ctx, r.Budget)
	if err != nil {
		return DeductionView{}, err
	}
	step, cancel := context.WithTimeout(ctx, s.set.StepTimeout)
	defer cancel()
	d, replayed, err := s.rollback(step, entry, r)
	if err != nil {
		return DeductionView{}, s.sqlFailed(err)
	}
	s.countsReturned(ctx, entry, d)
	return s.deductionView(entry, d, replayed), nil
}

// rollback is SQL's rollback; in store mode a deduction that is not in the ledger is looked for in the
// logs first.
func (s *Service) rollback(ctx context.Context, entry *cached, r RollbackRequest) (ledger.Deduction, bool, error) {
	order := RollbackOrder{Budget: entry.id, RequestID: r.RequestID, RollbackID: r.RollbackID, Amount: r.Amount}
	d, replayed, err := s.sql.Rollback(ctx, order)
	if !budget.Is(err, budget.DeductionNotFound) || !entry.value.Load().inStoreMode() {
		return d, replayed, err
	}
	if err := s.findable(ctx, entry, r.Receipt); err != nil {
		return d, false, err
	}
	return s.sql.Rollback(ctx, order)
}

// Cancel makes certain that a request id has no effect: what is left of its deduction is given back,
// and if there is none a tombstone keeps a late one from ever taking effect. Repeating it answers
// the same. Errors: BudgetNotFound, Unavailable, OutcomeUnknown. Safe for concurrent use.
func (s *Service) Cancel(ctx context.Context, ref BudgetRef, requestID string) (DeductionView, error) {
	entry, err := s.budgets.find(ctx, ref)
	if err != nil {
		return DeductionView{}, err
	}
	step, cancel := context.WithTimeout(ctx, s.set.StepTimeout)
	defer cancel()
	if entry.value.Load().inStoreMode() {
		d, err := s.cancelInStore(step, entry, requestID)
		if err == nil {
			s.countsReturned(ctx, entry, d)
		}
		return s.deductionView(entry, d, false), err
	}
	d, err := s.sql.Cancel(step, entry.id, requestID)
	if err != nil {
		return DeductionView{}, s.sqlFailed(err)
	}
	return s.deductionView(entry, d, false), nil
}

// Deduction reads what became of a request id. Errors: BudgetNotFound, DeductionNotFound (not final
// while the deduction is under way), Unavailable.
func (s *Service) Deduction(ctx context.Context, ref BudgetRef, requestID string) (DeductionView, error) {
	entry, err := s.budgets.find(ctx, ref)
	if err != nil {
		return DeductionView{}, err
	}
	d, err := s.recordedOne(ctx, entry.id, requestID)
	if err == nil && d == nil && entry.value.Load().inStoreMode() {
		if err = s.findable(ctx, entry, ""); err == nil {
			d, err = s.recordedOne(ctx, entry.id, requestID)
		}
	}
	if err != nil {
		return DeductionView{}, err
	}
	if d == nil {
		return DeductionView{}, budget.Refuse(budget.DeductionNotFound, "read",
			"request %q is not in the ledger of budget %s", requestID, entry.value.Load().Name)
	}
	return s.deductionView(entry, *d, false), nil
}

// sqlFailed counts an error of SQL and returns it.
func (s *Service) sqlFailed(err error) error {
	if k := budget.CodeOf(err).Kind(); k == budget.NotDone || k == budget.MayBeDone {
		s.failed("sql", err)
	}
	return err
}

func (s *Service) deductionView(entry *cached, d ledger.Deduction, replayed bool) DeductionView {
	v := DeductionView{RequestID: d.RequestID, State: d.State, Amount: d.Amount, RolledBack: d.RolledBack,
		Confirmed: d.Confirmed, HoldUntil: d.HoldUntil, Group: d.Group, Reference: d.Reference, Dimensions: d.Dimensions, CountedAt: d.CountedAt, Replayed: replayed}
	if d.State == ledger.StateVoid {
		return v
	}
	v.Receipt = receipt(d.Position)
	b := entry.value.Load()
	for i := range b.Buckets {
		if b.Buckets[i].ID == d.Position.Bucket {
			v.Bucket = b.Buckets[i].Key
		}
	}
	return v
}
