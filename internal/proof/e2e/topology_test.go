package e2e

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/budgetd/budgetd/client"
	"github.com/budgetd/budgetd/internal/proof/testservers"
)

// on returns a configuration with MariaDB and one instance, whose settings are YAML.
func on(t *testing.T, instance string) *cluster {
	t.Helper()
	c := &cluster{text: fmt.Sprintf("database:\n  driver: mysql\n  dsn: %q\ninstances:\n  - {name: store, driver: redis, %s}\n",
		testservers.SharedMariaDB(t).NewDatabase(t), instance)}
	c.config = writeConfig(t, c.text)
	return c
}

// more waits until n more calls were accepted.
func (l *load) more(t *testing.T, n int64) {
	t.Helper()
	least := l.served.Load() + n
	eventually(t, 60*time.Second, "callers are served", func() error {
		if n := l.served.Load(); n < least {
			return fmt.Errorf("%d of %d", n, least)
		}
		return nil
	})
}

// TestStoreModeOnCluster makes a replica take over while its master continues for a while. The
// moved partitions have another memory, so what their buckets held is quarantined. All other units
// must be sold, and what callers were told must not exceed what is used and quarantined (I2).
func TestStoreModeOnCluster(t *testing.T) {
	const total, callers, name = 1_000_000, 8, "store"
	servers := testservers.RedisCluster(t, time.Hour, testservers.AppendOnly("always"))
	world := on(t, fmt.Sprintf("topology: cluster, addrs: [%q]", servers.Nodes[0].Addr()))
	nodes := []*node{world.start(t), world.start(t)}
	c, ctx := nodes[0].client(), context.Background()
	createStore(t, c, name, total, 16)
	l := world.load(t, nodes, name, callers)
	l.more(t, 200)
	_, _, err := servers.FailOver(0, "TAKEOVER")
	must(t, err)
	awaitView(t, c, name, "units are in quarantine", func(v *client.Budget) bool {
		return v.Quarantined > 0
	})
	l.more(t, 200)
	l.end()
	l.repeat(t, c, name, callers)
	var report *client.AuditReport
	eventually(t, 30*time.Second, "the rest is sold", func() error {
		if report, err = c.Audit(ctx, name); err != nil {
			return err
		}
		rest := total - report.Used - report.Quarantined
		if rest == 0 {
			return nil
		}
		id := fmt.Sprint("rest-", rest)
		if _, err := c.Deduct(ctx, name, client.DeductRequest{RequestID: id, Amount: rest}); err != nil {
			return err
		}
		l.told.accept(id, rest)
		return fmt.Errorf("%d were left", rest)
	})
	if sold := l.told.used(); !report.OK || sold > report.Used+report.Quarantined {
		t.Errorf("%d were sold, %+v", sold, report)
	}
	t.Logf("%d sold, %d in quarantine", l.told.used(), report.Quarantined)
}
