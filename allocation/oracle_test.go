package allocation_test

import (
	"encoding/binary"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/budgetd/budgetd/allocation"
	"github.com/budgetd/budgetd/allocation/reference"
	"github.com/budgetd/budgetd/budget"
)

// referenceRule converts a rule for the oracle.
func referenceRule(rule allocation.Rule) reference.Rule {
	to := reference.Rule{Kind: string(rule.Kind), Every: string(rule.Every), Quantity: rule.Quantity,
		Unused: string(rule.Unused), MaxRollover: rule.MaxRollover, Partial: string(rule.Partial),
		Day: rule.Anchor.Day, Hour: rule.Anchor.Hour}
	to.Weekday, _ = rule.Anchor.Weekday.Index()
	for _, w := range rule.Windows {
		to.Windows = append(to.Windows, reference.Window{From: w.From, To: w.To, Quantity: w.Quantity})
	}
	return to
}

// oddities are zones with the days on which their offset changed, or that are odd otherwise.
var oddities = []struct {
	zone string
	days []string
}{
	{"UTC", []string{"2028-02-28", "2100-02-28"}},
	{"Europe/Berlin", []string{"2026-03-29", "2026-10-25", "2040-12-31", "2052-12-31"}},
	{"America/New_York", []string{"2026-03-08", "2026-11-01"}},
	{"America/Sao_Paulo", []string{"2018-02-18", "2018-11-04"}},
	{"America/Havana", []string{"2026-03-08", "2026-11-01"}},
	{"America/St_Johns", []string{"1988-04-03", "2010-11-07", "2011-03-13"}}, // 1988: by two hours
	{"Asia/Beirut", []string{"2021-03-28", "2021-10-31", "2023-03-30"}},
	{"Asia/Kathmandu", []string{"1986-01-01"}},
	{"Asia/Pyongyang", []string{"2015-08-15", "2018-05-05"}},
	{"America/Caracas", []string{"2007-12-09", "2016-05-01"}},
	{"Africa/Cairo", []string{"2010-08-11", "2014-07-31", "2023-04-28"}},
	{"Africa/Casablanca", []string{"2026-02-15", "2026-03-22"}},
	{"Africa/Juba", []string{"2021-02-01"}},
	{"Antarctica/Troll", []string{"2026-03-29", "2026-10-25"}}, // by two hours
	{"Australia/Lord_Howe", []string{"2026-04-05", "2026-10-04"}},
	{"Pacific/Chatham", []string{"2026-04-05", "2026-09-27"}},
	{"Pacific/Apia", []string{"2010-09-26", "2011-12-30", "2012-04-01"}},
	{"Pacific/Fakaofo", []string{"2011-12-30"}},
	{"Pacific/Kwajalein", []string{"1993-08-21"}},
	{"Pacific/Kiritimati", []string{"1995-01-01"}},
}

// randomWindows returns windows of a day, some adjacent, often around midnight and two o'clock.
func randomWindows(r *rand.Rand) allocation.Rule {
	var list []allocation.Window
	clock := func(minute int) string {
		at := time.Date(2000, 1, 1, 0, minute, 0, 0, time.UTC).Format("15:04")
		if minute == 24*60 {
			return "24:00"
		}
		return at
	}
	for minute := r.IntN(3) * 30; minute < 24*60 && len(list) < 20; {
		length := []int{1, 15, 30, 45, 60, 90, 240}[r.IntN(7)]
		to := min(minute+length, 24*60)
		list = append(list, window(clock(minute), clock(to), 1+r.Int64N(100)))
		minute = to + []int{0, 0, 1, 30, 120}[r.IntN(5)]
	}
	return windows(list...)
}

// anchored returns a rule with a random anchor.
func anchored(r *rand.Rand, every allocation.Every) allocation.Rule {
	rule := calendar(every)
	rule.Anchor.Hour = r.IntN(24)
	switch every {
	case allocation.Week:
		rule.Anchor.Weekday = []budget.Weekday{"", "monday", "wednesday", "sunday"}[r.IntN(4)]
	case allocation.Month:
		rule.Anchor.Day = []int{0, 1, 15, 28, 30, 31}[r.IntN(6)]
	}
	if r.IntN(3) == 0 {
		rule.Partial = budget.Whole
	}
	return rule
}

// TestPeriodsAgainstTheOracle compares every period, and the answers for random instants, with the
// clock read minute by minute.
func TestPeriodsAgainstTheOracle(t *testing.T) {
	r := rand.New(rand.NewPCG(7, 7))
	compared := 0
	for _, odd := range oddities {
		t.Run(odd.zone, func(t *testing.T) {
			location := zone(t, odd.zone)
			for _, day := range odd.days {
				around := instant(t, day+"T00:00:00Z")
				for _, rule := range []allocation.Rule{calendar(allocation.Hour), calendar(allocation.Day), daily(9),
					calendar(allocation.Week), calendar(allocation.Month), anchored(r, allocation.Day),
					anchored(r, allocation.Week), anchored(r, allocation.Month), randomWindows(r), randomWindows(r)} {
					s := allocation.Schedule{Rule: rule, Zone: location,
						Start: around.Add(-time.Duration(r.Int64N(int64(7 * 24 * time.Hour)))),
						End:   around.Add(time.Duration(r.Int64N(int64(7 * 24 * time.Hour))))}
					if r.IntN(2) == 0 {
						s.Start, s.End = s.Start.Truncate(time.Hour), s.End.Truncate(time.Hour)
					}
					compared += compare(t, r, s)
				}
			}
		})
	}
	t.Logf("%d periods compared", compared)
	if compared < 10_000 {
		t.Errorf("only %d periods compared", compared)
	}
}

// madeUp returns a zone whose offset changes by whole minutes every few days, in the format of RFC
// 8536, version 1.
func madeUp(t *testing.T, r *rand.Rand, from, to time.Time) *time.Location {
	t.Helper()
	var puts, types, offsets []byte
	const kinds = 7
	for at := from; at.Before(to); at = at.Add(time.Duration(1+r.IntN(60*60)) * time.Minute) {
		puts = binary.BigEndian.AppendUint32(puts, uint32(at.Unix()))
		types = append(types, byte(r.IntN(kinds)))
	}
	for range kinds {
		minutes := []int{r.IntN(27*60) - 12*60, (r.IntN(27) - 12) * 60}[r.IntN(2)]
		offsets = binary.BigEndian.AppendUint32(offsets, uint32(int32(minutes*60)))
		offsets = append(offsets, 0, 0) // standard time, name 0
	}
	data := append([]byte("TZif"), make([]byte, 16)...)
	for _, count := range []int{0, 0, 0, len(types), kinds, 2} {
		data = binary.BigEndian.AppendUint32(data, uint32(count))
	}
	data = append(append(append(append(data, puts...), types...), offsets...), 'X', 0)
	location, err := time.LoadLocationFromTZData("made up", data)
	if err != nil {
		t.Fatal(err)
	}
	return location
}

// TestPeriodsOfMadeUpZones checks that the definition of a period holds for any changes of a clock,
// including those that a country may still decide.
func TestPeriodsOfMadeUpZones(t *testing.T) {
	r := rand.New(rand.NewPCG(8, 8))
	from := instant(t, "2026-03-01T00:00:00Z")
	compared := 0
	for range 40 {
		location := madeUp(t, r, from, from.AddDate(0, 0, 10))
		for _, rule := range []allocation.Rule{calendar(allocation.Hour), daily(9), randomWindows(r),
			anchored(r, allocation.Day), anchored(r, allocation.Week), randomWindows(r), randomWindows(r)} {
			compared += compare(t, r, allocation.Schedule{Rule: rule, Zone: location,
				Start: from.Add(time.Duration(r.Int64N(int64(48 * time.Hour)))),
				End:   from.Add(time.Duration(72+r.Int64N(240)) * time.Hour)})
		}
	}
	if compared < 5_000 {
		t.Errorf("only %d periods compared", compared)
	}
}

// compare compares one schedule with the oracle and returns its number of periods.
func compare(t *testing.T, r *rand.Rand, s allocation.Schedule) int {
	t.Helper()
	want := reference.Periods(referenceRule(s.Rule), s.Zone, s.Start, s.End)
	got := list(s, len(want)+1)
	if len(got) != len(want) {
		t.Errorf("%v %s: %d periods, want %d", s.Rule, s.Zone, len(got), len(want))
		return 0
	}
	for i, p := range want {
		if !same(got[i], allocation.Span{Start: p.Start, End: p.End, Quantity: p.Quantity,
			Whole: p.Whole}) {
			t.Errorf("%v %s: period %d is %v, want %v", s.Rule, s.Zone, i, got[i], p)
			return 0
		}
	}
	whole := int64(s.End.Sub(s.Start))
	for range 30 {
		at := s.Start.Add(time.Duration(r.Int64N(whole+whole/4) - whole/8))
		if len(want) > 0 && r.IntN(2) == 0 { // on a border, or right before it
			at = want[r.IntN(len(want))].Start.Add(time.Duration(-r.IntN(2)))
		}
		compareAt(t, s, want, at)
	}
	return len(want)
}

// compareAt compares the answers for one instant.
func compareAt(t *testing.T, s allocation.Schedule, all []reference.Period, at time.Time) {
	t.Helper()
	var present, next *reference.Period
	left := int64(0)
	for i, p := range all {
		if !at.Before(p.Start) && at.Before(p.End) {
			present = &all[i]
		}
		if next == nil && !p.Start.Before(at) {
			next = &all[i]
		}
		if p.End.After(at) {
			left++
		}
	}
	check := func(what string, got allocation.Span, ok bool, want *reference.Period) {
		t.Helper()
		if ok != (want != nil) || ok && !same(got, allocation.Span{Start: want.Start, End: want.End,
			Quantity: want.Quantity, Whole: want.Whole}) {
			t.Errorf("%v %s: %s %s is %v, %v, want %v", s.Rule, s.Zone, what, at, got, ok, want)
		}
	}
	period, ok := s.PeriodAt(at)
	check("the period at", period, ok, present)
	period, ok = s.NextPeriod(at)
	check("the period after", period, ok, next)
	if n := s.PeriodsLeft(at); n != left {
		t.Errorf("%v %s: %d periods left at %s, want %d", s.Rule, s.Zone, n, at, left)
	}
}

// TestPeriodsOverDecades compares the count with the list, far beyond the last change in the
// database, where minute by minute would take too long.
func TestPeriodsOverDecades(t *testing.T) {
	for _, name := range []string{"Europe/Berlin", "Pacific/Apia", "Australia/Lord_Howe"} {
		for _, rule := range []allocation.Rule{calendar(allocation.Day), calendar(allocation.Week),
			calendar(allocation.Month), windows(window("02:00", "02:30", 1), window("23:00", "24:00", 1))} {
			s := allocation.Schedule{Rule: rule, Zone: zone(t, name), Start: instant(t, "2010-01-01T00:00:00Z"),
				End: instant(t, "2045-01-01T00:00:00Z")}
			all := list(s, 100_000)
			if n := s.PeriodsLeft(s.Start); n != int64(len(all)) {
				t.Errorf("%v %s: %d periods left, %d listed", rule, name, n, len(all))
			}
			for i := 1; i < len(all); i++ {
				if all[i].Start.Before(all[i-1].End) || !all[i].Start.Before(all[i].End) {
					t.Fatalf("%v %s: %v follows %v", rule, name, all[i], all[i-1])
				}
			}
		}
	}
	hours := allocation.Schedule{Rule: calendar(allocation.Hour), Zone: zone(t, "Europe/Berlin"),
		Start: instant(t, "2026-01-01T00:00:00Z"), End: instant(t, "2126-01-01T00:00:00Z")}
	if n, want := hours.PeriodsLeft(hours.Start), int64(hours.End.Sub(hours.Start)/time.Hour); n != want {
		t.Errorf("%d hours in a century, want %d", n, want)
	}
}
