package bucket_test

import (
	"testing"
	"time"

	"github.com/budgetd/budgetd/bucket"
	"github.com/budgetd/budgetd/budget"
	"github.com/budgetd/budgetd/ledger"
)

// TestRemaining checks what a view shows as remaining: the units of the open period, wherever they
// are, and 0 where nothing can be deducted now.
func TestRemaining(t *testing.T) {
	now := time.Date(2027, 1, 2, 12, 0, 0, 0, time.UTC)
	figures := ledger.Figures{Total: 1000, Unfunded: 600, Undistributed: 100, InBuckets: 150, Unsettled: 7,
		Returning: 3, Held: 40, Used: 100}
	for _, test := range []struct {
		name   string
		change func(v *bucket.View)
		want   int64
		status budget.Status
	}{
		{"effective", func(*bucket.View) {}, 260, budget.Effective},
		{"a pending shrink waits for some of it", func(v *bucket.View) { v.Figures.PendingShrink = 60 }, 200, budget.Effective},
		{"a pending shrink waits for more", func(v *bucket.View) { v.Figures.PendingShrink = 300 }, 0, budget.Effective},
		{"in its period", func(v *bucket.View) { v.Period.Start = now }, 260, budget.Effective},
		{"before its window opens", func(v *bucket.View) { v.Period.Start = now.Add(1) }, 0, budget.Effective},
		{"pending", func(v *bucket.View) { v.Definition.StartAt = now.Add(1) }, 0, budget.Pending},
		{"paused", func(v *bucket.View) { v.Definition.Paused = true }, 0, budget.Paused},
		{"expired", func(v *bucket.View) { v.Definition.EndAt = now }, 0, budget.Expired},
	} {
		t.Run(test.name, func(t *testing.T) {
			v := bucket.View{Figures: figures, Remaining: 77}
			test.change(&v)
			if v.At(now); v.Remaining != test.want || v.Status != test.status {
				t.Errorf("remaining %d, %s; want %d, %s", v.Remaining, v.Status, test.want, test.status)
			}
		})
	}
}
