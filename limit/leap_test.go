package limit_test

import (
	"testing"
	"time"

	"github.com/budgetd/budgetd/budget"
	"github.com/budgetd/budgetd/limit"
)

// TestLastDayOfALeapYear checks the windows of the day on which the standard library reports that a
// span of one offset has ended already, and of the first day of a year, where it reports one that
// begins although nothing changes (Go 1.26, time/zoneinfo.go, tzset).
func TestLastDayOfALeapYear(t *testing.T) {
	for _, test := range []struct {
		every    budget.Every
		zone     string
		at       string
		from, to string
	}{
		{budget.Hour, "America/New_York", "2024-12-31T12:30:00Z", "2024-12-31T12:00:00Z", "2024-12-31T13:00:00Z"},
		{budget.Day, "America/New_York", "2024-12-31T12:30:00Z", "2024-12-31T05:00:00Z", "2025-01-01T05:00:00Z"},
		{budget.Day, "Europe/Berlin", "2024-12-31T23:30:00Z", "2024-12-31T23:00:00Z", "2025-01-01T23:00:00Z"},
		{budget.Month, "America/New_York", "2024-12-31T12:30:00Z", "2024-12-01T05:00:00Z", "2025-01-01T05:00:00Z"},
		{budget.Hour, "Australia/Lord_Howe", "2024-12-31T23:59:00Z", "2024-12-31T23:00:00Z", "2025-01-01T00:00:00Z"},
		{budget.Hour, "Australia/Adelaide", "2025-01-01T00:10:00Z", "2024-12-31T23:30:00Z", "2025-01-01T00:30:00Z"},
	} {
		t.Run(string(test.every)+" "+test.zone, func(t *testing.T) {
			set, err := limit.Compile(limit.Begin([]budget.Limit{{Name: "l", Dimension: "user", Max: 1,
				Measure: budget.MeasureCount, Window: budget.LimitWindow{Kind: budget.WindowCalendar,
					Every: test.every, Timezone: test.zone}}}, time.UnixMilli(0)))
			if err != nil {
				t.Fatal(err)
			}
			at, err := time.Parse(time.RFC3339, test.at)
			if err != nil {
				t.Fatal(err)
			}
			usage := limit.NewUsage(set.Limit("l"), "u", at.UnixMilli())
			from, to := usage.LedgerSpan()
			text := func(ms int64) string { return time.UnixMilli(ms).UTC().Format(time.RFC3339) }
			if text(from) != test.from || text(to) != test.to {
				t.Errorf("%s to %s, want %s to %s", text(from), text(to), test.from, test.to)
			}
		})
	}
}
