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

// TestOpenPeriodGoesOn checks that a period that has begun goes on after the clock went back, also
// when the budget is read again, and that one that has not begun is still to come.
func TestOpenPeriodGoesOn(t *testing.T) {
	start := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	hourly := bucket.Budget{Definition: budget.Definition{ID: 1, Name: "b", Version: 1,
		Type: budget.Daily, TotalQuantity: 100, Rule: &budget.Rule{Kind: budget.Calendar,
			Every: budget.Hour, Quantity: 10}}, Period: budget.Period{Number: 3, Start: start,
		End: start.Add(time.Hour)}}
	defs := &defined{budgets: map[int64]bucket.Budget{1: hourly}}
	budgets, err := bucket.NewBudgets(bucket.BudgetsConfig{Definitions: defs})
	if err != nil {
		t.Fatal(err)
	}
	read := func() *bucket.Budget {
		b, err := budgets.Reload(t.Context(), 1)
		if err != nil {
			t.Fatal(err)
		}
		return b
	}
	early := start.Add(-54 * time.Minute)
	if e := read().RefusalNow(1, early); e == nil || e.Code != budget.PeriodExhausted {
		t.Errorf("a period to come: %v", e)
	}
	for _, at := range []time.Time{start, early} {
		if e := read().RefusalNow(1, at); e != nil {
			t.Errorf("at %v: %v", at, e)
		}
	}
	hourly.Period = budget.Period{Number: 4, Start: start.Add(time.Hour), End: start.Add(2 * time.Hour)}
	hourly.ListVersion++
	defs.budgets[1] = hourly
	if e := read().RefusalNow(1, early); e == nil {
		t.Error("the next period has not begun")
	}
}
