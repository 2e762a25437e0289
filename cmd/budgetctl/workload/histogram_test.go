package workload

import (
	"math"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"
)

// TestQuantile checks that a quantile of merged histograms is never below the exact one, and at
// most 0.1 % and 1 µs above it.
func TestQuantile(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		micros := rapid.SliceOfN(rapid.IntRange(1, 300_000_000), 1, 50).Draw(t, "micros")
		share := rapid.Float64Range(0.01, 1).Draw(t, "share")
		one, other := NewHistogram(), NewHistogram()
		for i, n := range micros {
			to := one
			if i%3 == 0 {
				to = other
			}
			to.Add(time.Duration(n) * time.Microsecond)
		}
		one.Merge(other)
		if one.Count() != int64(len(micros)) {
			t.Fatalf("%d counted, want %d", one.Count(), len(micros))
		}
		slices.Sort(micros)
		rank := int(math.Ceil(share*float64(len(micros))-1e-9)) - 1
		want := time.Duration(micros[max(rank, 0)]) * time.Microsecond
		got := one.Quantile(share)
		if got < want || got > want+want/1000+time.Microsecond {
			t.Fatalf("quantile %v of %v: %s, want %s", share, micros, got, want)
		}
		longest := time.Duration(micros[len(micros)-1]) * time.Microsecond
		if got := one.Max(); got < longest || got > longest+longest/1000+time.Microsecond {
			t.Fatalf("longest %s, want %s", got, longest)
		}
	})
}

func TestHistogramOutOfRange(t *testing.T) {
	h := NewHistogram()
	if h.Quantile(0.99) != 0 || h.Max() != 0 || h.Mean() != 0 || h.Count() != 0 {
		t.Error("an empty one is not zero")
	}
	h.Add(-time.Second)
	h.Add(0)
	if got := h.Quantile(1); got > 2*time.Microsecond {
		t.Errorf("of nothing measurable: %s", got)
	}
	h.Add(24 * time.Hour)
	if got := h.Max(); got < 10*time.Minute || h.Count() != 3 {
		t.Errorf("of a day: %s, %d counted", got, h.Count())
	}
}
