package bucket_test

import (
	"testing"
	"time"

	"github.com/budgetd/budgetd/bucket"
	"github.com/budgetd/budgetd/budget"
	"github.com/budgetd/budgetd/ledger"
)

// TestRemaining checks what a view shows as remaining: the units of the open period, wherever they
// are, and 0 where nothing can be deducted now, with the instant from which it can.
func TestRemaining(t *testing.T) {
	now := time.Date(2027, 1, 2, 12, 0, 0, 0, time.UTC)
	figures := ledger.Figures{Total: 1000, Unfunded: 600, Undistributed: 100, InBuckets: 150, Unsettled: 7,
		Returning: 3, Held: 40, Used: 100}
	for _, test := range []struct {
		name   string
		change func(v *bucket.View)
		want   int64
		status budget.Status
		opens  time.Time
	}{
		{"effective", func(*bucket.View) {}, 260, budget.Effective, time.Time{}},
		{"a pending shrink waits for some of it", func(v *bucket.View) { v.Figures.PendingShrink = 60 }, 200, budget.Effective, time.Time{}},
		{"a pending shrink waits for more", func(v *bucket.View) { v.Figures.PendingShrink = 300 }, 0, budget.Effective, time.Time{}},
		{"in its period", func(v *bucket.View) { v.Period.Start = now }, 260, budget.Effective, time.Time{}},
		{"before its window opens", func(v *bucket.View) { v.Period.Start = now.Add(1) }, 0, budget.Effective, now.Add(1)},
		{"pending", func(v *bucket.View) { v.Definition.StartAt = now.Add(1) }, 0, budget.Pending, now.Add(1)},
		{"pending, and its window opens later", func(v *bucket.View) {
			v.Definition.StartAt, v.Period.Start = now.Add(1), now.Add(2)
		}, 0, budget.Pending, now.Add(2)},
		{"paused before its window opens", func(v *bucket.View) {
			v.Definition.Paused, v.Period.Start = true, now.Add(1)
		}, 0, budget.Paused, time.Time{}},
		{"paused", func(v *bucket.View) { v.Definition.Paused = true }, 0, budget.Paused, time.Time{}},
		{"expired", func(v *bucket.View) { v.Definition.EndAt = now }, 0, budget.Expired, time.Time{}},
	} {
		t.Run(test.name, func(t *testing.T) {
			v := bucket.View{Figures: figures, Remaining: 77, OpensAt: now}
			test.change(&v)
			v.At(now)
			if v.Remaining != test.want || v.Status != test.status || v.OpensAt != test.opens {
				t.Errorf("remaining %d, %s, opens %v; want %d, %s, %v", v.Remaining, v.Status, v.OpensAt,
					test.want, test.status, test.opens)
			}
		})
	}
}
