package e2e

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/budgetd/budgetd/client"
	"github.com/budgetd/budgetd/internal/proof/testservers"
)

// sqlServer is one MariaDB of a replicated group.
type sqlServer struct {
	*testservers.MariaDBServer
	t  *testing.T
	db *sql.DB
}

func newSQLServer(t *testing.T, args ...string) *sqlServer {
	t.Helper()
	s := &sqlServer{t: t, MariaDBServer: testservers.MariaDB(t, testservers.Binlog(),
		testservers.MariaDBArgs(append([]string{"--log-slave-updates"}, args...)...))}
	s.db = s.Connect(t)
	return s
}

// value returns one column of the first row of a statement.
func (s *sqlServer) value(statement, column string) (string, error) {
	rows, err := s.db.Query(statement)
	if err != nil {
		return "", err
	}
	defer rows.Close()
	names, err := rows.Columns()
	if err != nil {
		return "", err
	}
	if !rows.Next() {
		return "", errors.Join(fmt.Errorf("%s: no row", statement), rows.Err())
	}
	values, into := make([]sql.NullString, len(names)), make([]any, len(names))
	for i := range values {
		into[i] = &values[i]
	}
	if err := rows.Scan(into...); err != nil {
		return "", err
	}
	for i, name := range names {
		if name == column {
			return values[i].String, rows.Err()
		}
	}
	return "", fmt.Errorf("%s has no column %s", statement, column)
}

// awaitValue waits until a column has a value.
func (s *sqlServer) awaitValue(statement, column, want string) {
	s.t.Helper()
	eventually(s.t, time.Minute, column+" is "+want, func() error {
		if got, err := s.value(statement, column); err != nil || got != want {
			return fmt.Errorf("%q, %v", got, err)
		}
		return nil
	})
}

// follow makes the server a replica whose acknowledgement the writer waits for.
func (s *sqlServer) follow(writer *sqlServer) {
	s.t.Helper()
	s.Execute(s.t, fmt.Sprintf(`CHANGE MASTER TO master_host='127.0.0.1', master_port=%d, master_user='root',
		master_use_gtid=slave_pos, master_connect_retry=1`, writer.Port()), "START SLAVE")
	s.awaitValue("SHOW STATUS LIKE 'Rpl_semi_sync_slave_status'", "Value", "ON")
}

// received stops replication and returns how many transactions a replica has received from the
// writer, once they are applied.
func (s *sqlServer) received() (n int) {
	s.t.Helper()
	s.Execute(s.t, "STOP SLAVE IO_THREAD")
	position, err := s.value("SHOW SLAVE STATUS", "Gtid_IO_Pos")
	must(s.t, err)
	s.awaitValue(fmt.Sprintf("SELECT MASTER_GTID_WAIT('%s', 10) AS waited", position), "waited", "0")
	var domain, server int
	_, err = fmt.Sscanf(position, "%d-%d-%d", &domain, &server, &n)
	must(s.t, err)
	return n
}

// behind returns a configuration for nodes that reach the SQL server through a proxy. Their user
// has the rights of docs/OPERATIONS.md, so read_only applies to it.
func behind(t *testing.T, writer *sqlServer) (*cluster, *testservers.Proxy) {
	t.Helper()
	writer.Execute(t, "CREATE DATABASE budgetd", "CREATE USER budgetd@'%' IDENTIFIED BY 'drill'",
		"GRANT SELECT, INSERT, UPDATE, DELETE, CREATE, INDEX ON budgetd.* TO budgetd@'%'")
	proxy := testservers.NewProxy(t, writer.Addr())
	c := &cluster{text: fmt.Sprintf(`database:
  driver: mysql
  dsn: "budgetd:drill@tcp(%s)/budgetd"
`, proxy.Addr())}
	c.config = writeConfig(t, c.text)
	return c, proxy
}

// hotThroughFailOver lets callers deduct from one budget in ledger mode through two nodes during a
// fail-over of the SQL server. What
// was accepted must be in the ledger once, and all other units must be sold to the last one.
func hotThroughFailOver(t *testing.T, world *cluster, failOver func()) {
	const total, callers, name = 1_000_000, 16, "hot"
	nodes := []*node{world.start(t), world.start(t)}
	clients := []*client.Client{nodes[0].client(), nodes[1].client()}
	create(t, clients[0], name, total, 16)
	l := world.load(t, nodes, name, callers)
	l.more(t, 500)
	failOver()
	l.more(t, 500)
	l.end()
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

// TestSQLWriterIsReplaced kills a MariaDB with two semi-synchronous replicas under load. A commit
// waits for one replica. The replica with more transactions becomes the writer, and the other
// follows it. What callers were told must be in the ledger once (I1-I5).
func TestSQLWriterIsReplaced(t *testing.T) {
	servers := make([]*sqlServer, 3)
	for i := range servers {
		servers[i] = newSQLServer(t, fmt.Sprint("--server-id=", i+1), "--relay-log=relay", "--gtid-strict-mode=ON",
			"--rpl-semi-sync-slave-enabled=ON", "--rpl-semi-sync-master-wait-point=AFTER_SYNC",
			"--rpl-semi-sync-master-timeout=4294967295", "--rpl-semi-sync-master-wait-no-slave=ON")
	}
	writer, next := servers[0], (*sqlServer)(nil)
	writer.acknowledged(servers[1], servers[2])
	world, proxy := behind(t, writer)
	hotThroughFailOver(t, world, func() {
		writer.awaitValue(withoutReplica, "Value", "0")
		must(t, writer.Kill())
		other := servers[2]
		next = servers[1]
		if next.received() < other.received() {
			next, other = other, next
		}
		for _, r := range servers[1:] {
			r.Execute(t, "STOP SLAVE", "RESET SLAVE ALL")
		}
		next.acknowledged(other)
		next.Execute(t, "SET GLOBAL read_only = 0")
		proxy.SetTarget(next.Addr())
	})
	next.awaitValue(withoutReplica, "Value", "0")
}

// withoutReplica counts the commits for which the writer did not wait.
const withoutReplica = "SHOW STATUS LIKE 'Rpl_semi_sync_master_no_tx'"

// acknowledged makes the server a writer whose commits wait for one of the replicas.
func (s *sqlServer) acknowledged(replicas ...*sqlServer) {
	s.t.Helper()
	s.Execute(s.t, "SET GLOBAL rpl_semi_sync_master_enabled = ON")
	for _, r := range replicas {
		r.Execute(s.t, "SET GLOBAL read_only = 1")
		r.follow(s)
	}
	s.awaitValue("SHOW STATUS LIKE 'Rpl_semi_sync_master_clients'", "Value", fmt.Sprint(len(replicas)))
	s.awaitValue("SHOW STATUS LIKE 'Rpl_semi_sync_master_status'", "Value", "ON")
}
