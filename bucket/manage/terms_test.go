package manage_test

import (
	"testing"
	"time"

	"github.com/budgetd/budgetd/bucket"
	"github.com/budgetd/budgetd/budget"
	"github.com/budgetd/budgetd/ledger"
)

// TestAnEndThatHasPassedIsRefused checks that create and change refuse an end that has passed
// unless AllowPast is set. A repeated create returns the existing budget without it.
func TestAnEndThatHasPassedIsRefused(t *testing.T) {
	onEveryEngine(t, func(w *world) {
		past := w.db.Now().Add(-time.Hour)
		d := promo("late", 10, 1)
		d.EndAt = past
		_, err := w.part.Create(w.ctx, d, partitions(1))
		equal(w, "field", w.refused(err, budget.Invalid).Fields[0].Field, "end_at")
		d.AllowPast = true
		b := w.create(d)
		equal(w, "period", b.Period.Over, true)
		d.AllowPast = false
		again, err := w.part.Create(w.ctx, d, partitions(1))
		w.ok(err)
		equal(w, "replayed", again.New, false)

		open := w.create(promo("open", 10, 1))
		w.unchanged(open.ID, "a refused end", func() {
			_, err = w.part.Change(w.ctx, open.ID, bucket.Change{EndAt: &past})
			equal(w, "field", w.refused(err, budget.Invalid).Fields[0].Field, "end_at")
		})
		equal(w, "due", w.change(open.ID, bucket.Change{EndAt: &past, AllowPast: true}).IsDue, true)
	})
}

// TestLimitsTakeTheZoneOfTheirBudget checks that a limit without a zone gets that of its budget,
// and that a change to the same limits leaves ChangedVersion, by which counts restart.
func TestLimitsTakeTheZoneOfTheirBudget(t *testing.T) {
	onEveryEngine(t, func(w *world) {
		of := func(zone string) budget.Limit {
			return budget.Limit{Name: "per-day", Dimension: "user", Max: 5, Enforce: true,
				Measure: budget.MeasureCount, Window: budget.LimitWindow{Kind: budget.WindowCalendar,
					Every: budget.Day, Timezone: zone, Anchor: budget.Anchor{Hour: 6}}}
		}
		d := promo("zoned", 10, 1)
		d.Timezone, d.Limits = "Europe/Berlin", &budget.Limits{List: []budget.Limit{of("")}}
		b := w.create(d)
		equal(w, "window", b.Limits.List[0].Window, of("Europe/Berlin").Window)
		w.change(b.ID, bucket.Change{Limits: &[]budget.Limit{of("")}})
		after := w.read(b.ID).Limits.List[0]
		equal(w, "window", after.Window, of("Europe/Berlin").Window)
		equal(w, "changed", after.ChangedVersion, b.Limits.List[0].ChangedVersion)
		w.change(b.ID, bucket.Change{Limits: &[]budget.Limit{of("UTC")}})
		other := w.read(b.ID).Limits
		equal(w, "changed", other.List[0].ChangedVersion, other.Version)

		d = promo("plain", 10, 1)
		d.Limits = &budget.Limits{List: []budget.Limit{of("")}}
		equal(w, "the zone if the budget has none", w.create(d).Limits.List[0].Window.Timezone, "UTC")
	})
}

// TestAPeriodShowsItsDay checks that Figures returns the units of the period, those used in it, and
// those used earlier on the same day, before a lower quantity opened another period.
func TestAPeriodShowsItsDay(t *testing.T) {
	onEveryEngine(t, func(w *world) {
		b := w.create(daily("days", 10_000, 1000, budget.Spread))
		w.exec(`UPDATE budget_period SET before_quantity = 600, funded_quantity = 200 WHERE budget_id = ?`, b.ID)
		f, err := w.part.Figures(w.ctx, b.ID)
		w.ok(err)
		equal(w, "units, used and before", [3]int64{f.PeriodUnits, f.PeriodUsed, f.PeriodBefore},
			[3]int64{200, 0, 600})
	})
}

// TestAMonthThatTheStartCutsIsProrated checks that the first month gets a share if the start cuts
// it, and that the rule keeps its anchor.
func TestAMonthThatTheStartCutsIsProrated(t *testing.T) {
	onEveryEngine(t, func(w *world) {
		d := daily("months", 10_000, 3000, budget.Next)
		d.Rule.Every, d.Rule.MaxRollover = budget.Month, 70
		d.Rule.Anchor = budget.Anchor{Day: 31, Hour: 6}
		d.StartAt = time.Date(w.db.Now().Year(), 3, 1, 6, 0, 0, 0, time.UTC)
		if d.StartAt.Before(w.db.Now()) {
			d.StartAt = d.StartAt.AddDate(1, 0, 0)
		}
		b := w.create(d)
		equal(w, "rule", *b.Rule, *d.Rule)
		// The month lasts from the last of February to March 31. The budget starts one day later.
		days := int64(d.StartAt.AddDate(0, 0, 30).Sub(d.StartAt.AddDate(0, 0, -1)) / (24 * time.Hour))
		part := (3000*30 + days - 1) / days
		w.has(b.ID, ledger.Figures{Total: 10_000, Unfunded: 10_000 - part, InBuckets: part, Online: 2})
	})
}

// TestLimitsKeepTheirOrder checks that limits are read in the order in which they were given.
func TestLimitsKeepTheirOrder(t *testing.T) {
	onEveryEngine(t, func(w *world) {
		d := promo("ordered", 10, 1)
		d.Limits = &budget.Limits{}
		for _, name := range []string{"m", "z", "a"} {
			d.Limits.List = append(d.Limits.List, budget.Limit{Name: name, Dimension: "user", Max: 5,
				Enforce: true, Measure: budget.MeasureCount,
				Window: budget.LimitWindow{Kind: budget.WindowLifetime}})
		}
		got := ""
		for _, l := range w.read(w.create(d).ID).Limits.List {
			got += l.Name
		}
		equal(w, "order", got, "mza")
	})
}
