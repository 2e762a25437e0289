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

// TestServing checks the word for what a budget does now, what it has for calls, what is out of reach
// and when that changes by itself.
func TestServing(t *testing.T) {
	now := time.Date(2027, 1, 2, 12, 0, 0, 0, time.UTC)
	type shown struct {
		word            bucket.Serving
		left, elsewhere int64
		until           time.Time
	}
	for _, test := range []struct {
		name   string
		change func(v *bucket.View)
		want   shown
	}{
		{"full", func(*bucket.View) {}, shown{bucket.ServesFully, 100, 700, time.Time{}}},
		{"paused", func(v *bucket.View) { v.Definition.Paused = true }, shown{"paused", 0, 800, time.Time{}}},
		{"expired", func(v *bucket.View) { v.Definition.EndAt = now }, shown{"expired", 0, 800, time.Time{}}},
		{"before its window", func(v *bucket.View) { v.Period.Start = now.Add(time.Hour) },
			shown{"pending", 0, 800, now.Add(time.Hour)}},
		{"its period is used up", func(v *bucket.View) { v.Figures.InBuckets = 0 },
			shown{bucket.PeriodUsedUp, 0, 700, now.Add(12 * time.Hour)}},
		{"it is used up", func(v *bucket.View) { v.Figures.InBuckets, v.Figures.Unfunded = 0, 0 },
			shown{bucket.UsedUp, 0, 0, time.Time{}}},
		{"a bucket is offline", func(v *bucket.View) { v.Figures.Offline = 1 },
			shown{bucket.ServesPartly, 100, 700, time.Time{}}},
		{"a store of some buckets is down", func(v *bucket.View) { v.Away = bucket.Away{Buckets: 1, Units: 40} },
			shown{bucket.ServesPartly, 60, 740, time.Time{}}},
		{"all that is left is on a store that is down", func(v *bucket.View) { v.Away = bucket.Away{Buckets: 1, Units: 100} },
			shown{bucket.StoreDown, 0, 800, time.Time{}}},
		{"all stores are down", func(v *bucket.View) { v.Away = bucket.Away{Buckets: 4, Units: 90} },
			shown{bucket.StoreDown, 10, 790, time.Time{}}},
		{"nothing is left, and a store is down", func(v *bucket.View) {
			v.Figures.InBuckets, v.Away = 0, bucket.Away{Buckets: 1}
		}, shown{bucket.PeriodUsedUp, 0, 700, now.Add(12 * time.Hour)}},
		{"unlimited", func(v *bucket.View) { v.Definition.Unlimited, v.Figures = true, ledger.Figures{Online: 4} },
			shown{bucket.ServesFully, 0, 0, time.Time{}}},
	} {
		t.Run(test.name, func(t *testing.T) {
			day := now.Truncate(24 * time.Hour)
			v := bucket.View{Definition: budget.Definition{Name: "days", Type: budget.Daily, TotalQuantity: 1000,
				Rule: &budget.Rule{Kind: budget.Calendar, Every: budget.Day, Quantity: 100}},
				Period:  budget.Period{Number: 3, Start: day, End: day.AddDate(0, 0, 1)},
				Figures: ledger.Figures{Total: 1000, Unfunded: 700, InBuckets: 100, Used: 200, Online: 4}}
			test.change(&v)
			v.At(now)
			if got := (shown{v.Serving, v.Remaining, v.OutOfReach(), v.Until()}); got != test.want {
				t.Errorf("%+v, want %+v", got, test.want)
			}
		})
	}
}
