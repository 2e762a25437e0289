package rows

import (
	"testing"
	"time"
)

// TestReleasable checks that apply reserves for a pending shrink the part that F does not cover,
// and takes nothing once the period is over.
func TestReleasable(t *testing.T) {
	now := time.UnixMilli(1_000)
	for _, tt := range []struct {
		name string
		b    Budget
		want int64
	}{
		{"all of U", Budget{Undistributed: 10}, 10},
		{"F covers the shrink", Budget{Undistributed: 10, Unfunded: 7, PendingShrink: 7}, 10},
		{"F covers a part", Budget{Undistributed: 10, Unfunded: 3, PendingShrink: 7}, 6},
		{"the shrink takes more", Budget{Undistributed: 10, PendingShrink: 12}, 0},
		{"the period is over", Budget{Undistributed: 10, PeriodEndMS: 999}, 0},
		{"the period ends now", Budget{Undistributed: 10, PeriodEndMS: 1_000}, 0},
		{"the period is open", Budget{Undistributed: 10, PeriodEndMS: 1_001}, 10},
	} {
		if got := tt.b.Releasable(now); got != tt.want {
			t.Errorf("%s: %d, want %d", tt.name, got, tt.want)
		}
	}
}
