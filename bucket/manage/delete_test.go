package manage_test

import (
	"strings"
	"testing"

	"github.com/budgetd/budgetd/bucket"
	"github.com/budgetd/budgetd/budget"
	"github.com/budgetd/budgetd/internal/sql/engine"
)

// tablesOfBudgets are all tables with rows of budgets, except budget_management_bucket.
var tablesOfBudgets = []string{"budget_period", "sharding_budget_management_bucket", "bucket_epoch", "grant_log", "adjustment",
	"deduction", "hold", "group_of_holds", "give_back", "deduction_value", "budget_limit", "limit_counter", "quarantine",
	"quarantine_release", "recycle_run", "budget_sample", "alert_threshold", "alert"}

// count reads a number.
func (w *world) count(query string, args ...any) (n int) {
	w.Helper()
	w.ok(w.db.Read(w.ctx, "test", func(r *engine.Reader) error {
		_, err := r.Get(&n, query, args...)
		return err
	}))
	return n
}

// TestDelete checks that a budget without deductions leaves no row, that its name is free, and that a
// second delete finds nothing. Other budgets stay.
func TestDelete(t *testing.T) {
	onEveryEngine(t, func(w *world) {
		d := daily("mistyped", 100, 15, budget.Forfeit)
		d.Limits = &budget.Limits{List: []budget.Limit{{Name: "l", Dimension: "user", Max: 1, Measure: budget.MeasureCount,
			Window: budget.LimitWindow{Kind: budget.WindowLifetime}}}}
		b, other := w.create(d), w.create(promo("other", 10, 2))
		w.adjusts(b.ID, "more", 50)
		n := 4
		w.change(b.ID, bucket.Change{BucketQuantity: &n})
		w.exec(`INSERT INTO alert_threshold (budget_id, thresholds, changed_ms) VALUES (?, '[]', 1)`, b.ID)
		w.unchanged(other.ID, "a delete of another budget", func() { w.ok(w.part.Delete(w.ctx, b.ID, nil)) })
		for _, table := range tablesOfBudgets {
			equal(w, table, w.count(`SELECT COUNT(*) FROM `+table+` WHERE budget_id = ?`, b.ID), 0)
		}
		equal(w, "budgets", w.count(`SELECT COUNT(*) FROM budget_management_bucket WHERE id = ?`, b.ID), 0)
		w.refused(w.part.Delete(w.ctx, b.ID, nil), budget.BudgetNotFound)
		d.TotalQuantity = 7
		if again := w.create(d); again.ID == b.ID {
			w.Errorf("the budget of that name has the id %d of the deleted one", again.ID)
		}
	})
}

// TestDeleteIsRefused checks that nothing is deleted of a budget with a deduction, a cancelled id, units
// that are used, held or in quarantine, or, in store mode, with an epoch that has not ended or that had
// deductions.
func TestDeleteIsRefused(t *testing.T) {
	onEveryEngine(t, func(w *world) {
		stored := promo("stored", 10, 2)
		stored.Durability = budget.Store
		w.partition("store-0")
		w.partition("store-1")
		closed := `UPDATE bucket_epoch SET status = 'closed', outstanding_quantity = 0 WHERE budget_id = ?`
		for name, test := range map[string]struct {
			of    budget.Definition
			spoil []string
			want  budget.Code
		}{
			"a deduction": {promo("a", 10, 2), []string{`INSERT INTO deduction (budget_id, request_id, bucket_id, epoch, amount,
				fingerprint, nonce, counted_at) VALUES (?, 'o1', 1, 1, 1, '', '', 1)`}, budget.HasDeductions},
			"a cancelled id": {promo("b", 10, 2), []string{`INSERT INTO deduction (budget_id, request_id, bucket_id, epoch, amount,
				fingerprint, nonce, counted_at) VALUES (?, 'o1', 0, 0, 0, '', '', 1)`}, budget.HasDeductions},
			"used":    {promo("c", 10, 2), []string{`UPDATE bucket_epoch SET used_quantity = 1 WHERE budget_id = ?`}, budget.HasDeductions},
			"held":    {promo("d", 10, 2), []string{`UPDATE bucket_epoch SET held_quantity = 1 WHERE budget_id = ?`}, budget.HasDeductions},
			"opening": {stored, nil, budget.InUse},
			"open":    {stored, []string{`UPDATE bucket_epoch SET status = 'open' WHERE budget_id = ?`}, budget.InUse},
			"lost":    {stored, []string{`UPDATE bucket_epoch SET status = 'lost' WHERE budget_id = ?`}, budget.InUse},
			"one open": {stored, []string{closed, `UPDATE bucket_epoch SET status = 'open' WHERE budget_id = ? AND bucket_id IN
				(SELECT MIN(id) FROM sharding_budget_management_bucket GROUP BY budget_id)`}, budget.InUse},
			"taken and given back": {stored, []string{closed, `UPDATE bucket_epoch SET taken_quantity = 1, given_back_quantity = 1
				WHERE budget_id = ?`}, budget.HasDeductions},
			"closed": {stored, []string{closed}, ""},
		} {
			if test.of.Durability == budget.Store {
				test.of.Name = strings.ReplaceAll(name, " ", "-")
			}
			made, err := w.part.Create(w.ctx, test.of, partitions(2))
			w.ok(err)
			for _, spoil := range test.spoil {
				w.ok(w.db.Write(w.ctx, "test", func(t *engine.Tx) error {
					_, err := t.Exec(spoil, made.Budget.ID)
					return err
				}))
			}
			err = w.part.Delete(w.ctx, made.Budget.ID, nil)
			if test.want == "" {
				w.ok(err)
				continue
			}
			w.refused(err, test.want)
			equal(w, name, w.count(`SELECT COUNT(*) FROM bucket_epoch WHERE budget_id = ?`, made.Budget.ID), 2)
		}
	})
}
