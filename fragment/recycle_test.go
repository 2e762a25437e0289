package fragment_test

import (
	"math"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/budgetd/budgetd/fragment"
)

func TestRate(t *testing.T) {
	for _, tc := range []struct {
		name  string
		units int64
		over  time.Duration
		want  int64
	}{
		{"nothing", 0, time.Second, 0},
		{"given back", -3, time.Second, 0},
		{"five in ten seconds", 5, 10 * time.Second, 1800},
		{"one in two hours", 1, 2 * time.Hour, 0},
		{"within one instant", 1, 0, 3_600_000},
		{"a clock that stepped back", 1, -time.Hour, 3_600_000},
		{"everything at once", math.MaxInt64, 0, fragment.MaxRate},
		{"the largest amount in a second", 9007199254740991, time.Second, fragment.MaxRate},
	} {
		t.Run(tc.name, func(t *testing.T) {
			if got := fragment.Rate(tc.units, tc.over); got != tc.want {
				t.Errorf("Rate(%d, %v) = %d, want %d", tc.units, tc.over, got, tc.want)
			}
		})
	}
}

// demands returns holdings of buckets 1, 2, … with those demands.
func demands(demands ...int64) (out []fragment.Holding) {
	for i, d := range demands {
		out = append(out, fragment.Holding{Bucket: int64(i) + 1, Demand: d})
	}
	return out
}

func TestShares(t *testing.T) {
	for _, tc := range []struct {
		name     string
		units    int64
		holdings []fragment.Holding
		least    int64
		want     []int64
	}{
		{"no bucket", 5, nil, 0, []int64{}},
		{"nothing", 0, demands(1, 1), 0, []int64{0, 0}},
		{"no demand: even shares", 90, demands(0, 0, 0), 0, []int64{30, 30, 30}},
		{"a remainder", 10, demands(0, 0, 0), 0, []int64{3, 3, 4}},
		{"by demand", 600, demands(3, 1), 0, []int64{400, 200}},
		{"by large demand", 100, demands(3000, 1000), 0, []int64{72, 28}},
		{"a tenth of the mean without demand", 2200, demands(2000, 0), 0, []int64{2100, 100}},
		{"the least first, the rest by demand", 2400, demands(2000, 0), 100, []int64{2200, 200}},
		{"twice the least for each", 400, demands(2000, 0), 100, []int64{290, 110}},
		{"too little for both", 399, demands(2000, 0), 100, []int64{399, 0}},
		{"one always gets something", 3, demands(1, 2, 3), 1000, []int64{0, 0, 3}},
		{"equal demands: the first bucket", 3, demands(7, 7, 7), 1000, []int64{3, 0, 0}},
		{"the largest amounts", 9007199254740991, demands(fragment.MaxRate, math.MaxInt64), 0,
			[]int64{4503599627370495, 4503599627370496}},
		{"a negative demand counts as 0", 10, demands(-5, 0), 0, []int64{5, 5}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			if got := fragment.Shares(tc.units, tc.holdings, tc.least); !slices.Equal(got, tc.want) {
				t.Errorf("%v, want %v", got, tc.want)
			}
		})
	}
}

// TestSharesLoseNothing checks that the shares add up whatever the demands, that none is below the
// least unless it is the only one, and that more demand never gets less, except for one unit of
// rounding.
func TestSharesLoseNothing(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		ds := rapid.SliceOfN(rapid.Int64Range(0, fragment.MaxRate), 1, 40).Draw(t, "demands")
		units := rapid.Int64Range(0, 9007199254740991).Draw(t, "units")
		least := rapid.Int64Range(0, units+1).Draw(t, "least")
		holdings := demands(ds...)
		shares := fragment.Shares(units, holdings, least)
		sum, given := int64(0), 0
		for i, s := range shares {
			sum += s
			if s > 0 {
				given++
			}
			for j := range shares {
				if ds[i] > ds[j] && s < shares[j]-1 {
					t.Fatalf("demand %d gets %d, %d gets %d", ds[i], s, ds[j], shares[j])
				}
			}
		}
		if sum != units {
			t.Fatalf("%v add up to %d, not %d", shares, sum, units)
		}
		for _, s := range shares {
			if s > 0 && s < least && given > 1 {
				t.Fatalf("%d is below %d: %v", s, least, shares)
			}
		}
	})
}

func held(pairs ...int64) (out []fragment.Holding) {
	for i := 0; i < len(pairs); i += 2 {
		out = append(out, fragment.Holding{Bucket: int64(i)/2 + 1, Units: pairs[i], Demand: pairs[i+1]})
	}
	return out
}

func TestStranded(t *testing.T) {
	for _, tc := range []struct {
		name     string
		holdings []fragment.Holding
		least    int64
		want     int64
	}{
		{"nothing held", held(0, 5, 0, 5), 0, 0},
		{"by demand", held(50, 5, 50, 5), 0, 0},
		{"exactly twice the share", held(200, 0, 0, 0), 100, 0},
		{"one bucket has everything", held(0, 1000, 2200, 0), 0, 2100},
		{"fragments", held(30, 2, 2, 1, 1, 1), 20, 3},
		{"exactly the least", held(20, 0, 20, 5, 80, 5), 20, 0},
		{"a hot bucket has everything", held(100, 1_000_000, 0, 0), 0, 0},
	} {
		t.Run(tc.name, func(t *testing.T) {
			if got := fragment.Stranded(tc.holdings, tc.least); got != tc.want {
				t.Errorf("%d, want %d (shares %v)", got, tc.want,
					fragment.Shares(fragment.Sum(tc.holdings), tc.holdings, tc.least))
			}
		})
	}
}

func TestAsks(t *testing.T) {
	for _, tc := range []struct {
		name                   string
		stranded, units, least int64
		above                  float64
		want                   bool
	}{
		{"none", 0, 0, 0, 0, false},
		{"exactly that part", 20, 100, 1, 0.2, false},
		{"more than that part", 21, 100, 1, 0.2, true},
		{"not worth a bucket", 21, 100, 22, 0.2, false},
		{"never", 100, 100, 1, 1, false},
	} {
		if got := fragment.Asks(tc.stranded, tc.units, tc.least, tc.above); got != tc.want {
			t.Errorf("%s: %v", tc.name, got)
		}
	}
}

func TestLeast(t *testing.T) {
	for _, tc := range []struct {
		total, largest, want int64
		buckets              int
	}{{1_000_000, 1, 6250, 16}, {1_000_000, 7000, 7000, 16}, {10, 0, 1, 0}, {10, 0, 0, 16}} {
		if got := fragment.Least(tc.total, tc.buckets, tc.largest); got != tc.want {
			t.Errorf("%+v: %d", tc, got)
		}
	}
}
