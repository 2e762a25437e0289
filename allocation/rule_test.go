package allocation_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/budgetd/budgetd/allocation"
	"github.com/budgetd/budgetd/budget"
)

func daily(quantity int64) allocation.Rule {
	return allocation.Rule{Kind: allocation.Calendar, Every: allocation.Day, Quantity: quantity}
}

func windows(list ...allocation.Window) allocation.Rule {
	return allocation.Rule{Kind: allocation.Windows, Windows: list}
}

func window(from, to string, quantity int64) allocation.Window {
	return allocation.Window{From: from, To: to, Quantity: quantity}
}

func TestCheckRule(t *testing.T) {
	thirds := []allocation.Window{window("00:00", "06:00", 10_000), window("06:00", "12:00", 20_000),
		window("12:00", "24:00", 30_000)}
	tooMany := make([]allocation.Window, allocation.MaxWindows+1)
	for _, tc := range []struct {
		name string
		rule allocation.Rule
		want []string // fields
	}{
		{"free", allocation.Rule{Kind: allocation.Free}, nil},
		{"every hour", allocation.Rule{Kind: allocation.Calendar, Every: allocation.Hour}, nil},
		{"every day, a quantity", daily(10_000), nil},
		{"every week, next", allocation.Rule{Kind: allocation.Calendar, Every: allocation.Week,
			Unused: allocation.ToNext}, nil},
		{"every month, the largest quantity, forfeit", allocation.Rule{Kind: allocation.Calendar,
			Every: allocation.Month, Quantity: budget.MaxAmount, Unused: allocation.Forfeit}, nil},
		{"windows that meet", windows(thirds...), nil},
		{"windows with gaps, spread", allocation.Rule{Kind: allocation.Windows, Unused: allocation.SpreadOut,
			Windows: []allocation.Window{window("00:01", "00:02", 1), window("23:58", "23:59", 1)}}, nil},

		{"nothing", allocation.Rule{}, []string{"kind"}},
		{"an unknown kind, and other faults", allocation.Rule{Kind: "Free", Every: "year",
			Quantity: -1, Unused: "total", Windows: []allocation.Window{window("x", "01:00", 1)}},
			[]string{"kind", "every", "quantity", "unused", "windows[0].from"}},
		{"free with everything", allocation.Rule{Kind: allocation.Free, Every: allocation.Day, Quantity: 1,
			Unused: allocation.SpreadOut, Windows: thirds}, []string{"every", "quantity", "unused", "windows"}},
		{"calendar without a length", allocation.Rule{Kind: allocation.Calendar}, []string{"every"}},
		{"calendar with windows", allocation.Rule{Kind: allocation.Calendar, Every: allocation.Day,
			Windows: thirds}, []string{"windows"}},
		{"calendar with too much", daily(budget.MaxAmount + 1), []string{"quantity"}},
		{"windows with a length and a quantity", allocation.Rule{Kind: allocation.Windows,
			Every: allocation.Day, Quantity: 1, Windows: thirds}, []string{"every", "quantity"}},
		{"no windows", windows(), []string{"windows"}},
		{"too many windows", windows(tooMany...), []string{"windows"}},
		{"unreadable times", windows(window("6:00", "7:00", 1), window("08:60", "08-30", 1),
			window("25:00", "24:01", 1), window("0a:00", "", 1), window("+1:00", "-1:00", 1)),
			[]string{"windows[0].from", "windows[0].to", "windows[1].from", "windows[1].to", "windows[2].from",
				"windows[2].to", "windows[3].from", "windows[3].to", "windows[4].from", "windows[4].to"}},
		{"24:00 begins no window", windows(window("24:00", "24:00", 1)), []string{"windows[0].from"}},
		{"00:00 ends no window", windows(window("18:00", "00:00", 1)), []string{"windows[0].to"}},
		{"an empty window", windows(window("06:00", "06:00", 1)), []string{"windows[0].to"}},
		{"over midnight", windows(window("22:00", "06:00", 1)), []string{"windows[0].to"}},
		{"overlap", windows(window("00:00", "06:01", 1), window("06:00", "07:00", 1)),
			[]string{"windows[1].from"}},
		{"out of order", windows(window("06:00", "07:00", 1), window("00:00", "06:00", 1)),
			[]string{"windows[1].from"}},
		{"overlap with one before the last", windows(window("00:00", "12:00", 1),
			window("03:00", "04:00", 1), window("05:00", "06:00", 1)),
			[]string{"windows[1].from", "windows[2].from"}},
		{"quantities", windows(window("00:00", "01:00", 0), window("01:00", "02:00", -1),
			window("02:00", "03:00", budget.MaxAmount), window("03:00", "04:00", budget.MaxAmount+1)),
			[]string{"windows[0].quantity", "windows[1].quantity", "windows[3].quantity"}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			var got []string
			for _, fault := range allocation.CheckRule(tc.rule) {
				field, ours := strings.CutPrefix(fault.Field, "type_rule.")
				if !ours || fault.Message == "" {
					t.Errorf("fault %+v", fault)
				}
				got = append(got, field)
			}
			if !slices.Equal(got, tc.want) {
				t.Errorf("faults of %v, want %v", got, tc.want)
			}
		})
	}
}

func TestScheduleCheck(t *testing.T) {
	start := instant(t, "2026-01-01T02:00:00Z")
	night := windows(window("00:00", "01:00", 1))
	for _, tc := range []struct {
		name     string
		schedule allocation.Schedule
		want     string // field
	}{
		{"free without an end", allocation.Schedule{Rule: allocation.Rule{Kind: allocation.Free}}, ""},
		{"a quantity without an end", allocation.Schedule{Rule: daily(1)}, ""},
		{"windows without an end", allocation.Schedule{Rule: night, Start: start}, ""},
		{"compressed with an end", allocation.Schedule{Rule: daily(0), Start: start,
			End: start.AddDate(1, 0, 0)}, ""},
		{"compressed without an end", allocation.Schedule{Rule: daily(0), Start: start}, "end_at"},
		{"never in a window", allocation.Schedule{Rule: night, Start: start,
			End: instant(t, "2026-01-02T00:00:00Z")}, "type_rule"},
		{"a second in a window", allocation.Schedule{Rule: night, Start: start,
			End: instant(t, "2026-01-02T00:00:01Z")}, ""},
	} {
		t.Run(tc.name, func(t *testing.T) {
			tc.schedule.Zone = zone(t, "UTC")
			if faults := allocation.CheckRule(tc.schedule.Rule); faults != nil {
				t.Fatal(faults)
			}
			faults := tc.schedule.Check()
			switch {
			case tc.want == "" && len(faults) != 0:
				t.Errorf("faults %v", faults)
			case tc.want != "" && (len(faults) != 1 || faults[0].Field != tc.want || faults[0].Message == ""):
				t.Errorf("faults %v, want one of %s", faults, tc.want)
			}
		})
	}
}

func TestCanonical(t *testing.T) {
	for _, tc := range []struct {
		rule allocation.Rule
		want string
	}{
		{allocation.Rule{Kind: allocation.Free}, `{"kind":"free"}`},
		{daily(0), `{"kind":"calendar","every":"day","unused":"spread"}`},
		{allocation.Rule{Kind: allocation.Calendar, Every: allocation.Week, Quantity: 5,
			Unused: allocation.Forfeit},
			`{"kind":"calendar","every":"week","quantity":5,"unused":"forfeit"}`},
		{windows(window("00:00", "06:00", 10), window("06:00", "24:00", budget.MaxAmount)),
			`{"kind":"windows","unused":"spread","windows":[{"from":"00:00","to":"06:00","quantity":10},` +
				`{"from":"06:00","to":"24:00","quantity":9007199254740991}]}`},
	} {
		text := allocation.Canonical(tc.rule)
		if text != tc.want {
			t.Errorf("%s, want %s", text, tc.want)
		}
	}
	spread := daily(3)
	spread.Unused = allocation.SpreadOut
	if allocation.Canonical(spread) != allocation.Canonical(daily(3)) {
		t.Error("writing out the default of unused changes the text")
	}
}
