package limit_test

import (
	"testing"
	"time"

	"github.com/budgetd/budgetd/budget"
	"github.com/budgetd/budgetd/limit"
)

// TestFirstHitOfMany checks that a window with more deductions than it keeps apart counts all of
// them, whichever are given back, and begins with the oldest that still counts, or at most a 32nd of
// its length later.
func TestFirstHitOfMany(t *testing.T) {
	const n, length, apart = 500, time.Hour, 7 * time.Second
	set, err := limit.Compile(limit.Begin([]budget.Limit{{Name: "l", Dimension: "user", Max: 1000,
		Measure: budget.MeasureCount, Window: budget.LimitWindow{Kind: budget.WindowFirstHit,
			Length: length}}}, time.UnixMilli(0)))
	if err != nil {
		t.Fatal(err)
	}
	l := set.Limit("l")
	var counters limit.Counters
	at := func(i int) int64 { return 1_800_000_000_000 + int64(i)*apart.Milliseconds() }
	for i := range n {
		charge := limit.Charge{Limit: l, Values: []string{"u"}, Key: "u", Counts: 1}
		usage := counters.Usage(l, "u", at(i))
		limit.Count([]limit.Charge{charge}, []*limit.Usage{&usage})
		counters.Put(&usage)
	}
	if slots := len(counters.List[0].Slots); slots > 70 {
		t.Errorf("%d instants are kept", slots)
	}
	for i := range n - 1 {
		if !counters.GivenBack(l, at(i), 1) {
			t.Fatalf("deduction %d is not in the window", i)
		}
		usage := counters.Usage(l, "u", at(n-1))
		used, reset := usage.Used()
		late := reset - length.Milliseconds() - at(i+1)
		if used != int64(n-1-i) || late < 0 || late > length.Milliseconds()/32 {
			t.Fatalf("after %d: %d count, and the window begins %d ms late", i, used, late)
		}
	}
}
