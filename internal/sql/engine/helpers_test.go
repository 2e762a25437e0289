package engine

import (
	"context"
	"database/sql"
	"path/filepath"
	"testing"
	"time"

	"github.com/budgetd/budgetd/internal/proof/testservers"
)

// openFile opens an empty SQLite database with a clock.
func openFile(tb testing.TB, clock func() time.Time) *DB {
	tb.Helper()
	return mustOpen(tb, Config{
		Driver: "sqlite", DSN: filepath.Join(tb.TempDir(), "data", "budgetd.db"), Clock: clock,
	})
}

// openMariaDB opens an empty database on the shared MariaDB.
func openMariaDB(tb testing.TB, clock func() time.Time) *DB {
	tb.Helper()
	return mustOpen(tb, Config{
		Driver: "mysql", DSN: testservers.SharedMariaDB(tb).NewDatabase(tb), Clock: clock,
	})
}

func mustOpen(tb testing.TB, config Config) *DB {
	tb.Helper()
	db, err := Open(tb.Context(), config)
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() {
		if err := db.Close(); err != nil {
			tb.Error(err)
		}
	})
	return db
}

// write writes a row of its own, and look reads it.
func write(tb testing.TB, db *DB) error {
	return db.Write(tb.Context(), "test", func(t *Tx) error {
		_, err := t.Exec(`INSERT INTO feed (bucket_id, first_entry, entries, units, body, created_at)
			SELECT 1, COALESCE(MAX(first_entry), 0) + 1, 1, 0, ?, 0 FROM feed`, []byte("x"))
		return err
	})
}

func look(tb testing.TB, db *DB) (n int, err error) {
	err = db.Read(tb.Context(), "test", func(r *Reader) error {
		_, err := r.Get(&n, `SELECT COUNT(*) FROM feed`)
		return err
	})
	return n, err
}

// foreign returns a connection of another program to the same database.
func foreign(t *testing.T, driverName, dsn string) *sql.Conn {
	t.Helper()
	db, err := sql.Open(driverName, dsn)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = db.Close() })
	conn, err := db.Conn(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() })
	return conn
}

func do(t *testing.T, conn *sql.Conn, statements ...string) {
	t.Helper()
	for _, text := range statements {
		if _, err := conn.ExecContext(context.Background(), text); err != nil {
			t.Fatalf("%s: %v", text, err)
		}
	}
}
