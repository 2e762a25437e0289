package deduct

import (
	"testing"

	"github.com/budgetd/budgetd/budget"
)

// TestRecent checks the mean and the usual amount of the last 16 deductions: a large one among many
// small ones is neither.
func TestRecent(t *testing.T) {
	var r Recent
	check := func(amount, mean, usual int64) {
		t.Helper()
		if got := r.Add(amount); got != mean || r.Usual() != usual {
			t.Errorf("after %d: mean %d, usual %d, want %d, %d", amount, got, r.Usual(), mean, usual)
		}
	}
	check(5, 5, 0)
	check(6, 6, 5) // 5.5, rounded up
	check(160, 57, 6)
	for range 15 {
		r.Add(1)
	}
	check(1, 1, 1) // 160 is forgotten
	check(160, 11, 1)
	for range 15 {
		r.Add(budget.MaxAmount)
	}
	check(budget.MaxAmount, budget.MaxAmount, budget.MaxAmount)
}
