package allocation_test

import (
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/budgetd/budgetd/allocation"
	"github.com/budgetd/budgetd/budget"
)

func ruled(rule budget.Rule, total int64, days int) budget.Definition {
	start := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	return budget.Definition{Type: budget.Daily, Rule: &rule, TotalQuantity: total, StartAt: start,
		EndAt: start.AddDate(0, 0, days)}
}

func TestCovered(t *testing.T) {
	hourly := func(unused budget.Where) budget.Rule {
		return budget.Rule{Kind: budget.Calendar, Every: budget.Hour, Quantity: 500, Unused: unused}
	}
	capped := hourly("next")
	capped.MaxRollover = 100
	compressed := func(unused budget.Where) budget.Rule {
		return budget.Rule{Kind: budget.Calendar, Every: budget.Day, Unused: unused}
	}
	two := budget.Rule{Kind: budget.Windows, Windows: []budget.Window{
		{From: "06:00", To: "07:00", Quantity: 10}, {From: "18:00", To: "19:00", Quantity: 20}}}
	at := "2026-01-02T10:30:00Z"
	for name, test := range map[string]struct {
		d      budget.Definition
		supply allocation.Supply
		amount int64
		want   string
	}{
		"as much as a period gets":     {ruled(hourly("forfeit"), 9000, 9), allocation.Supply{Left: 1, NotFunded: 5000}, 500, "2026-01-02T11:00:00Z"},
		"more than any period gets":    {ruled(hourly("forfeit"), 9000, 9), allocation.Supply{Left: 499, NotFunded: 5000}, 600, ""},
		"spread is not carried over":   {ruled(hourly("spread"), 9000, 9), allocation.Supply{Left: 499, NotFunded: 5000}, 600, ""},
		"carried over once":            {ruled(hourly("next"), 9000, 9), allocation.Supply{Left: 100, NotFunded: 5000}, 600, "2026-01-02T11:00:00Z"},
		"carried over twice":           {ruled(hourly("next"), 9000, 9), allocation.Supply{Left: 99, NotFunded: 5000}, 1099, "2026-01-02T12:00:00Z"},
		"more than is left, carried":   {ruled(hourly("next"), 9000, 9), allocation.Supply{Left: 99, NotFunded: 500}, 600, ""},
		"carried over in part":         {ruled(capped, 9e6, 900), allocation.Supply{Left: 499, NotFunded: 5e6}, 600, "2026-01-02T11:00:00Z"},
		"more than may be carried":     {ruled(capped, 9e6, 900), allocation.Supply{Left: 499, NotFunded: 5e6}, 601, ""},
		"the total is short":           {ruled(hourly("forfeit"), 9000, 9), allocation.Supply{Left: 400, NotFunded: 99}, 100, ""},
		"windows of 10 and 20":         {ruled(two, 900, 9), allocation.Supply{NotFunded: 500}, 15, "2026-01-02T18:00:00Z"},
		"windows, more than the most":  {ruled(two, 900, 9), allocation.Supply{NotFunded: 500}, 25, ""},
		"the next day's share":         {ruled(compressed("forfeit"), 900, 9), allocation.Supply{NotFunded: 700}, 100, "2026-01-03T00:00:00Z"},
		"more than a share, forfeited": {ruled(compressed("forfeit"), 900, 9), allocation.Supply{NotFunded: 700}, 150, ""},
		"near the end, spread":         {ruled(compressed("spread"), 900, 3), allocation.Supply{Left: 50, NotFunded: 100}, 150, "2026-01-03T00:00:00Z"},
		"near the end, too much":       {ruled(compressed("spread"), 900, 3), allocation.Supply{Left: 50, NotFunded: 100}, 151, ""},
		"near the end, next":           {ruled(compressed("next"), 900, 3), allocation.Supply{Left: 50, NotFunded: 100}, 151, ""},
		"the last period":              {ruled(compressed("next"), 900, 2), allocation.Supply{Left: 50, NotFunded: 100}, 60, ""},
		"shares that grow":             {ruled(compressed("spread"), 900, 9), allocation.Supply{NotFunded: 700}, 350, "2026-01-08T00:00:00Z"},
		"promo":                        {budget.Definition{TotalQuantity: 10}, allocation.Supply{Left: 10}, 5, ""},
	} {
		var p budget.Period
		if span, ok := allocation.PeriodOf(test.d, instant(t, at)); ok {
			p.Start, p.End = span.Start, span.End
		} else { // between two windows: the last one ended
			p.Start, p.End = instant(t, "2026-01-02T06:00:00Z"), instant(t, "2026-01-02T07:00:00Z")
		}
		got, ok := allocation.Covered(test.d, p, test.supply, test.amount)
		if want := instant(t, test.want); ok != (test.want != "") || !got.Equal(want) {
			t.Errorf("%s: %s, %v, want %q", name, got, ok, test.want)
		}
	}
}

// TestCoveredRollsOver checks that Covered predicts RollOver when nothing is deducted: the period
// it returns is the first one with that much.
func TestCoveredRollsOver(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		rule := budget.Rule{Kind: budget.Calendar,
			Every:    rapid.SampledFrom([]budget.Every{budget.Hour, budget.Day, budget.Week}).Draw(t, "every"),
			Quantity: rapid.SampledFrom([]int64{0, 1, 7, 50}).Draw(t, "quantity"),
			Unused:   rapid.SampledFrom([]budget.Where{"", "spread", "next", "forfeit"}).Draw(t, "unused")}
		if rule.Unused == budget.Next {
			rule.MaxRollover = rapid.SampledFrom([]int64{0, 1, 9, 60}).Draw(t, "max rollover")
		}
		if rapid.Bool().Draw(t, "windows") {
			rule = budget.Rule{MaxRollover: rule.MaxRollover, Kind: budget.Windows, Unused: rule.Unused, Windows: []budget.Window{
				{From: "01:00", To: "05:30", Quantity: 3}, {From: "05:30", To: "24:00", Quantity: 12}}}
		}
		d := ruled(rule, rapid.Int64Range(1, 300).Draw(t, "total"), rapid.IntRange(1, 12).Draw(t, "days"))
		d.Timezone = "Europe/Berlin"
		unfunded, p := allocation.Begin(d, d.StartAt)
		used := rapid.Int64Range(0, p.Funded).Draw(t, "used")
		left := p.Funded - used
		amount := rapid.Int64Range(left+1, 301).Draw(t, "amount")
		at, ok := allocation.Covered(d, p, allocation.Supply{Left: left, NotFunded: unfunded}, amount)
		for range 300 {
			next, follows := allocation.Next(d, p, p.End)
			rolled := allocation.RollOver(d, p, next, follows,
				allocation.Account{Unfunded: unfunded, Undistributed: left})
			unfunded, left, p = unfunded+rolled.Moved.Unfunded, left+rolled.Moved.Undistributed, rolled.Period
			if !follows {
				break
			}
			if left >= amount {
				if !ok || !at.Equal(p.Start) {
					t.Fatalf("%s, %v: the period from %s has %d", at, ok, p.Start, left)
				}
				return
			}
		}
		if ok {
			t.Fatalf("%s: no period has %d", at, amount)
		}
	})
}

func TestOpens(t *testing.T) {
	two := budget.Rule{Kind: budget.Windows, Windows: []budget.Window{
		{From: "06:00", To: "07:00", Quantity: 10}, {From: "18:00", To: "19:00", Quantity: 20}}}
	for from, want := range map[string]string{
		"2026-01-01T06:30:00Z": "2026-01-01T06:30:00Z",
		"2026-01-01T07:00:00Z": "2026-01-01T18:00:00Z",
		"2026-01-01T19:00:00Z": "2026-01-02T06:00:00Z",
		"2026-01-02T19:00:00Z": "",
		"2026-01-03T00:00:00Z": "",
	} {
		got, ok := allocation.Opens(ruled(two, 100, 2), instant(t, from))
		if ok != (want != "") || !got.Equal(instant(t, want)) {
			t.Errorf("%s: %s, %v, want %q", from, got, ok, want)
		}
	}
}
