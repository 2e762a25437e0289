package allocation_test

import (
	"slices"
	"testing"

	"pgregory.net/rapid"

	"github.com/budgetd/budgetd/allocation"
)

func TestDivide(t *testing.T) {
	for _, tc := range []struct {
		units int64
		n     int
		want  []int64
	}{
		{10, 4, []int64{3, 3, 2, 2}},
		{3, 4, []int64{1, 1, 1, 0}},
		{0, 2, []int64{0, 0}},
		{7, 1, []int64{7}},
		{7, 0, nil},
	} {
		if got := allocation.Divide(tc.units, tc.n); !slices.Equal(got, tc.want) {
			t.Errorf("Divide(%d, %d) = %v, want %v", tc.units, tc.n, got, tc.want)
		}
	}
	rapid.Check(t, func(t *rapid.T) {
		units, n := rapid.Int64Range(0, 1<<53-1).Draw(t, "units"), rapid.IntRange(1, 1024).Draw(t, "n")
		shares, sum := allocation.Divide(units, n), int64(0)
		for _, s := range shares {
			sum += s
		}
		if sum != units || shares[0]-shares[n-1] > 1 || !slices.IsSortedFunc(shares, func(a, b int64) int { return int(b - a) }) {
			t.Fatalf("Divide(%d, %d) = %v", units, n, shares)
		}
	})
}

func TestStep(t *testing.T) {
	for _, tc := range []struct {
		name      string
		got, want int64
	}{
		{"step: the even share", allocation.Step(5, 1000, 10, 0), 100},
		{"step: what it needs, if that is more", allocation.Step(300, 1000, 10, 0), 300},
		{"step: never above the bound", allocation.Step(300, 1000, 10, 50), 50},
		{"step: no buckets", allocation.Step(1, 10, 0, 0), 10},
	} {
		if tc.got != tc.want {
			t.Errorf("%s: %d, want %d", tc.name, tc.got, tc.want)
		}
	}
}
