package manage_test

import (
	"testing"
	"time"

	"github.com/budgetd/budgetd/bucket"
	"github.com/budgetd/budgetd/budget"
)

// TestCorrections checks that a name, a ledger account and a unit label can be corrected in either
// mode, and that the keys of the buckets follow the name. Change refuses the name of another
// budget.
func TestCorrections(t *testing.T) {
	onEveryEngine(t, func(w *world) {
		w.create(promo("taken", 10, 1))
		for _, mode := range []budget.Durability{budget.Ledger, budget.Store} {
			d := promo("wrong-"+string(mode), 100, 3)
			d.Durability = mode
			if mode == budget.Store {
				for _, partition := range partitions(3) {
					w.partition(partition.Instance)
				}
			}
			b := w.create(d)
			name, code, unit := "right-"+string(mode), "4711", budget.Amount
			w.change(b.ID, bucket.Change{Name: &name, GLCode: &code, Unit: &unit})
			after := w.read(b.ID)
			want := b.Definition
			want.Name, want.GLCode, want.Unit = name, code, unit
			want.Version, want.UpdatedAt = 2, after.UpdatedAt
			if mode == budget.Store {
				want.Limits = &budget.Limits{Version: 1} // by which the stores know of the change
			}
			equal(w, "definition", after.Definition, want)
			for i, one := range after.Buckets {
				equal(w, "key", one.Key, bucket.KeyOf(name, i))
			}
			_, err := w.part.Budget(w.ctx, bucket.BudgetRef{Tenant: d.Tenant, Name: d.Name})
			w.refused(err, budget.BudgetNotFound)
			taken := "taken"
			_, err = w.part.Change(w.ctx, b.ID, bucket.Change{Name: &taken})
			w.refused(err, budget.NameTaken)
		}
	})
}

// TestStartIsCorrected checks that a start in the future can be moved in both directions, and that
// the periods follow it. Change refuses to move a start that has passed.
func TestStartIsCorrected(t *testing.T) {
	onEveryEngine(t, func(w *world) {
		now := w.db.Now().Truncate(time.Second)
		for _, d := range []budget.Definition{promo("promo", 100, 2), daily("daily", 100, 10, budget.Forfeit)} {
			d.StartAt, d.EndAt = now.Add(48*time.Hour), now.Add(480*time.Hour)
			b := w.create(d)
			for _, start := range []time.Time{now.Add(96 * time.Hour), now.Add(24 * time.Hour)} {
				changed := w.change(b.ID, bucket.Change{StartAt: &start})
				equal(w, "start", w.read(b.ID).StartAt, start)
				equal(w, "the period begins at the former start, so it is rolled over", changed.IsDue, true)
			}
		}
		begun := w.create(promo("begun", 100, 2))
		start := now.Add(time.Hour)
		_, err := w.part.Change(w.ctx, begun.ID, bucket.Change{StartAt: &start})
		equal(w, "field", w.refused(err, budget.Invalid).Fields[0].Field, "start_at")
	})
}

// TestArchive checks that only a budget that is over and holds nothing can be archived. An archived
// budget is missing in lists, can still be read, and can be restored.
func TestArchive(t *testing.T) {
	onEveryEngine(t, func(w *world) {
		b := w.create(promo("sale", 100, 2))
		w.create(promo("other", 10, 1))
		yes, no, end := true, false, w.db.Now().Add(time.Hour)
		archive := func(want budget.Code) {
			w.Helper()
			_, err := w.part.Change(w.ctx, b.ID, bucket.Change{Archived: &yes})
			if want == "" {
				w.ok(err)
				return
			}
			w.refused(err, want)
		}
		archive(budget.BudgetNotOver)
		w.change(b.ID, bucket.Change{EndAt: &end})
		w.hold(b.Buckets[0], 5)
		w.later(2 * time.Hour)
		archive(budget.BudgetNotOver)
		w.exec(`UPDATE bucket_epoch SET held_quantity = 0, used_quantity = used_quantity + 5`+ofBucket,
			b.Buckets[0].ID)
		archive("")
		listed := func(page bucket.Page) (names []string) {
			page.Size = 10
			views, err := w.part.Budgets(w.ctx, page)
			w.ok(err)
			for _, v := range views {
				names = append(names, v.Definition.Name)
			}
			return names
		}
		equal(w, "list", listed(bucket.Page{}), []string{"other"})
		equal(w, "with archived ones", listed(bucket.Page{Archived: true}), []string{"other", "sale"})
		equal(w, "it is read", w.read(b.ID).Archived, true)
		later := w.db.Now().Add(time.Hour)
		_, err := w.part.Change(w.ctx, b.ID, bucket.Change{EndAt: &later})
		w.refused(err, budget.BudgetNotOver)
		w.change(b.ID, bucket.Change{Archived: &no})
		equal(w, "list again", listed(bucket.Page{}), []string{"other", "sale"})
	})
}

// TestVersionForStores checks that every change of a budget in store mode raises the version of its
// limits, which its stores are told, and that limits keep counting: only a change of what a limit
// counts begins it again. In ledger mode only a change of the limits raises it.
func TestVersionForStores(t *testing.T) {
	paused, name, end := true, "other", time.Now().Add(time.Hour)
	more := []budget.Limit{{Name: "each", Dimension: "user", Max: 7, Enforce: true,
		Measure: budget.MeasureAmount, Window: budget.LimitWindow{Kind: budget.WindowLifetime}}}
	onEveryEngine(t, func(w *world) {
		w.partition(partitions(1)[0].Instance)
		for mode, rises := range map[budget.Durability]int64{budget.Store: 4, budget.Ledger: 1} {
			d := promo("sale-"+string(mode), 100, 1)
			d.Durability, d.RoutingDimension, d.Limits = mode, "user", &budget.Limits{List: more}
			b := w.create(d)
			for _, change := range []bucket.Change{{Paused: &paused}, {EndAt: &end}, {Name: &name},
				{Limits: &more}} {
				w.change(b.ID, change)
			}
			after := w.read(b.ID)
			if got, want := after.LimitsVersion(), b.LimitsVersion()+rises; got != want {
				t.Errorf("%s: version %d, want %d", mode, got, want)
			}
			if got, want := after.Limits.List[0].ChangedVersion, b.Limits.List[0].ChangedVersion; got != want {
				t.Errorf("%s: the limit counts since version %d, want %d", mode, got, want)
			}
			name += "-too"
		}
	})
}
