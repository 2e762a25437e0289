package bucket_test

import (
	"testing"
	"time"

	"github.com/budgetd/budgetd/bucket"
	"github.com/budgetd/budgetd/budget"
)

// TestRefusalBetweenWindows checks that a refusal before a period begins names the start of the
// first period that may have the amount: the coming one if its quantity suffices.
func TestRefusalBetweenWindows(t *testing.T) {
	day := time.Date(2026, 3, 4, 0, 0, 0, 0, time.UTC)
	at := func(hour int) time.Time { return day.Add(time.Duration(hour) * time.Hour) }
	b := &bucket.Budget{Definition: budget.Definition{Name: "b", Unit: budget.Count,
		Type: budget.Daily, TotalQuantity: 1000, Rule: &budget.Rule{
			Kind: budget.Windows, Windows: []budget.Window{{From: "00:00", To: "06:00", Quantity: 50},
				{From: "20:00", To: "24:00", Quantity: 40}}}},
		Period: budget.Period{Number: 3, Start: at(20), End: at(24)}}
	for _, tt := range []struct {
		amount int64
		code   budget.Code
		again  time.Duration
	}{
		{1, budget.PeriodExhausted, 8 * time.Hour},
		{40, budget.PeriodExhausted, 8 * time.Hour},
		{45, budget.PeriodExhausted, 12 * time.Hour},
		{51, budget.BudgetExhausted, 0},
	} {
		got := b.RefusalNow(tt.amount, at(12))
		if got == nil || got.Code != tt.code || got.RetryAfter != tt.again {
			t.Errorf("%d units: %v, retry after %v; want %s, %v", tt.amount, got, got.RetryAfter,
				tt.code, tt.again)
		}
	}
	if got := b.RefusalNow(1, at(20)); got != nil {
		t.Errorf("in the window: %v", got)
	}
}
