package e2e

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/budgetd/budgetd/budget"
	"github.com/budgetd/budgetd/client"
	"github.com/budgetd/budgetd/internal/testservers"
)

// TestStoreModeRedisKilled: under load through two nodes each Redis (appendfsync always) is killed and
// restarted. Nothing stays in quarantine, because both nodes say how far they acknowledged and the logs
// reach that far; the ledger ends with what callers were told, to the unit (I2, I7).
func TestStoreModeRedisKilled(t *testing.T) {
	const total, callers = 1_000_000, 8
	c := &cluster{}
	dsn := testservers.SharedMariaDB(t).NewDatabase(t)
	c.text = fmt.Sprintf("database:\n  driver: mysql\n  dsn: %q\nstore_mode:\n  report_wait: 1m\ninstances:\n", dsn)
	for i := range 3 {
		r := testservers.Redis(t, testservers.AppendOnly("always"))
		c.redis = append(c.redis, r)
		c.text += fmt.Sprintf("  - name: redis-%d\n    driver: redis\n    addrs: [%q]\n", i, r.Addr())
	}
	c.config = writeConfig(t, c.text)
	nodes := []*node{c.start(t), c.start(t)}
	ctx := context.Background()
	if _, err := nodes[0].client().Create(ctx, client.CreateRequest{Name: "store", Unit: budget.Count,
		Type: budget.Promo, Durability: budget.Store, TotalQuantity: total, BucketQuantity: 6}); err != nil {
		t.Fatal(err)
	}
	told := newBooks()
	stop := make(chan struct{})
	var all sync.WaitGroup
	for caller := range callers {
		all.Go(func() {
			for i := 0; ; i++ {
				select {
				case <-stop:
					return
				default:
				}
				id := fmt.Sprintf("c%d-%d", caller, i)
				if err := untilCertain(ctx, nodes, i, "store", id, 3); err == nil {
					told.accept(id, 3)
				} else {
					t.Errorf("%s: %v", id, err)
					return
				}
			}
		})
	}
	for _, r := range c.redis {
		time.Sleep(700 * time.Millisecond)
		if err := r.Kill(); err != nil {
			t.Fatal(err)
		}
		if err := r.Restart(); err != nil {
			t.Fatal(err)
		}
	}
	time.Sleep(time.Second)
	close(stop)
	all.Wait()
	eventually(t, 60*time.Second, "the ledger has everything", func() error {
		v, err := nodes[1].client().Budget(ctx, "store")
		switch {
		case err != nil:
			return err
		case v.Used != told.used():
			return fmt.Errorf("used %d, callers were told %d", v.Used, told.used())
		case v.Quarantined != 0:
			return fmt.Errorf("%d in quarantine", v.Quarantined)
		}
		list, err := nodes[1].client().Buckets(ctx, "store")
		if err != nil {
			return err
		}
		for _, bk := range list.Buckets {
			// One whose units a collect brought to another comes online with its next request.
			if served := bk.Status == "online" && bk.EpochStatus == "open"; !served && bk.OfflineBy != "service" {
				return fmt.Errorf("bucket %s is %s %s, its epoch %s", bk.Key, bk.Status, bk.OfflineBy, bk.EpochStatus)
			}
		}
		return nil
	})
	checkBooks(t, nodes[0].client(), "store", total, told.used())
	t.Logf("%d accepted over three killed Redis", len(told.accepted))
	for i, n := range nodes {
		if status := n.stop(); status != 0 {
			t.Errorf("node %d ended with %d", i, status)
		}
	}
}

// untilCertain repeats a deduct through any node until it is certain: nil when it was accepted.
func untilCertain(ctx context.Context, nodes []*node, turn int, name, id string, amount int64) (err error) {
	for began := time.Now(); time.Since(began) < time.Minute; turn++ {
		_, err = nodes[turn%len(nodes)].client().Deduct(ctx, name, client.DeductRequest{RequestID: id, Amount: amount})
		if k := budget.CodeOf(err).Kind(); err == nil || k != budget.NotDone && k != budget.MayBeDone {
			return err
		}
	}
	return err
}
