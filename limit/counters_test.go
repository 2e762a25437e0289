package limit_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/budgetd/budgetd/budget"
	"github.com/budgetd/budgetd/limit"
)

// TestPackedCounters compares a packed row with the sum of its deductions after each of a random
// sequence of deductions and refunds. A refund lowers the window in which its deduction was
// counted.
func TestPackedCounters(t *testing.T) {
	windows := []budget.LimitWindow{
		{Kind: budget.WindowCalendar, Every: budget.Minute}, {Kind: budget.WindowLifetime},
		{Kind: budget.WindowSliding, Length: time.Minute, Slot: 7 * time.Second},
		{Kind: budget.WindowFirstHit, Length: 40 * time.Second},
	}
	var list []budget.Limit
	for i, w := range windows {
		list = append(list, budget.Limit{Name: fmt.Sprintf("l%d", i), Dimension: "user", Max: 1 << 40,
			Measure: budget.MeasureAmount, Window: w, Enforce: true})
	}
	start := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	rapid.Check(t, func(t *rapid.T) {
		set, err := limit.Compile(limit.Begin(list, start))
		if err != nil {
			t.Fatal(err)
		}
		charges, _ := set.Charges(1, map[string]string{"user": "u"}, nil)
		now, packed := start.UnixMilli(), ""
		// first_hit has its own: a refund leaves a window alone that is over.
		var events, hits []limit.Event
		for range rapid.IntRange(1, 25).Draw(t, "steps") {
			now += rapid.Int64Range(0, 30_000).Draw(t, "later")
			counters, err := limit.ReadCounters(packed)
			if err != nil {
				t.Fatal(err)
			}
			if at := counters.Now(now); at != now {
				t.Fatalf("counted at %d, not %d", at, now)
			}
			kept := rapid.Int64Range(1, 9).Draw(t, "kept")
			usages := make([]*limit.Usage, len(set.List))
			for i, l := range set.List {
				charges[i].Counts = kept
				usage := counters.Usage(l, "u", now)
				if _, _, stale := usage.Stale(); stale {
					t.Fatalf("limit %s is stale", l.Name)
				}
				usages[i] = &usage
				whole := limit.NewUsage(l, "u", now)
				if l.Window.Kind == budget.WindowFirstHit {
					whole.Load(hits)
				} else {
					whole.Load(events)
				}
				got, gotReset := usage.Used()
				want, wantReset := whole.Used()
				if got != want || want > 0 && gotReset != wantReset {
					t.Fatalf("limit %s: %d until %d, want %d until %d", l.Name, got, gotReset,
						want, wantReset)
				}
			}
			limit.Count(charges, usages)
			for _, usage := range usages {
				counters.Put(usage)
			}
			events = append(events, limit.Event{AtMS: now, Kept: kept})
			hits = append(hits, limit.Event{AtMS: now, Kept: kept})
			if rapid.IntRange(0, 3).Draw(t, "back") == 0 {
				i := rapid.IntRange(0, len(events)-1).Draw(t, "of")
				for _, l := range set.List {
					lower := counters.GivenBack(l, events[i].AtMS, events[i].Kept)
					if lower && l.Window.Kind == budget.WindowFirstHit {
						hits[i].Kept = 0
					}
				}
				events[i].Kept = 0
			}
			packed = counters.Pack()
			if again, err := limit.ReadCounters(packed); err != nil || cmp.Diff(counters, again) != "" {
				t.Fatalf("%v: %s", err, cmp.Diff(counters, again))
			}
		}
	})
}
