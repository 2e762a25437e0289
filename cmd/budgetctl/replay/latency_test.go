package replay

import (
	"testing"
	"time"

	"pgregory.net/rapid"
)

// TestQuantile checks that a quantile is never below the exact one, and at most 1 % above it.
func TestQuantile(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		micros := rapid.SliceOfN(rapid.IntRange(1, 300_000_000), 1, 50).Draw(t, "micros")
		share := rapid.Float64Range(0.01, 1).Draw(t, "share")
		var l latencies
		for _, n := range micros {
			l.add(time.Duration(n) * time.Microsecond)
		}
		got := l.quantile(share)
		// The smallest counted duration that covers the share.
		var want time.Duration
		for _, n := range micros {
			d := time.Duration(n) * time.Microsecond
			covered := 0
			for _, m := range micros {
				if m <= n {
					covered++
				}
			}
			if float64(covered) >= share*float64(len(micros)) && (want == 0 || d < want) {
				want = d
			}
		}
		if low, high := want-time.Nanosecond, want+want/100+time.Nanosecond; got < low || got > high {
			t.Fatalf("quantile %v of %v: %s, want %s to %s", share, micros, got, want, high)
		}
	})
}

func TestQuantileOutOfRange(t *testing.T) {
	var l latencies
	if got := l.quantile(0.99); got != 0 {
		t.Errorf("of nothing: %s", got)
	}
	l.add(-time.Second)
	l.add(0)
	if got := l.quantile(1); got > 2*time.Microsecond {
		t.Errorf("of nothing measurable: %s", got)
	}
	l.add(24 * time.Hour)
	if got := l.quantile(1); got < 10*time.Minute {
		t.Errorf("of a day: %s", got)
	}
}
