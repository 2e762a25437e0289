package manage

import (
	"context"
	"errors"
	"math"
	"time"

	"github.com/budgetd/budgetd/auditlog"
	"github.com/budgetd/budgetd/bucket"
	"github.com/budgetd/budgetd/budget"
	"github.com/budgetd/budgetd/internal/sql/bookkeeper"
	"github.com/budgetd/budgetd/internal/sql/engine"
	"github.com/budgetd/budgetd/ledger/books"
)

// errPreviewed ends the transaction of a dry run.
var errPreviewed = errors.New("nothing is to be saved")

// carve creates a child, after its parent's rollover if that is due. A refusal for want of units is
// final only if a second look finds no more (I3). A dry run saves nothing.
func (m *making) carve(ctx context.Context, scope []bookkeeper.Query) error {
	parent := m.creation.Definition.Parent
	var found error
	load := append(bookkeeper.WholeBudget(parent), scope...)
	load = append(load, bookkeeper.LookAgain(&found, parent))
	load = append(load, bookkeeper.Ended(parent)...)
	_, err := bookkeeper.Whole(ctx, m.ledger.db, "create", parent, load,
		func(b *books.Books, u *books.Budget) error {
			again := found
			found = nil
			err := m.decide(ctx, b, u)
			switch {
			case again != nil && budget.Is(err, budget.BudgetExhausted):
				return again
			case err == nil && m.creation.Definition.DryRun:
				return errPreviewed
			}
			return err
		}, nil)
	if errors.Is(err, errPreviewed) {
		return nil
	}
	return err
}

// errIsChild ends the transaction of a movement that has found out that it needs the parent's rows
// too: budgets are locked in the order of their ids.
var errIsChild = errors.New("the parent must be loaded too")

// adjustChild carries out an order on a child, after its parent's rollover if that is due. A
// refusal for want of units is final only if a second look finds no more (I3).
func (l *Ledger) adjustChild(ctx context.Context, parent, id int64, o books.Order,
	look engine.Looks) (done books.Adjusted, err error) {
	var found error
	both := []int64{min(parent, id), max(parent, id)}
	load := append(bookkeeper.WholeBudget(both...), bookkeeper.Adjustment(id, o.RequestID),
		bookkeeper.LookAgain(&found, both...))
	load = append(load, bookkeeper.Ended(both...)...)
	_, err = bookkeeper.Whole(ctx, l.db, "adjust", parent, load,
		func(b *books.Books, parent *books.Budget) (err error) {
			again := found
			found = nil
			u := b.Budgets.Get(id)
			if u == nil {
				return bookkeeper.NoBudget("adjust", id)
			}
			was := u.Total
			done, err = b.AdjustChild(parent, u, o)
			if again != nil && (budget.Is(err, budget.BudgetExhausted) ||
				budget.Is(err, budget.AmountExceedsRemaining)) {
				return again
			}
			auditlog.FromContext(ctx).Change(u.Tenant, u.Name, totalOf(was), totalOf(u.Total))
			return err
		}, look)
	return done, err
}

// latestEnd is the latest end of a budget's children: the largest number if one has no end.
const latestEnd = `SELECT MAX(CASE WHEN c.end_ms = 0 THEN 9223372036854775807 ELSE c.end_ms END)
	AS units FROM budget_management_bucket c /*by budget_management_bucket_parent*/
	WHERE c.parent_id = ?`

// fits refuses a definition that does not fit into its family: a child has its parent's unit and
// ends no later, and a parent has no bound on applications. The parent is locked; nil means none.
func (c *changing) fits(parent *books.Budget, before, after budget.Definition,
	now time.Time) error {
	var faults []budget.FieldError
	fault := func(field, message string) {
		faults = append(faults, budget.FieldError{Field: field, Message: message})
	}
	if after.Unit != before.Unit && (parent != nil || c.ends > 0) {
		fault("unit", "cannot be corrected: all budgets of a family have one unit")
	}
	if after.AdjustCnt > 0 && c.ends > 0 {
		fault("adjust_cnt", "must be 0: the budget has children")
	}
	if !after.EndAt.Equal(before.EndAt) && parent != nil && before.StatusAt(now) == budget.Expired {
		fault("end_at", "cannot change: the child has ended, and what it had left went to its parent")
	}
	end := endOf(after.EndAt)
	if !after.EndAt.Equal(before.EndAt) && end < c.ends {
		fault("end_at", "must not be before the end of a child: change that first")
	}
	if parent != nil && !after.EndAt.Equal(before.EndAt) {
		if last := endOf(parent.LastOfChildren()); end > last {
			fault("end_at", "must not be after the end of the parent, or of its period: "+
				engine.FromMS(last).Format(time.RFC3339))
		}
	}
	if len(faults) > 0 {
		return &budget.Error{Code: budget.Invalid, Op: "change", Fields: faults}
	}
	return nil
}

// endOf returns an end in ms, and the largest number for a budget without an end.
func endOf(end time.Time) int64 {
	if end.IsZero() {
		return math.MaxInt64
	}
	return engine.EndMS(end)
}

// parentOf finds the parent that a definition names. Errors: BudgetNotFound, Unavailable.
func (s *Service) parentOf(ctx context.Context, d *budget.Definition) error {
	if d.ParentName == "" {
		return nil
	}
	parent, err := s.Budgets.Find(ctx, bucket.BudgetRef{Tenant: d.Tenant, Name: d.ParentName})
	if err == nil && d.Parent != 0 && d.Parent != parent.ID { // another one has the name now
		err = budget.Refuse(budget.BudgetNotFound, "create", "tenant %q has no budget %q", d.Tenant,
			d.ParentName)
	}
	if err == nil {
		d.Parent = parent.ID
	}
	return err
}

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

// below returns what the ancestors of all budgets below one begin with, also if there is no such
// budget: then none begins with it. Error: Unavailable.
func (l *Ledger) below(ctx context.Context, id int64) (string, error) {
	var ancestors []byte
	err := l.db.Read(ctx, "family", func(r *engine.Reader) error {
		_, err := r.Get(&ancestors, selectAncestors, id)
		return err
	})
	return books.Below(string(ancestors), id), err
}

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
