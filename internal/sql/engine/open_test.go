package engine

import (
	"context"
	"database/sql"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/budgetd/budgetd"
	"github.com/budgetd/budgetd/internal/proof/testservers"
)

func TestFileIsPrivate(t *testing.T) {
	path := filepath.Join(t.TempDir(), "new", "data", "budgetd.db")
	db := mustOpen(t, Config{Driver: "sqlite", DSN: path})
	if err := write(t, db); err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]os.FileMode{
		filepath.Dir(path): 0o700, path: 0o600, path + "-wal": 0o600, path + ".lock": 0o600,
	} {
		info, err := os.Stat(name)
		if err != nil {
			t.Fatal(err)
		}
		if got := info.Mode().Perm(); got != want {
			t.Errorf("%s has mode %o, want %o", name, got, want)
		}
	}
}

func TestFileIsForOneProcess(t *testing.T) {
	path := filepath.Join(t.TempDir(), "budgetd.db")
	first, err := Open(t.Context(), Config{Driver: "sqlite", DSN: path})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := Open(t.Context(), Config{Driver: "sqlite", DSN: path}); err == nil ||
		!strings.Contains(err.Error(), path) || !strings.Contains(err.Error(), "another budgetd") {
		t.Errorf("second open: %v", err)
	}
	link := filepath.Join(t.TempDir(), "link.db")
	if err := os.Symlink(path, link); err != nil {
		t.Fatal(err)
	}
	if _, err := Open(t.Context(), Config{Driver: "sqlite", DSN: link}); err == nil {
		t.Error("the file was opened a second time through a link")
	}
	id := first.InstallationID()
	if !regexp.MustCompile(`^[0-9a-f]{32}$`).MatchString(id) {
		t.Errorf("installation id %q", id)
	}
	if err := first.Close(); err != nil {
		t.Fatal(err)
	}
	if again := mustOpen(t, Config{Driver: "sqlite", DSN: path}); again.InstallationID() != id {
		t.Errorf("installation id %s became %s", id, again.InstallationID())
	}
}

// TestOddFileNames checks that any characters may occur in the path.
func TestOddFileNames(t *testing.T) {
	for _, name := range []string{"a?mode=memory", "b#c", "d%20e", "f g&h=i", "ä"} {
		path := filepath.Join(t.TempDir(), name)
		mustOpen(t, Config{Driver: "sqlite", DSN: path})
		if info, err := os.Stat(path); err != nil || info.Size() == 0 {
			t.Errorf("%s: %v", path, err)
		}
	}
}

func TestConfigErrors(t *testing.T) {
	notAFile := t.TempDir()
	junk := filepath.Join(notAFile, "junk")
	if err := os.WriteFile(junk, []byte(strings.Repeat("not a database ", 1000)), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, test := range []struct{ driver, dsn, want string }{
		{"", "x", "database.driver"},
		{"postgres", "x", "database.driver"},
		{"sqlite", "", "must be the path of a file"},
		{"sqlite", ":memory:", "must be the path of a file"},
		{"sqlite", "file:x", "must be the path of a file"},
		{"sqlite", notAFile, "is a directory"},
		{"sqlite", junk, junk},
		{"mysql", "", "names no database"},
		{"mysql", "root@tcp(127.0.0.1:1)/", "names no database"},
		{"mysql", "root@tcp(127.0.0.1:1)", "database.dsn"},
		{"mysql", "root@tcp(127.0.0.1:1)/b?multiStatements=1", "multiStatements"},
		{"mysql", "root@tcp(127.0.0.1:1)/b?tls=false&clientFoundRows=false", "clientFoundRows"},
		{"mysql", "root@tcp(127.0.0.1:1)/b?rejectReadOnly=false", "rejectReadOnly"},
		{"mysql", "root@tcp(127.0.0.1:1)/b?sql_mode=''", "sql_mode"},
		{"mysql", "root@tcp(127.0.0.1:1)/b?wait_timeout=28800", "wait_timeout"},
		{"mysql", "root@tcp(127.0.0.1:1)/b?strict=true", "strict"},
		{"mysql", "root@tcp(127.0.0.1:1)/b", "unavailable: connect to the database b at 127.0.0.1:1"},
	} {
		_, err := Open(t.Context(), Config{Driver: test.driver, DSN: test.dsn})
		if err == nil || !strings.Contains(err.Error(), test.want) {
			t.Errorf("%s %q: error %v, want one that names %q", test.driver, test.dsn, err, test.want)
		}
	}
	for _, mistyped := range []string{"u:MARKER/d", "u:p@MARKER/d", "u:MARKER#tcp(h:1)/d", "u:MARKER@tcp(h:1)", "u:MARKER@tcp(h:1/d",
		"u:p?tls=MARKER@tcp(h:1)", "u:p/x?tls=MARKER@tcp(h:1)"} { // a password lies where something else is looked for
		if err := CheckDSN(mistyped); err == nil || strings.Contains(err.Error(), "MARKER") {
			t.Errorf("%s: %v", mistyped, err)
		}
	}
	for _, dsn := range []string{
		"root@tcp(h:1)/b", "u:p/w?x=y@tcp(h:1)/b?tls=skip-verify&timeout=1s",
		"root@tcp(h:1)/b?clientFoundRows=true&parseTime=false&multiStatements=0",
		"root@tcp(h:1)/b?charset=utf8mb4&parseTime=True&loc=Local", // as in every tutorial
	} {
		if _, err := parseDSN(dsn); err != nil {
			t.Errorf("%s: %v", dsn, err)
		}
	}
}

func TestServerVersions(t *testing.T) {
	for version, ok := range map[string]bool{
		"8.0.15": false, "8.0.16": true, "8.4.2-commercial": true, "5.7.44-log": false, "9.1.0": true,
		"10.5.29-MariaDB": false, "10.6.0-MariaDB": true, "5.5.5-10.11.19-MariaDB-0+deb12u1": true,
		"11.8.1-MariaDB-log": true, "": false, "x": false,
	} {
		if err := checkVersion(version); (err == nil) != ok {
			t.Errorf("%q: %v", version, err)
		}
	}
}

func TestStatements(t *testing.T) {
	got := statements("-- a; b\nCREATE TABLE t ( -- 'x;\n  a BIGINT, -- ;\n" +
		"  b TEXT DEFAULT '--;''`'\n);\n\nCREATE INDEX i ON t (a); CREATE INDEX j ON t (b)\n;\n-- end")
	want := []string{"CREATE TABLE t (\n  a BIGINT,\n  b TEXT DEFAULT '--;''`'\n)",
		"CREATE INDEX i ON t (a)", "CREATE INDEX j ON t (b)"}
	if fmt.Sprintf("%q", got) != fmt.Sprintf("%q", want) {
		t.Errorf("%q\nwant\n%q", got, want)
	}
	for _, text := range statements(budgetd.Schema) {
		if !createTable.MatchString(text) && !createIndex.MatchString(text) {
			t.Errorf("the migration cannot tell whether this was done: %s", text)
		}
	}
}

// TestMigrationInterrupted checks that the next start completes a migration that was killed at any
// statement: MySQL commits each statement by itself.
func TestMigrationInterrupted(t *testing.T) {
	all := statements(budgetd.Schema)
	for _, done := range []int{0, 1, 3, 4, len(all) / 2, len(all) - 1, len(all)} {
		t.Run(fmt.Sprint(done), func(t *testing.T) {
			dsn := testservers.SharedMariaDB(t).NewDatabase(t)
			raw, err := sql.Open("mysql", dsn)
			if err != nil {
				t.Fatal(err)
			}
			defer raw.Close()
			half := &DB{dialect: newMySQLDialect(), clock: time.Now}
			step := half.migration(1, append(all[:done:done], "THE POWER FAILS"))
			if err := half.migrateBy(t.Context(), raw, step); err == nil {
				t.Fatal("the power did not fail")
			}
			db := mustOpen(t, Config{Driver: "mysql", DSN: dsn})
			if err := write(t, db); err != nil {
				t.Error(err)
			}
			wantSchema(t, raw)
		})
	}
}

// wantSchema fails unless every table and index exists.
func wantSchema(t *testing.T, raw *sql.DB) {
	t.Helper()
	for _, text := range statements(budgetd.Schema) {
		if there, err := made(t.Context(), raw, text); err != nil || !there {
			t.Errorf("missing (%v): %s", err, text)
		}
	}
}

// TestStartsAtOnce starts several nodes on one empty database.
func TestStartsAtOnce(t *testing.T) {
	dsn := testservers.SharedMariaDB(t).NewDatabase(t)
	var mu sync.Mutex
	var all sync.WaitGroup
	ids := map[string]int{}
	for range 6 {
		all.Go(func() {
			db, err := Open(context.Background(), Config{Driver: "mysql", DSN: dsn, PoolSize: 2})
			if err != nil {
				t.Error(err)
				return
			}
			mu.Lock()
			ids[db.InstallationID()]++
			mu.Unlock()
			if err := db.Close(); err != nil {
				t.Error(err)
			}
		})
	}
	all.Wait()
	if len(ids) != 1 {
		t.Errorf("installation ids %v, want one", ids)
	}
}

// onBoth runs a test with a database of either engine, given as a path or a DSN.
func onBoth(t *testing.T, test func(t *testing.T, config Config, raw *sql.DB)) {
	t.Run("sqlite", func(t *testing.T) {
		path := filepath.Join(t.TempDir(), "budgetd.db")
		raw, err := sql.Open("sqlite", path)
		if err != nil {
			t.Fatal(err)
		}
		defer raw.Close()
		test(t, Config{Driver: "sqlite", DSN: path}, raw)
	})
	t.Run("mariadb", func(t *testing.T) {
		dsn := testservers.SharedMariaDB(t).NewDatabase(t)
		raw, err := sql.Open("mysql", dsn)
		if err != nil {
			t.Fatal(err)
		}
		defer raw.Close()
		test(t, Config{Driver: "mysql", DSN: dsn}, raw)
	})
}

func exec(t *testing.T, raw *sql.DB, statements ...string) {
	t.Helper()
	for _, text := range statements {
		if _, err := raw.ExecContext(t.Context(), text); err != nil {
			t.Fatalf("%s: %v", text, err)
		}
	}
}

func TestNewerDatabaseIsRefused(t *testing.T) {
	onBoth(t, func(t *testing.T, config Config, raw *sql.DB) {
		db, err := Open(t.Context(), config)
		if err != nil {
			t.Fatal(err)
		}
		if err := db.Close(); err != nil {
			t.Fatal(err)
		}
		exec(t, raw, "INSERT INTO "+versionTable+" (version_id, is_applied) VALUES (99, 1)")
		_, err = Open(t.Context(), config)
		if err == nil || !strings.Contains(err.Error(), "newer budgetd") {
			t.Errorf("%v", err)
		}
	})
}

// TestStrangeInstallationIsRefused checks that Open refuses a database of another format or ring
// version. The table of partitions had another name in format 3, so nothing may be read from it.
func TestStrangeInstallationIsRefused(t *testing.T) {
	for _, change := range []string{"format = 3", "format = 99", "ring_version = 7"} {
		t.Run(change, func(t *testing.T) {
			onBoth(t, func(t *testing.T, config Config, raw *sql.DB) {
				db, err := Open(t.Context(), config)
				if err != nil {
					t.Fatal(err)
				}
				if err := db.Close(); err != nil {
					t.Fatal(err)
				}
				exec(t, raw, "UPDATE installation SET "+change)
				_, err = Open(t.Context(), config)
				if err == nil || !strings.Contains(err.Error(), "use another database") {
					t.Errorf("%v, want the advice to use another database", err)
				}
			})
		})
	}
}

func TestForeignTablesAreLeftAlone(t *testing.T) {
	onBoth(t, func(t *testing.T, config Config, raw *sql.DB) {
		exec(t, raw, "CREATE TABLE customers (id INT PRIMARY KEY)", "INSERT INTO customers VALUES (7)",
			"CREATE TABLE goose_db_version (id INT PRIMARY KEY, version_id INT)",
			"INSERT INTO goose_db_version VALUES (1, 20250101)")
		mustOpen(t, config)
		var n int
		if err := raw.QueryRow("SELECT COUNT(*) FROM customers").Scan(&n); err != nil || n != 1 {
			t.Errorf("%d customers, %v", n, err)
		}
	})
}

func TestClashingTableIsRefused(t *testing.T) {
	onBoth(t, func(t *testing.T, config Config, raw *sql.DB) {
		exec(t, raw, "CREATE TABLE hold (id INT PRIMARY KEY)")
		if _, err := Open(t.Context(), config); err == nil || !strings.Contains(err.Error(), `"hold"`) {
			t.Errorf("%v", err)
		}
		names, err := (&DB{dialect: dialectOf(config)}).tableNames(t.Context(), raw)
		if err != nil || len(names) != 1 {
			t.Errorf("tables %v, %v: want none of ours", names, err)
		}
	})
}

func dialectOf(config Config) *dialect {
	if config.Driver == sqliteName {
		return newSQLiteDialect()
	}
	return newMySQLDialect()
}

// TestServerSession checks that every serving connection has the settings on which the ledger
// relies.
func TestServerSession(t *testing.T) {
	db := openMariaDB(t, time.Now)
	err := db.Read(t.Context(), "test", func(r *Reader) error {
		var got struct {
			Isolation string `db:"isolation"`
			Wait      int    `db:"wait"`
			LockWait  int    `db:"lock_wait"`
			Mode      string `db:"mode"`
			Zone      string `db:"zone"`
		}
		_, err := r.Get(&got, `SELECT @@tx_isolation AS isolation, @@wait_timeout AS wait,
			@@innodb_lock_wait_timeout AS lock_wait, @@sql_mode AS mode, @@time_zone AS zone`)
		if got.Isolation != "READ-COMMITTED" || got.Wait != 10 || got.LockWait != 2 ||
			got.Zone != "+00:00" ||
			!strings.Contains(got.Mode, "STRICT_ALL_TABLES") {
			t.Errorf("session %+v", got)
		}
		return err
	})
	if err != nil {
		t.Error(err)
	}
}

// TestClock checks that Now is SQL's clock, however wrong this machine's is.
func TestClock(t *testing.T) {
	for _, wrong := range []time.Duration{0, time.Hour, -3 * time.Hour} {
		db := openMariaDB(t, func() time.Time { return time.Now().Add(wrong) })
		if off := time.Since(db.Now()).Abs(); off > 200*time.Millisecond {
			t.Errorf("a clock off by %s makes Now off by %s", wrong, off)
		}
	}
	at := time.Date(2031, 2, 3, 4, 5, 6, 7_999_999, time.UTC)
	db := openFile(t, func() time.Time { return at })
	if want := at.Truncate(time.Millisecond); !db.Now().Equal(want) {
		t.Errorf("Now is %s, want %s", db.Now(), want)
	}
}

func TestWeaknesses(t *testing.T) {
	server := testservers.MariaDB(t, testservers.FlushLogAtTrxCommit(2))
	db := mustOpen(t, Config{Driver: "mysql", DSN: server.NewDatabase(t)})
	found, err := db.Weaknesses(t.Context())
	if err != nil || len(found) != 1 ||
		!strings.Contains(found[0], "innodb_flush_log_at_trx_commit=2") {
		t.Errorf("%q, %v", found, err)
	}
	for _, safe := range []*DB{openMariaDB(t, nil), openFile(t, nil)} {
		if found, err := safe.Weaknesses(t.Context()); err != nil || found != nil {
			t.Errorf("%q, %v", found, err)
		}
	}
	all := weaknesses(map[string]string{"innodb_flush_log_at_trx_commit": "0", "log_bin": "ON",
		"sync_binlog": "0", "innodb_doublewrite": "OFF", "wsrep_on": "ON"})
	if len(all) != 4 {
		t.Errorf("%q", all)
	}
}

// TestClosed checks that after Close every call returns an error and none blocks.
func TestClosed(t *testing.T) {
	for name, open := range map[string]func(testing.TB, func() time.Time) *DB{
		"sqlite": openFile, "mariadb": openMariaDB,
	} {
		t.Run(name, func(t *testing.T) {
			db := open(t, time.Now)
			if err := db.Close(); err != nil {
				t.Fatal(err)
			}
			if _, err := look(t, db); err == nil {
				t.Error("read from a closed database")
			}
			if err := write(t, db); err == nil {
				t.Error("wrote to a closed database")
			}
		})
	}
}
