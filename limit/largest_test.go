package limit_test

import (
	"math"
	"testing"
	"time"

	"github.com/budgetd/budgetd/budget"
	"github.com/budgetd/budgetd/limit"
)

// TestSumsSaturate checks that a limit that is not enforced counts up to the largest amount and
// refuses more, and that a sliding window whose slots add up to more is shown as the largest
// amount.
func TestSumsSaturate(t *testing.T) {
	now := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	set, err := limit.Compile(limit.Begin([]budget.Limit{
		{Name: "seen", Dimension: "user", Max: 1, Measure: budget.MeasureAmount,
			Window: budget.LimitWindow{Kind: budget.WindowLifetime}},
		{Name: "slides", Dimension: "user", Max: 1, Measure: budget.MeasureAmount,
			Window: budget.LimitWindow{Kind: budget.WindowSliding, Length: time.Minute, Slot: time.Second}},
	}, now))
	if err != nil {
		t.Fatal(err)
	}
	charges, _ := set.Charges(3, map[string]string{"user": "u"}, nil)
	nowMS := now.UnixMilli()
	lifetime, slides := limit.NewUsage(set.List[0], "u", nowMS), limit.NewUsage(set.List[1], "u", nowMS)
	usages := []*limit.Usage{&lifetime, &slides}
	version := set.List[0].ChangedVersion
	lifetime.Row = limit.Row{Counted: budget.MaxAmount - 3, Version: version}
	if refused := limit.Exceeded(charges, usages); refused != nil {
		t.Fatalf("refused %+v", refused)
	}
	if used := limit.Count(charges, usages)[0].Used; used != budget.MaxAmount {
		t.Errorf("used %d, want the largest amount", used)
	}
	refused := limit.Exceeded(charges, usages)
	if len(refused) != 1 || refused[0].Limit != "seen" || !refused[0].Overflow {
		t.Errorf("refused %+v", refused)
	}
	for slot := int64(1); slot <= 3; slot++ {
		slides.Read(nowMS-slot*1000, limit.Row{Counted: math.MaxInt64 / 2, Version: version})
	}
	if used, _ := slides.Used(); used != math.MaxInt64 {
		t.Errorf("the slots add up to %d, want the largest int64", used)
	}
	if used := charges[1].State(&slides).Used; used != budget.MaxAmount {
		t.Errorf("the state says %d, want the largest amount", used)
	}
}
