package manage_test

import (
	"testing"
	"time"

	"github.com/budgetd/budgetd/bucket"
	"github.com/budgetd/budgetd/budget"
)

// TestADryRunMakesNothing and shows what the first periods and the last one would get.
func TestADryRunMakesNothing(t *testing.T) {
	w := newCaller(t)
	start := time.Now().UTC().Truncate(24*time.Hour).AddDate(0, 0, 1)
	d := budget.Definition{Tenant: "shop", Name: "days", Unit: budget.Count, Type: budget.Daily,
		Durability: budget.Ledger, TotalQuantity: 7, BucketQuantity: 1, StartAt: start,
		EndAt: start.AddDate(0, 0, 30), DryRun: true, Timezone: "UTC",
		Rule: &budget.Rule{Kind: budget.Calendar, Every: budget.Day}}
	v, created, err := w.Create(t.Context(), d)
	if err != nil || created || v.Status != budget.Pending {
		t.Fatalf("%v, %v, %v", v, created, err)
	}
	if n := len(v.Plan); n != 4 || v.Plan[0].Quantity != 0 || v.Plan[3].Number != 30 || v.Plan[3].Quantity != 1 {
		t.Errorf("planned: %+v", v.Plan)
	}
	if _, err := w.part.Budget(t.Context(), bucket.BudgetRef{Tenant: "shop", Name: "days"}); !budget.Is(err,
		budget.BudgetNotFound) {
		t.Errorf("it was made: %v", err)
	}
	d.EndAt = time.Now().Add(-time.Hour)
	d.StartAt = time.Time{}
	if _, _, err := w.Create(t.Context(), d); !budget.Is(err, budget.Invalid) {
		t.Errorf("an end that has passed: %v", err)
	}
}
