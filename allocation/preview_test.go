package allocation_test

import (
	"slices"
	"testing"

	"github.com/budgetd/budgetd/allocation"
	"github.com/budgetd/budgetd/budget"
)

func TestPreview(t *testing.T) {
	month := calendar(allocation.Month)
	month.Quantity = 3100
	for _, tc := range []struct {
		name       string
		rule       allocation.Rule
		total      int64
		start, end string
		numbers    []int64
		quantities []int64
	}{
		{"a month that the start cuts", month, 20_000, "2027-01-31T00:00:00Z", "",
			[]int64{1, 2, 3, 8}, []int64{100, 3100, 3100, 1300}},
		{"7 over 30 days", daily(0), 7, "2027-06-01T00:00:00Z", "2027-07-01T00:00:00Z",
			[]int64{1, 2, 3, 30}, []int64{0, 0, 0, 1}},
		{"two days", daily(0), 7, "2027-06-01T00:00:00Z", "2027-06-03T00:00:00Z", []int64{1, 2}, []int64{3, 4}},
		{"a century of hours", calendar(allocation.Hour), 1_000_000, "2027-06-01T00:00:00Z", "2127-06-01T00:00:00Z",
			[]int64{1, 2, 3}, []int64{1, 1, 1}},
		{"free", allocation.Rule{Kind: allocation.Free}, 7, "2027-06-01T00:00:00Z", "", []int64{1}, []int64{7}},
	} {
		d := budget.Definition{Type: budget.Daily, Rule: &tc.rule, TotalQuantity: tc.total,
			StartAt: instant(t, tc.start)}
		if tc.end != "" {
			d.EndAt = instant(t, tc.end)
		}
		var numbers, quantities []int64
		for _, p := range allocation.Preview(d, d.StartAt, 3) {
			numbers, quantities = append(numbers, p.Number), append(quantities, p.Quantity)
		}
		if !slices.Equal(numbers, tc.numbers) || !slices.Equal(quantities, tc.quantities) {
			t.Errorf("%s: periods %v get %v, want %v and %v", tc.name, numbers, quantities, tc.numbers,
				tc.quantities)
		}
	}
}
