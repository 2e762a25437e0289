package counter_test

import (
	"context"
	"fmt"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/budgetd/budgetd/bucket"
	"github.com/budgetd/budgetd/bucket/counter"
	"github.com/budgetd/budgetd/bucket/deduct"
	"github.com/budgetd/budgetd/bucket/hold"
	"github.com/budgetd/budgetd/bucket/manage"
	"github.com/budgetd/budgetd/bucket/store"
	"github.com/budgetd/budgetd/bucket/transfer"
	"github.com/budgetd/budgetd/budget"
	"github.com/budgetd/budgetd/internal/proof/testservers"
	"github.com/budgetd/budgetd/internal/redisstore"
	"github.com/budgetd/budgetd/internal/redisstore/faultstore"
	"github.com/budgetd/budgetd/internal/sql/bookkeeper"
	"github.com/budgetd/budgetd/internal/sql/commit"
	"github.com/budgetd/budgetd/internal/sql/engine"
)

// clock is the machine's clock, which tests move forward, and may stop.
type clock struct {
	mu      sync.Mutex
	ahead   time.Duration
	stopped time.Time // zero while it goes
}

func (c *clock) Now() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.stopped.IsZero() {
		return c.stopped.Add(c.ahead)
	}
	return time.Now().Add(c.ahead)
}

// Stop stops the clock.
func (c *clock) Stop() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.stopped = time.Now()
}

func (c *clock) Advance(d time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.ahead += d
}

func (c *clock) Sleep(ctx context.Context, d time.Duration) error {
	return bucket.SystemClock{}.Sleep(ctx, d)
}

// world is a database, stores on Redis behind a network, and one node.
type world struct {
	testing.TB
	db         *engine.DB
	clock      *clock
	defs       *manage.Ledger
	part       *store.Ledger
	stores     map[string]*counter.Store
	partitions []bucket.Partition
	servers    []*testservers.RedisServer // by partition
	network    faultstore.Network
	node       *node
	moves      *transfer.Service
	budgets    *bucket.Budgets
	ids        []int64
}

// node is a node whose deductions go through its stores.
type node struct {
	*deduct.Service
	under
}

// under has the calls of stores that deductions do not need.
type under struct{ *counter.Service }

// database opens a database for a test.
func database(t testing.TB, driver string, clock func() time.Time) *engine.DB {
	t.Helper()
	config := engine.Config{Driver: "sqlite", DSN: filepath.Join(t.TempDir(), "budgetd.db"),
		Clock:          clock,
		ClockTolerance: 1000 * time.Hour}
	if driver == "mariadb" {
		config.Driver, config.DSN = "mysql", testservers.SharedMariaDB(t).NewDatabase(t)
	}
	db, err := engine.Open(t.Context(), config)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = db.Close() })
	return db
}

// onRedis returns a world with one instance on the server that all tests share.
func onRedis(t testing.TB, driver string, npartitions int) *world {
	t.Helper()
	w := newWorld(t, driver)
	w.instance("m", testservers.SharedRedis(t), npartitions)
	w.begin()
	return w
}

// onServers returns a world with instances that have one partition each, on a server of its own.
func onServers(t testing.TB, driver string, instances int) *world {
	t.Helper()
	w := newWorld(t, driver)
	for i := range instances {
		w.instance(fmt.Sprint("m", i), testservers.Redis(t), 1)
	}
	w.begin()
	return w
}

func newWorld(t testing.TB, driver string) *world {
	t.Helper()
	w := &world{TB: t, clock: &clock{}, stores: map[string]*counter.Store{}}
	w.db = database(t, driver, w.clock.Now)
	return w
}

// instance adds an instance.
func (w *world) instance(name string, server *testservers.RedisServer, npartitions int) {
	w.Helper()
	redis, err := redisstore.New(redisstore.Config{Name: name, Addr: server.Addr(), Partitions: npartitions,
		InstallationID: w.db.InstallationID(), DialTimeout: 2 * time.Second,
		ReadTimeout: 2 * time.Second})
	w.ok(err)
	w.Cleanup(func() { _ = redis.Disconnect() })
	store := faultstore.Store{Store: redis, Network: &w.network}
	w.stores[name] = &counter.Store{Counter: store, Entries: store, Changes: store, Memories: store,
		Copies: store}
	for i := range npartitions {
		w.partitions = append(w.partitions, bucket.Partition{Instance: name, Index: i})
		w.servers = append(w.servers, server)
	}
}

func (w *world) begin() {
	w.Helper()
	w.defs, w.part = manage.NewLedger(w.db), store.New(w.db)
	w.part.Node = "node-1"
	w.node, w.budgets = w.newNode(func(*counter.Config) {})
	moves := transfer.NewLedger(w.db)
	w.moves = transfer.New(transfer.Config{Budgets: w.budgets, Stores: w.node.under, Now: w.db.Now,
		Ledger: moves, Pages: w.defs, Timeout: 20 * time.Second})
	w.run("store sync") // verifies the partitions
}

// newNode adds a node.
func (w *world) newNode(change func(*counter.Config)) (*node, *bucket.Budgets) {
	w.Helper()
	budgets, err := bucket.NewBudgets(bucket.BudgetsConfig{Definitions: w.defs, Overrides: w.defs, Clock: w.clock})
	w.ok(err)
	c := counter.Config{Budgets: budgets, Stores: w.stores, Clock: w.clock, Now: w.db.Now,
		Ledger: w.part, Availability: commit.New(w.db), States: deduct.NewStates(0),
		// A busy machine is no reason for a refusal.
		Settings: counter.Settings{MarkGrace: time.Millisecond, VerifyEvery: time.Millisecond,
			Deadline: 20 * time.Second}}
	change(&c)
	stores := counter.New(c)
	deducts, err := deduct.New(deduct.Config{Budgets: c.Budgets, Ledger: commit.New(w.db),
		Lookup: c.Availability.(deduct.Lookup), Returns: hold.New(hold.Config{Budgets: c.Budgets,
			Ledger: hold.NewLedger(w.db)}), Stores: stores,
		States: c.States, Clock: c.Clock, Now: c.Now, Settings: deduct.Settings{
			Deadline: c.Settings.Deadline, Grace: max(c.Settings.Deadline/2, time.Second)}})
	w.ok(err)
	return &node{deducts, under{stores}}, budgets
}

// run runs a loop of the node once.
func (w *world) run(name string) {
	w.Helper()
	w.ok(w.try(name))
}

func (w *world) try(name string) error {
	for _, l := range w.node.Loops(w.partitions) {
		if l.Name == name {
			return l.RunOnce(w.Context())
		}
	}
	w.Fatalf("there is no loop %q", name)
	return nil
}

func (w *world) ok(err error) {
	w.Helper()
	if err != nil {
		w.Fatal(err)
	}
}

// promo returns a definition in store mode.
func promo(name string, total int64, buckets int) budget.Definition {
	return budget.Definition{Tenant: "shop", Name: name, Unit: budget.Count, Type: budget.Promo,
		Durability: budget.Store, TotalQuantity: total, BucketQuantity: buckets}
}

func (w *world) create(d budget.Definition) *bucket.Budget {
	w.Helper()
	var at []bucket.Partition
	for i := range d.BucketQuantity {
		at = append(at, w.partitions[i%len(w.partitions)])
	}
	made, err := w.defs.Create(w.Context(), d, at)
	w.ok(err)
	w.ids = append(w.ids, made.Budget.ID)
	w.ok(w.node.Push(w.Context(), made.Budget.ID))
	return w.read(made.Budget.ID)
}

func (w *world) read(id int64) *bucket.Budget {
	w.Helper()
	b, err := w.budgets.Reload(w.Context(), id)
	w.ok(err)
	return b
}

func request(b *bucket.Budget, id string, amount int64) bucket.DeductRequest {
	return bucket.DeductRequest{Budget: bucket.BudgetRef{ID: b.ID}, RequestID: id, Amount: amount}
}

func (w *world) deduct(b *bucket.Budget, id string, amount int64) bucket.DeductAnswer {
	w.Helper()
	a, err := w.node.Deduct(w.Context(), request(b, id, amount))
	w.ok(err)
	return a
}

// refused deducts and checks the code of the error.
func (w *world) refused(b *bucket.Budget, id string, amount int64, want budget.Code) *budget.Error {
	w.Helper()
	_, err := w.node.Deduct(w.Context(), request(b, id, amount))
	if !budget.Is(err, want) {
		w.Fatalf("deduct %s: %v, want %s", id, err, want)
	}
	e, _ := err.(*budget.Error)
	return e
}

func (w *world) rollback(b *bucket.Budget, id, rollbackID string,
	amount int64) bucket.DeductionView {
	w.Helper()
	v, err := w.node.Rollback(w.Context(), bucket.RollbackRequest{NoKey: true, Budget: bucket.BudgetRef{ID: b.ID},
		RequestID: id, RollbackID: rollbackID, Amount: amount})
	w.ok(err)
	return v
}

// books are a budget's columns.
type books struct{ T, F, U, O, S, R, Q, X int64 }

// books reads a budget's columns and checks I1.
func (w *world) books(id int64) (out books) {
	w.Helper()
	w.ok(w.db.Snapshot(w.Context(), "test", func(r *engine.Reader) error {
		all, b, err := bookkeeper.ReadBudget(r, "test", id, bookkeeper.AllEpochs(id)...)
		if err != nil {
			return err
		}
		out = books{T: b.Total, F: b.Unfunded, U: b.Undistributed, Q: b.Quarantined, X: b.Forfeited}
		for _, e := range all.Epochs.All() {
			out.O, out.S, out.R = out.O+e.Outstanding, out.S+e.Used, out.R+e.Returning
			if e.Halted != "" {
				w.Errorf("bucket %d epoch %d is halted: %s", e.Bucket, e.Number, e.Halted)
			}
		}
		return err
	}))
	if out.T != 0 && out.T != out.F+out.U+out.O+out.S+out.R+out.Q+out.X {
		w.Errorf("I1: %+v", out)
	}
	return out
}

// settled syncs, and compares a budget's columns.
func (w *world) settled(b *bucket.Budget, want books) {
	w.Helper()
	w.run("store sync")
	w.run("store epochs")
	if got := w.books(b.ID); got != want {
		w.Fatalf("%+v, want %+v", got, want)
	}
}

func name(i int) string { return fmt.Sprint("id-", i) }
