package limit_test

import (
	"testing"
	"time"

	"github.com/budgetd/budgetd/budget"
	"github.com/budgetd/budgetd/limit"
)

// BenchmarkJudge judges a deduction by a daily and a lifetime limit of one user.
func BenchmarkJudge(b *testing.B) {
	now := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	list := []budget.Limit{
		{Name: "day", Dimension: "user", Max: 10, Enforce: true, Measure: budget.MeasureCount,
			Window: budget.LimitWindow{Kind: budget.WindowCalendar, Every: "day", Timezone: "Europe/Berlin"}},
		{Name: "ever", Dimension: "user", Max: 100, Enforce: true, Measure: budget.MeasureCount,
			Window: budget.LimitWindow{Kind: budget.WindowLifetime}},
	}
	set, err := limit.Compile(limit.Begin(list, now))
	if err != nil {
		b.Fatal(err)
	}
	user := map[string]string{"user": "user-0123456789"}
	b.ReportAllocs()
	for b.Loop() {
		charges, _ := set.Charges(1, user, nil)
		usages := make([]*limit.Usage, len(charges))
		for i, charge := range charges {
			usage := limit.NewUsage(charge.Limit, charge.Key, now.UnixMilli())
			usages[i] = &usage
		}
		if refusal := limit.Exceeded(charges, usages); len(charges) != 2 || refusal != nil {
			b.Fatal(charges, refusal)
		}
		limit.Count(charges, usages)
	}
}
