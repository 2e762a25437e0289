package fragment_test

import (
	"slices"
	"testing"

	"pgregory.net/rapid"

	"github.com/budgetd/budgetd/fragment"
)

func TestIs(t *testing.T) {
	for _, tc := range []struct {
		name         string
		units, total int64
		buckets      int
		want         bool
	}{
		{"nothing", 0, 1000, 10, true},
		{"just below a tenth of the share", 9, 1000, 10, true},
		{"a tenth of the share", 10, 1000, 10, false},
		{"the whole share", 100, 1000, 10, false},
		{"shares too small for fragments", 0, 50, 10, false},
		{"no buckets", 1, 1000, 0, true},
	} {
		t.Run(tc.name, func(t *testing.T) {
			if got := fragment.Is(tc.units, tc.total, tc.buckets); got != tc.want {
				t.Errorf("Is(%d, %d, %d) = %v", tc.units, tc.total, tc.buckets, got)
			}
		})
	}
}

func TestDonors(t *testing.T) {
	donors := []fragment.Donor{{Bucket: 4, Units: 30}, {Bucket: 1, Units: 50}, {Bucket: 3}, {Bucket: 2, Units: 30}}
	for _, tc := range []struct {
		name string
		need int64
		want []int64
	}{
		{"nothing needed", 0, nil},
		{"less than nothing", -5, nil},
		{"the largest is enough", 50, []int64{1}},
		{"one more unit takes the next, by id", 51, []int64{1, 2}},
		{"everything", 110, []int64{1, 2, 4}},
		{"more than there is", 1000, []int64{1, 2, 4}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			var got []int64
			for _, d := range fragment.Donors(donors, tc.need) {
				got = append(got, d.Bucket)
			}
			if !slices.Equal(got, tc.want) {
				t.Errorf("need %d: %v, want %v", tc.need, got, tc.want)
			}
		})
	}
	if donors[0].Bucket != 4 {
		t.Error("the list given was changed")
	}
}

func TestPart(t *testing.T) {
	for _, tc := range []struct{ units, need, want int64 }{
		{0, 1, 0}, {1, 1, 1}, {2, 1, 1}, {3, 1, 1}, {3, 2, 3}, {100, 50, 50}, {101, 50, 50}, {101, 51, 101}, {100, 1, 50}, {100, 200, 100},
	} {
		if got := fragment.Part(tc.units, tc.need); got != tc.want {
			t.Errorf("of %d for %d: %d, want %d", tc.units, tc.need, got, tc.want)
		}
	}
}

// TestDonorsCoverTheNeed: what is chosen covers the need if all together do, and no one too many is chosen.
func TestDonorsCoverTheNeed(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		units := rapid.SliceOf(rapid.Int64Range(0, 100)).Draw(t, "units")
		need := rapid.Int64Range(1, 500).Draw(t, "need")
		var donors []fragment.Donor
		all := int64(0)
		for i, u := range units {
			donors = append(donors, fragment.Donor{Bucket: int64(i), Units: u})
			all += u
		}
		sum, last := int64(0), int64(0)
		for _, d := range fragment.Donors(donors, need) {
			sum, last = sum+d.Units, d.Units
		}
		if sum < min(need, all) || last > 0 && sum-last >= need {
			t.Fatalf("%d of %d chosen for %d, the last gives %d", sum, all, need, last)
		}
	})
}
