package engine

import (
	"context"
	"crypto/tls"
	"encoding/hex"
	"fmt"
	"io"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"time"

	crand "crypto/rand"

	"github.com/gofrs/flock"
	"github.com/jmoiron/sqlx"
)

// Config selects a database. Only Driver and DSN must be set.
type Config struct {
	// Driver is "sqlite" or "mysql" (MySQL from 8.0.16, MariaDB from 10.6).
	Driver string
	// DSN is the path of the database file for sqlite. For mysql it is a data source name in the
	// form of go-sql-driver/mysql: user:password@tcp(host:3306)/database?tls=true
	DSN string
	// Secret, if set, returns the present DSN; each connection to a server uses its user and
	// password.
	Secret func() string
	// Encrypt, if set, returns the TLS settings of one connection to a server.
	Encrypt func() *tls.Config
	// Clock is the clock of this machine; nil means time.Now. Now adds the offset of SQL's clock.
	Clock func() time.Time
	// ClockTolerance is the most by which this node's estimate of SQL's clock may be off when it
	// rolls a budget over; 0 means 1 s.
	ClockTolerance time.Duration
	// Random is the source of the installation's id and of jitter; nil means crypto/rand.
	Random io.Reader
	// Sleep waits before a retry; it returns early with the context's error.
	Sleep func(ctx context.Context, d time.Duration) error
	// PoolSize bounds the connections to a server (default 16, at most 1,000), or the reading
	// connections to a file (default 4). A file has one writing connection. Audits have up to three
	// more.
	PoolSize int
	// BusyTimeout bounds the wait of SQLite for another program's lock (default 5 s).
	BusyTimeout time.Duration
}

// DB is the ledger in a database. It is safe for concurrent use.
type DB struct {
	dialect          *dialect
	writers, readers pool
	// auditors serve snapshots, whose statements may take minutes.
	auditors pool
	// committers accept packets (see PacketConn); nil for a file.
	committers *sqlx.DB
	// lookers bounds the lines that Look may have at a time, so that flights always find one.
	lookers chan struct{}
	lock    *flock.Flock // nil for a server

	clock     func() time.Time
	tolerance time.Duration
	random    io.Reader
	sleep     func(ctx context.Context, d time.Duration) error
	offset    atomic.Int64
	away      atomic.Int64 // SQL's clock minus this machine's, nanoseconds
	refusal   atomic.Pointer[refusal]

	installation string

	budgetIDs, bucketIDs ids

	closing  sync.Once
	closeErr error
}

// Open opens a database, creates or completes its tables, and measures its clock. A missing SQLite
// file and its folder are created, accessible to this user only. It returns an error for a database
// of a newer budgetd, a file in use by another budgetd, and a DSN that contradicts what the ledger
// relies on.
func Open(ctx context.Context, config Config) (*DB, error) {
	if config.Clock == nil {
		config.Clock = time.Now
	}
	if config.ClockTolerance == 0 {
		config.ClockTolerance = time.Second
	}
	if config.Random == nil {
		config.Random = crand.Reader
	}
	if config.Sleep == nil {
		config.Sleep = sleep
	}
	db := &DB{
		clock:     config.Clock,
		tolerance: config.ClockTolerance,
		random:    config.Random,
		sleep:     config.Sleep,
	}
	var err error
	switch config.Driver {
	case sqliteName:
		err = db.openFile(ctx, config)
	case mysqlName:
		err = db.openServer(ctx, config)
	default:
		err = fmt.Errorf("database.driver is %q, must be %q or %q", config.Driver, sqliteName, mysqlName)
	}
	if err != nil {
		return nil, err
	}
	if err = db.SyncClock(ctx); err == nil {
		db.installation, err = db.readInstallation(ctx)
	}
	if err != nil {
		_ = db.Close()
		return nil, err
	}
	return db, nil
}

// Close waits for running calls and closes the database; another budgetd may then open a SQLite
// file. Closing twice is harmless.
func (db *DB) Close() error {
	db.closing.Do(func() { db.closeErr = db.close() })
	return db.closeErr
}

func (db *DB) close() error {
	err := db.readers.close()
	if e := db.auditors.close(); err == nil {
		err = e
	}
	if db.readers != db.writers {
		if e := db.writers.close(); err == nil { // last: it moves SQLite's log into the file
			err = e
		}
	}
	if db.committers != nil {
		if e := db.committers.Close(); err == nil {
			err = e
		}
	}
	if db.lock != nil {
		if e := db.lock.Close(); err == nil {
			err = e
		}
	}
	return err
}

// InstallationID returns the id created with the database: 32 hexadecimal digits that are part of
// every key in a store. It never changes.
func (db *DB) InstallationID() string { return db.installation }

const selectInstallation = `SELECT installation_id, ring_version, format FROM installation
	WHERE only_row = 1`

// readInstallation returns the installation's id. It refuses a database of another format, and one
// whose keys another ring has spread.
func (db *DB) readInstallation(ctx context.Context) (id string, err error) {
	var row struct {
		ID     string `db:"installation_id"`
		Ring   int64  `db:"ring_version"`
		Format int64  `db:"format"`
	}
	err = db.Read(ctx, "identity", func(r *Reader) error {
		found, err := r.Get(&row, selectInstallation)
		if err == nil && !found {
			err = Defect("the database has no installation id")
		}
		return err
	})
	if err == nil && (row.Format != schemaFormat || row.Ring != ringVersion) {
		err = fmt.Errorf("the database has format %d and ring %d, this budgetd needs %d and %d: "+
			"it was made by a version that cannot be upgraded; use another database", row.Format,
			row.Ring, schemaFormat, ringVersion)
	}
	return row.ID, err
}

// newInstallationID returns 32 random hexadecimal digits.
func newInstallationID(random io.Reader) (string, error) {
	var id [16]byte
	if _, err := io.ReadFull(random, id[:]); err != nil {
		return "", err
	}
	return hex.EncodeToString(id[:]), nil
}

// jitter returns between half of a pause and all of it, so that two transactions that collided do
// not collide again.
func (db *DB) jitter(pause time.Duration) time.Duration {
	return pause/2 + rand.N(pause/2+1) //nolint:gosec // spreads load, keeps no secret
}

func sleep(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}
