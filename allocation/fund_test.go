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
		{"the first of four", day, 0, allocation.Figures{NotFunded: 10, Left: 4}, 2},
		{"more than is due", day, 0, allocation.Figures{Total: 10, NotFunded: 11, Left: 4}, 3},
		{"less than is due", day, 0, allocation.Figures{Total: 10, NotFunded: 6, Left: 4}, 1},
		{"much less than is due", day, 0, allocation.Figures{Total: 100, NotFunded: 6, Before: 2, Left: 2}, 3},
		{"half of the rest", day, 0, allocation.Figures{NotFunded: 4, Left: 2}, 2},
		{"the second of four", day, 0, allocation.Figures{Total: 10, NotFunded: 8, Before: 1, Left: 3}, 3},
		{"the last period", day, 0, allocation.Figures{NotFunded: 7, Left: 1}, 7},
		{"fewer units than periods", day, 0, allocation.Figures{NotFunded: 2, Left: 9}, 0},
		{"nothing", day, 0, allocation.Figures{Left: 9}, 0},
		{"the largest", day, 0, allocation.Figures{NotFunded: budget.MaxAmount, Left: 2}, 1<<52 - 1},
		{"more periods than units", day, 0, allocation.Figures{NotFunded: budget.MaxAmount,
			Left: allocation.WithoutEnd}, 7812},
		{"the number of periods is unknown", day, 0, allocation.Figures{NotFunded: 5}, 5},
		{"compressed, used already: the share stays", day, 0, allocation.Figures{NotFunded: 10, Left: 4,
			UsedAlready: 2}, 2},
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
		f := tc.figures
		if f.Total == 0 {
			f.Total = f.NotFunded // nothing was funded before
		}
		f.Before *= whole
		if f.Left < allocation.WithoutEnd {
			f.Left *= whole
		}
		got := allocation.Fund(tc.rule, allocation.Span{Quantity: tc.fixed}, f)
		if got != tc.want {
			t.Errorf("%s: %d, want %d", tc.name, got, tc.want)
		}
	}
}

// whole is the weight of an uncut period.
const whole = 1_000_000

// TestUnitsComeWhenTheyAreDue checks that of T units over P periods the n-th comes in the period in
// which n/T of the time has passed, and that all of them come.
func TestUnitsComeWhenTheyAreDue(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	for i := range 500 {
		periods, units := 1+r.Int64N(400), r.Int64N(1000)
		if i == 0 {
			periods, units = 30, 7
		}
		var got, want []int64 // of each unit, the period in which it comes
		for n := int64(1); n <= units; n++ {
			want = append(want, (n*periods+units-1)/units)
		}
		rest := units
		for k := int64(1); k <= periods; k++ {
			funded := allocation.Fund(daily(0), allocation.Span{}, allocation.Figures{NotFunded: rest,
				Total: units, Before: (k - 1) * whole, Left: (periods - k + 1) * whole})
			got = append(got, slices.Repeat([]int64{k}, int(funded))...)
			rest -= funded
		}
		if !slices.Equal(got, want) {
			t.Fatalf("%d over %d: they come in %v, want %v", units, periods, got, want)
		}
	}
}

// TestPartialPeriods checks the share of periods that the start or the end cuts.
func TestPartialPeriods(t *testing.T) {
	month := calendar(allocation.Month)
	fixed := month
	fixed.Quantity = 3100
	counted := fixed
	counted.Partial = budget.Whole
	anchored := fixed
	anchored.Anchor.Day = 31
	for _, tc := range []struct {
		name  string
		rule  allocation.Rule
		wants []int64
	}{
		{"a day of a month, a month, two days of a month", fixed, []int64{100, 3100, 200}},
		{"as whole ones", counted, []int64{3100, 3100, 3100}},
		{"from the 31st to the 28th, and three days", anchored, []int64{3100, 300}},
		{"the total in parts: 1/31, 1 and 2/31 of 1,136", month, []int64{33, 1036, 67}},
	} {
		d := budget.Definition{Type: budget.Daily, Rule: &tc.rule, StartAt: instant(t, "2027-01-31T00:00:00Z"),
			EndAt: instant(t, "2027-03-03T00:00:00Z"), TotalQuantity: 20_000}
		if tc.rule.Quantity == 0 {
			d.TotalQuantity = 1136
		}
		unfunded, p := allocation.Begin(d, d.StartAt)
		var got []int64
		for !p.Over {
			got = append(got, p.Funded)
			next, ok := allocation.Next(d, p, p.End)
			rolled := allocation.RollOver(d, p, next, ok, allocation.Account{Unfunded: unfunded})
			unfunded += rolled.Moved.Unfunded
			p = rolled.Period
		}
		if !slices.Equal(got, tc.wants) {
			t.Errorf("%s: %v, want %v", tc.name, got, tc.wants)
		}
	}
}

// TestAYearOfDays checks the promise of daily mode: 3,650,000 for a year are 10,000 a day.
func TestAYearOfDays(t *testing.T) {
	s := allocation.Schedule{Rule: daily(0), Zone: zone(t, "Europe/Berlin"),
		Start: instant(t, "2027-01-01T00:00:00+01:00"), End: instant(t, "2028-01-01T00:00:00+01:00")}
	rest, days := int64(3_650_000), 0
	for _, period := range list(s, 400) {
		got := allocation.Fund(s.Rule, period, allocation.Figures{NotFunded: rest,
			Total:  3_650_000,
			Before: int64(days) * whole, Left: s.PeriodsLeft(period.Start) * whole})
		if got != 10_000 {
			t.Errorf("%s gets %d", period.Start, got)
		}
		rest, days = rest-got, days+1
	}
	if days != 365 || rest != 0 {
		t.Errorf("%d days, %d units are left", days, rest)
	}
}
