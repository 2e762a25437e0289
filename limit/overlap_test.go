package limit_test

import (
	"testing"
	"time"

	"github.com/budgetd/budgetd/budget"
	"github.com/budgetd/budgetd/limit"
)

// TestOtherNodesWindow checks that the count of a calendar window stays when another node, whose
// zone data differ, counts in a window that overlaps it, and goes when the window is over.
func TestOtherNodesWindow(t *testing.T) {
	compile := func(zone string) *limit.Limit {
		set, err := limit.Compile(limit.Begin([]budget.Limit{{Name: "day", Dimension: "user", Max: 1,
			Measure: budget.MeasureCount, Enforce: true, Window: budget.LimitWindow{
				Kind: budget.WindowCalendar, Every: budget.Day, Timezone: zone}}}, time.UnixMilli(0)))
		if err != nil {
			t.Fatal(err)
		}
		return set.Limit("day")
	}
	// The two stand for one limit on two nodes.
	nodes := []*limit.Limit{compile("UTC"), compile("Europe/Berlin")}
	var counters limit.Counters
	take := func(node int, at string) bool {
		now, err := time.Parse(time.RFC3339, at)
		if err != nil {
			t.Fatal(err)
		}
		charge := limit.Charge{Limit: nodes[node], Values: []string{"u"}, Key: "u", Counts: 1}
		usage := counters.Usage(nodes[node], "u", now.UnixMilli())
		if limit.Exceeded([]limit.Charge{charge}, []*limit.Usage{&usage}) != nil {
			return false
		}
		limit.Count([]limit.Charge{charge}, []*limit.Usage{&usage})
		counters.Put(&usage)
		return true
	}
	for _, step := range []struct {
		node     int
		at       string
		accepted bool
	}{
		{0, "2026-05-01T12:00:00Z", true},
		{1, "2026-05-01T12:00:01Z", false},
		{0, "2026-05-01T12:00:02Z", false},
		{1, "2026-05-01T21:59:59Z", false},
		{1, "2026-05-01T22:00:00Z", false}, // a new day in Berlin, the old one in UTC
		{0, "2026-05-02T00:00:00Z", true},
		{1, "2026-05-02T01:00:00Z", false},
		{1, "2026-05-03T00:00:00Z", false}, // its own day overlaps the one that was counted in UTC
		{0, "2026-05-03T00:00:01Z", true},
		{1, "2026-05-03T00:00:02Z", false},
	} {
		if got := take(step.node, step.at); got != step.accepted {
			t.Errorf("node %d at %s: accepted %t, want %t", step.node, step.at, got, step.accepted)
		}
	}
}
