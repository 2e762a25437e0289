package allocation_test

import (
	"testing"
	"time"

	"github.com/budgetd/budgetd/allocation"
	"github.com/budgetd/budgetd/iana"
)

func zone(t testing.TB, name string) *time.Location {
	t.Helper()
	location, err := iana.Zone(name)
	if err != nil {
		t.Fatal(err)
	}
	return location
}

// instant parses a time in RFC 3339; "" is the zero time.
func instant(t testing.TB, text string) time.Time {
	t.Helper()
	if text == "" {
		return time.Time{}
	}
	at, err := time.Parse(time.RFC3339Nano, text)
	if err != nil {
		t.Fatal(err)
	}
	return at.UTC()
}

func same(a, b allocation.Span) bool {
	return a.Start.Equal(b.Start) && a.End.Equal(b.End) && a.Quantity == b.Quantity && a.Whole == b.Whole
}

// list returns up to limit successive periods of NextPeriod.
func list(s allocation.Schedule, limit int) []allocation.Span {
	var periods []allocation.Span
	after := s.Start
	for range limit {
		period, ok := s.NextPeriod(after)
		if !ok {
			break
		}
		periods = append(periods, period)
		after = period.End
	}
	return periods
}

func calendar(every allocation.Every) allocation.Rule {
	return allocation.Rule{Kind: allocation.Calendar, Every: every}
}

// clocks lists periods around changes of clocks. Instants are written with the zone's offset at
// that time.
var clocks = []struct {
	name, zone, start, end string
	rule                   allocation.Rule
	want                   []string // the first periods: start, end, start, end, …
	count                  int64    // of all periods
}{
	{"a free budget has one", "UTC", "2026-01-01T00:00:00Z", "2027-01-01T00:00:00Z",
		allocation.Rule{Kind: allocation.Free},
		[]string{"2026-01-01T00:00:00Z", "2027-01-01T00:00:00Z"}, 1},
	{"a promo budget has one", "UTC", "2026-01-01T00:00:00Z", "2027-01-01T00:00:00Z", allocation.Rule{},
		[]string{"2026-01-01T00:00:00Z", "2027-01-01T00:00:00Z"}, 1},
	{"days, cut at both ends, to the millisecond", "Europe/Berlin", "2026-01-01T09:00:00.5+01:00",
		"2026-01-03T00:00:00.001+01:00", calendar(allocation.Day),
		[]string{"2026-01-01T09:00:00.5+01:00", "2026-01-02T00:00:00+01:00", "2026-01-02T00:00:00+01:00",
			"2026-01-03T00:00:00+01:00", "2026-01-03T00:00:00+01:00", "2026-01-03T00:00:00.001+01:00"}, 3},
	{"a day of 23 hours", "Europe/Berlin", "2026-03-29T00:00:00+01:00", "2026-03-31T00:00:00+02:00",
		calendar(allocation.Day),
		[]string{"2026-03-29T00:00:00+01:00", "2026-03-30T00:00:00+02:00", "2026-03-30T00:00:00+02:00",
			"2026-03-31T00:00:00+02:00"}, 2},
	{"a day of 25 hours", "Europe/Berlin", "2026-10-25T00:00:00+02:00", "2026-10-26T00:00:00+01:00",
		calendar(allocation.Day),
		[]string{"2026-10-25T00:00:00+02:00", "2026-10-26T00:00:00+01:00"}, 1},
	{"23 hours", "Europe/Berlin", "2026-03-29T00:00:00+01:00", "2026-03-30T00:00:00+02:00",
		calendar(allocation.Hour),
		[]string{"2026-03-29T00:00:00+01:00", "2026-03-29T01:00:00+01:00", "2026-03-29T01:00:00+01:00",
			"2026-03-29T03:00:00+02:00", "2026-03-29T03:00:00+02:00", "2026-03-29T04:00:00+02:00"}, 23},
	{"25 hours: the repeated one is two", "Europe/Berlin", "2026-10-25T01:00:00+02:00",
		"2026-10-26T01:00:00+01:00", calendar(allocation.Hour),
		[]string{"2026-10-25T01:00:00+02:00", "2026-10-25T02:00:00+02:00", "2026-10-25T02:00:00+02:00",
			"2026-10-25T02:00:00+01:00", "2026-10-25T02:00:00+01:00", "2026-10-25T03:00:00+01:00"}, 25},
	{"hours of a zone of half hours", "Asia/Kolkata", "2026-01-01T00:15:00+05:30",
		"2026-01-01T02:00:00+05:30", calendar(allocation.Hour),
		[]string{"2026-01-01T00:15:00+05:30", "2026-01-01T01:00:00+05:30", "2026-01-01T01:00:00+05:30",
			"2026-01-01T02:00:00+05:30"}, 2},
	{"hours of a clock put back by half an hour", "Australia/Lord_Howe", "2026-04-05T01:00:00+11:00",
		"2026-04-05T03:00:00+10:30", calendar(allocation.Hour),
		[]string{"2026-04-05T01:00:00+11:00", "2026-04-05T01:30:00+10:30", "2026-04-05T01:30:00+10:30",
			"2026-04-05T02:00:00+10:30", "2026-04-05T02:00:00+10:30", "2026-04-05T03:00:00+10:30"}, 3},
	{"hours of a clock put forward by half an hour", "Australia/Lord_Howe", "2026-10-04T01:00:00+10:30",
		"2026-10-04T04:00:00+11:00", calendar(allocation.Hour),
		[]string{"2026-10-04T01:00:00+10:30", "2026-10-04T02:30:00+11:00", "2026-10-04T02:30:00+11:00",
			"2026-10-04T03:00:00+11:00", "2026-10-04T03:00:00+11:00", "2026-10-04T04:00:00+11:00"}, 3},
	{"a clock put forward in the middle of an hour", "Pacific/Chatham", "2026-09-27T02:00:00+12:45",
		"2026-09-27T05:00:00+13:45", calendar(allocation.Hour),
		[]string{"2026-09-27T02:00:00+12:45", "2026-09-27T03:45:00+13:45", "2026-09-27T03:45:00+13:45",
			"2026-09-27T04:00:00+13:45", "2026-09-27T04:00:00+13:45", "2026-09-27T05:00:00+13:45"}, 3},
	{"no midnight: the day begins at one", "America/Sao_Paulo", "2018-11-03T00:00:00-03:00",
		"2018-11-06T00:00:00-02:00", calendar(allocation.Day),
		[]string{"2018-11-03T00:00:00-03:00", "2018-11-04T01:00:00-02:00", "2018-11-04T01:00:00-02:00",
			"2018-11-05T00:00:00-02:00", "2018-11-05T00:00:00-02:00", "2018-11-06T00:00:00-02:00"}, 3},
	{"no midnight in Beirut either", "Asia/Beirut", "2021-03-27T12:00:00+02:00",
		"2021-03-29T00:00:00+03:00", calendar(allocation.Day),
		[]string{"2021-03-27T12:00:00+02:00", "2021-03-28T01:00:00+03:00", "2021-03-28T01:00:00+03:00",
			"2021-03-29T00:00:00+03:00"}, 2},
	{"put back at midnight: the evening is repeated", "America/Sao_Paulo", "2018-02-17T00:00:00-02:00",
		"2018-02-19T00:00:00-03:00", calendar(allocation.Day),
		[]string{"2018-02-17T00:00:00-02:00", "2018-02-18T00:00:00-03:00", "2018-02-18T00:00:00-03:00",
			"2018-02-19T00:00:00-03:00"}, 2},
	{"midnight twice: the day begins with the first", "America/Havana", "2026-10-31T00:00:00-04:00",
		"2026-11-02T00:00:00-05:00", calendar(allocation.Day),
		[]string{"2026-10-31T00:00:00-04:00", "2026-11-01T00:00:00-04:00", "2026-11-01T00:00:00-04:00",
			"2026-11-02T00:00:00-05:00"}, 2},
	{"put back over midnight: the new day has begun", "America/St_Johns", "2010-11-06T00:00:00-02:30",
		"2010-11-08T00:00:00-03:30", calendar(allocation.Day),
		[]string{"2010-11-06T00:00:00-02:30", "2010-11-07T00:00:00-02:30", "2010-11-07T00:00:00-02:30",
			"2010-11-08T00:00:00-03:30"}, 2},
	{"a day that the zone skipped", "Pacific/Apia", "2011-12-29T00:00:00-10:00", "2012-01-01T00:00:00+14:00",
		calendar(allocation.Day),
		[]string{"2011-12-29T00:00:00-10:00", "2011-12-31T00:00:00+14:00", "2011-12-31T00:00:00+14:00",
			"2012-01-01T00:00:00+14:00"}, 2},
	{"the windows of a day that the zone skipped", "Pacific/Apia", "2011-12-29T00:00:00-10:00",
		"2012-01-01T00:00:00+14:00", windows(window("06:00", "12:00", 1), window("18:00", "24:00", 1)),
		[]string{"2011-12-29T06:00:00-10:00", "2011-12-29T12:00:00-10:00", "2011-12-29T18:00:00-10:00",
			"2011-12-31T00:00:00+14:00", "2011-12-31T06:00:00+14:00", "2011-12-31T12:00:00+14:00",
			"2011-12-31T18:00:00+14:00", "2012-01-01T00:00:00+14:00"}, 4},
	{"the week of a day that the zone skipped", "Pacific/Apia", "2011-12-26T00:00:00-10:00",
		"2012-01-09T00:00:00+14:00", calendar(allocation.Week),
		[]string{"2011-12-26T00:00:00-10:00", "2012-01-02T00:00:00+14:00", "2012-01-02T00:00:00+14:00",
			"2012-01-09T00:00:00+14:00"}, 2},
	{"weeks begin on Monday, over the year's end", "Europe/Berlin", "2026-12-30T00:00:00+01:00",
		"2027-01-12T00:00:00+01:00", calendar(allocation.Week),
		[]string{"2026-12-30T00:00:00+01:00", "2027-01-04T00:00:00+01:00", "2027-01-04T00:00:00+01:00",
			"2027-01-11T00:00:00+01:00", "2027-01-11T00:00:00+01:00", "2027-01-12T00:00:00+01:00"}, 3},
	{"before 1970", "UTC", "1969-12-27T00:00:00Z", "1970-01-06T00:00:00Z", calendar(allocation.Week),
		[]string{"1969-12-27T00:00:00Z", "1969-12-29T00:00:00Z", "1969-12-29T00:00:00Z",
			"1970-01-05T00:00:00Z", "1970-01-05T00:00:00Z", "1970-01-06T00:00:00Z"}, 3},
	{"months of 31, 29 and 31 days", "Europe/Berlin", "2028-01-15T12:00:00+01:00",
		"2028-04-01T00:00:00+02:00", calendar(allocation.Month),
		[]string{"2028-01-15T12:00:00+01:00", "2028-02-01T00:00:00+01:00", "2028-02-01T00:00:00+01:00",
			"2028-03-01T00:00:00+01:00", "2028-03-01T00:00:00+01:00", "2028-04-01T00:00:00+02:00"}, 3},
	{"no leap day in 2100", "UTC", "2100-02-28T00:00:00Z", "2100-03-02T00:00:00Z",
		calendar(allocation.Day),
		[]string{"2100-02-28T00:00:00Z", "2100-03-01T00:00:00Z", "2100-03-01T00:00:00Z",
			"2100-03-02T00:00:00Z"}, 2},
	{"a leap day", "UTC", "2028-02-29T00:00:00Z", "2028-03-02T00:00:00Z", calendar(allocation.Day),
		[]string{"2028-02-29T00:00:00Z", "2028-03-01T00:00:00Z", "2028-03-01T00:00:00Z",
			"2028-03-02T00:00:00Z"}, 2},
	{"the last day of a leap year for which only the rule is known", "Europe/Berlin",
		"2040-12-30T00:00:00+01:00", "2041-01-02T00:00:00+01:00", calendar(allocation.Day),
		[]string{"2040-12-30T00:00:00+01:00", "2040-12-31T00:00:00+01:00", "2040-12-31T00:00:00+01:00",
			"2041-01-01T00:00:00+01:00", "2041-01-01T00:00:00+01:00", "2041-01-02T00:00:00+01:00"}, 3},
	{"windows to midnight, with a gap", "UTC", "2026-01-01T05:00:00Z", "2026-01-03T00:00:00Z",
		windows(window("00:00", "06:00", 10), window("12:00", "24:00", 30)),
		[]string{"2026-01-01T05:00:00Z", "2026-01-01T06:00:00Z", "2026-01-01T12:00:00Z",
			"2026-01-02T00:00:00Z", "2026-01-02T00:00:00Z", "2026-01-02T06:00:00Z", "2026-01-02T12:00:00Z",
			"2026-01-03T00:00:00Z"}, 4},
	{"a budget that begins and ends in gaps", "UTC", "2026-01-01T06:00:00Z", "2026-01-02T12:00:00Z",
		windows(window("00:00", "06:00", 10), window("12:00", "18:00", 30)),
		[]string{"2026-01-01T12:00:00Z", "2026-01-01T18:00:00Z", "2026-01-02T00:00:00Z",
			"2026-01-02T06:00:00Z"}, 2},
	{"windows that begin or end in a skipped hour", "Europe/Berlin", "2026-03-29T00:00:00+01:00",
		"2026-03-30T00:00:00+02:00", windows(window("01:00", "02:30", 1), window("02:30", "03:30", 1)),
		[]string{"2026-03-29T01:00:00+01:00", "2026-03-29T03:00:00+02:00", "2026-03-29T03:00:00+02:00",
			"2026-03-29T03:30:00+02:00"}, 2},
	{"a skipped window", "Europe/Berlin", "2026-03-28T00:00:00+01:00",
		"2026-03-31T00:00:00+02:00", windows(window("02:00", "02:30", 1), window("02:30", "03:00", 1)),
		[]string{"2026-03-28T02:00:00+01:00", "2026-03-28T02:30:00+01:00", "2026-03-28T02:30:00+01:00",
			"2026-03-28T03:00:00+01:00", "2026-03-30T02:00:00+02:00", "2026-03-30T02:30:00+02:00"}, 4},
	{"windows in the repeated hour", "Europe/Berlin", "2026-10-25T00:00:00+02:00",
		"2026-10-26T00:00:00+01:00", windows(window("00:00", "02:30", 1), window("02:30", "03:00", 1),
			window("03:00", "24:00", 1)),
		[]string{"2026-10-25T00:00:00+02:00", "2026-10-25T02:30:00+02:00", "2026-10-25T02:30:00+02:00",
			"2026-10-25T03:00:00+01:00", "2026-10-25T03:00:00+01:00", "2026-10-26T00:00:00+01:00"}, 3},
}

func TestPeriods(t *testing.T) {
	for _, tc := range clocks {
		t.Run(tc.name, func(t *testing.T) {
			s := allocation.Schedule{Rule: tc.rule, Zone: zone(t, tc.zone), Start: instant(t, tc.start),
				End: instant(t, tc.end)}
			all := list(s, 100)
			if n := s.PeriodsLeft(s.Start); n != tc.count || n != int64(len(all)) {
				t.Errorf("%d periods left, %d listed, want %d", n, len(all), tc.count)
			}
			for i := 0; i+1 < len(tc.want); i += 2 {
				want := allocation.Span{Start: instant(t, tc.want[i]), End: instant(t, tc.want[i+1])}
				if i/2 >= len(all) {
					t.Fatalf("no period %d", i/2)
				}
				got := all[i/2]
				if !got.Start.Equal(want.Start) || !got.End.Equal(want.End) {
					t.Errorf("period %d is %s to %s, want %s to %s", i/2, got.Start, got.End, want.Start,
						want.End)
				}
				for _, at := range []time.Time{got.Start, got.End.Add(-1), got.Start.Add(got.End.Sub(got.Start) / 2)} {
					if again, ok := s.PeriodAt(at); !ok || !same(again, got) {
						t.Errorf("at %s: %v, %v, want %v", at, again, ok, got)
					}
				}
			}
		})
	}
}

func TestPeriodsOutside(t *testing.T) {
	start, end := instant(t, "2026-01-01T12:00:00Z"), instant(t, "2026-01-03T12:00:00Z")
	for _, rule := range []allocation.Rule{{}, {Kind: allocation.Free}, daily(5), calendar(allocation.Hour),
		windows(window("00:00", "24:00", 5))} {
		s := allocation.Schedule{Rule: rule, Zone: time.UTC, Start: start, End: end}
		for _, at := range []time.Time{start.Add(-1), end, end.Add(time.Hour), {}} {
			if period, ok := s.PeriodAt(at); ok {
				t.Errorf("%v: at %s there is %v", rule, at, period)
			}
		}
		if n := s.PeriodsLeft(end); n != 0 {
			t.Errorf("%v: %d periods left at the end", rule, n)
		}
		if a, b := s.PeriodsLeft(start), s.PeriodsLeft(time.Time{}); a != b || a < 1 {
			t.Errorf("%v: %d periods left at the start, %d before it", rule, a, b)
		}
		if period, ok := s.NextPeriod(end); ok {
			t.Errorf("%v: after the end comes %v", rule, period)
		}
		first, ok := s.NextPeriod(time.Time{})
		if !ok || !first.Start.Equal(start) {
			t.Errorf("%v: the first period is %v, %v", rule, first, ok)
		}
		if next, ok := s.NextPeriod(start.Add(1)); ok && !next.Start.After(start) {
			t.Errorf("%v: after the first comes %v", rule, next)
		}
	}
}

func TestPeriodsWithoutAnEnd(t *testing.T) {
	start := instant(t, "2026-01-01T12:00:00Z")
	for _, tc := range []struct {
		rule         allocation.Rule
		at, from, to string
		left         int64
	}{
		{allocation.Rule{Kind: allocation.Free}, "2099-05-05T05:05:05Z", "2026-01-01T12:00:00Z", "", 1},
		{daily(5), "2099-05-05T05:05:05Z", "2099-05-05T00:00:00Z", "2099-05-06T00:00:00Z",
			allocation.WithoutEnd},
		{windows(window("05:00", "06:00", 5)), "2099-05-05T05:05:05Z", "2099-05-05T05:00:00Z",
			"2099-05-05T06:00:00Z", allocation.WithoutEnd},
	} {
		s := allocation.Schedule{Rule: tc.rule, Zone: time.UTC, Start: start}
		period, ok := s.PeriodAt(instant(t, tc.at))
		if !ok || !period.Start.Equal(instant(t, tc.from)) || !period.End.Equal(instant(t, tc.to)) {
			t.Errorf("%v: %v, %v", tc.rule, period, ok)
		}
		if n := s.PeriodsLeft(start); n != tc.left {
			t.Errorf("%v: %d left", tc.rule, n)
		}
	}
	// A schedule may have no beginning.
	s := allocation.Schedule{Rule: daily(5), Zone: time.UTC}
	if period, ok := s.PeriodAt(start); !ok || !period.Start.Equal(instant(t, "2026-01-01T00:00:00Z")) {
		t.Errorf("without a beginning: %v, %v", period, ok)
	}
}

func TestPeriodQuantity(t *testing.T) {
	s := allocation.Schedule{Rule: windows(window("00:00", "06:00", 10), window("06:00", "12:00", 20),
		window("12:00", "24:00", 30)), Zone: time.UTC, Start: instant(t, "2026-01-01T00:00:00Z")}
	for at, want := range map[string]int64{"2026-01-01T05:59:59Z": 10, "2026-01-01T06:00:00Z": 20,
		"2026-01-02T23:59:59Z": 30, "2026-01-03T00:00:00Z": 10} {
		if period, _ := s.PeriodAt(instant(t, at)); period.Quantity != want {
			t.Errorf("at %s: %d, want %d", at, period.Quantity, want)
		}
		if period, _ := s.NextPeriod(instant(t, at).Add(-time.Hour * 6).Add(1)); period.Quantity == 0 {
			t.Errorf("after %s: none", at)
		}
	}
	s.Rule = daily(7)
	if period, _ := s.NextPeriod(instant(t, "2026-01-01T00:00:01Z")); period.Quantity != 7 {
		t.Errorf("daily: %d, want 7", period.Quantity)
	}
}
