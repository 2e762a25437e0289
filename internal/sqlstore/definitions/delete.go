package definitions

import (
	"context"

	"github.com/budgetd/budgetd/budget"
	"github.com/budgetd/budgetd/internal/sqlstore/engine"
	"github.com/budgetd/budgetd/internal/sqlstore/rows"
	"github.com/budgetd/budgetd/trail"
)

const (
	// countUses counts what a deduction leaves: rows of ids, cancelled ones included, in ledger mode,
	// and in store mode what the final figures of epochs say. Units in quarantine may have been used.
	countUses = `SELECT (SELECT COUNT(*) FROM (SELECT request_id FROM deduction WHERE budget_id = ?
		LIMIT 1) d) + (SELECT COUNT(*) FROM (SELECT bucket_id FROM quarantine WHERE budget_id = ?
		LIMIT 1) q) + (SELECT COUNT(*) FROM bucket_epoch WHERE budget_id = ? AND (taken_quantity > 0
		OR used_quantity > 0 OR held_quantity > 0))`
	// deleteGrants goes by buckets, because grant_log has no index by budgets.
	deleteGrants = `DELETE FROM grant_log WHERE `
	countOpen    = `SELECT COUNT(*) FROM bucket_epoch WHERE budget_id = ? AND status <> 'closed'`
)

// deletes remove the rows of a budget, in lock order, after the grants.
var deletes = []string{
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

// Delete removes a budget that never had a deduction, with all of its rows, in one transaction. It
// holds the locks of all epochs: a deduction that comes before it makes it refused, and one that
// comes after finds no epoch. In store mode the stores deduct without these locks, so every epoch
// must have ended before. A repeated call finds no budget.
//
// Errors: BudgetNotFound; HasDeductions; InUse for an epoch that has not ended (store mode);
// Unavailable; OutcomeUnknown.
func (p *Part) Delete(ctx context.Context, id int64) error {
	return p.db.Write(ctx, "delete", func(t *engine.Tx) error {
		b, err := rows.LockBudget(t, "delete", id)
		if err != nil {
			if t.Unsure && budget.Is(err, budget.BudgetNotFound) {
				return nil // an earlier attempt was committed
			}
			return err
		}
		list, err := rows.LockBuckets(t, id)
		if err != nil {
			return err
		}
		if err := unused(t, b); err != nil {
			return err
		}
		was, err := creationOf(b.Definition()).text()
		if err != nil {
			return err
		}
		trail.FromContext(ctx).Change(b.Tenant, b.Name, []byte(was), nil)
		ids := make([]int64, len(list))
		for i := range list {
			ids[i] = list[i].Epoch.Bucket
		}
		grants := t.Statement()
		grants.SQL(deleteGrants)
		grants.Numbers("bucket_id", ids)
		if _, err := t.Execute(grants); err != nil {
			return err
		}
		for _, statement := range deletes {
			if _, err := t.Exec(statement, id); err != nil {
				return err
			}
		}
		return nil
	})
}

// unused refuses a budget that has, or may have, deductions. All locks are held.
func unused(t *engine.Tx, b *rows.Budget) error {
	var n int64
	if _, err := t.Get(&n, countUses, b.ID, b.ID, b.ID); err != nil {
		return err
	}
	if n > 0 {
		return budget.Refuse(budget.HasDeductions, "delete",
			"budget %s has deductions, cancelled ids or quarantined units; end it and archive it", b.Name)
	}
	if budget.Durability(b.Durability) != budget.Store {
		return nil
	}
	if _, err := t.Get(&n, countOpen, b.ID); err != nil {
		return err
	}
	if n > 0 {
		return budget.Refuse(budget.InUse, "delete", "budget %s has %d buckets whose units are in "+
			"stores; pause it, take each bucket offline and delete it then", b.Name, n)
	}
	return nil
}
