package allocation_test

import (
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/budgetd/budgetd/allocation"
	"github.com/budgetd/budgetd/budget"
)

func TestFund(t *testing.T) {
	day, quarter := daily(0), windows(window("00:00", "06:00", 40))
	for _, tc := range []struct {
		name    string
		rule    allocation.Rule
		fixed   int64 // the period's Quantity
		figures allocation.Figures
		want    int64
	}{
		{"promo", allocation.Rule{}, 0, allocation.Figures{NotFunded: 10, Left: 1}, 10},
		{"free", allocation.Rule{Kind: allocation.Free}, 0, allocation.Figures{NotFunded: 10, Left: 1}, 10},
		{"a year", day, 0, allocation.Figures{NotFunded: 3_650_000, Left: 365}, 10_000},
		{"one unit more", day, 0, allocation.Figures{NotFunded: 10, Left: 4}, 3},
		{"the rest", day, 0, allocation.Figures{NotFunded: 4, Left: 2}, 2},
		{"the last period", day, 0, allocation.Figures{NotFunded: 7, Left: 1}, 7},
		{"fewer units than periods", day, 0, allocation.Figures{NotFunded: 2, Left: 9}, 1},
		{"nothing", day, 0, allocation.Figures{Left: 9}, 0},
		{"the largest", day, 0, allocation.Figures{NotFunded: budget.MaxAmount, Left: 2}, 1 << 52},
		{"more periods than units", day, 0, allocation.Figures{NotFunded: budget.MaxAmount,
			Left: allocation.WithoutEnd}, 1},
		{"nobody counted the periods", day, 0, allocation.Figures{NotFunded: 5}, 5},
		{"compressed, used already: the share stays", day, 0, allocation.Figures{NotFunded: 10, Left: 4,
			UsedAlready: 2}, 3},
		{"a quantity", daily(40), 40, allocation.Figures{NotFunded: 100, Left: 2}, 40},
		{"less than the quantity", daily(40), 40, allocation.Figures{NotFunded: 39, Left: 2}, 39},
		{"a quantity, used already", daily(40), 40, allocation.Figures{NotFunded: 100, UsedAlready: 15}, 25},
		{"a quantity, used up already", daily(40), 40, allocation.Figures{NotFunded: 100, UsedAlready: 41}, 0},
		{"a quantity, used already, little left", daily(40), 40, allocation.Figures{NotFunded: 30,
			UsedAlready: 15}, 25},
		{"a window", quarter, 40, allocation.Figures{NotFunded: 100}, 40},
		{"a window, little left", quarter, 40, allocation.Figures{NotFunded: 3}, 3},
		{"a window, used already", quarter, 40, allocation.Figures{NotFunded: 100, UsedAlready: 1}, 39},
	} {
		if got := allocation.Fund(tc.rule, allocation.Span{Quantity: tc.fixed}, tc.figures); got != tc.want {
			t.Errorf("%s: %d, want %d", tc.name, got, tc.want)
		}
	}
}

// TestFundIsTheTotal: period by period, the shares are the total in equal parts, the larger ones first.
func TestFundIsTheTotal(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	for range 500 {
		left, units := 1+r.Int64N(400), r.Int64N(budget.MaxAmount>>uint(r.IntN(50)))
		want := slices.Repeat([]int64{units / left}, int(left))
		for i := range units % left {
			want[i]++
		}
		for i, rest := 0, units; i < len(want); i++ {
			got := allocation.Fund(daily(0), allocation.Span{}, allocation.Figures{NotFunded: rest,
				Left: left - int64(i)})
			if got != want[i] {
				t.Fatalf("%d over %d: period %d gets %d, want %d", units, left, i, got, want[i])
			}
			if rest -= got; i == len(want)-1 && rest != 0 {
				t.Fatalf("%d over %d: %d stay", units, left, rest)
			}
		}
	}
}

// TestAYearOfDays is the promise of daily mode: 3,650,000 for a year are 10,000 a day.
func TestAYearOfDays(t *testing.T) {
	s := allocation.Schedule{Rule: daily(0), Zone: zone(t, "Europe/Berlin"),
		Start: instant(t, "2027-01-01T00:00:00+01:00"), End: instant(t, "2028-01-01T00:00:00+01:00")}
	rest, days := int64(3_650_000), 0
	for _, period := range list(s, 400) {
		got := allocation.Fund(s.Rule, period, allocation.Figures{NotFunded: rest,
			Left: s.PeriodsLeft(period.Start)})
		if got != 10_000 {
			t.Errorf("%s gets %d", period.Start, got)
		}
		rest, days = rest-got, days+1
	}
	if days != 365 || rest != 0 {
		t.Errorf("%d days, %d units are left", days, rest)
	}
}
