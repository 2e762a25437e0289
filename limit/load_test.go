package limit_test

import (
	"testing"
	"time"

	"github.com/budgetd/budgetd/budget"
	"github.com/budgetd/budgetd/limit"
)

// TestFirstHitIsLoaded checks that a first_hit window that is loaded from the ledger ends after its
// length, and that the next deduction begins another window.
func TestFirstHitIsLoaded(t *testing.T) {
	now := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	set, err := limit.Compile(limit.Begin([]budget.Limit{{Name: "l", Dimension: "user", Max: 100,
		Measure: budget.MeasureAmount,
		Window:  budget.LimitWindow{Kind: budget.WindowFirstHit, Length: time.Minute}}}, now))
	if err != nil {
		t.Fatal(err)
	}
	first, length := now.UnixMilli(), time.Minute.Milliseconds()
	for _, tt := range []struct {
		name           string
		events         []limit.Event
		counted, began int64
	}{
		{"within the window", []limit.Event{{first, 3}, {first + length - 1, 4}}, 7, first},
		{"as it ends", []limit.Event{{first, 3}, {first + length, 4}}, 4, first + length},
		{"a third window", []limit.Event{{first, 3}, {first + length, 4}, {first + 3*length, 5}}, 5,
			first + 3*length},
	} {
		last := tt.events[len(tt.events)-1].AtMS
		usage := limit.NewUsage(set.List[0], "u", last)
		usage.Load(tt.events)
		if usage.Row.Counted != tt.counted || usage.Row.BeganMS != tt.began {
			t.Errorf("%s: %d since %d, want %d since %d", tt.name, usage.Row.Counted, usage.Row.BeganMS,
				tt.counted, tt.began)
		}
	}
}
