package counter_test

import (
	"context"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/budgetd/budgetd/bucket"
	"github.com/budgetd/budgetd/bucket/counter"
	"github.com/budgetd/budgetd/bucket/manage"
	"github.com/budgetd/budgetd/bucket/store"
	"github.com/budgetd/budgetd/budget"
	"github.com/budgetd/budgetd/internal/proof/testservers"
	"github.com/budgetd/budgetd/internal/redisstore/faultstore"
	"github.com/budgetd/budgetd/internal/sql/commit"
	"github.com/budgetd/budgetd/internal/sql/engine"
)

// cut is definitions that can be cut off from the database.
type cut struct {
	bucket.Definitions
	off   atomic.Bool
	reads atomic.Int64 // of single budgets
}

func (c *cut) err() error {
	if c.off.Load() {
		return &budget.Error{Code: budget.Unavailable, Reason: budget.ReasonDatabaseDown}
	}
	return nil
}

func (c *cut) Budget(ctx context.Context, ref bucket.BudgetRef) (bucket.Budget, error) {
	c.reads.Add(1)
	if err := c.err(); err != nil {
		return bucket.Budget{}, err
	}
	return c.Definitions.Budget(ctx, ref)
}

func (c *cut) Versions(ctx context.Context, ids []int64) (map[int64]bucket.Version, error) {
	if err := c.err(); err != nil {
		return nil, err
	}
	return c.Definitions.Versions(ctx, ids)
}

func (c *cut) VersionSum(ctx context.Context, ids []int64) (int, bucket.Version, error) {
	if err := c.err(); err != nil {
		return 0, bucket.Version{}, err
	}
	return c.Definitions.VersionSum(ctx, ids)
}

// without lets budgets be served for a minute by definitions that cannot be read.
func (w *world) without(c *counter.Config, definitions bucket.Definitions) {
	w.Helper()
	budgets, err := bucket.NewBudgets(bucket.BudgetsConfig{Definitions: definitions, Overrides: w.defs, Clock: w.clock,
		Without: time.Minute})
	w.ok(err)
	c.Budgets = budgets
}

// change changes a budget through the first node, which then tells the stores.
func (w *world) change(b *bucket.Budget, c bucket.Change) {
	w.Helper()
	_, err := w.defs.Change(w.Context(), b.ID, c)
	w.ok(err)
	w.ok(w.node.Push(w.Context(), b.ID))
}

// codes deducts an amount for a user and checks the code of the error; "" means accepted.
func (w *world) codes(node *node, b *bucket.Budget, id, user string, amount int64,
	want budget.Code) {
	w.Helper()
	began := time.Now()
	_, err := node.Deduct(w.Context(), bucket.DeductRequest{Budget: ref(b), RequestID: id,
		Amount: amount, Dimensions: map[string]string{"user": user}})
	if budget.CodeOf(err) != want {
		w.Errorf("%s: %v, want %q", id, err, want)
	}
	if took := time.Since(began); took > 15*time.Second {
		w.Errorf("%s took %s", id, took)
	}
}

// TestOldDefinition checks what a node that cannot read definitions answers by an old one: it
// accepts and repeats, but refuses nothing, and what was changed through another node neither
// accepts nor refuses. Once it reads them again, it refuses.
func TestOldDefinition(t *testing.T) {
	everywhere(t, 2, func(w *world) {
		defs := &cut{Definitions: w.defs}
		node, _ := w.newNode(func(c *counter.Config) { w.without(c, defs) })
		b := w.create(limited(1000))
		d := limited(1000)
		d.Name = "other"
		other := w.create(d)
		w.codes(node, b, "a", "ann", 50, "")
		w.codes(node, other, "a", "ann", 1, "")
		w.codes(node, b, "b", "ann", 1, budget.LimitExceeded)
		defs.off.Store(true)
		w.clock.Advance(2 * time.Second)
		w.codes(node, b, "c", "bob", 50, "")
		w.codes(node, b, "c", "bob", 50, "") // again
		w.codes(node, b, "c", "bob", 49, budget.RequestConflict)
		w.codes(node, b, "d", "bob", 1, budget.Unavailable) // the limit may be another by now
		check := node.Check(t.Context(), []bucket.CheckRequest{{Budget: ref(b), Amount: 1,
			Dimensions: map[string]string{"user": "bob"}}})
		if !budget.Is(check[0].Err, budget.Unavailable) {
			t.Errorf("check: %v", check[0].Err)
		}
		paused := true
		w.change(other, bucket.Change{Paused: &paused})
		w.codes(node, other, "f", "bob", 1, budget.Unavailable)
		w.codes(node, other, "a", "ann", 1, "") // again
		w.clock.Advance(time.Minute)
		w.codes(node, b, "g", "cid", 1, budget.Unavailable)
		defs.off.Store(false)
		w.clock.Advance(time.Second)
		w.codes(node, b, "d", "bob", 1, budget.LimitExceeded)
		w.codes(node, b, "g", "cid", 1, "")
		w.codes(node, other, "f", "bob", 1, budget.BudgetPaused)
		w.settled(b, books{T: 1000, O: 1000 - 101, S: 101})
		w.settled(other, books{T: 1000, O: 999, S: 1})
	})
}

// TestRefusedBySums checks that a node that cannot read definitions refuses by sums that it reads: an
// old definition does not turn what the database says now into a doubt. By an old definition alone it
// refuses nothing, and waits for no other.
func TestRefusedBySums(t *testing.T) {
	w := onRedis(t, "sqlite", 1)
	defs := &cut{Definitions: w.defs}
	node, _ := w.newNode(func(c *counter.Config) { w.without(c, defs) })
	sold, few := w.create(promo("sold", 10, 1)), w.create(limited(1000))
	w.codes(node, sold, "all", "ann", 10, "")
	w.codes(node, few, "one", "ann", 1, "")
	w.run("store sync")
	defs.off.Store(true)
	w.clock.Advance(2 * time.Second)
	w.codes(node, sold, "more", "ann", 1, budget.BudgetExhausted)
	read := defs.reads.Load()
	w.codes(node, few, "no user", "", 1, budget.Unavailable)
	if again := defs.reads.Load() - read; again != 0 {
		t.Errorf("the definition was read %d times while the database did not answer", again)
	}
}

// TestChangesReachOldDefinitions checks each change of a definition that lets less be deducted: a
// node that cannot read it accepts nothing once the store knows of it, also if the budget never had
// limits, and if the store answers the first call late, not at all, or a while later.
func TestChangesReachOldDefinitions(t *testing.T) {
	paused, end, name := true, time.Now().Add(time.Hour), "renamed"
	for what, change := range map[string]bucket.Change{"pause": {Paused: &paused}, "end": {EndAt: &end},
		"name": {Name: &name}, "limits": {Limits: &limited(1).Limits.List}} {
		t.Run(what, func(t *testing.T) {
			w := onRedis(t, "sqlite", 1)
			defs := &cut{Definitions: w.defs}
			node, _ := w.newNode(func(c *counter.Config) { w.without(c, defs) })
			d := promo("sale", 100, 1)
			d.RoutingDimension = "user"
			b := w.create(d)
			w.codes(node, b, "a", "ann", 1, "")
			defs.off.Store(true)
			w.clock.Advance(2 * time.Second)
			w.codes(node, b, "b", "ann", 1, "")
			var calls atomic.Int64
			w.network.Inject(func(op string, _ bucket.Partition) faultstore.Fault {
				if op != "raise" {
					return faultstore.None
				}
				if calls.Add(1) == 1 {
					return faultstore.LoseCall
				}
				return faultstore.LoseReply
			})
			_, err := w.defs.Change(t.Context(), b.ID, change)
			w.ok(err)
			if err := w.node.Push(t.Context(), b.ID); err == nil || calls.Load() != 1 {
				t.Errorf("push: %v after %d calls", err, calls.Load())
			}
			w.codes(node, b, "c", "ann", 1, "") // nobody has told the store
			if err := w.try("store sync"); err == nil || calls.Load() != 2 {
				t.Errorf("sync: %v after %d calls", err, calls.Load())
			}
			w.codes(node, b, "d", "ann", 1, budget.Unavailable)
			w.network.Inject(nil)
			w.run("store sync")
			w.codes(node, b, "d", "ann", 1, budget.Unavailable)
			w.settled(b, books{T: 100, O: 97, S: 3})
			w.network.Inject(func(op string, _ bucket.Partition) faultstore.Fault {
				calls.Add(1)
				if op == "raise" {
					t.Error("the store is told again what it has confirmed")
				}
				return faultstore.None
			})
			w.run("store sync")
		})
	}
}

// TestWithoutSQL cuts a node off from MariaDB, in both ways. It sells what its buckets have and
// nothing else: the last units are unavailable, as is a new budget, and a rollback has an unknown
// outcome. Another node, which has the database, pauses a budget, and sells the rest of the other.
func TestWithoutSQL(t *testing.T) {
	for name, rule := range map[string]testservers.Disturbance{"refuses": testservers.Refuse,
		"hangs": testservers.BlackHole} {
		t.Run(name, func(t *testing.T) { withoutSQL(t, rule) })
	}
}

func withoutSQL(t *testing.T, rule testservers.Disturbance) {
	t.Helper()
	server := testservers.SharedMariaDB(t)
	dsn, proxy := server.NewDatabase(t), testservers.NewProxy(t, server.Addr())
	w := &world{TB: t, clock: &clock{}, stores: map[string]*counter.Store{}}
	open := func(dsn string) *engine.DB {
		db, err := engine.Open(t.Context(), engine.Config{Driver: "mysql", DSN: dsn, Clock: w.clock.Now,
			ClockTolerance: time.Hour})
		w.ok(err)
		t.Cleanup(func() { _ = db.Close() })
		return db
	}
	w.db = open(dsn)
	w.instance("m", testservers.SharedRedis(t), 2)
	w.begin()
	far := open(strings.Replace(dsn, server.Addr(), proxy.Addr(), 1))
	part := store.New(far)
	part.Node = "node-2"
	node, _ := w.newNode(func(c *counter.Config) {
		w.without(c, manage.NewLedger(far))
		c.Ledger, c.Availability = part, commit.New(far)
		c.Settings.Deadline = 2 * time.Second
	})
	other := w.create(promo("other", 10, 1))
	d := promo("sale", 100, 2)
	d.ShardingQuantity = 30
	b := w.create(d)
	w.codes(node, b, "first", "", 1, "")
	w.codes(node, other, "first", "", 1, "")
	w.run("store sync")
	w.ok(proxy.Set(testservers.Rule{Disturbance: rule}))
	sold := int64(1)
	var err error
	for i := 0; err == nil || sold < 20; i++ {
		began := time.Now()
		if _, err = node.Deduct(t.Context(), request(b, fmt.Sprint("cut-", i), 1)); err == nil {
			sold++
		} else if !budget.Is(err, budget.Unavailable) || i > 200 {
			t.Fatalf("after %d: %v", sold, err)
		}
		if took := time.Since(began); took > 10*time.Second {
			t.Errorf("%d took %s", i, took)
		}
	}
	if sold > 100 {
		t.Errorf("%d sold without the database", sold)
	}
	_, err = node.Rollback(t.Context(), bucket.RollbackRequest{NoKey: true, Budget: ref(b), RequestID: "first"})
	if !budget.Is(err, budget.OutcomeUnknown) {
		t.Errorf("rollback: %v", err)
	}
	fresh := w.create(promo("fresh", 10, 1))
	w.codes(node, fresh, "new", "", 1, budget.Unavailable)
	paused := true
	w.change(other, bucket.Change{Paused: &paused})
	w.codes(node, other, "paused", "", 1, budget.Unavailable)
	rest := 100 - (sold - 1)
	w.codes(w.node, b, "rest", "", rest, "")
	w.codes(w.node, b, "more", "", 1, budget.BudgetExhausted)
	w.codes(node, b, "more", "", 1, budget.Unavailable)
	w.ok(proxy.Set(testservers.Rule{}))
	eventually := time.Now().Add(30 * time.Second)
	for {
		_, err := node.Deduct(t.Context(), request(b, "more", 1))
		if budget.Is(err, budget.BudgetExhausted) {
			break
		}
		if !budget.Is(err, budget.Unavailable) || time.Now().After(eventually) {
			t.Fatalf("with the database again: %v", err)
		}
	}
	v, err := node.Rollback(t.Context(), bucket.RollbackRequest{NoKey: true, Budget: ref(b), RequestID: "first"})
	if err != nil || !v.Replayed {
		t.Errorf("rollback, again: %+v, %v", v, err)
	}
	w.settled(b, books{T: 100, S: 100})
	w.settled(other, books{T: 10, O: 9, S: 1})
}
