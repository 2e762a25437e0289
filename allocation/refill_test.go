package allocation_test

import (
	"math"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"github.com/budgetd/budgetd/allocation"
	"github.com/budgetd/budgetd/budget"
)

func TestRefillTable(t *testing.T) {
	const most = budget.MaxAmount
	for _, tc := range []struct {
		name      string
		got, want int64
	}{
		{"low water: two seconds of use", allocation.LowWater(10, 5), 20},
		{"low water: rounded up", allocation.LowWater(0.6, 1), 2},
		{"low water: one more request", allocation.LowWater(10, 50), 50},
		{"low water: at least one unit", allocation.LowWater(0, 0), 1},
		{"low water: no more than there can be", allocation.LowWater(math.Inf(1), 1), most},
		{"refill: the need and three seconds of use", allocation.Refill(5, 100, 10_000, 10, 0), 305},
		{"refill: a bucket that is hardly used gets what it needs", allocation.Refill(5, 0, 10_000, 10, 0), 5},
		{"refill: beside the need no more than its even share", allocation.Refill(5, 100, 1000, 10, 0), 105},
		{"refill: the need, though its share is less", allocation.Refill(300, 100, 1000, 10, 0), 400},
		{"refill: never above sharding_quantity", allocation.Refill(300, 100, 1000, 10, 50), 50},
		{"refill: at least one unit", allocation.Refill(0, 0, 0, 10, 0), 1},
		{"refill: no buckets", allocation.Refill(1, 2, 10, 0, 0), 7},
		{"refill: no overflow", allocation.Refill(most, math.Inf(1), most, 1, 0), most},
	} {
		if tc.got != tc.want {
			t.Errorf("%s: %d, want %d", tc.name, tc.got, tc.want)
		}
	}
}

func TestFirstStep(t *testing.T) {
	for _, tc := range []struct {
		units int64
		n     int
		bound int64
		want  []int64
	}{
		{1000, 4, 0, []int64{25, 25, 25, 25}},
		{1000, 4, 10, []int64{10, 10, 10, 10}},
		{3, 4, 0, []int64{1, 1, 1, 0}},
		{0, 2, 0, []int64{0, 0}},
		{50, 0, 0, nil},
	} {
		if got := allocation.FirstStep(tc.units, tc.n, tc.bound); !slices.Equal(got, tc.want) {
			t.Errorf("FirstStep(%d, %d, %d) = %v, want %v", tc.units, tc.n, tc.bound, got, tc.want)
		}
	}
	rapid.Check(t, func(t *rapid.T) {
		units, n := rapid.Int64Range(0, budget.MaxAmount).Draw(t, "units"), rapid.IntRange(1, 1024).Draw(t, "n")
		bound := rapid.Int64Range(0, 1000).Draw(t, "bound")
		sum := int64(0)
		for i, share := range allocation.FirstStep(units, n, bound) {
			even := allocation.Divide(units, n)[i]
			if share < min(even, 1) || share > max(even/10, min(even, 1)) || bound > 0 && share > bound {
				t.Fatalf("bucket %d of %d gets %d of %d (bound %d)", i, n, share, units, bound)
			}
			sum += share
		}
		if sum > units {
			t.Fatalf("%d of %d units", sum, units)
		}
	})
}

func TestRefillBounds(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		amount := rapid.Int64Range(0, budget.MaxAmount)
		need, undistributed, bound := amount.Draw(t, "need"), amount.Draw(t, "undistributed"), amount.Draw(t, "bound")
		rate, buckets := rapid.Float64Range(0, 1e18).Draw(t, "rate"), rapid.IntRange(1, 1024).Draw(t, "buckets")
		got := allocation.Refill(need, rate, undistributed, buckets, bound)
		switch {
		case !budget.ValidAmount(got):
			t.Fatalf("%d is no amount", got)
		case bound > 0 && got > bound:
			t.Fatalf("%d is above the bound %d", got, bound)
		case bound == 0 && got < need:
			t.Fatalf("%d is below the need %d", got, need)
		case got > max(need, 1)+undistributed/int64(buckets):
			t.Fatalf("%d is more than the need %d and the even share of %d", got, need, undistributed)
		case float64(got) > float64(max(need, 1))+3*rate+1:
			t.Fatalf("%d is more than the need %d and three seconds at %v", got, need, rate)
		}
		low := allocation.LowWater(rate, need)
		if low < need || low < 1 || float64(low) < min(2*rate, float64(budget.MaxAmount)) ||
			low > allocation.LowWater(2*rate, need) {
			t.Fatalf("low water %d at %v units a second, request %d", low, rate, need)
		}
	})
}
