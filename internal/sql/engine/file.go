package engine

import (
	"context"
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/gofrs/flock"
	"github.com/jmoiron/sqlx"
	_ "modernc.org/sqlite" // registers the driver "sqlite"
)

const (
	defaultFileReaders = 4
	defaultBusyTimeout = 5 * time.Second
)

// openFile opens a SQLite file: one writing connection, a few reading ones, and a lock file. The
// lock excludes every other budgetd, because only one process may hand out budgets from the file.
func (db *DB) openFile(ctx context.Context, config Config) (err error) {
	path, err := prepareFile(config.DSN)
	if err != nil {
		return err
	}
	lock := flock.New(path+".lock", flock.SetPermissions(0o600))
	locked, err := lock.TryLock()
	if err != nil {
		return fmt.Errorf("lock the database %s: %w", path, err)
	}
	if !locked {
		return fmt.Errorf("the database %s is in use by another budgetd (it holds %s)", path, lock.Path())
	}
	db.lock = lock
	db.dialect = newSQLiteDialect()
	var writer, readers, auditors *sqlx.DB
	defer func() {
		if err != nil {
			closeAll(writer, readers, auditors)
			_ = lock.Close()
		}
	}()
	if writer, err = sqlx.Open("sqlite", fileDSN(path, config.BusyTimeout, false)); err != nil {
		return err
	}
	writer.SetMaxOpenConns(1)
	if err = checkFile(ctx, writer, path); err != nil {
		return err
	}
	if err = db.migrate(ctx, writer.DB); err != nil {
		return err
	}
	if readers, err = sqlx.Open("sqlite", fileDSN(path, config.BusyTimeout, true)); err != nil {
		return err
	}
	if auditors, err = sqlx.Open("sqlite", fileDSN(path, config.BusyTimeout, true)); err != nil {
		return err
	}
	size := config.PoolSize
	if size <= 0 {
		size = defaultFileReaders
	}
	db.writers = newFilePool(writer, db.dialect, 1)
	db.readers = newFilePool(readers, db.dialect, size)
	db.auditors = newFilePool(auditors, db.dialect, auditPoolSize)
	return nil
}

func closeAll(dbs ...*sqlx.DB) {
	for _, db := range dbs {
		if db != nil {
			_ = db.Close()
		}
	}
}

// prepareFile creates the file and its folder if they are missing, accessible to this user only,
// and returns the file's absolute path.
func prepareFile(dsn string) (string, error) {
	if dsn == "" || dsn == ":memory:" || strings.HasPrefix(dsn, "file:") {
		return "", fmt.Errorf("database.dsn is %q, must be the path of a file", dsn)
	}
	path, err := filepath.Abs(dsn)
	if err != nil {
		return "", fmt.Errorf("database.dsn: %w", err)
	}
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return "", fmt.Errorf("make the folder of the database: %w", err)
	}
	file, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return "", fmt.Errorf("open the database: %w", err)
	}
	if err := file.Close(); err != nil {
		return "", fmt.Errorf("open the database: %w", err)
	}
	// Resolve links, so that one file has one lock.
	if path, err = filepath.EvalSymlinks(path); err != nil {
		return "", fmt.Errorf("open the database: %w", err)
	}
	return path, nil
}

// fileDSN returns the data source name for modernc.org/sqlite. With synchronous=FULL a commit is on
// disk before it is reported.
func fileDSN(path string, busy time.Duration, readOnly bool) string {
	if busy <= 0 {
		busy = defaultBusyTimeout
	}
	query := url.Values{"_pragma": {
		fmt.Sprintf("busy_timeout(%d)", busy.Milliseconds()), // first: it holds for the others
		"journal_mode(WAL)",
		"synchronous(FULL)",
		"temp_store(MEMORY)",
	}}
	if readOnly {
		query["_pragma"] = append(query["_pragma"], "query_only(1)", "cache_size(-8192)") // KiB
	} else {
		query.Add("_pragma", "cache_size(-65536)")
	}
	return (&url.URL{Scheme: "file", Path: path, RawQuery: query.Encode()}).String()
}

// checkFile checks that the settings on which the ledger relies are in force: some file systems
// refuse WAL.
func checkFile(ctx context.Context, db *sqlx.DB, path string) error {
	var mode string
	if err := db.GetContext(ctx, &mode, "PRAGMA journal_mode"); err != nil {
		return fmt.Errorf("open the database %s: %w", path, err)
	}
	var synchronous int
	if err := db.GetContext(ctx, &synchronous, "PRAGMA synchronous"); err != nil {
		return fmt.Errorf("open the database %s: %w", path, err)
	}
	const full = 2
	if mode != "wal" || synchronous != full {
		return fmt.Errorf("the database %s runs with journal_mode=%s and synchronous=%d, "+
			"needs wal and %d: put it on a local file system", path, mode, synchronous, full)
	}
	return nil
}
