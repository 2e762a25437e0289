package allocation_test

import (
	"strings"
	"testing"
	"time"

	"github.com/budgetd/budgetd/allocation"
	"github.com/budgetd/budgetd/budget"
)

// of returns a daily budget of January 2026 in UTC.
func of(t testing.TB, rule allocation.Rule, total int64) budget.Definition {
	return budget.Definition{Tenant: budget.DefaultTenant, Name: "january", Unit: budget.Count,
		Durability: budget.Ledger, Type: budget.Daily, Rule: &rule, TotalQuantity: total, BucketQuantity: 1,
		StartAt: instant(t, "2026-01-01T00:00:00Z"), EndAt: instant(t, "2026-02-01T00:00:00Z")}
}

// jan returns an instant of January 2026: "05" or "05T06:00:00".
func jan(t testing.TB, text string) time.Time {
	t.Helper()
	if !strings.Contains(text, "T") {
		text += "T00:00:00"
	}
	return instant(t, "2026-01-"+text+"Z")
}

func samePeriod(a, b budget.Period) bool {
	start, end := a.Start.Equal(b.Start), a.End.Equal(b.End)
	a.Start, a.End, b.Start, b.End = time.Time{}, time.Time{}, time.Time{}, time.Time{}
	return start && end && a == b
}

func leaving(rule allocation.Rule, unused allocation.Where) allocation.Rule {
	rule.Unused = unused
	return rule
}

var shifts = windows(window("06:00", "12:00", 10), window("14:00", "24:00", 30))

func TestBegin(t *testing.T) {
	berlin := of(t, daily(0), 730)
	berlin.Timezone, berlin.StartAt = "Europe/Berlin", instant(t, "2026-03-29T00:00:00+01:00")
	berlin.EndAt = instant(t, "2026-04-05T00:00:00+02:00")
	promo := of(t, allocation.Rule{}, 100)
	promo.Type, promo.Rule, promo.StartAt, promo.EndAt = budget.Promo, nil, time.Time{}, time.Time{}
	for _, tc := range []struct {
		name       string
		d          budget.Definition
		now        string
		start, end string
		funded     int64
		over       bool
	}{
		{"promo", promo, "2026-01-01T00:00:00Z", "", "", 100, false},
		{"free", of(t, allocation.Rule{Kind: allocation.Free}, 100), "2026-01-07T00:00:00Z",
			"2026-01-01T00:00:00Z", "2026-02-01T00:00:00Z", 100, false},
		{"before the start", of(t, daily(0), 310), "2025-06-01T00:00:00Z", "2026-01-01T00:00:00Z",
			"2026-01-02T00:00:00Z", 10, false},
		{"at the start, one unit more, which comes last", of(t, daily(0), 311), "2026-01-01T00:00:00Z", "2026-01-01T00:00:00Z",
			"2026-01-02T00:00:00Z", 10, false},
		{"in the middle: nothing for what has passed", of(t, daily(0), 300), "2026-01-30T11:00:00Z",
			"2026-01-30T00:00:00Z", "2026-01-31T00:00:00Z", 150, false},
		{"a quantity", of(t, daily(40), 300), "2026-01-30T11:00:00Z", "2026-01-30T00:00:00Z",
			"2026-01-31T00:00:00Z", 40, false},
		{"a quantity above the total", of(t, daily(400), 300), "2026-01-30T11:00:00Z",
			"2026-01-30T00:00:00Z", "2026-01-31T00:00:00Z", 300, false},
		{"between two windows: the next", of(t, shifts, 300), "2026-01-30T12:00:00Z", "2026-01-30T14:00:00Z",
			"2026-01-31T00:00:00Z", 30, false},
		{"after the last window", of(t, shifts, 300), "2026-01-31T23:59:59Z", "2026-01-31T14:00:00Z",
			"2026-02-01T00:00:00Z", 30, false},
		{"a day of 23 hours", berlin, "2026-03-29T12:00:00Z", "2026-03-29T00:00:00+01:00",
			"2026-03-30T00:00:00+02:00", 104, false},
		{"after the end", of(t, daily(0), 300), "2026-02-01T00:00:00Z", "", "", 0, true},
	} {
		unfunded, p := allocation.Begin(tc.d, instant(t, tc.now))
		want := budget.Period{Number: 1, Over: tc.over, Start: instant(t, tc.start), End: instant(t, tc.end),
			Funded: tc.funded}
		if !samePeriod(p, want) || unfunded != tc.d.TotalQuantity-tc.funded {
			t.Errorf("%s: %d not funded, %+v, want %+v", tc.name, unfunded, p, want)
		}
	}
}

func TestNext(t *testing.T) {
	for _, tc := range []struct {
		name        string
		rule        allocation.Rule
		end         string // of the period before; "": it is over
		now         string
		start, ends string
	}{
		{"the day after", daily(0), "05", "05", "05", "06"},
		{"one period after the other, not the one that contains now", daily(0), "05", "09", "05", "06"},
		{"after a gap", shifts, "05T12:00:00", "05T12:00:00", "05T14:00:00", "06"},
		{"right after", shifts, "06", "06", "06T06:00:00", "06T12:00:00"},
		{"the rule was changed within the day", daily(0), "05T10:00:00", "05T11:00:00", "05", "06"},
		{"it was changed to windows, in a gap", shifts, "05T13:00:00", "05T15:00:00", "05T14:00:00", "06"},
		{"none was open: the one that contains now", daily(0), "", "09T03:00:00", "09", "10"},
		{"none was open: in a gap", shifts, "", "09T03:00:00", "09T06:00:00", "09T12:00:00"},
		{"the last", daily(0), "31", "31", "31", "31T24"},
		{"after the last", daily(0), "31T24", "31T24", "", ""},
		{"free has one", allocation.Rule{Kind: allocation.Free}, "31T24", "31T24", "", ""},
	} {
		at := func(text string) time.Time {
			switch text {
			case "":
				return time.Time{}
			case "31T24":
				return instant(t, "2026-02-01T00:00:00Z")
			}
			return jan(t, text)
		}
		p := budget.Period{Number: 4, Start: jan(t, "01"), End: at(tc.end), Over: tc.end == ""}
		span, ok := allocation.Next(of(t, tc.rule, 100), p, at(tc.now))
		if ok != (tc.start != "") || !span.Start.Equal(at(tc.start)) || !span.End.Equal(at(tc.ends)) {
			t.Errorf("%s: %v, %v", tc.name, span, ok)
		}
	}
}

// turns are rollovers of a budget of January. An empty next means that the budget is over.
var turns = []struct {
	name             string
	rule             allocation.Rule
	start, end, next string // of the period before, of the next one
	a                allocation.Account
	left             allocation.Movement
	funded, carried  int64
	moved            allocation.Movement
}{
	{name: "spread: back to all", rule: daily(0), start: "21", end: "22", next: "22",
		a:    allocation.Account{Unfunded: 90, Undistributed: 4, Held: 6},
		left: allocation.Movement{Unfunded: 10}, funded: 10,
		moved: allocation.Movement{Unfunded: 0, Undistributed: 6}},
	{name: "next: in addition to its own", rule: leaving(daily(0), allocation.ToNext), start: "21", end: "22", next: "22",
		a:    allocation.Account{Unfunded: 90, Undistributed: 4, Held: 6},
		left: allocation.Movement{Undistributed: 10}, funded: 9, carried: 10,
		moved: allocation.Movement{Unfunded: -9, Undistributed: 15}},
	{name: "forfeit: to X", rule: leaving(daily(0), allocation.Forfeit), start: "21", end: "22", next: "22",
		a:    allocation.Account{Unfunded: 90, Undistributed: 4, Held: 6},
		left: allocation.Movement{Forfeited: 10}, funded: 9,
		moved: allocation.Movement{Unfunded: -9, Undistributed: 5, Forfeited: 10}},
	{name: "a quantity", rule: daily(40), start: "21", end: "22", next: "22",
		a:    allocation.Account{Unfunded: 90, Held: 5},
		left: allocation.Movement{Unfunded: 5}, funded: 40,
		moved: allocation.Movement{Unfunded: -35, Undistributed: 40}},
	{name: "a quantity, completed by the unused units", rule: daily(40), start: "21", end: "22", next: "22",
		a:    allocation.Account{Unfunded: 3, Held: 5},
		left: allocation.Movement{Unfunded: 5}, funded: 8,
		moved: allocation.Movement{Unfunded: -3, Undistributed: 8}},
	{name: "the total is used up", rule: daily(40), start: "21", end: "22", next: "22"},
	{name: "a pending shrink", rule: daily(40), start: "21", end: "22", next: "22",
		a: allocation.Account{Unfunded: 50, Pending: 30}, funded: 20,
		moved: allocation.Movement{Unfunded: -20, Undistributed: 20}},
	{name: "a pending shrink of more than is unfunded", rule: daily(40), start: "21", end: "22", next: "22",
		a: allocation.Account{Unfunded: 50, Pending: 70}},
	{name: "a window after a gap", rule: leaving(shifts, allocation.ToNext), start: "21T06:00:00",
		end: "21T12:00:00", next: "21T14:00:00",
		a:    allocation.Account{Unfunded: 90, Held: 5},
		left: allocation.Movement{Undistributed: 5}, funded: 30, carried: 5,
		moved: allocation.Movement{Unfunded: -30, Undistributed: 35}},
	{name: "changed within the day: back to all, whatever the rule says",
		rule: leaving(daily(25), allocation.Forfeit), start: "21", end: "21T09:00:00", next: "21",
		a:    allocation.Account{Unfunded: 60, Undistributed: 1, Held: 19, Used: 20},
		left: allocation.Movement{Unfunded: 20}, funded: 5,
		moved: allocation.Movement{Unfunded: 15, Undistributed: 4}},
	{name: "lowered below what is used", rule: leaving(daily(15), allocation.ToNext), start: "21",
		end: "21T09:00:00", next: "21",
		a:     allocation.Account{Unfunded: 60, Held: 20, Used: 20},
		left:  allocation.Movement{Unfunded: 20},
		moved: allocation.Movement{Unfunded: 20}},
	{name: "changed to windows, between two of them", rule: leaving(shifts, allocation.Forfeit), start: "21",
		end: "21T13:00:00", next: "21T14:00:00",
		a:    allocation.Account{Unfunded: 60, Undistributed: 20},
		left: allocation.Movement{Unfunded: 20}, funded: 30,
		moved: allocation.Movement{Unfunded: -10, Undistributed: 10}},
	{name: "changed before it began", rule: leaving(shifts, allocation.Forfeit), start: "21T14:00:00",
		end: "21T13:00:00", next: "21T14:00:00",
		a:    allocation.Account{Unfunded: 60, Undistributed: 35},
		left: allocation.Movement{Unfunded: 35}, funded: 30,
		moved: allocation.Movement{Unfunded: 5, Undistributed: -5}},
	{name: "the last: back to the total", rule: daily(0), start: "31", end: "31T24",
		a:    allocation.Account{Unfunded: 7, Undistributed: 4, Held: 6},
		left: allocation.Movement{Unfunded: 10}, moved: allocation.Movement{Unfunded: 10, Undistributed: -4}},
	{name: "the last, next: no period follows", rule: leaving(daily(0), allocation.ToNext), start: "31", end: "31T24",
		a:    allocation.Account{Undistributed: 4, Held: 6},
		left: allocation.Movement{Unfunded: 10}, moved: allocation.Movement{Unfunded: 10, Undistributed: -4}},
	{name: "the last, forfeit", rule: leaving(daily(0), allocation.Forfeit), start: "31", end: "31T24",
		a:    allocation.Account{Unfunded: 7, Undistributed: 4, Held: 6},
		left: allocation.Movement{Forfeited: 10}, moved: allocation.Movement{Forfeited: 10, Undistributed: -4}},
	{name: "free ignores forfeit", rule: allocation.Rule{Kind: allocation.Free}, start: "01", end: "31T24",
		a:    allocation.Account{Undistributed: 4},
		left: allocation.Movement{Unfunded: 4}, moved: allocation.Movement{Unfunded: 4, Undistributed: -4}},
}

func TestRollOver(t *testing.T) {
	for _, tc := range turns {
		t.Run(tc.name, func(t *testing.T) {
			end := instant(t, "2026-02-01T00:00:00Z")
			if tc.end != "31T24" {
				end = jan(t, tc.end)
			}
			d := of(t, tc.rule, 1000)
			p := budget.Period{Number: 6, Start: jan(t, tc.start), End: end}
			next, ok := allocation.Next(d, p, end)
			if ok != (tc.next != "") || ok && !next.Start.Equal(jan(t, tc.next)) {
				t.Fatalf("next %v, %v", next, ok)
			}
			got := allocation.RollOver(d, p, next, ok, tc.a)
			want := allocation.RolledOver{Left: tc.left, Moved: tc.moved, Period: budget.Period{Number: 7, Over: true,
				Start: end, End: end}}
			if ok {
				want.Period = budget.Period{Number: 7, Start: next.Start, End: next.End, Funded: tc.funded,
					Carried: tc.carried, Before: tc.a.Used}
			}
			if got.Left != want.Left || got.Moved != want.Moved || !samePeriod(got.Period, want.Period) {
				t.Errorf("%+v, want %+v", got, want)
			}
			if sum := got.Moved.Unfunded + got.Moved.Undistributed + got.Moved.Forfeited; sum != tc.a.Held {
				t.Errorf("the epochs returned %d, the movement adds up to %d", tc.a.Held, sum)
			}
		})
	}
}

// TestExtendedAfterTheEnd gives an expired budget another end, within the same day and later.
func TestExtendedAfterTheEnd(t *testing.T) {
	before := of(t, leaving(daily(40), allocation.Forfeit), 1000)
	before.EndAt = jan(t, "21T10:00:00")
	over := budget.Period{Number: 9, Over: true, Start: before.EndAt, End: before.EndAt}
	for _, tc := range []struct {
		name, end, now, start string
		used, funded          int64
	}{
		{"the same day continues", "25", "21T11:00:00", "21", 15, 25},
		{"another day", "25", "22T11:00:00", "22", 0, 40},
		{"not far enough", "21T10:30:00", "21T11:00:00", "", 0, 0},
		{"further into the past", "20", "21T11:00:00", "", 0, 0},
	} {
		after, now := before, jan(t, tc.now)
		after.EndAt = jan(t, tc.end)
		end, due := allocation.Change(before, after, over, now)
		if !end.Equal(over.End) || due.Equal(now) != (tc.start != "") || due.IsZero() != (tc.start == "") {
			t.Errorf("%s: ends %s, due %s", tc.name, end, due)
		}
		next, ok := allocation.Next(after, over, now)
		if ok != (tc.start != "") {
			t.Errorf("%s: %v, %v follows", tc.name, next, ok)
		}
		if !ok {
			continue
		}
		got := allocation.RollOver(after, over, next, ok, allocation.Account{Unfunded: 600, Used: tc.used})
		want := allocation.RolledOver{Period: budget.Period{Number: 10, Start: jan(t, tc.start),
			End: jan(t, tc.start).AddDate(0, 0, 1), Funded: tc.funded, Before: tc.used},
			Moved: allocation.Movement{Unfunded: -tc.funded, Undistributed: tc.funded}}
		if got.Left != want.Left || got.Moved != want.Moved || !samePeriod(got.Period, want.Period) {
			t.Errorf("%s: %+v, want %+v", tc.name, got, want)
		}
	}
}

func TestReturn(t *testing.T) {
	open, over := budget.Period{Number: 7}, budget.Period{Number: 7, Over: true}
	const total, next, forfeit = budget.ToTotal, allocation.ToNext, allocation.Forfeit
	for _, tc := range []struct {
		name         string
		unused, late allocation.Where
		current      budget.Period
		want         allocation.Movement // of 3 never used and 50 given back late
	}{
		{"spread, total", allocation.SpreadOut, total, open, allocation.Movement{Unfunded: 53}},
		{"as defaults", "", "", open, allocation.Movement{Unfunded: 53}},
		{"next, total", next, total, open, allocation.Movement{Undistributed: 3, Unfunded: 50}},
		{"forfeit, total", forfeit, total, open, allocation.Movement{Forfeited: 3, Unfunded: 50}},
		{"spread, next", "", next, open, allocation.Movement{Unfunded: 3, Undistributed: 50}},
		{"next, next", next, next, open, allocation.Movement{Undistributed: 53}},
		{"forfeit, next", forfeit, next, open, allocation.Movement{Forfeited: 3, Undistributed: 50}},
		{"spread, forfeit", "", forfeit, open, allocation.Movement{Unfunded: 3, Forfeited: 50}},
		{"next, forfeit", next, forfeit, open, allocation.Movement{Undistributed: 3, Forfeited: 50}},
		{"forfeit, forfeit", forfeit, forfeit, open, allocation.Movement{Forfeited: 53}},
		{"next, next: no period is open", next, next, over, allocation.Movement{Unfunded: 53}},
		{"forfeit, next: no period is open", forfeit, next, over, allocation.Movement{Forfeited: 3, Unfunded: 50}},
	} {
		d := of(t, leaving(daily(0), tc.unused), 100)
		d.LateRefund = tc.late
		if got := allocation.Return(d, tc.current, 3, 50); got != tc.want {
			t.Errorf("%s: %+v, want %+v", tc.name, got, tc.want)
		}
	}
	promo := budget.Definition{Type: budget.Promo}
	if got := allocation.Return(promo, over, 3, 50); got != (allocation.Movement{Unfunded: 53}) {
		t.Errorf("promo: %+v", got)
	}
	if got := allocation.Return(promo, open, 3, 50); got != (allocation.Movement{Undistributed: 53}) {
		t.Errorf("promo, with an open period: %+v", got)
	}
}
