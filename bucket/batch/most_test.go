package batch_test

import (
	"testing"
	"time"

	"github.com/budgetd/budgetd/bucket/batch"
)

// TestMostInTheAir checks how many flights may be in the air: more than two only where the network takes
// most of their time.
func TestMostInTheAir(t *testing.T) {
	for _, test := range []struct {
		usual, away time.Duration
		want        int
	}{
		{0, 0, 2},
		{time.Millisecond, 0, 2},
		{4 * time.Millisecond, 2 * time.Millisecond, 2},
		{3 * time.Millisecond, 2 * time.Millisecond, 2},
		{3 * time.Millisecond, 2400 * time.Microsecond, 3},
		{5 * time.Millisecond, 4 * time.Millisecond, 3},
		{8 * time.Millisecond, 7 * time.Millisecond, 4},
		{8 * time.Millisecond, 20 * time.Millisecond, 4},
	} {
		if got := batch.InTheAir(test.usual, test.away); got != test.want {
			t.Errorf("%s, of which %s are the network's: %d, want %d", test.usual, test.away, got, test.want)
		}
	}
}
