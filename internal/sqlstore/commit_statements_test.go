package sqlstore

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"fmt"
	"path/filepath"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jmoiron/sqlx"

	"github.com/budgetd/budgetd/budget"
	"github.com/budgetd/budgetd/internal/testservers"
	"github.com/budgetd/budgetd/ledger"
)

// countedEngines open a database that counts what it is asked. rows is how many rows of a table one statement brings at
// least, where there are so many: all of a commit where each statement is a round trip, eight where it is a call.
var countedEngines = []struct {
	name string
	rows int
	open func(t *testing.T, asked *atomic.Int64) *DB
}{
	{"sqlite", 8, func(t *testing.T, asked *atomic.Int64) *DB {
		path := filepath.Join(t.TempDir(), "budgetd.db")
		db := mustOpen(t, Config{Driver: "sqlite", DSN: path})
		before := db.writers.(*filePool).db
		counting := sql.OpenDB(&countingFile{before.Driver(), fileDSN(path, 0, false), asked})
		if err := db.writers.close(); err != nil {
			t.Fatal(err)
		}
		db.writers = newFilePool(sqlx.NewDb(counting, "sqlite"), db.dialect, 1)
		return db
	}},
	{"mariadb", 500, func(t *testing.T, asked *atomic.Int64) *DB {
		p, dsn := newProxy(t, testservers.SharedMariaDB(t).NewDatabase(t))
		p.set(func(string) cut {
			asked.Add(1)
			return pass
		})
		return mustOpen(t, Config{Driver: "mysql", DSN: dsn})
	}},
}

// countingFile opens connections to a file that count the statements run.
type countingFile struct {
	driver driver.Driver
	dsn    string
	asked  *atomic.Int64
}

func (f *countingFile) Driver() driver.Driver { return f.driver }

func (f *countingFile) Connect(context.Context) (driver.Conn, error) {
	conn, err := f.driver.Open(f.dsn)
	if err != nil {
		return nil, err
	}
	return countingConn{conn, f.asked}, nil
}

// countingConn has no more methods than this, so that whatever is run is prepared first.
type countingConn struct {
	driver.Conn
	asked *atomic.Int64
}

func (c countingConn) Prepare(query string) (driver.Stmt, error) {
	s, err := c.Conn.Prepare(query)
	if err != nil {
		return nil, err
	}
	return countingStatement{s.(fileStatement), c.asked}, nil
}

type fileStatement interface {
	driver.Stmt
	driver.StmtExecContext
	driver.StmtQueryContext
}

type countingStatement struct {
	fileStatement
	asked *atomic.Int64
}

func (s countingStatement) ExecContext(ctx context.Context, args []driver.NamedValue) (driver.Result, error) {
	s.asked.Add(1)
	return s.fileStatement.ExecContext(ctx, args)
}

func (s countingStatement) QueryContext(ctx context.Context, args []driver.NamedValue) (driver.Rows, error) {
	s.asked.Add(1)
	return s.fileStatement.QueryContext(ctx, args)
}

// TestStatementsOfACommit: a commit of ten times as many entries of the same buckets asks a server for no more statements, and
// a file for one more per eight rows, whatever rows its entries make: none is written by itself.
func TestStatementsOfACommit(t *testing.T) {
	const few, many, connecting = 50, 500, 4 // a connection made anew, or looked at, meanwhile
	kinds := []struct {
		name   string
		tables int // that have a row for each entry
		ask    func(r *ledger.Request, n int)
		again  bool
	}{
		{"used", 1, func(*ledger.Request, int) {}, false},
		{"limited", 2, func(r *ledger.Request, n int) {
			r.Dimensions = ledger.Dimensions(map[string]string{"user": fmt.Sprint("user-", n%10)})
		}, false},
		{"held", 2, func(r *ledger.Request, _ int) { r.HoldTTL = time.Hour.Milliseconds() }, false},
		{"held in a group", 3, func(r *ledger.Request, _ int) {
			r.HoldTTL, r.Group = time.Hour.Milliseconds(), "trip"
		}, false},
		{"repeats", 1, func(*ledger.Request, int) {}, true},
	}
	for _, engine := range countedEngines {
		for _, kind := range kinds {
			t.Run(engine.name+"/"+kind.name, func(t *testing.T) {
				var asked atomic.Int64
				c := &countedCommits{T: t, db: engine.open(t, &asked), asked: &asked, ask: kind.ask}
				c.open(kind.name == "limited")
				statements := func(entries int) int64 {
					t.Helper()
					if kind.again {
						c.commit(entries, false)
						c.n -= entries
					}
					return c.commit(entries, kind.again)
				}
				statements(len(c.logs)) // one that finds what it took for new is done twice
				small, large := statements(few), statements(many)
				if most := small + int64(kind.tables*(many-few)/engine.rows) + connecting; large > most {
					t.Errorf("%d statements for %d entries, and %d for %d; want %d at most", small, few, large, many, most)
				}
			})
		}
	}
}

// countedCommits are commits of entries of two budgets with two buckets each.
type countedCommits struct {
	*testing.T
	db    *DB
	asked *atomic.Int64
	ask   func(r *ledger.Request, n int)
	logs  []*testLog
	n     int // entries so far
}

func (c *countedCommits) open(limited bool) {
	c.Helper()
	for _, name := range []string{"a", "b"} {
		d := budget.Definition{Tenant: "default", Name: name, Unit: budget.Count, Durability: budget.Ledger,
			Type: budget.Promo, TotalQuantity: 1 << 20, BucketQuantity: 2}
		if limited {
			d.Limits = &budget.Limits{List: []budget.Limit{{Name: "calls", Dimension: "user", Max: 1 << 20,
				Measure: budget.MeasureCount, Enforce: true, Window: budget.LimitWindow{Kind: budget.WindowLifetime}}}}
		}
		for _, of := range openDefined(c, c.db, d).Buckets {
			l := newLog(of.Ref())
			l.grant(of.Epoch.Outstanding, 1)
			c.logs = append(c.logs, l)
		}
	}
}

// commit commits entries, the same number of each bucket, and returns how many statements that took. repeats: each is the
// repeat of one that is in the ledger.
func (c *countedCommits) commit(entries int, repeats bool) int64 {
	c.Helper()
	call := make([]ledger.Log, len(c.logs))
	for i, l := range c.logs {
		from := l.drained
		for n := c.n + i; n < c.n+entries; n += len(c.logs) {
			r := request(1, fmt.Sprint("order-", n))
			c.ask(&r, n)
			l.ask(1, r)
		}
		call[i], l.drained = l.log(from), int64(len(l.entries)-1)
	}
	c.n += entries
	before := c.asked.Load()
	report, err := c.db.Commit(c.Context(), call)
	statements := c.asked.Load() - before
	if err != nil {
		c.Fatal(err)
	}
	told := 0
	for _, e := range report.Epochs {
		for _, outcome := range e.Outcomes {
			if told++; (outcome.Duplicate != nil) != repeats {
				c.Fatalf("%+v", outcome)
			}
		}
	}
	if told != entries {
		c.Fatalf("%d outcomes of %d entries", told, entries)
	}
	return statements
}
