package e2e

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/budgetd/budgetd/budget"
	"github.com/budgetd/budgetd/client"
)

// TestStartIsMoved moves a budget's start before it has begun. Deductions are refused with the new
// instant until then, and served afterwards, in both modes.
func TestStartIsMoved(t *testing.T) {
	eachWorld(t, func(w *dailyWorld, mode string) {
		name, later := "moved-"+mode, time.Now().Add(time.Hour).Truncate(time.Second)
		w.does("create %s --type promo --total 100 --buckets 2 --durability %s --start %s", name, mode, later.Format(time.RFC3339))
		take := func() error {
			_, err := w.next().client().Deduct(context.Background(), name, client.DeductRequest{RequestID: "a", Amount: 5})
			return err
		}
		refused := func(start time.Time) error {
			err := take()
			if err == nil {
				w.Fatalf("%s is sold before it starts", name)
			}
			if p := problem(err); p.Code != budget.BudgetNotEffective || !p.StartAt.Equal(start) {
				return fmt.Errorf("want a refusal until %s: %w", start, err)
			}
			return nil
		}
		must(w.T, refused(later))
		later = later.Add(time.Hour)
		w.does("set %s --start %s", name, later.Format(time.RFC3339))
		eventually(w.T, time.Minute, name+" starts later on every node", func() error { // I8: within 1 s
			for range w.nodes {
				if err := refused(later); err != nil {
					return err
				}
			}
			return nil
		})
		soon := time.Now().Add(3 * time.Second).Truncate(time.Second)
		w.does("set %s --start %s", name, soon.Format(time.RFC3339))
		eventually(w.T, time.Minute, name+" starts", take)
		if now := time.Now(); now.Before(soon) {
			w.Errorf("sold at %s, before the start at %s", now, soon)
		}
		w.audited(name, 100, 5)
		if status, said := w.run("set %s --start %s", name, later.Format(time.RFC3339)); status == 0 {
			w.Errorf("the start of a budget that has begun was moved:\n%s", said)
		}
	})
}

// TestArchivedAreNotFound checks that no list, search, sorted page or total includes an archived
// budget unless the query asks for archived ones.
func TestArchivedAreNotFound(t *testing.T) {
	n := start(t, t.TempDir())
	c, ctx := n.client(), context.Background()
	create(t, c, "gone-stays", 10, 1)
	createBudget(t, c, client.CreateRequest{Name: "gone-sale", Unit: budget.Count, Type: budget.Promo,
		TotalQuantity: 10, BucketQuantity: 1, EndAt: time.Now().Add(time.Second)})
	yes := true
	eventually(t, time.Minute, "it is over and archived", func() error {
		_, err := c.Patch(ctx, "gone-sale", client.PatchRequest{Archived: &yes})
		return err
	})
	for _, test := range []struct {
		what   string
		filter client.Filter
		total  int
	}{{"a search with archived ones", client.Filter{Search: "gone", Archived: true}, 2},
		{"a search", client.Filter{Search: "gone"}, 1}, {"an order", client.Filter{Sort: "-name"}, 1},
		{"a page", client.Filter{Skip: 1}, 1},
		{"a page with archived ones", client.Filter{Skip: 1, Archived: true}, 2}} {
		eventually(t, time.Minute, test.what, func() error {
			page, err := c.List(ctx, test.filter)
			must(t, err)
			if page.Total == nil || *page.Total != test.total {
				return fmt.Errorf("total of %v, want %d", page.Total, test.total)
			}
			return nil
		})
	}
}
