package engine

import (
	"database/sql"
	"slices"
	"strings"
	"testing"

	"github.com/go-sql-driver/mysql"

	"github.com/budgetd/budgetd/internal/testservers"
)

// lookAlike is a database on a real server that fails one probe.
type lookAlike struct {
	name, probe, want string
	dsn               string   // parameters of the DSN
	alter             string   // a change of a table that budgetd has made
	session           []string // settings of the connections that differ from budgetd's
	changedRows       bool
}

var lookAlikes = []lookAlike{
	{name: "CHECK is off", probe: "check", want: "MariaDB: check_constraint_checks=ON",
		dsn: "?check_constraint_checks=0"},
	{name: "tables without transactions", probe: "rollback", want: "default_storage_engine=InnoDB",
		alter: "ALTER TABLE sequence ENGINE=Aria"},
	{name: "tables without locks of rows", probe: "locks", want: "tidb_enable_shared_lock_promotion=ON",
		alter: "ALTER TABLE sequence ENGINE=Aria"},
	{name: "a column is not generated", probe: "generated column", want: "an empty database of MySQL",
		alter: "ALTER TABLE quarantine MODIFY is_held BIGINT"},
	{name: "changed rows are counted", probe: "found rows", want: "CLIENT_FOUND_ROWS", changedRows: true},
	{name: "READ UNCOMMITTED", probe: "isolation", want: "transaction_isolation=READ-COMMITTED",
		session: []string{"SET SESSION TRANSACTION ISOLATION LEVEL READ UNCOMMITTED"}},
	{name: "REPEATABLE READ", probe: "isolation", want: "transaction_isolation=READ-COMMITTED",
		session: []string{"SET SESSION TRANSACTION ISOLATION LEVEL REPEATABLE READ"}},
	{name: "SERIALIZABLE", probe: "isolation", want: "transaction_isolation=READ-COMMITTED",
		session: []string{"SET SESSION TRANSACTION ISOLATION LEVEL SERIALIZABLE",
			"SET SESSION innodb_lock_wait_timeout = 0"}},
}

// TestLookAlikesAreRefused checks that the self-test refuses a server on which a probe fails, names
// the setting to change, and leaves no row. It covers every probe.
func TestLookAlikesAreRefused(t *testing.T) {
	server := testservers.SharedMariaDB(t)
	for _, c := range lookAlikes {
		t.Run(c.name, func(t *testing.T) {
			dsn := server.NewDatabase(t)
			mustOpen(t, Config{Driver: "mysql", DSN: dsn}) // makes the tables
			admin := foreign(t, "mysql", dsn)
			if c.alter != "" {
				do(t, admin, c.alter)
			}
			err := c.try(t, dsn+c.dsn)
			if err == nil || !strings.Contains(err.Error(), c.want) ||
				!strings.Contains(err.Error(), "cannot rely on this database server") {
				t.Errorf("%v, want an error that names %q", err, c.want)
			}
			if c.probe == "locks" {
				return // the test made the row, not the probe
			}
			var left int
			if err := admin.QueryRowContext(t.Context(), countProbe).Scan(&left); err != nil || left != 0 {
				t.Errorf("%d rows are left, %v", left, err)
			}
		})
	}
	for _, p := range probes {
		if !slices.ContainsFunc(lookAlikes, func(c lookAlike) bool { return c.probe == p.name }) {
			t.Errorf("no look-alike fails the probe %q", p.name)
		}
	}
}

// try opens the database, where budgetd's own connections show the difference, or runs the probe on
// connections that do.
func (c lookAlike) try(t *testing.T, dsn string) error {
	t.Helper()
	if c.session == nil && !c.changedRows && c.probe != "locks" {
		db, err := Open(t.Context(), Config{Driver: "mysql", DSN: dsn})
		if err == nil {
			_ = db.Close()
		}
		return err
	}
	parsed, err := parseDSN(dsn)
	if err != nil {
		t.Fatal(err)
	}
	parsed.ClientFoundRows = !c.changedRows
	inner, err := mysql.NewConnector(parsed)
	if err != nil {
		t.Fatal(err)
	}
	settings := slices.Concat([]string{isolation, servingSession}, c.session)
	raw := sql.OpenDB(&connector{Connector: inner, settings: settings})
	defer raw.Close()
	if c.probe != "locks" {
		return selfTest(t.Context(), raw, "", "")
	}
	// The probes before it fail as well, so it runs alone, on an existing row.
	var conns [2]*sql.Conn
	for i := range conns {
		if conns[i], err = raw.Conn(t.Context()); err != nil {
			t.Fatal(err)
		}
		defer conns[i].Close()
	}
	do(t, conns[first], insertProbe)
	i := slices.IndexFunc(probes, func(p probe) bool { return p.name == "locks" })
	return probes[i].run(t.Context(), conns)
}

// TestVitessIsAskedForItsShards checks that the self-test refuses a server that reports Vitess but
// not its number of shards.
func TestVitessIsAskedForItsShards(t *testing.T) {
	db := openMariaDB(t, nil)
	err := selfTest(t.Context(), db.writers.(*serverPool).db.DB, "8.0.30-Vitess", "shop")
	if err == nil || !strings.Contains(err.Error(), "does not say how many shards") {
		t.Error(err)
	}
}
