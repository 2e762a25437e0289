package crashpoints

import (
	"context"
	"crypto/rand"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/budgetd/budgetd/bucket"
	"github.com/budgetd/budgetd/bucket/counter"
	"github.com/budgetd/budgetd/bucket/deduct"
	"github.com/budgetd/budgetd/bucket/hold"
	"github.com/budgetd/budgetd/bucket/manage"
	"github.com/budgetd/budgetd/bucket/placement"
	"github.com/budgetd/budgetd/bucket/store"
	"github.com/budgetd/budgetd/bucket/transfer"
	"github.com/budgetd/budgetd/budget"
	"github.com/budgetd/budgetd/internal/redisstore"
	"github.com/budgetd/budgetd/internal/sql/commit"
	"github.com/budgetd/budgetd/internal/sql/engine"
)

// node is a budgetd without an HTTP server. Its loops run only when a test calls loop.
type node struct {
	*deduct.Service
	*manager
	gate       *gate // nil if it connects directly
	db         *engine.DB
	budgets    *bucket.Budgets
	store      *counter.Service
	moves      *transfer.Service
	holds      *hold.Service
	returns    *hold.Ledger
	partitions []bucket.Partition
}

type manager = manage.Service

// instances are the names of the stores; both are on one server. Each has one partition.
var instances = []string{"m", "n"}

// fit lets any partition have buckets.
func fit(context.Context, []bucket.Partition) error { return nil }

// newNode returns a node that reaches its servers through a gate, or directly if g is nil.
func newNode(t *testing.T, w *servers, g *gate) *node {
	t.Helper()
	dsn, redis := w.dsn, w.redis
	if g != nil {
		dsn, redis = strings.Replace(dsn, w.mariadb, g.front(t, w.mariadb), 1), g.front(t, redis)
	}
	n := &node{gate: g, partitions: w.partitions}
	var err error
	must := func() {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	n.db, err = engine.Open(t.Context(), engine.Config{Driver: "mysql", DSN: dsn})
	must()
	t.Cleanup(func() { _ = n.db.Close() })
	counters := map[string]*counter.Store{}
	for _, name := range instances {
		s, e := redisstore.New(redisstore.Config{Name: name, Addr: redis, Partitions: 1,
			InstallationID: n.db.InstallationID(), DialTimeout: time.Second, ReadTimeout: time.Second})
		err = e
		must()
		t.Cleanup(func() { _ = s.Disconnect() })
		counters[name] = &counter.Store{Counter: s, Entries: s, Changes: s, Memories: s, Copies: s}
	}
	defs, flights, moves, part := manage.NewLedger(n.db), commit.New(n.db), transfer.NewLedger(n.db), store.New(n.db)
	n.budgets, err = bucket.NewBudgets(bucket.BudgetsConfig{Definitions: defs, Overrides: defs})
	must()
	places, err := placement.New(w.partitions, 100)
	must()
	const deadline, step = 5 * time.Second, 5 * time.Second
	states := deduct.NewStates(0)
	n.store = counter.New(counter.Config{Budgets: n.budgets, States: states, Stores: counters, Now: n.db.Now,
		Ledger: part, Availability: flights,
		Settings: counter.Settings{Deadline: deadline, StepTime: step, MarkGrace: time.Millisecond,
			VerifyEvery: time.Millisecond}})
	n.moves = transfer.New(transfer.Config{Ledger: moves, Budgets: n.budgets, Pages: defs,
		Partitions: w.partitions, Places: places, Stores: n.store, Now: n.db.Now, Timeout: step})
	n.returns = hold.NewLedger(n.db)
	n.holds = hold.New(hold.Config{Budgets: n.budgets, Ledger: n.returns})
	service, err := deduct.New(deduct.Config{Budgets: n.budgets, Ledger: flights, Lookup: flights,
		Rollover: n.moves, Returns: n.holds, Stores: n.store, States: states, Now: n.db.Now,
		Settings: deduct.Settings{Deadline: deadline, StepTime: step}})
	if err != nil {
		t.Fatal(err)
	}
	n.Service, n.manager = service, &manage.Service{Ledger: defs, Budgets: n.budgets, Periods: n.moves,
		Stores: n.store, Fit: fit, Places: places,
		Takes: func(bucket.Partition) bool { return true }, Moved: func(string, int64) {},
		Clock: bucket.SystemClock{}, Nonce: nonce, Log: slog.New(slog.DiscardHandler),
		Timeout: step}
	return n
}

// nonce returns a random text for one call.
func nonce() string { return rand.Text()[:8] }

// loop runs a loop of the node once.
func (n *node) loop(ctx context.Context, name string) error {
	if name == "holds" {
		return (&hold.Expiry{Ledger: n.returns, Observer: quiet{},
			Log: slog.New(slog.DiscardHandler)}).RunOnce(ctx)
	}
	if name == "shrinks" {
		return n.FinishShrinks(ctx)
	}
	for _, l := range n.store.Loops(n.partitions) {
		if l.Name == name {
			return l.RunOnce(ctx)
		}
	}
	for _, l := range n.moves.Loops(transfer.Settings{}) {
		if l.Name == name {
			return l.RunOnce(ctx)
		}
	}
	panic("there is no loop " + name)
}

// quiet observes nothing.
type quiet struct{ bucket.Observer }

func (quiet) Failed(string, budget.Code) {}
func (quiet) Moved(string, int64)        {}
func (quiet) HoldsExpired(int)           {}
