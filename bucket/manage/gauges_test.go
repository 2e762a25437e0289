package manage_test

import (
	"strconv"
	"testing"
	"time"

	"github.com/budgetd/budgetd/bucket"
	"github.com/budgetd/budgetd/bucket/manage"
	"github.com/budgetd/budgetd/budget"
)

// TestGauges checks that a name is unknown until it was read, that a later read sees what changed,
// that only names asked for lately are read, and that old figures are not shown.
func TestGauges(t *testing.T) {
	onEveryEngine(t, func(w *world) {
		gauges := manage.NewGauges(w.part)
		one := func(tenant, name string) *bucket.Gauge { return gauges.Gauges(nil, tenant, []string{name})[0] }
		ids := map[string]int64{}
		for _, d := range []budget.Definition{
			{Name: "sale", TotalQuantity: 1000, BucketQuantity: 2},
			{Name: "views", Unlimited: true, BucketQuantity: 1},
			{Name: "later", TotalQuantity: 10, BucketQuantity: 1, StartAt: w.db.Now().Add(time.Hour)},
		} {
			d.Tenant, d.Type, d.Unit, d.Durability = "shop", budget.Promo, "count", budget.Ledger
			made, err := w.part.Create(w.ctx, d, make([]bucket.Partition, d.BucketQuantity))
			w.ok(err)
			ids[d.Name] = made.Budget.ID
		}
		see := func(name string) string {
			g := one("shop", name)
			switch {
			case g == nil:
				return "unknown"
			case g.Remaining == nil:
				return "unlimited " + string(g.Serving)
			}
			return strconv.FormatInt(*g.Remaining, 10) + " " + string(g.Serving)
		}
		names := []string{"sale", "views", "later", "none"}
		check := func(want ...string) {
			w.Helper()
			for i, name := range names {
				equal(w, name, see(name), want[i])
			}
		}
		check("unknown", "unknown", "unknown", "unknown")
		w.ok(gauges.RunOnce(w.ctx))
		check("1000 full", "unlimited full", "0 pending", "unknown")
		equal[*bucket.Gauge](w, "the name in another tenant", one("acme", "sale"), nil)

		w.adjusts(ids["sale"], "more", 500)
		check("1000 full", "unlimited full", "0 pending", "unknown")
		w.ok(gauges.RunOnce(w.ctx))
		check("1500 full", "unlimited full", "0 pending", "unknown")

		w.later(4 * time.Second) // the database was away
		check("unknown", "unknown", "unknown", "unknown")
		w.ok(gauges.RunOnce(w.ctx))
		check("1500 full", "unlimited full", "0 pending", "unknown")

		w.later(11 * time.Second) // nobody asked
		w.ok(gauges.RunOnce(w.ctx))
		check("unknown", "unknown", "unknown", "unknown")
	})
}
