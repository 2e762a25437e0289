//go:build galera

// Three Galera servers are too much for a busy machine, so only "make failover" runs this file.

package e2e

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/budgetd/budgetd/budget"
	"github.com/budgetd/budgetd/client"
	"github.com/budgetd/budgetd/internal/proof/testservers"
)

// joinScript replaces the script with which a Galera server copies the data of another one. Here
// all servers begin with the same data, and later writes are sent without the script.
const joinScript = `#!/bin/sh
case "$*" in
*joiner*) echo "ready 127.0.0.1:1/nothing"; echo "%[1]s" ;;
*) echo continue; echo "done %[1]s" ;;
esac
`

var savedState = regexp.MustCompile(`uuid:\s+(\S+)\s+seqno:\s+(\d+)`)

// galeraArgs are the arguments of one server of a Galera cluster.
func galeraArgs(t *testing.T, addr, others string) testservers.MariaDBOption {
	t.Helper()
	var libraries []string
	for _, dir := range []string{"/usr/lib/galera", "/usr/lib64/galera-4", "/usr/lib64/galera"} {
		found, err := filepath.Glob(dir + "/libgalera_*smm.so")
		must(t, err)
		libraries = append(libraries, found...)
	}
	if len(libraries) == 0 {
		t.Fatal("Galera's library is missing: install galera-4, on which mariadb-server of Debian depends")
	}
	return testservers.MariaDBArgs("--wsrep-on=ON", "--wsrep-provider="+libraries[0], "--binlog-format=ROW",
		"--innodb-autoinc-lock-mode=2", "--wsrep-cluster-name=drill", "--wsrep-sst-method=drill",
		"--wsrep-node-address=127.0.0.1", "--wsrep-cluster-address=gcomm://"+others,
		fmt.Sprintf("--wsrep-provider-options=gmcast.listen_addr=tcp://%s;ist.recv_addr=127.0.0.1:%d;gcache.size=32M",
			addr, freePort(t)))
}

// galera starts a cluster of three servers that begin with the same data.
func galera(t *testing.T) (servers []*sqlServer) {
	t.Helper()
	first := testservers.MariaDB(t, galeraArgs(t, fmt.Sprintf("127.0.0.1:%d", freePort(t)), ""))
	must(t, first.Stop())
	state, err := os.ReadFile(filepath.Join(first.Dir(), "data", "grastate.dat"))
	must(t, err)
	position := savedState.FindStringSubmatch(string(state))
	if position == nil {
		t.Fatalf("the server has no position:\n%s\n%s", state, first.Log())
	}
	bin := t.TempDir()
	must(t, os.WriteFile(filepath.Join(bin, "wsrep_sst_drill"),
		fmt.Appendf(nil, joinScript, position[1]+":"+position[2]), 0o700))
	t.Setenv("PATH", bin+":"+os.Getenv("PATH"))
	var addrs []string
	for i := range 3 {
		dir := t.TempDir()
		must(t, os.CopyFS(filepath.Join(dir, "data"), os.DirFS(filepath.Join(first.Dir(), "data"))))
		must(t, os.Remove(filepath.Join(dir, "data", "galera.cache")))
		addr := fmt.Sprintf("127.0.0.1:%d", freePort(t))
		ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
		server, err := testservers.StartMariaDB(ctx, dir, galeraArgs(t, addr, strings.Join(addrs, ",")))
		cancel()
		must(t, err)
		addrs = append(addrs, addr)
		s := &sqlServer{t: t, MariaDBServer: server}
		t.Cleanup(func() {
			if t.Failed() {
				t.Logf("log of server %d:\n%s", i, tail(s.Log()))
			}
			_ = s.Kill()
		})
		s.db = s.Connect(t)
		s.awaitCluster(i + 1)
		servers = append(servers, s)
	}
	return servers
}

// awaitCluster waits until the server belongs to a cluster of that size and has all its writes.
func (s *sqlServer) awaitCluster(size int) {
	s.t.Helper()
	s.awaitValue("SHOW STATUS LIKE 'wsrep_cluster_status'", "Value", "Primary")
	s.awaitValue("SHOW STATUS LIKE 'wsrep_cluster_size'", "Value", fmt.Sprint(size))
	s.awaitValue("SHOW STATUS LIKE 'wsrep_local_state_comment'", "Value", "Synced")
	eventually(s.t, time.Minute, "a read that waits for all writes", func() error {
		conn, err := s.db.Conn(context.Background())
		if err != nil {
			return err
		}
		defer conn.Close()
		if _, err := conn.ExecContext(context.Background(), "SET SESSION wsrep_sync_wait = 1"); err != nil {
			return err
		}
		var one int
		return conn.QueryRowContext(context.Background(), "SELECT 1").Scan(&one)
	})
}

// TestGaleraWriterIsReplaced kills under load the one server of a Galera cluster of three that
// budgetd uses. Another one takes its place once the cluster continues without it. Then the third
// one is killed, so that the last one refuses everything: calls must be answered as unavailable.
func TestGaleraWriterIsReplaced(t *testing.T) {
	const calls = 3
	servers := galera(t)
	world, proxy := behind(t, servers[0])
	hotThroughFailOver(t, world, func() {
		must(t, servers[0].Kill())
		servers[1].awaitCluster(2)
		proxy.SetTarget(servers[1].Addr())
	})
	c, writer := world.start(t).client(), servers[1]
	create(t, c, "alone", 100, 4)
	deduct := func(id string) *client.Problem {
		_, err := c.Deduct(t.Context(), "alone", client.DeductRequest{RequestID: id, Amount: 1})
		return problem(err)
	}
	must(t, servers[2].Kill())
	writer.awaitValue("SHOW STATUS LIKE 'wsrep_cluster_status'", "Value", "non-Primary")
	for i := range calls {
		if p := deduct(fmt.Sprint("alone-", i)); p.Code != budget.Unavailable || p.Reason != budget.ReasonDatabaseDown {
			t.Errorf("on a server without its cluster: %+v", p)
		}
	}
	writer.Execute(t, "SET GLOBAL wsrep_provider_options = 'pc.bootstrap=YES'")
	for i := range calls {
		eventually(t, time.Minute, "calls are served again", func() error {
			if p := deduct(fmt.Sprint("alone-", i)); p.Code != "" {
				return fmt.Errorf("%+v", p)
			}
			return nil
		})
	}
	checkBooks(t, c, "alone", 100, calls)
}
