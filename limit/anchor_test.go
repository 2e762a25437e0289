package limit

import (
	"testing"
	"time"

	"github.com/budgetd/budgetd/budget"
	"github.com/budgetd/budgetd/iana"
)

// TestWindowsBeginAtTheirAnchor checks that a window begins at the local time of its anchor, and
// ends where the next one begins.
func TestWindowsBeginAtTheirAnchor(t *testing.T) {
	berlin, err := iana.Zone("Europe/Berlin")
	if err != nil {
		t.Fatal(err)
	}
	for _, tc := range []struct {
		name   string
		window budget.LimitWindow
		at     string
		from   string
		to     string
	}{
		{"a month from the 31st, in a shorter month", budget.LimitWindow{Every: budget.Month,
			Anchor: budget.Anchor{Day: 31}}, "2027-03-01T12:00:00Z", "2027-02-27T23:00:00Z", "2027-03-30T22:00:00Z"},
		{"a month from the 15th, on the 14th", budget.LimitWindow{Every: budget.Month,
			Anchor: budget.Anchor{Day: 15}}, "2027-01-14T12:00:00Z", "2026-12-14T23:00:00Z", "2027-01-14T23:00:00Z"},
		{"a month from the 1st at 6, before 6", budget.LimitWindow{Every: budget.Month,
			Anchor: budget.Anchor{Hour: 6}}, "2027-01-01T04:59:00Z", "2026-12-01T05:00:00Z", "2027-01-01T05:00:00Z"},
		{"a week from Sunday", budget.LimitWindow{Every: budget.Week,
			Anchor: budget.Anchor{Weekday: "sunday"}}, "2027-01-02T12:00:00Z", "2026-12-26T23:00:00Z",
			"2027-01-02T23:00:00Z"},
		{"a day from 6, right before", budget.LimitWindow{Every: budget.Day,
			Anchor: budget.Anchor{Hour: 6}}, "2027-01-02T04:59:59Z", "2027-01-01T05:00:00Z", "2027-01-02T05:00:00Z"},
		{"a day from 2, which the clock skips", budget.LimitWindow{Every: budget.Day,
			Anchor: budget.Anchor{Hour: 2}}, "2027-03-28T01:00:00Z", "2027-03-28T01:00:00Z", "2027-03-29T00:00:00Z"},
		{"a year from 6", budget.LimitWindow{Every: budget.Year,
			Anchor: budget.Anchor{Hour: 6}}, "2027-01-01T00:00:00Z", "2026-01-01T05:00:00Z", "2027-01-01T05:00:00Z"},
	} {
		at, err := time.Parse(time.RFC3339, tc.at)
		if err != nil {
			t.Fatal(err)
		}
		from, to := calendarAt(tc.window, berlin, at)
		if got, until := from.UTC().Format(time.RFC3339), to.UTC().Format(time.RFC3339); got != tc.from ||
			until != tc.to {
			t.Errorf("%s: %s to %s, want %s to %s", tc.name, got, until, tc.from, tc.to)
		}
	}
}

func TestAnchorsOfOtherWindowsAreRefused(t *testing.T) {
	l := budget.Limit{Name: "l", Dimension: "user", Max: 1, Measure: budget.MeasureCount,
		Window: budget.LimitWindow{Kind: budget.WindowLifetime, Anchor: budget.Anchor{Day: 3, Hour: 24}}}
	want := []string{"window.anchor.day", "window.anchor.hour"}
	faults := checkLimit("", l)
	if len(faults) != len(want) {
		t.Fatalf("%v, want faults of %v", faults, want)
	}
	for i, fault := range faults {
		if fault.Field != want[i] {
			t.Errorf("%v, want a fault of %s", fault, want[i])
		}
	}
}
