package config

import (
	"testing"
	"time"
)

// TestRecycleNext checks that a schedule follows the clock of its zone, even across changes between
// summer and winter time, and that it always has a next time.
func TestRecycleNext(t *testing.T) {
	c := mustLoad(t, `recycle: {schedule: "0 4 * * *", timezone: Europe/Berlin, stranded_share: 1}`)
	if c.Recycle.StrandedShare != 1 {
		t.Error(c.Recycle.StrandedShare)
	}
	for _, tc := range []struct {
		name, schedule, after, want string
	}{
		{"winter", "0 4 * * *", "2026-01-31T02:59:59Z", "2026-01-31T03:00:00Z"},
		{"at a scheduled time", "0 4 * * *", "2026-01-31T03:00:00Z", "2026-02-01T03:00:00Z"},
		{"summer", "0 4 * * *", "2026-07-01T02:30:00Z", "2026-07-02T02:00:00Z"},
		{"into summer", "0 4 * * *", "2026-03-28T12:00:00Z", "2026-03-29T02:00:00Z"},
		{"into winter", "0 4 * * *", "2026-10-24T12:00:00Z", "2026-10-25T03:00:00Z"},
		{"weekdays", "30 6 * * 1-5", "2026-11-20T12:00:00Z", "2026-11-23T05:30:00Z"},
		{"a time that the clock skips", "30 2 * * *", "2026-03-29T00:00:00Z", "2026-03-30T00:30:00Z"},
	} {
		after, _ := time.Parse(time.RFC3339, tc.after)
		r := Recycle{Schedule: tc.schedule, Timezone: "Europe/Berlin"}
		if got := r.Next(after).UTC().Format(time.RFC3339); got != tc.want {
			t.Errorf("%s: %s, want %s", tc.name, got, tc.want)
		}
	}
	for _, expression := range []string{"*/15 * * * *", "30 2 * * *", "0 4 29 2 *"} {
		at := time.Date(2026, time.March, 1, 0, 0, 0, 0, time.UTC)
		for range 500 {
			next := Recycle{Schedule: expression, Timezone: "Europe/Berlin"}.Next(at)
			if next.IsZero() && at.Year() > 2090 {
				break // 2100 is not a leap year; the library does not search beyond it
			}
			if !next.After(at) {
				t.Fatalf("%s: %s after %s", expression, next, at)
			}
			at = next
		}
	}
	if next := (Recycle{Timezone: "UTC"}).Next(time.Now()); !next.IsZero() {
		t.Errorf("without a schedule: %s", next)
	}
}
