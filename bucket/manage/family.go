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
	if err == nil {
		d.Parent = parent.ID
	}
	return err
}
