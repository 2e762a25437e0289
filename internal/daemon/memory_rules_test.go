package daemon

import "testing"

func TestGCPercentFor(t *testing.T) {
	const mib = 1 << 20
	for _, c := range []struct {
		live uint64
		want int
	}{{0, 400}, {10 * mib, 400}, {48 * mib, 400}, {64 * mib, 300}, {96 * mib, 200}, {150 * mib, 128}, {192 * mib, 100}, {4096 * mib, 100}} {
		if got := gcPercentFor(c.live); got != c.want {
			t.Errorf("%d MiB live: %d %%, want %d", c.live/mib, got, c.want)
		}
	}
}
