package manage

import (
	"context"
	"fmt"
	"slices"

	"github.com/budgetd/budgetd/bucket"
	"github.com/budgetd/budgetd/budget"
	"github.com/budgetd/budgetd/internal/sql/bookkeeper"
	"github.com/budgetd/budgetd/internal/sql/engine"
	"github.com/budgetd/budgetd/ledger/books"
)

// lockCharged locks the budgets that another one charges, and further ones, in the order of their
// ids. It leaves out ids that are 0.
func lockCharged(charged []int64, more ...int64) []bookkeeper.Query {
	if len(charged) == 0 {
		return nil
	}
	ids := slices.Concat(charged, more)
	ids = slices.DeleteFunc(ids, func(id int64) bool { return id == 0 })
	slices.Sort(ids)
	return []bookkeeper.Query{bookkeeper.LockBudgets(slices.Compact(ids)...)}
}

// chargesOf finds the budgets that a definition names in also_charges. id is the budget's, 0 for a
// new one, and parent its parent's. Errors: BudgetNotFound; Invalid for an ancestor or a
// descendant, whose units are the same; Unavailable.
func (s *Service) chargesOf(ctx context.Context, tenant string, id, parent int64,
	c *budget.Charges) error {
	c.IDs = nil
	if len(c.Names) == 0 {
		return nil
	}
	above, err := s.ancestors(ctx, parent)
	if err != nil {
		return err
	}
	for _, name := range c.Names {
		b, err := s.Budgets.Find(ctx, bucket.BudgetRef{Tenant: tenant, Name: name})
		if err != nil {
			return err
		}
		of, err := s.ancestors(ctx, b.Parent)
		if err != nil {
			return err
		}
		if slices.Contains(above, b.ID) || id != 0 && slices.Contains(of, id) {
			return &budget.Error{Code: budget.Invalid, Op: "charge",
				Message: "a budget does not charge its ancestors and descendants",
				Fields: []budget.FieldError{{Field: "also_charges", Message: fmt.Sprintf(
					"%s is of the same line of the family: its units are counted there already", name)}}}
		}
		c.IDs = append(c.IDs, b.ID)
	}
	return nil
}

// mayBe refuses a definition of a budget that others charge, or that charges others.
func mayBe(u *books.Budget, before, after budget.Definition) error {
	switch {
	case after.Archived && !before.Archived && u.ChargedBy > 0:
		return budget.Refuse(budget.InUse, "change", "%d budgets charge budget %s: change their "+
			"also_charges first", u.ChargedBy, before.Name)
	case after.Unit != before.Unit && (u.ChargedBy > 0 || u.AlsoCharges != ""):
		return &budget.Error{Code: budget.Invalid, Op: "change", Fields: []budget.FieldError{{
			Field: "unit", Message: "cannot be corrected: it is that of all that is charged together"}}}
	}
	return nil
}

// ancestors returns a budget, its parent, and so on. They never change. 0 has none.
func (s *Service) ancestors(ctx context.Context, id int64) (line []int64, err error) {
	for id != 0 {
		line = append(line, id)
		b, err := s.Budgets.Find(ctx, bucket.BudgetRef{ID: id})
		if err != nil {
			return nil, err
		}
		id = b.Parent
	}
	return line, nil
}

// named completes a view with the names of the budgets that it also charges.
func (s *Service) named(ctx context.Context, v *bucket.View) error {
	c := &v.Definition.AlsoCharges
	if len(c.IDs) == 0 {
		return nil
	}
	c.Names = make([]string, len(c.IDs))
	for i, id := range c.IDs {
		b, err := s.Budgets.Find(ctx, bucket.BudgetRef{ID: id})
		if err != nil {
			return err
		}
		c.Names[i] = b.Name
	}
	return nil
}

// usable completes a view with the least that the budget and those that it also charges have left.
func (s *Service) usable(ctx context.Context, v *bucket.View) error {
	least := func(of *bucket.View) {
		if of.Definition.Unlimited && of.Status == budget.Effective {
			return
		}
		units := of.Remaining
		if v.Usable == nil || units < *v.Usable {
			v.Usable = &units
		}
	}
	for _, id := range v.Definition.AlsoCharges.IDs {
		of, err := s.Ledger.View(ctx, bucket.BudgetRef{ID: id})
		if err != nil {
			return err
		}
		least(&of)
	}
	if len(v.Definition.AlsoCharges.IDs) > 0 {
		least(v)
	}
	return nil
}

// discharge is a statement by which a budget that is deleted charges no others any more.
const discharge = `UPDATE budget_management_bucket SET charged_by = charged_by - 1 WHERE `

// saveDischarge saves the statement discharge. The rows are locked.
func saveDischarge(m *engine.Move, charged []int64) {
	if len(charged) == 0 {
		return
	}
	s := m.Statement()
	s.SQL(discharge)
	s.Numbers("id", slices.Sorted(slices.Values(charged)))
	m.Save(s)
}
