package manage

import (
	"context"

	"github.com/budgetd/budgetd/auditlog"
	"github.com/budgetd/budgetd/bucket"
	"github.com/budgetd/budgetd/budget"
	"github.com/budgetd/budgetd/internal/sql/bookkeeper"
	"github.com/budgetd/budgetd/internal/sql/engine"
	"github.com/budgetd/budgetd/ledger/books"
)

// selectFamily reads a budget and its descendants. The last two places are the ends of the range of
// their ancestors.
const selectFamily = `SELECT id, parent_id, ancestors, bucket_quantity, end_ms, 0 AS units
	FROM budget_management_bucket WHERE id = ?
	UNION ALL SELECT c.id, c.parent_id, c.ancestors, c.bucket_quantity, c.end_ms,
		c.unfunded_quantity + c.undistributed_quantity + (SELECT COALESCE(SUM(
			e.outstanding_quantity + e.returning_quantity), 0)
		FROM bucket_epoch e /*by bucket_epoch_units*/ WHERE e.budget_id = c.id AND e.has_units = 1)
	FROM budget_management_bucket c /*by budget_management_bucket_family*/
	WHERE c.ancestors >= ? AND c.ancestors < ?`

// relative is a row of selectFamily.
type relative struct {
	ID        int64  `db:"id"`
	Parent    int64  `db:"parent_id"`
	Ancestors []byte `db:"ancestors"`
	Buckets   int64  `db:"bucket_quantity"`
	EndMS     int64  `db:"end_ms"`
	Units     int64  `db:"units"` // of F, U, O and R, of a descendant
}

// family reads a budget and its descendants, the budget first. Errors: BudgetNotFound, Unavailable.
func (l *Ledger) family(ctx context.Context, id int64) (list []relative, err error) {
	err = l.db.Read(ctx, "family", func(r *engine.Reader) error {
		var ancestors []byte
		found, err := r.Get(&ancestors, selectAncestors, id)
		if err != nil {
			return err
		}
		if !found {
			return bookkeeper.NoBudget("family", id)
		}
		prefix := books.Below(string(ancestors), id)
		list = nil
		return r.List(&list, selectFamily, id, []byte(prefix), []byte(after(prefix)))
	})
	return list, err
}

const selectAncestors = `SELECT ancestors FROM budget_management_bucket WHERE id = ?`

// after returns the first text behind all those that begin with a prefix, which ends in a slash.
func after(prefix string) string { return prefix[:len(prefix)-1] + "0" }

// closeRounds bounds how often a close looks for budgets that were carved meanwhile.
const closeRounds = 8

// Close ends a child and its descendants now, the deepest first, and moves what they have left to
// their parents: see books.Settle. Those of one parent are settled in one transaction, so a close
// may be interrupted, and a repeated one does the rest. It returns the units that came back to the
// child's parent. Errors: BudgetNotFound; Invalid for a budget without a parent; Unavailable;
// OutcomeUnknown. Keeps I1, I10.
func (l *Ledger) Close(ctx context.Context, id int64) (units int64, err error) {
	unrecorded := auditlog.NewContext(ctx, nil)
	for range closeRounds {
		list, err := l.family(ctx, id)
		if err != nil {
			return units, err
		}
		if list[0].Parent == 0 {
			return 0, &budget.Error{Code: budget.Invalid, Op: "close", Fields: []budget.FieldError{{
				Field: "budget", Message: "has no parent to give back to: set its end_at instead"}}}
		}
		if err := bookkeeper.Settle(unrecorded, l.db, l.toEnd(list[1:]), true); err != nil {
			return units, err
		}
		ended := false
		moved, err := bookkeeper.SettleChildren(ctx, l.db, list[0].Parent, []int64{id}, true,
			func(b *books.Books, u *books.Budget, was int64) {
				if ended = u.HasEnded(b.NowMS); ended {
					auditlog.FromContext(ctx).Change(u.Tenant, u.Name, totalOf(was), totalOf(u.Total))
				}
			})
		units += moved
		if err != nil || ended {
			return units, err
		}
	}
	return units, budget.Refuse(budget.Unavailable, "close",
		"children are carved out of the budget faster than they can be closed")
}

// toEnd returns the relatives that have not ended, and those that have something left.
func (l *Ledger) toEnd(list []relative) (out []books.Left) {
	now := engine.ToMS(l.db.Now())
	for _, r := range list {
		if r.EndMS == 0 || r.EndMS > now || r.Units > 0 {
			out = append(out, books.Left{Child: r.ID, Parent: r.Parent,
				Ancestors: string(r.Ancestors), Buckets: r.Buckets})
		}
	}
	return out
}

// Close ends a child and its descendants now, and gives all that they neither use nor hold back to
// the child's parent; holds and rollbacks follow when they end or come. A repeated call changes
// nothing. It returns the child.
//
// Errors: BudgetNotFound; Invalid for a budget without a parent; Unavailable; OutcomeUnknown, after
// which the call may be repeated.
func (s *Service) Close(ctx context.Context, ref bucket.BudgetRef) (bucket.View, error) {
	b, err := s.Budgets.Find(ctx, ref)
	if err != nil {
		return bucket.View{}, err
	}
	step, cancel := s.bounded(ctx)
	defer cancel()
	units, err := s.Ledger.Close(step, b.ID)
	if err != nil {
		return bucket.View{}, err
	}
	s.Log.Info("budget closed", "budget", b.ID, "name", b.Name, "units", units)
	s.Budgets.Forget(b.ID)
	v, err := s.Ledger.View(step, bucket.BudgetRef{ID: b.ID})
	return v, afterWrite("close", err)
}
