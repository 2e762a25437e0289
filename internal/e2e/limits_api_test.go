package e2e

import (
	"context"
	"crypto/rand"
	"fmt"
	"net/http/httptest"
	"path/filepath"
	"testing"
	"time"

	"github.com/budgetd/budgetd/bucket"
	"github.com/budgetd/budgetd/budget"
	"github.com/budgetd/budgetd/client"
	"github.com/budgetd/budgetd/internal/httpapi"
	"github.com/budgetd/budgetd/internal/memstore"
	"github.com/budgetd/budgetd/internal/redisstore"
	"github.com/budgetd/budgetd/internal/sqlstore"
	"github.com/budgetd/budgetd/internal/storetest"
	"github.com/budgetd/budgetd/internal/testservers"
)

// limitWorld is the whole service behind its HTTP interface, on a clock that the test moves.
type limitWorld struct {
	*testing.T
	ctx   context.Context
	clock *storetest.SQLClock
	url   string
	c     *client.Client
	ids   int
}

// eachStore runs a test in memory, on SQLite, and on MariaDB with three Redis.
func eachStore(t *testing.T, test func(w *limitWorld)) {
	t.Helper()
	open := func(t *testing.T, clock *storetest.SQLClock, driver, dsn string) *sqlstore.DB {
		db, err := sqlstore.Open(t.Context(), sqlstore.Config{Driver: driver, DSN: dsn, Clock: clock.Now})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = db.Close() })
		return db
	}
	t.Run("memory", func(t *testing.T) {
		clock, instances := storetest.NewSQLClock(), map[string]bucket.Instance{}
		for i := range 3 {
			server := memstore.NewServer(fmt.Sprintf("m%d", i), 1)
			server.Now = clock.Now
			instances[fmt.Sprintf("m%d", i)] = server.Connect()
		}
		test(serveLimits(t, clock, memstore.NewSQL(clock.Now), instances))
	})
	t.Run("sqlite", func(t *testing.T) {
		clock := storetest.NewSQLClock()
		db := open(t, clock, "sqlite", filepath.Join(t.TempDir(), "budgetd.db"))
		test(serveLimits(t, clock, db, map[string]bucket.Instance{"rows": db.Rows("rows", 1)}))
	})
	t.Run("mariadb and redis", func(t *testing.T) {
		clock, instances := storetest.NewSQLClock(), map[string]bucket.Instance{}
		db := open(t, clock, "mysql", testservers.SharedMariaDB(t).NewDatabase(t))
		for i := range 3 {
			name := fmt.Sprintf("redis-%d", i)
			store, err := redisstore.New(redisstore.Config{Name: name, Addr: testservers.Redis(t).Addr(), Lanes: 1,
				InstallationID: db.InstallationID()})
			if err != nil {
				t.Fatal(err)
			}
			instances[name] = store
		}
		test(serveLimits(t, clock, db, instances))
	})
}

// serveLimits starts a service and its HTTP interface.
func serveLimits(t *testing.T, clock *storetest.SQLClock, sql bucket.SQL, instances map[string]bucket.Instance) *limitWorld {
	t.Helper()
	lanes := map[string]int{}
	for name := range instances {
		lanes[name] = 1
	}
	s, err := bucket.New(bucket.Config{SQL: sql, Instances: instances, Lanes: lanes,
		Rand: func(b []byte) { _, _ = rand.Read(b) },
		Settings: bucket.Settings{Deadline: 30 * time.Second, StepTimeout: 30 * time.Second, Refresh: 20 * time.Millisecond,
			Chores: 50 * time.Millisecond}})
	if err != nil {
		t.Fatal(err)
	}
	s.Start(t.Context())
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
		defer cancel()
		if err := s.Stop(ctx); err != nil {
			t.Errorf("stop: %v", err)
		}
	})
	server := httptest.NewServer(httpapi.New(httpapi.Config{Service: s, Limits: httpapi.Limits{BodyBytes: 1 << 20,
		BatchBytes: 4 << 20, BatchItems: 1000, HeaderBytes: 64 << 10, Headers: 100, InFlight: 1000,
		RequestTimeout: time.Minute, HeaderTimeout: time.Minute, ReadTimeout: time.Minute, WriteTimeout: time.Minute,
		IdleTimeout: time.Minute}}))
	t.Cleanup(server.Close)
	w := &limitWorld{T: t, ctx: t.Context(), clock: clock, url: server.URL}
	w.c = w.tenant("")
	return w
}

// tenant returns a client for one tenant.
func (w *limitWorld) tenant(name string) *client.Client {
	w.Helper()
	c, err := client.New(w.url, client.WithTenant(name))
	if err != nil {
		w.Fatal(err)
	}
	return c
}

// create makes a budget with limits; 0 units: an unlimited one.
func (w *limitWorld) create(name string, units int64, limits ...client.Limit) *client.Budget {
	w.Helper()
	request := client.CreateRequest{Name: name, Unit: budget.Count, Type: budget.Promo, TotalQuantity: units, Limits: limits,
		Unlimited: units == 0}
	if units > 0 {
		request.BucketQuantity = 3
	}
	b, err := w.c.Create(w.ctx, request)
	if err != nil {
		w.Fatal(err)
	}
	return b
}

// whom reads dimensions written "user=u1 phone=p1".
func whom(text string) map[string]string {
	out := map[string]string{}
	for len(text) > 0 {
		var name, value string
		if n, _ := fmt.Sscanf(text, "%s", &name); n == 0 {
			break
		}
		text = text[min(len(text), len(name)+1):]
		for i := range name {
			if name[i] == '=' {
				name, value = name[:i], name[i+1:]
				break
			}
		}
		out[name] = value
	}
	return out
}

// deduct deducts under an id of its own and returns what it was told: "accepted", "replayed", or the code,
// with the limit's name where it is one.
func (w *limitWorld) deduct(name string, amount int64, dimensions string) string {
	w.ids++
	return w.deductAs(fmt.Sprintf("r%d", w.ids), name, amount, dimensions)
}

func (w *limitWorld) deductAs(id, name string, amount int64, dimensions string) string {
	w.Helper()
	answer, err := w.c.Deduct(w.ctx, name, client.DeductRequest{RequestID: id, Amount: amount, Dimensions: whom(dimensions)})
	if err == nil && answer.Replayed {
		return "replayed"
	}
	return w.outcome(err)
}

func (w *limitWorld) outcome(err error) string {
	w.Helper()
	p := problem(err)
	switch {
	case err == nil:
		return "accepted"
	case p == nil:
		w.Fatal(err)
	case p.Limit != nil:
		if p.Status != 429 || p.Limit.Max == nil || p.Limit.Used > *p.Limit.Max || p.Limit.Value == "" {
			w.Errorf("figures of a refusal: %+v, %+v", p, p.Limit)
		}
		return p.Limit.Name
	}
	return string(p.Code)
}

// expect deducts and compares what it was told.
func (w *limitWorld) expect(want, name string, amount int64, dimensions string) {
	w.Helper()
	if got := w.deduct(name, amount, dimensions); got != want {
		w.Errorf("%d of %s for %s: %s, want %s", amount, name, dimensions, got, want)
	}
}

// audit: nothing is lost by all that was refused.
func (w *limitWorld) audit(name string) {
	w.Helper()
	report, err := w.c.Audit(w.ctx, name)
	if err != nil || !report.OK {
		w.Errorf("audit of %s: %+v, %v", name, report, err)
	}
}

func firstHit(name, dimension, length string, most int64) client.Limit {
	return client.Limit{Name: name, Dimension: dimension, Max: most, Measure: budget.MeasureCount,
		Window: client.Window{Kind: budget.WindowFirstHit, Length: length}}
}

func each(every budget.Every, name, dimension string, most int64) client.Limit {
	return client.Limit{Name: name, Dimension: dimension, Max: most, Measure: budget.MeasureCount,
		Window: client.Window{Kind: budget.WindowCalendar, Every: every}}
}

func ever(name, dimension string, most int64) client.Limit {
	return client.Limit{Name: name, Dimension: dimension, Max: most, Measure: budget.MeasureCount,
		Window: client.Window{Kind: budget.WindowLifetime}}
}
