package ring

import (
	"math"
	"testing"
)

// TestAbsolute tests the internal function, because no string reaches MinInt32.
func TestAbsolute(t *testing.T) {
	for _, c := range []struct {
		h    int32
		want uint32
	}{
		{0, 0},
		{1, 1},
		{-1, 1},
		{math.MaxInt32, math.MaxInt32},
		{-math.MaxInt32, math.MaxInt32},
		{math.MinInt32, 0},
	} {
		if got := absolute(c.h); got != c.want {
			t.Errorf("absolute(%d) = %d, want %d", c.h, got, c.want)
		}
	}
}
