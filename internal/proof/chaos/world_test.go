package chaos

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/budgetd/budgetd/client"
	"github.com/budgetd/budgetd/internal/proof/testservers"
)

// stores is the number of Redis in a world.
const stores = 3

// World is a whole installation of real processes: MariaDB, three Redis, several budgetd. Every
// connection between them and from callers goes through a proxy. Only one goroutine may use it,
// except for Clients and Rows.
type World struct {
	// Dir holds the logs of all processes; it is kept if the test fails.
	Dir     string
	MariaDB *testservers.MariaDBServer
	// SQL are two proxies in series between the nodes and MariaDB, so that two disturbances can be
	// combined. Stores[i] is between the nodes and Redis[i].
	SQL    [2]*testservers.Proxy
	Redis  []*testservers.RedisServer
	Stores []*testservers.Proxy
	Nodes  []*Node
	// Clients call the nodes through their proxies, without retries of their own.
	Clients []*client.Client
	// Rows is a connection to the ledger without a proxy, for checks.
	Rows *sql.DB
}

// attemptTimeout is how long a caller waits for one answer. It exceeds the service's own deadline,
// so that a healthy installation answers every call.
const attemptTimeout = 4 * time.Second

// New starts a world with a number of nodes. fsync says when its Redis flush their logs
// (testservers.AppendOnly). more are lines of the nodes' configuration. The world ends with tb. If
// tb fails, the directory with the logs is kept and its name is logged. Any failure is fatal.
func New(tb testing.TB, nodes int, fsync string, more ...string) *World {
	tb.Helper()
	return newOn(tb, testservers.MariaDB(tb), nodes, fsync, more...)
}

// newOn starts a world on a MariaDB that runs.
func newOn(
	tb testing.TB, server *testservers.MariaDBServer, nodes int, fsync string, more ...string,
) *World {
	tb.Helper()
	dir, err := os.MkdirTemp("", "budgetd-chaos-")
	if err != nil {
		tb.Fatal(err)
	}
	w := &World{Dir: dir, MariaDB: server}
	w.SQL[1] = testservers.NewProxy(tb, w.MariaDB.Addr())
	w.SQL[0] = testservers.NewProxy(tb, w.SQL[1].Addr())
	for range stores {
		r := testservers.Redis(tb, testservers.AppendOnly(fsync),
			testservers.RedisArgs("--repl-diskless-sync-delay", "0"))
		w.Redis = append(w.Redis, r)
		w.Stores = append(w.Stores, testservers.NewProxy(tb, r.Addr()))
	}
	direct := w.MariaDB.NewDatabase(tb)
	tb.Cleanup(func() { w.end(tb) }) // runs before the servers' own clean-up, which removes their logs
	if w.Rows, err = sql.Open("mysql", direct+"?readTimeout=60s&timeout=30s"); err != nil {
		tb.Fatal(err)
	}
	config := filepath.Join(dir, "budgetd.yaml")
	behind := strings.Replace(direct, w.MariaDB.Addr(), w.SQL[0].Addr(), 1)
	if err := os.WriteFile(config,
		[]byte(w.config(behind, fsync == "always")+strings.Join(more, "\n")),
		0o600); err != nil {
		tb.Fatal(err)
	}
	for i := range nodes {
		programs := []string{testservers.Program(tb, "budgetd")}
		if *other != "" { // every second node starts with the other version
			programs = slices.Insert(programs, 1-i%2, *other)
		}
		n, err := newNode(fmt.Sprintf("node-%d", i), dir, programs, "--config", config)
		if err != nil {
			tb.Fatal(err)
		}
		w.Nodes = append(w.Nodes, n)
		if err := n.Start(); err != nil {
			tb.Fatal(err)
		}
		c, err := client.New("http://"+n.proxy.Addr(), client.WithRetry(client.Retry{Attempts: 1,
			AttemptTimeout: attemptTimeout}))
		if err != nil {
			tb.Fatal(err)
		}
		w.Clients = append(w.Clients, c)
	}
	return w
}

// config returns the nodes' configuration, with default settings. durable says that a Redis keeps
// over a restart all that it has answered.
func (w *World) config(dsn string, durable bool) string {
	var text strings.Builder
	fmt.Fprintf(&text, "database:\n  driver: mysql\n  dsn: %q\ninstances:\n", dsn)
	for i, p := range w.Stores {
		fmt.Fprintf(&text, "  - name: redis-%d\n    driver: redis\n    addrs: [%q]\n"+
			"    durable: %t\n", i, p.Addr(), durable)
	}
	return text.String()
}

// Restore undoes every fault: it lets all proxies pass everything and starts every process.
func (w *World) Restore() error {
	var all []error
	pass := func(p *testservers.Proxy) { all = append(all, p.Set(testservers.Rule{})) }
	revive := func(s *testservers.Server) {
		if s.Pid() == 0 {
			all = append(all, s.Restart())
			return
		}
		all = append(all, s.Resume())
	}
	revive(w.MariaDB.Server)
	pass(w.SQL[1])
	pass(w.SQL[0])
	for i, r := range w.Redis {
		revive(r.Server)
		pass(w.Stores[i])
	}
	for _, n := range w.Nodes {
		if n.running() {
			all = append(all, n.Resume())
		}
		all = append(all, n.Start())
		pass(n.proxy)
	}
	return errors.Join(all...)
}

// end stops the nodes, searches their logs for errors, and removes the files unless the test
// failed.
func (w *World) end(tb testing.TB) {
	for _, n := range w.Nodes {
		if err := n.Kill(); err != nil {
			tb.Error(err)
		}
		n.proxy.Close()
		for _, bad := range []string{"DATA RACE", "panic:", "panicked", "audit found a discrepancy",
			"the books disagree", "has a gap"} {
			if log := n.logFrom(0); strings.Contains(log, bad) {
				tb.Errorf("%s reports %q", n.LogPath(), bad)
			}
		}
	}
	if w.Rows != nil {
		_ = w.Rows.Close()
	}
	if !tb.Failed() {
		if err := os.RemoveAll(w.Dir); err != nil {
			tb.Error(err)
		}
		return
	}
	w.keep("mariadb", w.MariaDB.Server)
	for i, r := range w.Redis {
		w.keep(fmt.Sprintf("redis-%d", i), r.Server)
	}
	tb.Logf("the logs of all processes: %s", w.Dir)
}

// keep copies a server's log, which is removed with the test, to the world's directory.
func (w *World) keep(name string, s *testservers.Server) {
	_ = os.WriteFile(filepath.Join(w.Dir, name+".log"), []byte(s.Log()), 0o600)
}

// bounded returns a context for one step of a check.
func bounded() (context.Context, context.CancelFunc) {
	return context.WithTimeout(context.Background(), 30*time.Second)
}
