package manage

import (
	"context"
	"slices"

	"github.com/budgetd/budgetd/auditlog"
	"github.com/budgetd/budgetd/budget"
	"github.com/budgetd/budgetd/internal/sql/bookkeeper"
	"github.com/budgetd/budgetd/internal/sql/engine"
	"github.com/budgetd/budgetd/ledger/books"
)

const (
	// countUses counts what a deduction leaves: rows of ids, cancelled ones included, in ledger mode,
	// and in store mode what the final figures of epochs say. Units in quarantine may have been used.
	countUses = `SELECT (SELECT COUNT(*) FROM (SELECT request_id FROM deduction WHERE budget_id = ?
		LIMIT 1) d) + (SELECT COUNT(*) FROM (SELECT bucket_id FROM quarantine WHERE budget_id = ?
		LIMIT 1) q) + (SELECT COUNT(*) FROM bucket_epoch WHERE budget_id = ? AND (taken_quantity > 0
		OR used_quantity > 0 OR held_quantity > 0)) AS units`
	// deleteGrants goes by buckets, because grant_log has no index by budgets.
	deleteGrants = `DELETE FROM grant_log WHERE `
	// countChildren counts the children of a budget.
	countChildren = `SELECT COUNT(*) AS units
		FROM budget_management_bucket c /*by budget_management_bucket_parent*/ WHERE c.parent_id = ?`
	countOpen = `SELECT COUNT(*) AS units FROM bucket_epoch
		WHERE budget_id = ? AND status <> 'closed'`
)

// deletes remove the rows of a budget, in lock order, after the grants.
var deletes = []string{
	`INSERT INTO limit_override_series (budget_id, series, gone_ms)
		SELECT l.budget_id, l.override_series, 0 FROM budget_limit l WHERE l.budget_id = ?
		AND l.override_series > 0`, // their overrides are removed in steps
	`DELETE FROM limit_override_removed WHERE budget_id = ?`,
	`DELETE FROM budget_limit WHERE budget_id = ?`,
	`DELETE FROM limit_counter WHERE budget_id = ?`,
	`DELETE FROM bucket_epoch WHERE budget_id = ?`,
	`DELETE FROM sharding_budget_management_bucket WHERE budget_id = ?`,
	`DELETE FROM budget_period WHERE budget_id = ?`,
	`DELETE FROM adjustment WHERE budget_id = ?`,
	`DELETE FROM recycle_run WHERE budget_id = ?`,
	`DELETE FROM budget_sample WHERE budget_id = ?`,
	`DELETE FROM alert_threshold WHERE budget_id = ?`,
	`DELETE FROM alert WHERE budget_id = ?`,
	`DELETE FROM budget_management_bucket WHERE id = ?`,
}

// Delete removes a budget that never had a deduction, with all of its rows, in one transaction of
// two round trips. It holds the locks of all epochs: a deduction that comes before it makes it
// refused, and one that comes after finds no epoch. In store mode the stores deduct without these
// locks, so every epoch must have ended before. A repeated call finds no budget.
//
// Errors: BudgetNotFound; HasDeductions; InUse for an epoch that has not ended (store
// mode), and for parents and children; Unavailable; OutcomeUnknown.
//
// charged are the budgets that it charges, as its view has them.
func (l *Ledger) Delete(ctx context.Context, id int64, charged []int64) error {
	return l.db.Move(ctx, "delete", func(m *engine.Move) error {
		var uses, open, children int64
		b := books.New(engine.ToMS(m.Now))
		load := append(lockCharged(charged, id), bookkeeper.WholeBudget(id)...)
		load = append(load, bookkeeper.Sum(countUses, id, &uses),
			bookkeeper.Sum(countOpen, id, &open), bookkeeper.Sum(countChildren, id, &children))
		if err := bookkeeper.Load(m, b, load); err != nil {
			return err
		}
		u := b.Budgets.Get(id)
		if u == nil {
			if m.Unsure {
				return nil // an earlier attempt was committed
			}
			return budget.Refuse(budget.BudgetNotFound, "delete", "there is no budget %d", id)
		}
		if err := unused(u, uses, open, children); err != nil {
			return err
		}
		if !slices.Equal(u.Definition().AlsoCharges.IDs, charged) {
			return budget.Refuse(budget.Unavailable, "delete", "budget %s was changed just now", u.Name)
		}
		was, err := creationOf(u.Definition()).text()
		if err != nil {
			return err
		}
		auditlog.FromContext(ctx).Change(u.Tenant, u.Name, []byte(was), nil)
		saveDischarge(m, charged)
		saveDeletes(m, b, id)
		return nil
	})
}

// saveDeletes saves the statements that remove a budget's rows.
func saveDeletes(m *engine.Move, b *books.Books, id int64) {
	var ids []int64
	for _, row := range b.Buckets.All() {
		ids = append(ids, row.ID)
	}
	grants := m.Statement()
	grants.SQL(deleteGrants)
	grants.Numbers("bucket_id", ids)
	m.Save(grants)
	for _, text := range deletes {
		s := m.Statement()
		s.Fill(text, func(int) { s.Number(id) })
		m.Save(s)
	}
}

// unused refuses a budget that has, or may have, deductions. All locks are held.
func unused(u *books.Budget, uses, open, children int64) error {
	switch {
	case children > 0:
		return budget.Refuse(budget.InUse, "delete", "budget %s has %d children", u.Name, children)
	case u.ChargedBy > 0:
		return budget.Refuse(budget.InUse, "delete", "%d budgets charge budget %s: change their "+
			"also_charges first", u.ChargedBy, u.Name)
	case u.Parent != 0 && u.Total > 0:
		return budget.Refuse(budget.InUse, "delete",
			"budget %s has units of its parent: close it to give them back", u.Name)
	case uses > 0:
		return budget.Refuse(budget.HasDeductions, "delete",
			"budget %s has deductions, cancelled ids or quarantined units; end it and archive it", u.Name)
	case u.Durability == books.Word(budget.Store) && open > 0:
		return budget.Refuse(budget.InUse, "delete", "budget %s has %d buckets whose units are in "+
			"stores; pause it, take each bucket offline and delete it then", u.Name, open)
	}
	return nil
}
