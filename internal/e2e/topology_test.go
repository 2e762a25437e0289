package e2e

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/budgetd/budgetd/client"
	"github.com/budgetd/budgetd/internal/testservers"
)

// on returns a configuration with MariaDB and one instance, whose settings are YAML.
func on(t *testing.T, instance string) *cluster {
	t.Helper()
	c := &cluster{text: fmt.Sprintf("database:\n  driver: mysql\n  dsn: %q\ninstances:\n  - {name: store, driver: redis, %s}\n",
		testservers.SharedMariaDB(t).NewDatabase(t), instance)}
	c.config = writeConfig(t, c.text)
	return c
}

// TestHotBudgetOnCluster sells a budget with 16 buckets on a Redis Cluster of six. Under load, a
// master is killed and its replica takes over (I1-I5).
func TestHotBudgetOnCluster(t *testing.T) {
	servers := testservers.RedisCluster(t, 2*time.Second, testservers.RedisArgs("--cluster-require-full-coverage", "no"))
	world := on(t, fmt.Sprintf("topology: cluster, addrs: [%q, %q]", servers.Nodes[0].Addr(), servers.Nodes[4].Addr()))
	hotThroughFailOver(t, world, 16, func() {
		master, err := servers.MasterOf(0) // of a third of the partitions
		must(t, err)
		must(t, master.Kill())
		_, err = servers.AwaitMoved(0, master)
		must(t, err)
	})
}

// TestHotBudgetOnClusterTakenOver makes a replica take over while its master still runs. For a
// while there are two masters, and what only the old one had is lost.
func TestHotBudgetOnClusterTakenOver(t *testing.T) {
	servers := testservers.RedisCluster(t, time.Hour)
	world := on(t, fmt.Sprintf("topology: cluster, addrs: [%q]", servers.Nodes[0].Addr()))
	hotThroughFailOver(t, world, 16, func() {
		_, _, err := servers.FailOver(0, "TAKEOVER")
		must(t, err)
	})
}

// TestHotBudgetBehindSentinels kills the only master, which the sentinels replace.
func TestHotBudgetBehindSentinels(t *testing.T) {
	servers := testservers.RedisSentinels(t, 2*time.Second)
	addrs := servers.Addrs()
	world := on(t, fmt.Sprintf("topology: sentinel, addrs: [%q, %q, %q], master_name: %s", addrs[0], addrs[1], addrs[2],
		testservers.SentinelName))
	hotThroughFailOver(t, world, 1, func() {
		master, err := servers.Master()
		must(t, err)
		must(t, master.Kill())
		_, err = servers.AwaitMoved(master)
		must(t, err)
	})
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

// hotThroughFailOver lets callers deduct from one budget through two nodes during a fail-over. What
// was accepted must be in the ledger once, and all other units must be sold to the last one.
func hotThroughFailOver(t *testing.T, world *cluster, partitions int, failOver func()) {
	const total, callers, name = 1_000_000, 16, "hot"
	nodes := []*node{world.start(t), world.start(t)}
	clients := []*client.Client{nodes[0].client(), nodes[1].client()}
	create(t, clients[0], name, total, 16)
	before := instance(t, clients[0], "store")
	if len(before.Partitions) != partitions {
		t.Fatalf("%d partitions, want %d: %+v", len(before.Partitions), partitions, before)
	}
	l := world.load(t, nodes, name, callers)
	l.more(t, 500)
	failOver()
	l.more(t, 500)
	l.end()
	eventually(t, 60*time.Second, "every partition is in use again", func() error {
		if i := instance(t, clients[1], "store"); i.Health != "up" {
			return fmt.Errorf("%+v", i)
		}
		return nil
	})
	l.settle(t, clients[0], name, callers)
	checkBooks(t, clients[0], name, total, l.told.used())
	rest := total - l.told.used()
	var err error
	eventually(t, 60*time.Second, "the rest is deducted in one call", func() error {
		_, err = clients[1].Deduct(context.Background(), name, client.DeductRequest{RequestID: "rest-all", Amount: rest})
		return err
	})
	l.told.accept("rest-all", rest)
	checkBooks(t, clients[1], name, total, total)
	checkSoldOut(t, clients, name, l.told)
	t.Logf("%d single units were sold around the fail-over", len(l.told.accepted)-1)
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
