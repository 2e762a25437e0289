package testservers

import (
	"database/sql"
	"fmt"
	"os"
	"strings"
	"testing"
)

// query returns one value from a database, as text.
func query(t *testing.T, dsn, statement string) string {
	t.Helper()
	db, err := sql.Open("mysql", dsn)
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	var value string
	if err := db.QueryRow(statement).Scan(&value); err != nil {
		t.Fatalf("%s: %v", statement, err)
	}
	return value
}

// execute runs statements on a database.
func execute(t *testing.T, dsn string, statements ...string) {
	t.Helper()
	db, err := sql.Open("mysql", dsn)
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	for _, statement := range statements {
		if _, err := db.Exec(statement); err != nil {
			t.Fatalf("%s: %v", statement, err)
		}
	}
}

func TestMariaDBRestart(t *testing.T) {
	server := MariaDB(t)
	dsn := server.NewDatabase(t)
	execute(t, dsn, "CREATE TABLE kept (n INT) ENGINE=InnoDB", "INSERT INTO kept VALUES (7)")
	ends := []struct {
		name string
		end  func(*MariaDBServer) error
	}{
		{"killed", (*MariaDBServer).Kill},
		{"stopped", (*MariaDBServer).Stop},
		{"still running", func(*MariaDBServer) error { return nil }},
	}
	for _, tt := range ends {
		pid, addr := server.Pid(), server.Addr()
		if err := tt.end(server); err != nil {
			t.Fatal(err)
		}
		if err := server.Restart(); err != nil {
			t.Fatal(err)
		}
		if server.Pid() == pid || server.Pid() == 0 || server.Addr() != addr {
			t.Errorf("%s: process %d at %s after %d at %s", tt.name, server.Pid(), server.Addr(),
				pid, addr)
		}
		if got := query(t, dsn, "SELECT n FROM kept"); got != "7" {
			t.Errorf("%s: got %s, want 7", tt.name, got)
		}
	}
}

func TestMariaDBSettings(t *testing.T) {
	tests := []struct {
		name    string
		options []MariaDBOption
		want    string
	}{
		{"default", nil, "1 OFF 400"},
		{"relaxed, with binlog", []MariaDBOption{
			FlushLogAtTrxCommit(2), Binlog(), MariaDBArgs("--max-connections=50", "--port=1"),
		}, "2 ON 50"},
	}
	const settings = `SELECT concat_ws(' ', @@innodb_flush_log_at_trx_commit,
		(SELECT variable_value FROM information_schema.global_variables
		WHERE variable_name = 'LOG_BIN'), @@max_connections)`
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			server := MariaDB(t, tt.options...)
			if got := query(t, server.DSN(""), settings); got != tt.want {
				t.Errorf("got %q, want %q", got, tt.want)
			}
		})
	}
}

// TestSharedMariaDB checks that all tests share one server, and that a test's databases are dropped
// with the test.
func TestSharedMariaDB(t *testing.T) {
	server := SharedMariaDB(t)
	var dsns []string
	t.Run("two databases", func(t *testing.T) {
		if SharedMariaDB(t) != server {
			t.Error("a second server")
		}
		dsns = []string{server.NewDatabase(t), server.NewDatabase(t)}
		for _, dsn := range dsns {
			execute(t, dsn, "CREATE TABLE same_name (n INT)")
		}
	})
	left := fmt.Sprintf("SELECT count(*) FROM information_schema.schemata"+
		" WHERE schema_name LIKE 'test_t%dn%%'", os.Getpid())
	if got := query(t, server.DSN(""), left); got != "0" {
		t.Errorf("%s databases left of %v", got, dsns)
	}
}

func TestMariaDBRefusesToStart(t *testing.T) {
	_, err := StartMariaDB(t.Context(), t.TempDir(), MariaDBArgs("--no-such-setting=1"))
	if err == nil || !strings.Contains(err.Error(), "no-such-setting") {
		t.Errorf("got %v, want the server's message", err)
	}
}

func TestFindBinarySaysWhatToInstall(t *testing.T) {
	_, err := findBinary("no-such-server", "some-package")
	if err == nil || !strings.Contains(err.Error(), "some-package") {
		t.Errorf("got %v, want the package's name", err)
	}
}

// TestKillConnections checks that the sessions of all clients end, their open transactions are
// rolled back, and the server continues.
func TestKillConnections(t *testing.T) {
	server := MariaDB(t)
	dsn := server.NewDatabase(t)
	db, err := sql.Open("mysql", dsn)
	mustDo(t, err)
	defer db.Close()
	_, err = db.Exec("CREATE TABLE kept (n INT PRIMARY KEY)")
	mustDo(t, err)
	tx, err := db.Begin()
	mustDo(t, err)
	_, err = tx.Exec("INSERT INTO kept VALUES (1)")
	mustDo(t, err)
	if n, err := server.KillConnections(); err != nil || n < 1 {
		t.Fatalf("ended %d, %v", n, err)
	}
	if err := tx.Commit(); err == nil {
		t.Error("the transaction was committed")
	}
	var n int
	if err := db.QueryRow("SELECT COUNT(*) FROM kept").Scan(&n); err != nil || n != 0 {
		t.Errorf("%d rows, %v", n, err)
	}
}
