package e2e

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/budgetd/budgetd/budget"
	"github.com/budgetd/budgetd/client"
)

// createStore creates a promo budget in store mode.
func createStore(t *testing.T, c *client.Client, name string, total int64, buckets int) {
	t.Helper()
	createBudget(t, c, client.CreateRequest{Name: name, Unit: budget.Count, Type: budget.Promo,
		Durability: budget.Store, TotalQuantity: total, BucketQuantity: buckets})
}

// awaitView waits until a condition holds for a budget.
func awaitView(t *testing.T, c *client.Client, name, what string, is func(*client.Budget) bool) {
	t.Helper()
	eventually(t, 30*time.Second, what, func() error {
		v, err := c.Budget(context.Background(), name)
		if err == nil && !is(v) {
			err = fmt.Errorf("%+v", v)
		}
		return err
	})
}

// repeat repeats the last, unanswered id of each caller, so that the books are complete.
func (l *load) repeat(t *testing.T, c *client.Client, name string, callers int) {
	t.Helper()
	for caller := range callers {
		i, id := 0, ""
		for known := true; known; i++ {
			id = fmt.Sprintf("%s-%d-%d", name, caller, i)
			_, known = l.told.accepted[id]
		}
		_, err := c.Deduct(context.Background(), name,
			client.DeductRequest{RequestID: id, Amount: 1, Key: id})
		must(t, err)
		l.told.accept(id, 1)
	}
}

// TestStoreModeNodesKilled kills both nodes under load. The stores keep their counters, so another
// node must bring exactly the units that callers were told of to SQL (I2).
func TestStoreModeNodesKilled(t *testing.T) {
	const total, callers, name = 1_000_000, 8, "nodes"
	world := newCluster(t)
	nodes := []*node{world.start(t), world.start(t)}
	createStore(t, nodes[0].client(), name, total, 6)
	l := world.load(t, nodes, name, callers)
	l.more(t, 200)
	nodes[1].kill()
	l.more(t, 200)
	nodes[0].kill()
	l.end()
	c := world.start(t).client()
	l.repeat(t, c, name, callers)
	awaitView(t, c, name, "the ledger has everything", func(v *client.Budget) bool {
		return v.Used == l.told.used() && v.Quarantined == 0
	})
	checkBooks(t, c, name, total, l.told.used())
}

// TestStoreModeRedisKilledUnderLoad kills a Redis that syncs its file every second under load. It
// comes back with what it has saved, and the units of its buckets are quarantined. What callers
// were told must not exceed what is used and quarantined (I2), and the Redis must serve again
// without an operator.
func TestStoreModeRedisKilledUnderLoad(t *testing.T) {
	const total, callers, name = 1_000_000, 8, "load"
	world := newCluster(t)
	nodes := []*node{world.start(t), world.start(t)}
	c := nodes[0].client()
	createStore(t, c, name, total, 6)
	l := world.load(t, nodes, name, callers)
	l.more(t, 200)
	must(t, world.redis[0].Kill())
	must(t, world.redis[0].Restart())
	awaitView(t, c, name, "units are in quarantine", func(v *client.Budget) bool {
		return v.Quarantined > 0
	})
	l.more(t, 400)
	l.end()
	l.repeat(t, c, name, callers)
	var report *client.AuditReport
	eventually(t, 30*time.Second, "the ledger has what was told", func() (err error) {
		if report, err = c.Audit(context.Background(), name); err != nil {
			return err
		}
		if sold := l.told.used(); report.Used+report.Quarantined < sold {
			return fmt.Errorf("%d were sold, %+v", sold, report)
		}
		return nil
	})
	if !report.OK || client.Units(report.Total) != total {
		t.Errorf("audit: %+v", report)
	}
	t.Logf("%d sold, %d of them in the ledger, %d in quarantine", l.told.used(), report.Used,
		report.Quarantined)
}

// TestStoreModeQuarantine checks that while a Redis is down, requests of its buckets are
// unavailable and others are served. The Redis comes back without its memory, and exactly what its
// buckets held by SQL's columns must be quarantined. After the release, exactly the total can be
// sold.
func TestStoreModeQuarantine(t *testing.T) {
	const total, name = 900, "quarantine"
	world := newCluster(t)
	nodes := []*node{world.start(t), world.start(t)}
	c, ctx, told := nodes[0].client(), context.Background(), newBooks()
	createStore(t, c, name, total, 9)
	sell := func(id string, amount int64) error {
		once := nodes[len(told.accepted)%2].clientWith(client.Retry{Attempts: 1})
		_, err := once.Deduct(ctx, name, client.DeductRequest{RequestID: id, Amount: amount})
		if err == nil {
			told.accept(id, amount)
		}
		return err
	}
	for i := range 90 {
		must(t, sell(fmt.Sprint("before-", i), 1))
	}
	awaitView(t, c, name, "SQL has what was sold", func(v *client.Budget) bool { return v.Used == 90 })
	held, _ := units(t, c, name, "redis-0")
	must(t, world.redis[0].Kill())
	down := 0
	for i := range 30 {
		err := sell(fmt.Sprint("down-", i), 1)
		switch client.CodeOf(err) {
		case budget.Unavailable:
			down++
		case "":
		default:
			t.Errorf("while it is down: %v", err)
		}
	}
	if down == 0 || down == 30 {
		t.Errorf("%d of 30 requests were unavailable", down)
	}
	must(t, world.redis[0].RestartEmpty())
	awaitView(t, c, name, "what the buckets held is in quarantine", func(v *client.Budget) bool {
		return v.Quarantined == held
	})
	_, err := c.ReleaseQuarantine(ctx, name, client.ReleaseRequest{RequestID: "unsold", By: "test",
		Reason: "the memory was lost after the last sync"})
	must(t, err)
	eventually(t, 30*time.Second, "the rest is sold at once", func() error {
		return sell("rest", total-told.used())
	})
	eventually(t, 30*time.Second, "both nodes know the Redis that came back", func() error {
		err := sell("more", 1)
		if code := client.CodeOf(err); code != budget.Unavailable && code != budget.BudgetExhausted {
			t.Fatalf("one unit too many: %v", err)
		} else if code == budget.Unavailable {
			return err
		}
		return nil
	})
	awaitView(t, c, name, "SQL has everything", func(v *client.Budget) bool { return v.Used == total })
	checkBooks(t, c, name, total, told.used())
}
