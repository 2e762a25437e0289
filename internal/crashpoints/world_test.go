package crashpoints

import (
	"cmp"
	"context"
	"encoding/binary"
	"fmt"
	"hash/fnv"
	"log/slog"
	"math/rand/v2"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/budgetd/budgetd/bucket"
	"github.com/budgetd/budgetd/budget"
	"github.com/budgetd/budgetd/internal/memstore"
)

// shape is how a world is built.
type shape struct {
	// instances have one lane each; buckets are those of the budget.
	instances, buckets int
	// rows: the lanes are rows of the ledger's own database.
	rows       bool
	durability budget.Durability
}

func (s shape) String() string {
	kind := "log"
	if s.rows {
		kind = "rows"
	}
	return fmt.Sprintf("%s-%dx%d-%s", s.durability, s.instances, s.buckets, kind)
}

// durabilities are those that every operation is run with.
var durabilities = []budget.Durability{budget.Ledger, budget.Store}

// world is one database and its instances, with one node at a time.
type world struct {
	*testing.T
	shape
	model   *memstore.SQL
	servers map[string]*memstore.Server
	trace   *tracer
	node    *bucket.Service
	budget  bucket.BudgetRef
	total   int64
	define  func(*budget.Definition) // nil: nothing
	shelf   *shelf                   // nil: nothing is archived
	// configure, when set, changes what a node is made of.
	configure func(*bucket.Config)

	life   context.Context // of the callers of the node: over when it stops
	end    context.CancelFunc
	chance *rand.ChaCha8
	luck   sync.Mutex

	older    *memstore.Image // of m0, before
	wentBack bool            // m0 did
	gone     bool            // so is a node: what it acknowledged may be more than anybody knows
	forgot   bool            // a store said so of its scripts: a sign of lost memory

	changed atomic.Bool // a budget's rows, since they were counted

	released int // how often all that was in quarantine was released

	stuck  bool // something stays pending: it was told, and is not waited for again
	faults []string
}

func newWorld(t *testing.T, s shape, total int64) *world {
	w := &world{T: t, shape: s, model: memstore.NewSQL(time.Now), total: total,
		servers: map[string]*memstore.Server{}, chance: rand.NewChaCha8([32]byte{})}
	w.model.Unchecked = true // the tracer counts, and says at which step
	w.life, w.end = context.WithCancel(context.Background())
	w.trace = newTracer(func() { w.end() })
	w.model.Watch = func(*memstore.Columns) { w.changed.Store(true) }
	w.trace.written = func(method string) {
		if w.changed.Swap(false) {
			w.count("after " + method)
		}
	}
	w.model.Hook = w.trace.sql
	for i := range s.instances {
		name := fmt.Sprintf("m%d", i)
		w.servers[name] = memstore.NewServer(name, 1)
		w.servers[name].Hook = w.trace.store
	}
	return w
}

// fault notes something that must not be; the first ones are told.
func (w *world) fault(format string, args ...any) {
	w.luck.Lock()
	defer w.luck.Unlock()
	const most = 8
	if len(w.faults) < most {
		w.faults = append(w.faults, fmt.Sprintf(format, args...))
	}
}

func (w *world) random(b []byte) {
	w.luck.Lock()
	defer w.luck.Unlock()
	_, _ = w.chance.Read(b)
}

// clock is the bubble's, but no two loops of different periods wake up at the same instant.
type clock struct{ bucket.SystemClock }

func (c clock) Sleep(ctx context.Context, d time.Duration) error {
	h := fnv.New32a()
	_ = binary.Write(h, binary.LittleEndian, int64(d))
	const spread = 1_000_000
	return c.SystemClock.Sleep(ctx, d+time.Duration(h.Sum32()%spread))
}

// queue gives calls that a node makes side by side, of the same name, each an instant of its own.
type queue struct {
	bucket.SQL
	trace *tracer
}

// Lose and Ending wait for an instant of their epoch's own.
func (q queue) Lose(ctx context.Context, ref bucket.Ref) (bool, error) {
	q.trace.turn(fmt.Sprint("Lose ", ref))
	return q.SQL.Lose(ctx, ref)
}

func (q queue) Ending(ctx context.Context, id int64, ref bucket.Ref, by bucket.OfflineBy, keep bool) (
	bool, error) {
	q.trace.turn(fmt.Sprint("Ending ", ref))
	return q.SQL.Ending(ctx, id, ref, by, keep)
}

// alarm is a log in which a panic of background work is a fault: the service goes on after one. Other
// errors are expected, and nothing below an error is made.
type alarm struct{ w *world }

func (alarm) Enabled(_ context.Context, level slog.Level) bool { return level >= slog.LevelError }

func (a alarm) Handle(_ context.Context, r slog.Record) error {
	if strings.Contains(r.Message, "panicked") {
		text := r.Message
		r.Attrs(func(attr slog.Attr) bool {
			text += fmt.Sprintf("; %s %s", attr.Key, attr.Value)
			return true
		})
		a.w.fault("%s", text)
	}
	return nil
}

func (a alarm) WithAttrs([]slog.Attr) slog.Handler { return a }
func (a alarm) WithGroup(string) slog.Handler      { return a }

// What is looked at in the background is looked at often enough to be seen, and not more.
const (
	choresEvery = time.Second
	downAfter   = 5 * time.Second
	points      = 16 // of a ring's node: many would only cost
)

// start makes the world's next node and starts it.
func (w *world) start() {
	c := bucket.Config{SQL: queue{w.model, w.trace}, Instances: map[string]bucket.Instance{},
		Lanes: map[string]int{}, Clock: clock{}, Rand: w.random, Turns: w.trace, Log: slog.New(alarm{w}),
		Settings: bucket.Settings{Deadline: 2 * time.Second, StepTimeout: 2 * time.Second,
			Chores: choresEvery, DownAfter: downAfter, Audit: time.Hour, CachedBudgets: 16,
			CachedIDs: 64, BatchSize: 16, Queue: 64, Committers: 2, Points: points}}
	for name, server := range w.servers {
		c.Lanes[name] = 1
		if w.rows {
			c.Instances[name] = server.ConnectRows(w.model)
		} else {
			c.Instances[name] = server.Connect()
		}
	}
	if w.shelf != nil {
		c.Archiver, c.Settings.Keep = w.shelf, keptFor
	}
	if w.configure != nil {
		w.configure(&c)
	}
	node, err := bucket.New(c)
	if err != nil {
		w.Fatal(err)
	}
	w.node = node
	w.life, w.end = context.WithCancel(context.Background())
	w.trace.revive()
	node.Start(w.life)
}

// kill ends the node: what it still calls has no effect, and its goroutines are gone.
func (w *world) kill() {
	w.gone = true
	w.trace.mu.Lock()
	if !w.trace.dead {
		w.trace.die()
	}
	w.trace.mu.Unlock()
	if w.durability == budget.Store { // what it acknowledged cannot be drained any more: it gives up
		ctx, cancel := context.WithCancel(context.Background())
		cancel()
		_ = w.node.Stop(ctx)
	}
	w.leave()
}

// leave waits until the goroutines of the node have ended.
func (w *world) leave() {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	err := w.node.Stop(ctx)
	if dead, _ := w.trace.died(); err != nil && (!dead || ctx.Err() != nil) {
		w.fault("the node does not end: %v", err)
	}
	w.end()
	const wind = 50 * time.Millisecond
	time.Sleep(wind)
	synctest.Wait()
}

// restart replaces the node by a new one, without a crash.
func (w *world) restart() {
	w.leave()
	w.start()
}

// release lets what was postponed arrive.
func (w *world) release() {
	for _, server := range w.servers {
		server.Release()
	}
	if w.shelf != nil {
		w.shelf.release()
	}
}

// settle waits until the chores have looked once and nothing is left half done.
func (w *world) settle() { w.settled((*world).pending) }

// settled is settle for what pending lists.
func (w *world) settled(pending func(*world) []string) {
	time.Sleep(choresEvery + choresEvery/4)
	const bound, pause = 40 * time.Second, 100 * time.Millisecond
	for began := time.Now(); ; time.Sleep(pause) {
		if dead, _ := w.trace.died(); dead {
			return
		}
		open := pending(w)
		if len(open) == 0 || w.stuck {
			return
		}
		if time.Since(began) > bound {
			w.fault("still pending after %s: %v", bound, open)
			w.stuck = true
			return
		}
	}
}

// row is the budget's row as it is now, nil if there is none.
func (w *world) row() *memstore.BudgetRow { return w.rowNamed(w.budget.Name) }

// nameOf is the name of the budget that a call is about, and rowOf its row as it is now.
func (w *world) nameOf(c *call) string { return cmp.Or(c.on, w.budget.Name) }

func (w *world) rowOf(c *call) *memstore.BudgetRow { return w.rowNamed(w.nameOf(c)) }

func (w *world) rowNamed(name string) *memstore.BudgetRow {
	tables := w.model.Tables()
	for i := range tables.Budgets {
		if tables.Budgets[i].Definition.Name == name {
			return &tables.Budgets[i]
		}
	}
	return nil
}
