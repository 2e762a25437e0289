package bucket_test

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"log/slog"
	"path/filepath"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/budgetd/budgetd/bucket"
	"github.com/budgetd/budgetd/budget"
	"github.com/budgetd/budgetd/internal/memstore"
	"github.com/budgetd/budgetd/internal/redisstore"
	"github.com/budgetd/budgetd/internal/sqlstore"
	"github.com/budgetd/budgetd/internal/testservers"
	"github.com/budgetd/budgetd/ledger"
)

// world is one database, the instances on it, and the nodes.
type world struct {
	t   testing.TB
	sql bucket.SQL
	// connect makes one node's view of the instances.
	connect func() map[string]bucket.Instance
	// servers are the instances in memory; nil in other worlds.
	servers map[string]*memstore.Server
	model   *memstore.SQL
	// clock is the nodes' clock; nil: the machine's.
	clock bucket.Clock
	// archiver keeps what leaves the feed; nil: nobody does.
	archiver bucket.Archiver
	// observer is told by all nodes; nil: nobody.
	observer bucket.Observer
	// log is all nodes'; nil: nobody reads it.
	log *slog.Logger
	// durability is that of the budgets made; "": as defined.
	durability budget.Durability
}

func newWorld(t *testing.T) *world {
	w := &world{t: t, model: memstore.NewSQL(time.Now), servers: map[string]*memstore.Server{}}
	w.sql = w.model
	for i := range 3 {
		name := fmt.Sprintf("m%d", i)
		w.servers[name] = memstore.NewServer(name, 1)
	}
	w.connect = func() map[string]bucket.Instance {
		out := map[string]bucket.Instance{}
		for name, server := range w.servers {
			out[name] = server.Connect()
		}
		return out
	}
	return w
}

// everywhere runs a test in memory, on SQLite with its own rows, and on MariaDB with three Redis, in
// both durabilities.
func everywhere(t *testing.T, test func(*testing.T, *world)) {
	for _, durability := range []budget.Durability{budget.Ledger, budget.Store} {
		t.Run(string(durability), func(t *testing.T) {
			inEveryWorld(t, func(t *testing.T, w *world) {
				w.durability = durability
				test(t, w)
			})
		})
	}
}

func inEveryWorld(t *testing.T, test func(*testing.T, *world)) {
	t.Run("memory", func(t *testing.T) { test(t, newWorld(t)) })
	t.Run("sqlite", func(t *testing.T) {
		db := openSQL(t, "sqlite", filepath.Join(t.TempDir(), "budgetd.db"))
		test(t, &world{t: t, sql: db, connect: func() map[string]bucket.Instance {
			return map[string]bucket.Instance{"rows": db.Rows("rows", 1)}
		}})
	})
	t.Run("mariadb and redis", func(t *testing.T) {
		db := openSQL(t, "mysql", testservers.SharedMariaDB(t).NewDatabase(t))
		addrs := []string{testservers.Redis(t).Addr(), testservers.Redis(t).Addr(), testservers.Redis(t).Addr()}
		test(t, &world{t: t, sql: db, connect: func() map[string]bucket.Instance {
			out := map[string]bucket.Instance{}
			for i, addr := range addrs {
				name := fmt.Sprintf("redis-%d", i)
				store, err := redisstore.New(redisstore.Config{Name: name, Addr: addr, Lanes: 1,
					InstallationID: db.InstallationID()})
				if err != nil {
					t.Fatal(err)
				}
				out[name] = store
			}
			return out
		}})
	})
}

func openSQL(t testing.TB, driver, dsn string) *sqlstore.DB {
	t.Helper()
	db, err := sqlstore.Open(context.Background(), sqlstore.Config{Driver: driver, DSN: dsn})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := db.Close(); err != nil {
			t.Errorf("close: %v", err)
		}
	})
	return db
}

// node starts a service on the world, that reaches all its lanes.
func (w *world) node(set bucket.Settings) *bucket.Service {
	w.t.Helper()
	s := w.start(set)
	lanes, err := s.Lanes(context.Background())
	if err != nil {
		w.t.Fatal(err)
	}
	for _, l := range lanes {
		if !l.Reachable {
			w.t.Fatalf("lane %s: %s", l.Lane, l.Problem)
		}
	}
	return s
}

// start starts a service on the world.
func (w *world) start(set bucket.Settings) *bucket.Service {
	w.t.Helper()
	c := bucket.Config{SQL: w.sql, Instances: w.connect(), Lanes: map[string]int{}, Clock: w.clock,
		Archiver: w.archiver,
		Rand:     func(b []byte) { _, _ = rand.Read(b) }, Settings: set,
		Observer: w.observer, Log: w.log}
	for name := range c.Instances {
		c.Lanes[name] = 1
	}
	s, err := bucket.New(c)
	if err != nil {
		w.t.Fatal(err)
	}
	s.Start(context.Background())
	w.t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
		defer cancel()
		if err := s.Stop(ctx); err != nil {
			w.t.Errorf("stop: %v", err)
		}
	})
	return s
}

// quick looks after things often; the deadline is long because a busy machine is no fault.
var quick = bucket.Settings{Deadline: patientDeadline, StepTimeout: 30 * time.Second, Refresh: 20 * time.Millisecond, Chores: 50 * time.Millisecond}

func promo(name string, total int64, buckets int) budget.Definition {
	return budget.Definition{Tenant: budget.DefaultTenant, Name: name, Unit: budget.Count,
		Durability: budget.Ledger, Type: budget.Promo, TotalQuantity: total, BucketQuantity: buckets}
}

func (w *world) create(s *bucket.Service, d budget.Definition) bucket.BudgetRef {
	w.t.Helper()
	if w.durability != "" {
		d.Durability = w.durability
	}
	v, created, err := s.Create(context.Background(), d)
	if err != nil || !created {
		w.t.Fatalf("create: created %v, %v", created, err)
	}
	return bucket.BudgetRef{ID: v.Definition.ID}
}

func deduct(s *bucket.Service, ref bucket.BudgetRef, id string, amount int64) (bucket.DeductAnswer, error) {
	return s.Deduct(context.Background(), bucket.DeductRequest{Budget: ref, RequestID: id, Amount: amount})
}

// settled waits until nothing is left half done and every store can be read, and checks the books.
func (w *world) settled(s *bucket.Service, ref bucket.BudgetRef, used int64) {
	w.t.Helper()
	deadline := time.Now().Add(time.Minute)
	got := w.quiet(s, ref).Figures.Used
	for got != used && time.Now().Before(deadline) { // in store mode the ledger follows
		time.Sleep(5 * time.Millisecond)
		got = w.quiet(s, ref).Figures.Used
	}
	if got != used {
		w.t.Errorf("used %d, want %d", got, used)
	}
}

// noneStale reports whether every live epoch is of its lane's present activation.
func (w *world) noneStale(ref bucket.BudgetRef) bool {
	w.t.Helper()
	b, err := w.sql.Budget(context.Background(), ref)
	if err != nil {
		w.t.Fatal(err)
	}
	for i := range b.Buckets {
		bk := &b.Buckets[i]
		lane, err := w.sql.Lane(context.Background(), bk.Lane, "")
		if err != nil {
			w.t.Fatal(err)
		}
		if bk.Epoch.Status.Live() && bk.Epoch.Activation != lane.Activation {
			return false
		}
	}
	return true
}

// quiet waits until nothing is half done any more, with the audit ok all the time.
func (w *world) quiet(s *bucket.Service, ref bucket.BudgetRef) bucket.AuditReport {
	w.t.Helper()
	ctx, deadline := context.Background(), time.Now().Add(time.Minute)
	for {
		u, err := w.sql.Unfinished(ctx, 100)
		if err != nil {
			w.t.Fatal(err)
		}
		report, err := s.Audit(ctx, ref)
		if err != nil {
			w.t.Fatal(err)
		}
		if !report.OK {
			w.t.Fatalf("audit: %v", report.Discrepancies)
		}
		open := len(u.Epochs) + len(u.Grants) + len(u.Returning) + len(u.Shrinks) + len(u.Fenced) + len(u.Offline)
		if open == 0 && len(report.Unchecked) == 0 && w.noneStale(ref) {
			return report
		}
		if time.Now().After(deadline) {
			w.t.Fatalf("still unfinished: %+v, unchecked %v", u, report.Unchecked)
		}
		time.Sleep(5 * time.Millisecond)
	}
}

func TestDeductRollBackCancel(t *testing.T) { everywhere(t, deductRollBackCancel) }

func deductRollBackCancel(t *testing.T, w *world) {
	s := w.node(quick)
	ref := w.create(s, promo("spring-sale", 1000, 4))
	ctx := context.Background()
	first, err := deduct(s, ref, "o1", 5)
	if err != nil || first.Replayed || first.State != ledger.StateUsed || first.BudgetRemaining > 1000 {
		t.Fatalf("%+v, %v", first, err)
	}
	again, err := deduct(s, ref, "o1", 5)
	if err != nil || !again.Replayed || again.Bucket != first.Bucket || again.Receipt != first.Receipt {
		t.Errorf("repeat: %+v, %v", again, err)
	}
	if _, err = deduct(s, ref, "o1", 6); !budget.Is(err, budget.RequestConflict) {
		t.Errorf("another amount: %v", err)
	}
	v, err := s.Rollback(ctx, bucket.RollbackRequest{Budget: ref, RequestID: "o1", RollbackID: "r1", Amount: 2})
	if err != nil || v.RolledBack != 2 || v.State != ledger.StateUsed {
		t.Errorf("part: %+v, %v", v, err)
	}
	if _, err = s.Rollback(ctx, bucket.RollbackRequest{Budget: ref, RequestID: "o1", RollbackID: "r2", Amount: 4}); !budget.Is(err, budget.AmountExceedsRemaining) {
		t.Errorf("more than is left: %v", err)
	}
	if v, err = s.Rollback(ctx, bucket.RollbackRequest{Budget: ref, RequestID: "o1"}); err != nil || v.State != ledger.StateRolledBack {
		t.Errorf("the rest: %+v, %v", v, err)
	}
	if again, err = deduct(s, ref, "o1", 5); err != nil || !again.Replayed || again.State != ledger.StateRolledBack {
		t.Errorf("repeat after the rollback: %+v, %v", again, err)
	}
	if v, err = s.Cancel(ctx, ref, "never"); err != nil || v.State != ledger.StateVoid {
		t.Errorf("cancel: %+v, %v", v, err)
	}
	if _, err = deduct(s, ref, "never", 1); !budget.Is(err, budget.RequestVoid) {
		t.Errorf("deduct of a cancelled id: %v", err)
	}
	if _, err = s.Deduction(ctx, ref, "unknown"); !budget.Is(err, budget.DeductionNotFound) {
		t.Errorf("unknown id: %v", err)
	}
	w.settled(s, ref, 0)
}

// TestThousandTimesTheSameID: one takes effect, the others replay (I4).
func TestThousandTimesTheSameID(t *testing.T) { everywhere(t, thousandTimesTheSameID) }

func thousandTimesTheSameID(t *testing.T, w *world) {
	nodes := []*bucket.Service{w.node(quick), w.node(quick)}
	ref := w.create(nodes[0], promo("one", 100, 4))
	var fresh, replayed atomic.Int64
	var all sync.WaitGroup
	for i := range 1000 {
		all.Go(func() {
			a, err := deduct(nodes[i%2], ref, "same", 3)
			switch {
			case err != nil:
				t.Error(err)
			case a.Replayed:
				replayed.Add(1)
			default:
				fresh.Add(1)
			}
		})
	}
	all.Wait()
	if fresh.Load() != 1 || replayed.Load() != 999 {
		t.Errorf("%d accepted, %d replayed", fresh.Load(), replayed.Load())
	}
	w.settled(nodes[0], ref, 3)
}

// TestEveryUnitIsSold: whatever the amounts, nothing is refused while the budget covers it (I3), and
// the last unit goes.
func TestEveryUnitIsSold(t *testing.T) { everywhere(t, everyUnitIsSold) }

func everyUnitIsSold(t *testing.T, w *world) {
	nodes := []*bucket.Service{w.node(quick), w.node(quick)}
	ref := w.create(nodes[0], promo("sevens", 5000, 16))
	var sold atomic.Int64
	var all sync.WaitGroup
	for caller := range 16 {
		all.Go(func() {
			for i := 0; ; i++ {
				_, err := deduct(nodes[i%2], ref, fmt.Sprintf("c%d-%d", caller, i), 7)
				var e *budget.Error
				if errors.As(err, &e) && e.Code == budget.BudgetExhausted {
					if *e.Available >= 7 {
						t.Errorf("refused with %d left", *e.Available)
					}
					return
				}
				if err != nil {
					t.Error(err)
					return
				}
				sold.Add(7)
			}
		})
	}
	all.Wait()
	if want := int64(5000 / 7 * 7); sold.Load() != want {
		t.Errorf("sold %d, want %d", sold.Load(), want)
	}
	if _, err := deduct(nodes[0], ref, "rest", 5000%7); err != nil {
		t.Errorf("the rest: %v", err)
	}
	w.settled(nodes[0], ref, 5000)
	if _, err := s0(nodes).Adjust(context.Background(), bucket.AdjustRequest{Budget: ref, RequestID: "more", Quantity: 160}); err != nil {
		t.Fatal(err)
	}
	if _, err := deduct(nodes[1], ref, "after", 150); err != nil {
		t.Errorf("after the append, through the other node: %v", err)
	}
	w.settled(nodes[0], ref, 5150)
}

func s0(nodes []*bucket.Service) *bucket.Service { return nodes[0] }

func TestOneCallOverAllBuckets(t *testing.T) { everywhere(t, oneCallOverAllBuckets) }

func oneCallOverAllBuckets(t *testing.T, w *world) {
	s := w.node(quick)
	ref := w.create(s, promo("wide", 1600, 16))
	if _, err := deduct(s, ref, "all", 1599); err != nil {
		t.Fatal(err)
	}
	w.settled(s, ref, 1599)
}

func TestShrink(t *testing.T) { everywhere(t, shrink) }

func shrink(t *testing.T, w *world) {
	s := w.node(quick)
	ref := w.create(s, promo("shrinking", 1000, 8))
	if _, err := deduct(s, ref, "o1", 100); err != nil {
		t.Fatal(err)
	}
	ctx := context.Background()
	_, err := s.Adjust(ctx, bucket.AdjustRequest{Budget: ref, RequestID: "too-much", Quantity: -901})
	var e *budget.Error
	if !errors.As(err, &e) || e.Code != budget.AmountExceedsRemaining || e.Available == nil || *e.Available != 900 {
		t.Errorf("more than is left: %v", err)
	}
	v, err := s.Adjust(ctx, bucket.AdjustRequest{Budget: ref, RequestID: "all", Quantity: -900})
	if err != nil || v.Figures.Total != 100 {
		t.Fatalf("%+v, %v", v, err)
	}
	if v, err = s.Adjust(ctx, bucket.AdjustRequest{Budget: ref, RequestID: "all", Quantity: -900}); err != nil || !v.Replayed || v.Figures.Total != 100 {
		t.Errorf("repeat: %+v, %v", v, err)
	}
	if _, err := deduct(s, ref, "o2", 1); !budget.Is(err, budget.BudgetExhausted) {
		t.Errorf("after the shrink: %v", err)
	}
	w.settled(s, ref, 100)
}

func TestOperatorTakesBucketsOffline(t *testing.T) { everywhere(t, operatorTakesBucketsOffline) }

func operatorTakesBucketsOffline(t *testing.T, w *world) {
	s := w.node(quick)
	ref := w.create(s, promo("ops", 1000, 4))
	ctx := context.Background()
	for i := range 3 {
		v, err := s.Offline(ctx, ref, fmt.Sprintf("ops:bucket-%d", i))
		if err != nil || v.Online || v.OfflineBy != bucket.ByOperator {
			t.Fatalf("%+v, %v", v, err)
		}
	}
	if _, err := s.Offline(ctx, ref, "ops:bucket-3"); !budget.Is(err, budget.LastBucket) {
		t.Errorf("the last bucket: %v", err)
	}
	if _, err := s.Offline(ctx, ref, "other:bucket-0"); !budget.Is(err, budget.BucketNotFound) {
		t.Errorf("a bucket of another budget: %v", err)
	}
	if _, err := deduct(s, ref, "all", 1000); err != nil {
		t.Errorf("one bucket serves everything: %v", err)
	}
	v, err := s.Online(ctx, ref, "ops:bucket-1")
	if err != nil || !v.Online || v.Epoch.Number != 2 {
		t.Errorf("%+v, %v", v, err)
	}
	w.settled(s, ref, 1000)
}

// TestPausedAndOver: a refusal that depends on state still replays an accepted id.
func TestPausedAndOver(t *testing.T) { everywhere(t, pausedAndOver) }

func pausedAndOver(t *testing.T, w *world) {
	s, other := w.node(quick), w.node(quick)
	ref := w.create(s, promo("paused", 100, 2))
	ctx := context.Background()
	if _, err := deduct(s, ref, "before", 1); err != nil {
		t.Fatal(err)
	}
	yes := true
	if _, err := s.Change(ctx, ref, bucket.Change{Paused: &yes}); err != nil {
		t.Fatal(err)
	}
	time.Sleep(time.Second)
	for _, node := range []*bucket.Service{s, other} {
		if _, err := deduct(node, ref, "after", 1); !budget.Is(err, budget.BudgetPaused) {
			t.Errorf("paused: %v", err)
		}
		if a, err := deduct(node, ref, "before", 1); err != nil || !a.Replayed {
			t.Errorf("repeat while paused: %+v, %v", a, err)
		}
	}
	no, end := false, w.sql.Now().Add(-time.Second)
	if _, err := s.Change(ctx, ref, bucket.Change{Paused: &no, EndAt: &end}); err != nil {
		t.Fatal(err)
	}
	if _, err := deduct(s, ref, "late", 1); !budget.Is(err, budget.BudgetExpired) {
		t.Errorf("over: %v", err)
	}
	w.settled(s, ref, 1)
}

// TestLaneLosesItsMemory: in ledger mode a wiped store costs nothing, and is back by itself.
func TestLaneLosesItsMemory(t *testing.T) {
	w := newWorld(t)
	nodes := []*bucket.Service{w.node(quick), w.node(quick)}
	ref := w.create(nodes[0], promo("wiped", 100_000, 9))
	var used, refused atomic.Int64
	stop := make(chan struct{})
	var all sync.WaitGroup
	for caller := range 8 {
		all.Go(func() {
			for i := 0; ; i++ {
				select {
				case <-stop:
					return
				default:
				}
				id := fmt.Sprintf("c%d-%d", caller, i)
				for {
					_, err := deduct(nodes[i%2], ref, id, 3)
					if err == nil {
						used.Add(3)
						break
					}
					if k := budget.CodeOf(err).Kind(); k != budget.NotDone && k != budget.MayBeDone {
						t.Errorf("%s: %v", id, err)
						return
					}
					refused.Add(1)
					time.Sleep(5 * time.Millisecond)
				}
			}
		})
	}
	for range 6 {
		time.Sleep(150 * time.Millisecond)
		for _, server := range w.servers {
			server.Lose()
			break
		}
	}
	time.Sleep(200 * time.Millisecond)
	close(stop)
	all.Wait()
	t.Logf("used %d, tried again %d times", used.Load(), refused.Load())
	w.settled(nodes[0], ref, used.Load())
	if used.Load() < 300 {
		t.Error("no load")
	}
}
