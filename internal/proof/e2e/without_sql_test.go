package e2e

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/budgetd/budgetd/budget"
	"github.com/budgetd/budgetd/client"
	"github.com/budgetd/budgetd/internal/proof/testservers"
)

// TestStoreModeWithoutSQL cuts one of two nodes off from SQL. It sells for
// store_mode.without_database and stays ready meanwhile, obeys a pause that the other node was asked
// for, then answers unavailable, and sells again when SQL is back. Exactly the total is sold.
func TestStoreModeWithoutSQL(t *testing.T) {
	const total, name, without = 3000, "sale", 10 * time.Second
	world := newCluster(t)
	world.text += fmt.Sprintf("store_mode:\n  without_database: %s\n", without)
	world.config = writeConfig(t, world.text)
	near := world.start(t)
	_, server, _ := strings.Cut(world.dsn, "tcp(")
	server, _, _ = strings.Cut(server, ")")
	proxy := testservers.NewProxy(t, server)
	world.config = writeConfig(t, strings.Replace(world.text, server, proxy.Addr(), 1))
	far := world.start(t)
	ctx, told := context.Background(), newBooks()
	createStore(t, near.client(), name, total, 3)
	createStore(t, near.client(), "paused", 100, 1)
	once := far.clientWith(client.Retry{Attempts: 1})
	n := 0
	sell := func(c *client.Client, amount int64) error {
		n++
		id := fmt.Sprint("id-", n)
		_, err := c.Deduct(ctx, name, client.DeductRequest{RequestID: id, Amount: amount})
		if err == nil {
			told.accept(id, amount)
		}
		return err
	}
	_, err := once.Deduct(ctx, "paused", client.DeductRequest{RequestID: "before", Amount: 1})
	must(t, err)
	must(t, sell(once, 1))
	must(t, proxy.Set(testservers.Rule{Disturbance: testservers.Refuse}))
	cut, sold, last := time.Now(), 0, time.Time{}
	for time.Since(cut) < without/2 {
		if err = sell(once, 1); err == nil {
			sold, last = sold+1, time.Now()
		} else if client.CodeOf(err) != budget.Unavailable {
			t.Fatalf("after %s: %v", time.Since(cut), err)
		}
		time.Sleep(20 * time.Millisecond)
	}
	if sold == 0 || last.Sub(cut) < 3*time.Second {
		t.Errorf("%d sold, the last one after %s", sold, last.Sub(cut))
	}
	if status, degraded, reasons := readiness(t, far); status != http.StatusOK || !degraded {
		t.Errorf("readyz %d, degraded %v: %s", status, degraded, reasons)
	}
	if _, err = near.client().Patch(ctx, "paused", client.PatchRequest{Status: budget.Paused}); err != nil {
		t.Error(err)
	}
	_, err = once.Deduct(ctx, "paused", client.DeductRequest{RequestID: "after", Amount: 1})
	if client.CodeOf(err) != budget.Unavailable {
		t.Errorf("paused through the other node: %v", err)
	}
	eventually(t, time.Minute, "it serves no longer", func() error {
		if err := sell(once, 1); client.CodeOf(err) != budget.Unavailable || time.Since(cut) < without {
			return fmt.Errorf("after %s: %w", time.Since(cut), err)
		}
		return nil
	})
	if status, _, reasons := readiness(t, far); status != http.StatusServiceUnavailable {
		t.Errorf("readyz %d: %s", status, reasons)
	}
	must(t, proxy.Set(testservers.Rule{}))
	eventually(t, time.Minute, "it sells again", func() error { return sell(once, 1) })
	eventually(t, time.Minute, "the rest is sold", func() error { return sell(once, total-told.used()) })
	eventually(t, time.Minute, "nothing more is sold", func() error {
		if err := sell(once, 1); client.CodeOf(err) != budget.BudgetExhausted {
			return fmt.Errorf("%w", err)
		}
		return nil
	})
	awaitView(t, near.client(), name, "SQL has everything", func(v *client.Budget) bool {
		return v.Used == total
	})
	checkBooks(t, near.client(), name, total, told.used())
}
