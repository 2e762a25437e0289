package strictjson

import (
	"testing"
	"time"
)

func TestDurations(t *testing.T) {
	for text, want := range map[string]time.Duration{
		"5s": 5 * time.Second, "10m": 10 * time.Minute, "8h": 8 * time.Hour, "1d": 24 * time.Hour,
		"1d12h": 36 * time.Hour, "250ms": 250 * time.Millisecond, "1h30m": 90 * time.Minute,
		"36600d": 36600 * 24 * time.Hour, "1.5s": 1500 * time.Millisecond,
		"": 0, "0s": 0, "0d": 0, "-5s": 0, "+5s": 0, "5": 0, "d": 0, "1d-1h": 0, "1d+1h": 0, "-1d": 0, "+1d": 0, "1 d": 0,
		"1.5d": 0, "1dd": 0, "1d1d": 0, "8H": 0, "36601d": 0, "99999999999999999999d": 0, "9999999h": 0, "1w": 0,
		"1d ": 0, " 5s": 0, "5s ": 0, "١d": 0,
	} {
		got, why := ParseDuration(text)
		if got != want || (why == "") != (want > 0) {
			t.Errorf("%q: %v, %q; want %v", text, got, why, want)
		}
		if want > 0 {
			again, _ := ParseDuration(FormatDuration(want))
			if again != want {
				t.Errorf("%q is written %q, which is %v", text, FormatDuration(want), again)
			}
		}
	}
	for length, want := range map[time.Duration]string{
		8 * time.Hour: "8h", 90 * time.Minute: "1h30m", 24 * time.Hour: "1d", 36 * time.Hour: "36h", 48 * time.Hour: "2d",
		5 * time.Second: "5s", 10 * time.Minute: "10m", time.Hour + time.Second: "1h0m1s", 250 * time.Millisecond: "250ms",
	} {
		if got := FormatDuration(length); got != want {
			t.Errorf("%v is written %q, not %q", length, got, want)
		}
	}
}
