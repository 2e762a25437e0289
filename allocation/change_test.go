package allocation_test

import (
	"slices"
	"testing"
	"time"

	"github.com/budgetd/budgetd/allocation"
	"github.com/budgetd/budgetd/budget"
)

func TestChange(t *testing.T) {
	evening := windows(window("18:00", "24:00", 40))
	for _, tc := range []struct {
		name           string
		before, after  allocation.Rule
		endAt          string // another end of the budget
		start, end     string // of the open period
		funded, used   int64  // Funded and Before
		now, ends, due string
	}{
		{name: "the same rule", before: daily(40), after: daily(40), start: "05", end: "06", funded: 40,
			now: "05T10:00:00", ends: "06", due: "06"},
		{name: "only unused", before: daily(40), after: leaving(daily(40), allocation.Forfeit), start: "05",
			end: "06", funded: 40, now: "05T10:00:00", ends: "06", due: "06"},
		{name: "raised", before: daily(40), after: daily(41), start: "05", end: "06", funded: 40,
			now: "05T10:00:00", ends: "06", due: "06"},
		{name: "raised below what it got and was used before", before: daily(40), after: daily(54), start: "05",
			end: "06", funded: 40, used: 15, now: "05T10:00:00", ends: "05T10:00:00", due: "05T10:00:00"},
		{name: "raised to just that", before: daily(40), after: daily(55), start: "05", end: "06", funded: 40,
			used: 15, now: "05T10:00:00", ends: "06", due: "06"},
		{name: "lowered", before: daily(40), after: daily(39), start: "05", end: "06", funded: 40,
			now: "05T10:00:00", ends: "05T10:00:00", due: "05T10:00:00"},
		{name: "lowered to what it got of what was left", before: daily(40), after: daily(20), start: "05",
			end: "06", funded: 20, now: "05T10:00:00", ends: "06", due: "06"},
		{name: "a quantity becomes equal parts", before: daily(40), after: daily(0), start: "05", end: "06",
			funded: 40, now: "05T10:00:00", ends: "05T10:00:00", due: "05T10:00:00"},
		{name: "another kind, same start, no less", before: daily(40),
			after: windows(window("00:00", "11:00", 40)), start: "05", end: "06", funded: 40,
			now: "05T10:00:00", ends: "05T11:00:00", due: "05T11:00:00"},
		{name: "another kind", before: daily(40), after: evening, start: "05", end: "06", funded: 40,
			now: "05T19:00:00", ends: "05T19:00:00", due: "05T19:00:00"},
		{name: "another kind, in its gap", before: daily(40), after: evening, start: "05", end: "06", funded: 40,
			now: "05T10:00:00", ends: "05T10:00:00", due: "05T10:00:00"},
		{name: "not begun, raised", before: evening, after: windows(window("18:00", "23:00", 50)),
			start: "05T18:00:00", end: "06", funded: 40, now: "05T10:00:00", ends: "05T23:00:00",
			due: "05T23:00:00"},
		{name: "not begun, lowered", before: evening, after: windows(window("18:00", "23:00", 30)),
			start: "05T18:00:00", end: "06", funded: 40, now: "05T10:00:00", ends: "05T10:00:00",
			due: "05T10:00:00"},
		{name: "over, not rolled over yet", before: daily(40), after: daily(10), start: "05", end: "06",
			funded: 40, now: "06T10:00:00", ends: "06", due: "06"},
		{name: "over, and the new rule continues it", before: daily(40), after: allocation.Rule{Kind: allocation.Calendar,
			Every: allocation.Month, Quantity: 900}, start: "01", end: "02", funded: 40, now: "06T10:00:00",
			ends: "31T24", due: "31T24"},
		{name: "an earlier end within the day", before: daily(40), after: daily(40), endAt: "05T12:00:00",
			start: "05", end: "06", funded: 40, now: "05T10:00:00", ends: "05T12:00:00", due: "05T12:00:00"},
		{name: "an end in the past", before: daily(40), after: daily(40), endAt: "03", start: "05", end: "06",
			funded: 40, now: "05T10:00:00", ends: "05T10:00:00", due: "05T10:00:00"},
		{name: "a later end", before: daily(0), after: daily(0), endAt: "06T05:00:00", start: "05", end: "06",
			funded: 40, now: "05T10:00:00", ends: "06", due: "06"},
		{name: "no end any more", before: daily(40), after: daily(40), endAt: "none", start: "05", end: "06",
			funded: 40, now: "05T10:00:00", ends: "06", due: "06"},
	} {
		at := func(text string) time.Time {
			if text == "31T24" {
				return instant(t, "2026-02-01T00:00:00Z")
			}
			return jan(t, text)
		}
		before, after := of(t, tc.before, 1000), of(t, tc.after, 1000)
		switch tc.endAt {
		case "":
		case "none":
			after.EndAt = time.Time{}
		default:
			after.EndAt = at(tc.endAt)
		}
		p := budget.Period{Number: 3, Start: at(tc.start), End: at(tc.end), Funded: tc.funded, Before: tc.used}
		end, due := allocation.Change(before, after, p, at(tc.now))
		if !end.Equal(at(tc.ends)) || !due.Equal(at(tc.due)) {
			t.Errorf("%s: ends %s, due %s", tc.name, end, due)
		}
	}
	promo := budget.Definition{Type: budget.Promo, EndAt: jan(t, "05")}
	endless := promo
	endless.EndAt = time.Time{}
	p := budget.Period{Number: 1, End: promo.EndAt, Funded: 7}
	if end, due := allocation.Change(promo, endless, p, jan(t, "04")); !end.IsZero() || !due.IsZero() {
		t.Errorf("a promo budget without an end ends %s, due %s", end, due)
	}
}

func TestTopUp(t *testing.T) {
	free := allocation.Rule{Kind: allocation.Free}
	for _, tc := range []struct {
		name             string
		rule             allocation.Rule
		start            string
		funded, before   int64
		unfunded, topped int64
	}{
		{"equal parts: its share of the append", daily(0), "28", 25, 0, 115, 11},
		{"equal parts: what was rounded up is enough", daily(0), "28", 4, 0, 7, 0},
		{"equal parts: it has more than its share", daily(0), "28", 40, 0, 75, 0},
		{"equal parts: the last period gets all", daily(0), "31", 40, 0, 75, 75},
		{"equal parts: an earlier end", daily(0), "30", 25, 0, 75, 25},
		{"equal parts: what was used before does not count", daily(0), "28", 25, 9, 115, 11},
		{"a quantity that was reached", daily(40), "28", 40, 0, 100, 0},
		{"a quantity that was not", daily(40), "28", 25, 0, 100, 15},
		{"a quantity that was not, little left", daily(40), "28", 25, 0, 7, 7},
		{"a quantity, used before", daily(40), "28", 10, 25, 100, 5},
		{"a quantity, used up before", daily(40), "28", 0, 45, 100, 0},
		{"lowered below what it got", daily(40), "28", 50, 0, 100, 0},
		{"a window", shifts, "28T14:00:00", 25, 0, 100, 5},
		{"free: all", free, "01", 25, 0, 100, 100},
		{"nothing is left", daily(40), "28", 10, 0, 0, 0},
		{"pending shrinks exceed the unfunded units", daily(40), "28", 10, 0, -5, 0},
		{"no period of the rule", shifts, "28T13:00:00", 25, 0, 100, 0},
	} {
		p := budget.Period{Number: 2, Start: jan(t, tc.start), Funded: tc.funded, Before: tc.before}
		d := of(t, tc.rule, 1000)
		got := allocation.TopUp(d, p, tc.unfunded)
		if got != tc.topped {
			t.Errorf("%s: %d, want %d", tc.name, got, tc.topped)
		}
		p.Funded += got
		if again := allocation.TopUp(d, p, tc.unfunded-got); again != 0 {
			t.Errorf("%s: a second time %d", tc.name, again)
		}
	}
}

func TestCheckDefinition(t *testing.T) {
	for _, tc := range []struct {
		name   string
		change func(*budget.Definition)
		want   []string
	}{
		{"sound", func(*budget.Definition) {}, nil},
		{"a zone", func(d *budget.Definition) { d.Timezone = "Europe/Berlin" }, nil},
		{"no zone", func(d *budget.Definition) { d.Timezone = "Europe/Bonn" }, []string{"timezone"}},
		{"the system's zone", func(d *budget.Definition) { d.Timezone = "Local" }, []string{"timezone"}},
		{"daily without a rule", func(d *budget.Definition) { d.Rule = nil }, []string{"type_rule"}},
		{"promo with a rule", func(d *budget.Definition) { d.Type = budget.Promo }, []string{"type_rule"}},
		{"promo", func(d *budget.Definition) { d.Type, d.Rule = budget.Promo, nil }, nil},
		{"late refunds to the next", func(d *budget.Definition) { d.LateRefund = budget.Next }, nil},
		{"late refunds spread", func(d *budget.Definition) { d.LateRefund = budget.Spread },
			[]string{"late_refund"}},
		{"a rule with a fault", func(d *budget.Definition) { d.Rule = &budget.Rule{Kind: budget.Windows} },
			[]string{"type_rule.windows"}},
		{"equal parts without an end", func(d *budget.Definition) { d.EndAt = time.Time{} }, []string{"end_at"}},
		{"no period", func(d *budget.Definition) {
			night := windows(window("00:00", "01:00", 1))
			d.Rule, d.StartAt, d.EndAt = &night, d.StartAt.Add(2*time.Hour), d.StartAt.Add(3*time.Hour)
		}, []string{"type_rule"}},
		{"faults of other fields", func(d *budget.Definition) { d.TotalQuantity, d.LateRefund = 0, "x" },
			[]string{"total_quantity", "late_refund"}},
	} {
		d := of(t, daily(0), 310)
		tc.change(&d)
		var got []string
		for _, fault := range allocation.CheckDefinition(d) {
			got = append(got, fault.Field)
		}
		if !slices.Equal(got, tc.want) {
			t.Errorf("%s: %v, want %v", tc.name, got, tc.want)
		}
	}
}
