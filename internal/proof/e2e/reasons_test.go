package e2e

import (
	"context"
	"database/sql"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/budgetd/budgetd/budget"
	"github.com/budgetd/budgetd/client"
	"github.com/budgetd/budgetd/internal/proof/testservers"
)

// told checks that a deduction is refused as unavailable for that reason, with advice, and that the
// answer names no server.
func told(t *testing.T, c *client.Client, name, key string, amount int64, reason budget.Reason, advice string,
	servers ...string) error {
	t.Helper()
	_, err := c.Deduct(context.Background(), name, client.DeductRequest{RequestID: key, Amount: amount, Key: key})
	p := problem(err)
	if p.Code != budget.Unavailable || p.Reason != reason {
		return fmt.Errorf("want unavailable because of %s: %w, reason %q", reason, err, p.Reason)
	}
	if !strings.Contains(p.Detail, advice) || p.RetryAfter <= 0 {
		t.Errorf("%s: detail %q, retry after %s; the detail must say %q", reason, p.Detail, p.RetryAfter, advice)
	}
	for _, server := range servers {
		if strings.Contains(p.Detail, server) {
			t.Errorf("%s: the detail names a server: %q", reason, p.Detail)
		}
	}
	return nil
}

// TestTheReasonIsTold checks that an answer `unavailable` says which part is down and what to do.
func TestTheReasonIsTold(t *testing.T) {
	world := newCluster(t)
	_, server, _ := strings.Cut(world.dsn, "tcp(")
	server, _, _ = strings.Cut(server, ")")
	proxy := testservers.NewProxy(t, server)
	world.config = writeConfig(t, strings.Replace(world.text, server, proxy.Addr(), 1))
	n := world.start(t)
	c := n.clientWith(client.Retry{Attempts: 1})
	createStore(t, c, "store", 900, 9)
	create(t, c, "rows", 900, 3)

	must(t, world.redis[0].Kill())
	for i := range 6 { // whichever bucket it uses, it needs units of the store that is down
		eventually(t, time.Minute, "units of a store that is down are asked for", func() error {
			return told(t, c, "store", fmt.Sprint("all-", i), 900, budget.ReasonStoreDown, "repeat", world.redis[0].Addr())
		})
	}
	must(t, world.redis[1].Kill())
	must(t, world.redis[2].Kill())
	eventually(t, time.Minute, "no store answers", func() error {
		return told(t, c, "store", "one", 1, budget.ReasonStoreDown, "repeat", world.redis[0].Addr(), world.redis[1].Addr())
	})
	if _, err := c.Deduct(context.Background(), "rows", client.DeductRequest{RequestID: "one", Amount: 1}); err != nil {
		t.Errorf("in ledger mode without a store: %v", err)
	}
	must(t, proxy.Set(testservers.Rule{Disturbance: testservers.Refuse}))
	eventually(t, time.Minute, "the database does not answer", func() error {
		return told(t, c, "rows", "two", 1, budget.ReasonDatabaseDown, "repeat", proxy.Addr(), server)
	})
	must(t, proxy.Set(testservers.Rule{}))
}

// TestDefaultsBridgeAnOutage ends every connection and refuses new ones for more than a second. No
// call of a client with the default retries may fail or stay unknown, and each must count once.
func TestDefaultsBridgeAnOutage(t *testing.T) {
	const callers, calls = 4, 300
	kinds(t, func(t *testing.T, n *node) {
		create(t, n.client(), "bridged", 1_000_000, 6)
		proxy := testservers.NewProxy(t, n.addr)
		c, err := client.New("http://" + proxy.Addr())
		must(t, err)
		var accepted, repeated atomic.Int64
		var over atomic.Bool // the outage, during which every caller makes calls
		var all sync.WaitGroup
		for caller := range callers {
			all.Go(func() {
				for i := 0; i < calls || !over.Load(); i++ {
					id := fmt.Sprint(caller, "-", i)
					answer, err := c.Deduct(context.Background(), "bridged", client.DeductRequest{RequestID: id, Amount: 1})
					if err != nil {
						t.Errorf("%s: %v", id, err)
						continue
					}
					accepted.Add(1)
					repeated.Add(int64(answer.Attempts - 1))
				}
			})
		}
		eventually(t, time.Minute, "calls are in progress", func() error {
			if accepted.Load() < calls {
				return fmt.Errorf("%d accepted", accepted.Load())
			}
			return nil
		})
		must(t, proxy.Set(testservers.Rule{Disturbance: testservers.Refuse}))
		time.Sleep(1200 * time.Millisecond)
		must(t, proxy.Set(testservers.Rule{}))
		over.Store(true)
		all.Wait()
		if repeated.Load() == 0 {
			t.Errorf("none of %d calls was repeated", accepted.Load())
		}
		checkBooks(t, n.client(), "bridged", 1_000_000, accepted.Load())
	})
}

// TestStatusInTheTable checks that the row of a budget has its present status, even if only time
// has passed since it was written.
func TestStatusInTheTable(t *testing.T) {
	world := newCluster(t)
	n := world.start(t)
	db, err := sql.Open("mysql", world.dsn)
	must(t, err)
	t.Cleanup(func() { _ = db.Close() })
	ctx, c, now := context.Background(), n.client(), time.Now()
	for _, r := range []client.CreateRequest{
		{Name: "pending", StartAt: now.Add(time.Hour)},
		{Name: "effective"},
		{Name: "paused"},
		{Name: "begins", StartAt: now.Add(2 * time.Second)},
		{Name: "ends", EndAt: now.Add(3 * time.Second), AllowPast: true},
	} {
		r.Unit, r.Type, r.TotalQuantity = budget.Count, budget.Promo, 10
		createBudget(t, c, r)
	}
	_, err = c.Patch(ctx, "paused", client.PatchRequest{Status: budget.Paused})
	must(t, err)
	for name, want := range map[string]budget.Status{"pending": budget.Pending, "effective": budget.Effective,
		"paused": budget.Paused, "begins": budget.Effective, "ends": budget.Expired} {
		eventually(t, time.Minute, name+" is "+string(want)+" in the table", func() error {
			var got budget.Status
			if err := db.QueryRowContext(ctx, `SELECT status FROM budget_management_bucket WHERE name = ?`, name).Scan(&got); err != nil {
				return err
			}
			if got != want {
				return fmt.Errorf("it is %s", got)
			}
			return nil
		})
	}
}
