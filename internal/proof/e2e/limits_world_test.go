package e2e

import (
	"context"
	"net/http/httptest"
	"path/filepath"
	"sync/atomic"
	"testing"
	"time"

	"github.com/budgetd/budgetd/bucket"
	"github.com/budgetd/budgetd/bucket/audit"
	"github.com/budgetd/budgetd/bucket/deduct"
	"github.com/budgetd/budgetd/bucket/hold"
	"github.com/budgetd/budgetd/bucket/manage"
	"github.com/budgetd/budgetd/bucket/sample"
	"github.com/budgetd/budgetd/bucket/transfer"
	"github.com/budgetd/budgetd/bucket/usage"
	"github.com/budgetd/budgetd/client"
	"github.com/budgetd/budgetd/internal/httpapi"
	"github.com/budgetd/budgetd/internal/metrics"
	"github.com/budgetd/budgetd/internal/proof/testservers"
	"github.com/budgetd/budgetd/internal/sql/commit"
	"github.com/budgetd/budgetd/internal/sql/engine"
)

// movedClock is a clock that only the test advances. It is safe for concurrent use.
type movedClock struct {
	began time.Time
	ahead atomic.Int64
}

func newMovedClock() *movedClock { return &movedClock{began: time.Now()} }

func (c *movedClock) Now() time.Time { return c.began.Add(time.Duration(c.ahead.Load())) }

func (c *movedClock) Advance(d time.Duration) { c.ahead.Add(int64(d)) }

// limitWorld is the whole service in ledger mode behind its HTTP interface, with a clock that the
// test advances. Tests of periods that end use real processes, because periods follow the clock of
// the database server.
type limitWorld struct {
	*testing.T
	ctx   context.Context
	clock *movedClock
	url   string
	c     *client.Client
	ids   int
}

// eachDatabase runs a test on SQLite and on MariaDB.
func eachDatabase(t *testing.T, test func(w *limitWorld)) {
	t.Helper()
	t.Run("sqlite", func(t *testing.T) {
		clock := newMovedClock()
		db := openRows(t, clock, "sqlite", filepath.Join(t.TempDir(), "budgetd.db"))
		test(serveLimits(t, clock, db))
	})
	t.Run("mariadb", func(t *testing.T) {
		clock := newMovedClock()
		db := openRows(t, clock, "mysql", testservers.SharedMariaDB(t).NewDatabase(t))
		test(serveLimits(t, clock, db))
	})
}

func openRows(t *testing.T, clock *movedClock, driver, dsn string) *engine.DB {
	t.Helper()
	db, err := engine.Open(t.Context(), engine.Config{Driver: driver, DSN: dsn, Clock: clock.Now})
	must(t, err)
	t.Cleanup(func() { _ = db.Close() })
	return db
}

// serveLimits wires the parts of the service, as package daemon does, and serves them.
func serveLimits(t *testing.T, clock *movedClock, db *engine.DB) *limitWorld {
	t.Helper()
	const patience = 30 * time.Second
	flights, defined := commit.New(db), manage.NewLedger(db)
	budgets, err := bucket.NewBudgets(bucket.BudgetsConfig{Definitions: defined, Overrides: defined, Size: 1000})
	must(t, err)
	observer, moved := metrics.New("test"), transfer.NewLedger(db)
	mover := transfer.New(transfer.Config{Ledger: moved, Budgets: budgets,
		Pages: defined, Now: db.Now, Moved: observer.Moved})
	holds := hold.New(hold.Config{Budgets: budgets, Ledger: hold.NewLedger(db),
		Observer: observer, Settings: hold.Settings{StepTime: patience}})
	deducts, err := deduct.New(deduct.Config{Budgets: budgets, Ledger: flights, Lookup: flights,
		Rollover: mover, Returns: holds, Now: db.Now, Observer: observer,
		Settings: deduct.Settings{Deadline: patience, StepTime: patience}})
	must(t, err)
	service := &httpapi.Parts{Deductions: deducts, Lookups: deducts, Checks: deducts, Holds: holds,
		Usages:    usage.New(usage.Config{DB: db, Budgets: budgets, Observer: observer, Deadline: patience}),
		Movements: mover,
		Budgets: &manage.Service{Ledger: defined, Budgets: budgets, Periods: mover,
			Moved: observer.Moved, Clock: bucket.SystemClock{}, Timeout: patience,
			Nonce: func() string { return t.Name()[:8] }},
		Audits:  audit.New(audit.Config{DB: db, Budgets: budgets, Observer: observer}),
		Samples: sample.New(sample.Config{DB: db, Budgets: budgets, Figures: defined.Figures})}
	server := httptest.NewServer(httpapi.New(httpapi.Config{Service: service,
		Limits: httpapi.Limits{BodyBytes: 1 << 20, BatchBytes: 4 << 20, BodiesBytes: 64 << 20,
			HeaderBytes: 64 << 10, Headers: 100, InFlight: 1000, RequestTimeout: time.Minute,
			HeaderTimeout: time.Minute, ReadTimeout: time.Minute, WriteTimeout: time.Minute,
			IdleTimeout: time.Minute}}))
	t.Cleanup(server.Close)
	w := &limitWorld{T: t, ctx: t.Context(), clock: clock, url: server.URL}
	w.c = w.tenant("")
	return w
}
