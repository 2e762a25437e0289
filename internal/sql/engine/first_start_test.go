package engine

import (
	"fmt"
	"strings"
	"testing"

	"github.com/go-sql-driver/mysql"

	"github.com/budgetd/budgetd/internal/proof/testservers"
)

// countTables counts the tables of the database of a connection.
const countTables = `SELECT COUNT(*) FROM information_schema.tables WHERE table_schema = DATABASE()`

// TestFirstStartWithoutRights starts on an empty database as a user that may make tables and lacks
// another right. The start names the right and makes nothing, and the next one, with it, continues.
func TestFirstStartWithoutRights(t *testing.T) {
	server := testservers.SharedMariaDB(t)
	for _, lacks := range []string{"INSERT", "UPDATE", "DELETE"} {
		t.Run(lacks, func(t *testing.T) {
			dsn := server.NewDatabase(t)
			admin := foreign(t, "mysql", dsn)
			owner, err := mysql.ParseDSN(dsn)
			if err != nil {
				t.Fatal(err)
			}
			user := testservers.UniqueName()
			rights := strings.Replace("SELECT, INSERT, UPDATE, DELETE, CREATE, INDEX", ", "+lacks, "", 1)
			do(t, admin, fmt.Sprintf("CREATE USER %s@'%%' IDENTIFIED BY 'pass'", user),
				fmt.Sprintf("GRANT %s ON %s.* TO %s@'%%'", rights, owner.DBName, user))
			t.Cleanup(func() { do(t, admin, fmt.Sprintf("DROP USER %s@'%%'", user)) })
			as := owner.Clone()
			as.User, as.Passwd = user, "pass"
			if _, err := Open(t.Context(), Config{Driver: "mysql", DSN: as.FormatDSN()}); err == nil ||
				!strings.Contains(err.Error(), "the user may not "+lacks) || !strings.Contains(err.Error(), "GRANT SELECT, INSERT") {
				t.Errorf("%v", err)
			}
			var n int
			if err := admin.QueryRowContext(t.Context(), countTables).Scan(&n); err != nil || n > 0 {
				t.Errorf("%d tables were made, %v", n, err)
			}
			do(t, admin, fmt.Sprintf("GRANT %s ON %s.* TO %s@'%%'", lacks, owner.DBName, user))
			mustOpen(t, Config{Driver: "mysql", DSN: as.FormatDSN()})
		})
	}
}

// TestFirstStartWithStatements starts on an empty database of a server with binlog_format=STATEMENT,
// which refuses every transaction of budgetd, and again after the format was changed.
func TestFirstStartWithStatements(t *testing.T) {
	server := testservers.MariaDB(t, testservers.MariaDBArgs("--log-bin=log", "--binlog-format=STATEMENT", "--server-id=1"))
	dsn := server.NewDatabase(t)
	admin := foreign(t, "mysql", dsn)
	_, err := Open(t.Context(), Config{Driver: "mysql", DSN: dsn})
	if err == nil || !strings.Contains(err.Error(), "binlog_format of the database server is STATEMENT") {
		t.Errorf("%v", err)
	}
	var n int
	if err := admin.QueryRowContext(t.Context(), countTables).Scan(&n); err != nil || n > 0 {
		t.Errorf("%d tables were made, %v", n, err)
	}
	do(t, admin, "SET GLOBAL binlog_format = ROW")
	mustOpen(t, Config{Driver: "mysql", DSN: dsn})
}

// TestStartAfterAnInterruptedFirstOne starts on a database whose first start made the table of
// versions and ended before its first row, as on a full disk.
func TestStartAfterAnInterruptedFirstOne(t *testing.T) {
	dsn := testservers.SharedMariaDB(t).NewDatabase(t)
	do(t, foreign(t, "mysql", dsn), `CREATE TABLE `+versionTable+` (id serial NOT NULL, version_id bigint NOT NULL,
		is_applied boolean NOT NULL, tstamp timestamp NULL default now(), PRIMARY KEY(id))`)
	mustOpen(t, Config{Driver: "mysql", DSN: dsn})
	mustOpen(t, Config{Driver: "mysql", DSN: dsn})
}
