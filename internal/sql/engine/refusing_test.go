package engine

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/go-sql-driver/mysql"
	"modernc.org/sqlite"

	"github.com/budgetd/budgetd/budget"
	"github.com/budgetd/budgetd/internal/proof/testservers"
)

// refusesChanges checks a database that refuses changes: each is certainly not done and says why,
// reads go on, and the state ends once changes have been accepted for a while.
func refusesChanges(t *testing.T, db *DB, now *time.Time, breaks, mends func()) {
	t.Helper()
	ok := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	ok(write(t, db))
	if err := db.Refusing(); err != nil {
		t.Errorf("before: %v", err)
	}
	breaks()
	var e *budget.Error
	if err := write(t, db); !errors.As(err, &e) {
		t.Fatalf("a change: %v", err)
	} else if e.Code != budget.Unavailable ||
		e.Reason != budget.ReasonDatabaseDown || !strings.Contains(e.Message, "refuses to work") {
		t.Errorf("a change: %v, reason %q", e, e.Reason)
	}
	if n, err := look(t, db); err != nil || n == 0 {
		t.Errorf("a read meanwhile: %d rows, %v", n, err)
	}
	if db.Refusing() == nil {
		t.Error("it does not say that changes are refused")
	}
	mends()
	ok(write(t, db))
	if db.Refusing() == nil {
		t.Error("one change that fits ends the state at once")
	}
	*now = now.Add(calm)
	ok(write(t, db))
	if err := db.Refusing(); err != nil {
		t.Errorf("afterwards: %v", err)
	}
}

// TestFullFile checks a SQLite file that must not grow.
func TestFullFile(t *testing.T) {
	now := time.Now()
	db := openFile(t, func() time.Time { return now })
	pages := func(most string) func() {
		return func() {
			if err := db.Write(t.Context(), "test", func(tx *Tx) error {
				_, err := tx.Reader.Plain().ExecContext(t.Context(), "PRAGMA max_page_count = "+most)
				return err
			}); err != nil {
				t.Fatal(err)
			}
		}
	}
	var cause error
	fill := func() {
		pages("1")() // as many as there are
		for cause == nil {
			cause = write(t, db)
		}
	}
	refusesChanges(t, db, &now, fill, pages("1000000"))
	var lite *sqlite.Error
	if !errors.As(cause, &lite) || !rolledBack(fmt.Errorf("commit: %w", lite)) {
		t.Errorf("the same error at COMMIT leaves in doubt whether it was done: %v", cause)
	}
}

// TestRevokedRight checks a server on which the user loses a right while budgetd runs.
func TestRevokedRight(t *testing.T) {
	server := testservers.SharedMariaDB(t)
	dsn := server.NewDatabase(t)
	mustOpen(t, Config{Driver: "mysql", DSN: dsn}) // makes the tables
	admin := foreign(t, "mysql", dsn)
	as, err := mysql.ParseDSN(dsn)
	if err != nil {
		t.Fatal(err)
	}
	user := testservers.UniqueName()
	do(t, admin, fmt.Sprintf("CREATE USER %s@'%%' IDENTIFIED BY 'pass'", user),
		fmt.Sprintf("GRANT SELECT, INSERT, UPDATE, DELETE ON %s.* TO %s@'%%'", as.DBName, user))
	t.Cleanup(func() { do(t, admin, fmt.Sprintf("DROP USER %s@'%%'", user)) })
	as.User, as.Passwd = user, "pass"
	now := time.Now()
	db := mustOpen(t, Config{Driver: "mysql", DSN: as.FormatDSN(), Clock: func() time.Time { return now }})
	change := func(verb, to string) func() {
		return func() { // a connection keeps the rights that it began with
			do(t, admin, fmt.Sprintf("%s INSERT ON %s.* %s %s@'%%'", verb, as.DBName, to, user), "KILL USER "+user)
		}
	}
	refusesChanges(t, db, &now, change("REVOKE", "FROM"), change("GRANT", "TO"))
}
