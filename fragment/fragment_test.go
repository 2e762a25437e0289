package fragment_test

import (
	"testing"

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
