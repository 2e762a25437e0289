package transfer_test

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/budgetd/budgetd/bucket"
	"github.com/budgetd/budgetd/bucket/place"
	"github.com/budgetd/budgetd/bucket/transfer"
	"github.com/budgetd/budgetd/budget"
	"github.com/budgetd/budgetd/internal/sqlstore/definitions"
	"github.com/budgetd/budgetd/internal/sqlstore/engine"
	sqltransfer "github.com/budgetd/budgetd/internal/sqlstore/transfer"
)

// stores are filters that remember levels, and stores that can be down.
type stores struct {
	mu     sync.Mutex
	levels map[bucket.Lane][]bucket.Level
	down   map[string]bool
}

func (s *stores) Set(_ context.Context, lane bucket.Lane, levels []bucket.Level) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.levels[lane] = append(s.levels[lane], levels...)
	return nil
}

func (s *stores) Take(context.Context, bucket.Lane, []bucket.Take) ([]bucket.Taken, error) {
	return nil, errors.New("nobody takes here")
}

func (s *stores) Ping(_ context.Context, lane bucket.Lane) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.down[lane.Instance] {
		return errors.New("connection refused")
	}
	return nil
}

func (s *stores) last(lane bucket.Lane) bucket.Level {
	s.mu.Lock()
	defer s.mu.Unlock()
	if n := len(s.levels[lane]); n > 0 {
		return s.levels[lane][n-1]
	}
	return bucket.Level{}
}

// world is a service over a database, with three instances.
type world struct {
	*testing.T
	ctx    context.Context
	mu     sync.Mutex
	now    time.Time
	db     *engine.DB
	defs   *definitions.Part
	part   *sqltransfer.Part
	stores *stores
	places *place.Map
	lanes  []bucket.Lane
}

func (w *world) clock() time.Time {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.now
}

func (w *world) advance(d time.Duration) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.now = w.now.Add(d)
}

func newWorld(t *testing.T) *world {
	w := &world{T: t, ctx: t.Context(), now: time.Now().Truncate(time.Second),
		stores: &stores{levels: map[bucket.Lane][]bucket.Level{}, down: map[string]bool{}}}
	var err error
	w.db, err = engine.Open(w.ctx, engine.Config{Driver: "sqlite", Clock: w.clock,
		DSN: filepath.Join(t.TempDir(), "budgetd.db")})
	w.ok(err)
	t.Cleanup(func() { _ = w.db.Close() })
	w.defs, w.part = definitions.New(w.db), sqltransfer.New(w.db)
	for i := range 3 {
		w.lanes = append(w.lanes, bucket.Lane{Instance: fmt.Sprint("store-", i)})
	}
	w.places, err = place.New(w.lanes, 100)
	w.ok(err)
	return w
}

func (w *world) node() *transfer.Service {
	w.Helper()
	budgets, err := bucket.NewBudgets(bucket.BudgetsConfig{Definitions: w.defs})
	w.ok(err)
	return transfer.New(transfer.Config{Budgets: budgets, Pages: w.defs, Filter: w.stores,
		Health: w.stores, Lanes: w.lanes, Places: w.places, Now: w.db.Now,
		Ledger: transfer.Ledger{Supply: w.part, Stocks: w.part, Periods: w.part,
			Recycles: w.part, Lanes: w.part, Counters: w.part}})
}

func (w *world) ok(err error) {
	w.Helper()
	if err != nil {
		w.Fatal(err)
	}
}

func promo(name string, total int64, buckets int) budget.Definition {
	return budget.Definition{Tenant: budget.DefaultTenant, Name: name, Unit: budget.Count,
		Durability: budget.Ledger, Type: budget.Promo, TotalQuantity: total, BucketQuantity: buckets}
}

// create creates a budget whose buckets are placed on the first of the instances.
func (w *world) create(d budget.Definition, instances int) bucket.BudgetRef {
	w.Helper()
	var keys []string
	for i := range d.BucketQuantity {
		keys = append(keys, place.Key(d.Tenant, fmt.Sprintf("%s:bucket-%d", d.Name, i)))
	}
	lanes, ok := w.places.Lanes(keys, nil, func(l bucket.Lane) bool {
		return l.Instance < fmt.Sprint("store-", instances)
	})
	if !ok {
		w.Fatal("no lane")
	}
	made, err := w.defs.Create(w.ctx, d, lanes)
	w.ok(err)
	return bucket.BudgetRef{ID: made.Budget.ID}
}

func (w *world) read(ref bucket.BudgetRef) bucket.Budget {
	w.Helper()
	b, err := w.defs.Budget(w.ctx, ref)
	w.ok(err)
	return b
}

// use deducts units from a bucket, as a flight does.
func (w *world) use(bucketID, units int64) {
	w.Helper()
	w.ok(w.db.Write(w.ctx, "test", func(t *engine.Tx) error {
		var entry int64
		if _, err := t.Get(&entry, `SELECT MAX(next_entry) FROM bucket_epoch WHERE bucket_id = ?`,
			bucketID); err != nil {
			return err
		}
		err := t.Hit(1, `INSERT INTO feed (bucket_id, first_entry, entries, units, body, created_at)
			VALUES (?, ?, 1, ?, ?, ?)`, bucketID, entry, units, []byte{}, engine.ToMS(t.Now))
		if err != nil {
			return err
		}
		return t.Hit(1, `UPDATE bucket_epoch SET outstanding_quantity = outstanding_quantity - ?,
			used_quantity = used_quantity + ?, next_entry = next_entry + 1
			WHERE bucket_id = ? AND status = 'open'`, units, units, bucketID)
	}))
}

func TestVerbsOnBuckets(t *testing.T) {
	w := newWorld(t)
	s := w.node()
	ref := w.create(promo("sale", 90, 3), 3)
	view, err := s.Offline(w.ctx, ref, "bucket-1")
	w.ok(err)
	if view.Online || view.Key != "sale:bucket-1" || view.OfflineBy != bucket.ByOperator ||
		view.Remaining != 0 {
		t.Errorf("offline: %+v", view)
	}
	_, err = s.ApplyTo(w.ctx, ref, "sale:bucket-1")
	if !budget.Is(err, budget.BucketOffline) ||
		!strings.Contains(err.Error(), "sale:bucket-1 is offline: bring it online first") {
		t.Errorf("apply of an offline bucket: %v", err)
	}
	view, err = s.ApplyTo(w.ctx, ref, "bucket-0") // an even share of the 30 that came back
	if w.ok(err); view.Remaining != 40 {
		t.Errorf("applied: %+v", view)
	}
	if got := w.stores.last(view.Lane); got.Bucket != view.ID || got.Outstanding != 40 ||
		got.Fill != view.Epoch.Fill {
		t.Errorf("the filter was told %+v, the bucket is %+v", got, view.Epoch)
	}
	view, err = s.Online(w.ctx, ref, "bucket-1")
	if w.ok(err); !view.Online || view.Remaining == 0 {
		t.Errorf("online: %+v", view)
	}
	for _, key := range []string{"bucket-0", "bucket-1"} {
		_, err = s.Offline(w.ctx, ref, key)
		w.ok(err)
	}
	if _, err = s.Offline(w.ctx, ref, "bucket-2"); !budget.Is(err, budget.LastBucket) ||
		!strings.Contains(err.Error(), "sale:bucket-2") {
		t.Errorf("the last bucket: %v", err)
	}
	if _, err = s.Offline(w.ctx, ref, "bucket-3"); !budget.Is(err, budget.BucketNotFound) {
		t.Errorf("no such bucket: %v", err)
	}
	views, err := s.Buckets(w.ctx, ref)
	if w.ok(err); len(views) != 3 || views[2].Remaining+w.figures(ref).Undistributed != 90 {
		t.Errorf("buckets %+v", views)
	}
	store := promo("counted", 90, 3)
	store.Durability = budget.Store
	w.ok(w.part.SetDraining(w.ctx, w.lanes, true)) // makes the lanes' rows
	w.ok(w.part.SetDraining(w.ctx, w.lanes, false))
	_, err = s.Offline(w.ctx, w.create(store, 3), "bucket-0")
	if !budget.Is(err, budget.LedgerModeOnly) {
		t.Errorf("a budget in store mode: %v", err)
	}
}

func (w *world) figures(ref bucket.BudgetRef) (f struct{ Undistributed, Remaining int64 }) {
	w.Helper()
	got, err := w.defs.Figures(w.ctx, ref.ID)
	w.ok(err)
	f.Undistributed, f.Remaining = got.Undistributed, got.Remaining
	return f
}

func TestRecycleAndItsHistory(t *testing.T) {
	w := newWorld(t)
	s := w.node()
	ref := w.create(promo("sale", 8000, 4), 3)
	b := w.read(ref)
	for range 10 {
		w.use(b.Buckets[2].ID, 30)
		w.advance(time.Second)
	}
	run, err := s.Recycle(w.ctx, ref)
	w.ok(err)
	if run.EndedAt.IsZero() || run.Buckets != 4 || run.Moved == 0 || run.After.Stranded != 0 {
		t.Errorf("report %+v", run)
	}
	after := w.read(ref).Buckets[2]
	if got := w.stores.last(after.Lane); after.Epoch.Outstanding < 5000 ||
		got.Outstanding != after.Epoch.Outstanding && got.Bucket == after.ID {
		t.Errorf("the bucket that sells is %+v, its filter was told %+v", after.Epoch, got)
	}
	list, err := s.Recycles(w.ctx, ref, 0, 5)
	if w.ok(err); len(list) != 1 || list[0] != run {
		t.Errorf("history %+v, want %+v", list, run)
	}
	_, _, err = w.part.BeginRecycle(w.ctx, ref.ID, bucket.OnSchedule, time.Time{})
	w.ok(err)
	if _, err = s.Recycle(w.ctx, ref); !budget.Is(err, budget.RecycleRunning) {
		t.Errorf("beside another one: %v", err)
	}
	if _, err = s.Recycle(w.ctx, bucket.BudgetRef{ID: 99}); !budget.Is(err, budget.BudgetNotFound) {
		t.Error(err)
	}
}

// loop returns the loop with a name.
func loop(t *testing.T, s *transfer.Service, set transfer.Settings,
	name string) func(context.Context) error {
	for _, l := range s.Loops(set) {
		if l.Name == name {
			return l.RunOnce
		}
	}
	t.Fatalf("no loop %q", name)
	return nil
}

// TestRecycleWithoutBeingAsked checks that a run that its node has left is continued, that the
// schedule recycles each effective budget once, whatever the number of nodes, and that a budget of
// which too much is stranded is recycled automatically.
func TestRecycleWithoutBeingAsked(t *testing.T) {
	w := newWorld(t)
	first, second := w.create(promo("first", 8000, 4), 3), w.create(promo("second", 8000, 4), 3)
	paused := promo("paused", 80, 4)
	paused.Paused = true
	third := w.create(paused, 3)
	due := w.clock().Add(time.Hour)
	set := transfer.Settings{Recycle: transfer.RecycleSettings{StrandedShare: 0.2,
		Next: func(after time.Time) time.Time {
			if after.Before(due) {
				return due
			}
			return after.Add(24 * time.Hour)
		}}}
	var loops []func(context.Context) error
	var nodes []*transfer.Service
	for range 2 {
		s := w.node()
		nodes, loops = append(nodes, s), append(loops, loop(t, s, set, "recycle"))
	}
	all := func() {
		t.Helper()
		for _, run := range loops {
			w.ok(run(w.ctx))
		}
	}
	causes := func(ref bucket.BudgetRef) (out []bucket.RecycleCause) {
		list, err := nodes[0].Recycles(w.ctx, ref, 0, 10)
		w.ok(err)
		for _, r := range list {
			if !r.EndedAt.IsZero() {
				out = append(out, r.Cause)
			}
		}
		return out
	}
	expect := func(what string, ref bucket.BudgetRef, want ...bucket.RecycleCause) {
		t.Helper()
		if got := causes(ref); fmt.Sprint(got) != fmt.Sprint(want) {
			t.Errorf("%s: %v, want %v", what, got, want)
		}
	}
	_, _, err := w.part.BeginRecycle(w.ctx, first.ID, bucket.OnDemand, time.Time{})
	w.ok(err)
	all()
	expect("a run that is young", first)
	w.advance(time.Minute)
	all()
	expect("a run that was left", first, bucket.OnDemand)
	w.advance(2 * time.Hour)
	all()
	all()
	expect("by schedule", first, bucket.OnSchedule, bucket.OnDemand)
	expect("by schedule", second, bucket.OnSchedule)
	expect("a paused one", third)
	b := w.read(second)
	for range 10 {
		w.use(b.Buckets[0].ID, 100)
		w.advance(time.Second)
	}
	all()
	expect("nobody used it here", second, bucket.OnSchedule)
	nodes[1].Used(second.ID)
	all()
	all()
	expect("too much is stranded", second, bucket.Automatic, bucket.OnSchedule)
}

func TestDrainUndrainAndRebalance(t *testing.T) {
	w := newWorld(t)
	s := w.node()
	ref := w.create(promo("sale", 90, 6), 3)
	view, err := s.Drain(w.ctx, "store-1")
	w.ok(err)
	if !view.Draining || !view.Done || view.Left != 0 || view.Moved != 2 {
		t.Errorf("drained: %+v", view)
	}
	b := w.read(ref)
	for i := range b.Buckets {
		bk := &b.Buckets[i]
		if bk.Lane.Instance == "store-1" || bk.Epoch.Number != 1 || bk.Epoch.Outstanding != 15 {
			t.Errorf("bucket %s is on %s: %+v", bk.Key, bk.Lane, bk.Epoch)
		}
	}
	if again, err := s.Drain(w.ctx, "store-1"); err != nil || again.Moved != 0 || !again.Done {
		t.Errorf("drained again: %+v, %v", again, err)
	}
	w.stores.down["store-0"] = true
	if _, err = s.Drain(w.ctx, "store-2"); !budget.Is(err, budget.LastInstance) {
		t.Errorf("the last one that answers: %v", err)
	}
	if _, err = s.Drain(w.ctx, "store-9"); !budget.Is(err, budget.InstanceNotFound) {
		t.Errorf("no such instance: %v", err)
	}
	delete(w.stores.down, "store-0")
	if view, err = s.Undrain(w.ctx, "store-1"); err != nil || view.Draining || view.Done {
		t.Errorf("undrained: %+v, %v", view, err)
	}
	plan, err := s.Rebalance(w.ctx, true)
	if w.ok(err); plan.Misplaced != 2 || plan.Moved != 0 || len(plan.Moves) != 2 {
		t.Errorf("dry run: %+v", plan)
	}
	done, err := s.Rebalance(w.ctx, false)
	if w.ok(err); done.Moved != 2 || done.Budgets != 1 {
		t.Errorf("rebalanced: %+v", done)
	}
	loads := map[string]int{}
	for _, bk := range w.read(ref).Buckets {
		loads[bk.Lane.Instance]++
		if got := w.stores.last(bk.Lane); got.Outstanding != 15 && got.Bucket != 0 {
			t.Errorf("the filter of %s was told %+v", bk.Key, got)
		}
	}
	if fmt.Sprint(loads) != "map[store-0:2 store-1:2 store-2:2]" {
		t.Errorf("loads %v", loads)
	}
	if done, err = s.Rebalance(w.ctx, false); err != nil || done.Misplaced != 0 {
		t.Errorf("rebalanced again: %+v, %v", done, err)
	}
}

// TestRebalanceLoop checks that a new instance gets its share, but not while a store does not
// answer.
func TestRebalanceLoop(t *testing.T) {
	w := newWorld(t)
	s := w.node()
	ref := w.create(promo("sale", 90, 6), 2)
	run := loop(t, s, transfer.Settings{Rebalance: true}, "rebalance")
	third := func() (n int) {
		for _, bk := range w.read(ref).Buckets {
			if bk.Lane.Instance == "store-2" {
				n++
			}
		}
		return n
	}
	w.stores.down["store-0"] = true
	w.ok(run(w.ctx))
	if third() != 0 {
		t.Errorf("%d buckets moved while a store is down", third())
	}
	delete(w.stores.down, "store-0")
	w.ok(run(w.ctx))
	if third() != 2 {
		t.Errorf("the new instance has %d buckets, want 2", third())
	}
}

func TestLanesAndRecover(t *testing.T) {
	w := newWorld(t)
	s := w.node()
	w.create(promo("sale", 90, 6), 3)
	w.stores.down["store-2"] = true
	views, err := s.Lanes(w.ctx)
	w.ok(err)
	if len(views) != 3 || !views[0].Reachable || *views[0].Buckets != 2 || views[2].Reachable ||
		views[2].Problem != "connection refused" {
		t.Errorf("lanes %+v", views)
	}
	if views, err = s.Recover(w.ctx, "store-0"); err != nil || len(views) != 1 {
		t.Errorf("recovered %+v, %v", views, err)
	}
	if _, err = s.Recover(w.ctx, "store-9"); !budget.Is(err, budget.InstanceNotFound) {
		t.Error(err)
	}
	if got := s.Missing(w.ctx); len(got) != 0 {
		t.Errorf("missing %v", got)
	}
	other := transfer.New(transfer.Config{Ledger: transfer.Ledger{Lanes: w.part}, Lanes: w.lanes[:2]})
	if got := other.Missing(w.ctx); len(got) != 1 || !strings.Contains(got[0], "store-2/0") {
		t.Errorf("missing %v", got)
	}
}

// TestRollOverIsShared checks that all requests that meet an ended epoch share one rollover, and
// that the loop rolls over the others.
func TestRollOverIsShared(t *testing.T) {
	w := newWorld(t)
	nodes := []*transfer.Service{w.node(), w.node()}
	d := promo("daily", 1000, 3)
	d.Type = budget.Daily
	d.Rule = &budget.Rule{Kind: budget.Calendar, Every: budget.Hour, Quantity: 30}
	d.StartAt = w.clock()
	first := w.create(d, 3)
	d.Name = "other"
	second := w.create(d, 3)
	w.advance(61 * time.Minute)
	var all sync.WaitGroup
	for i := range 20 {
		all.Go(func() {
			if err := nodes[i%2].RollOver(w.ctx, first.ID); err != nil {
				t.Error(err)
			}
		})
	}
	all.Wait()
	if p := w.read(first).Period; p.Over || !p.End.After(w.clock()) {
		t.Errorf("period %+v", p)
	}
	if p := w.read(second).Period; p.Number != 1 {
		t.Errorf("the other: period %+v", p)
	}
	w.ok(loop(t, nodes[0], transfer.Settings{}, "rollover")(w.ctx))
	if p := w.read(second).Period; p.OverAt(w.clock()) {
		t.Errorf("the other: period %+v", p)
	}
	if err := nodes[0].RollOver(w.ctx, 99); !budget.Is(err, budget.BudgetNotFound) {
		t.Error(err)
	}
}

// TestRefillFollowsUse checks that a bucket below its low-water mark gets a step according to its
// use, that an unused one gets nothing, and that the loop checks only budgets that this node used.
func TestRefillFollowsUse(t *testing.T) {
	w := newWorld(t)
	s := w.node()
	d := promo("free", 100_000, 2)
	d.Type, d.Rule = budget.Daily, &budget.Rule{Kind: budget.Free}
	ref := w.create(d, 3)
	refill := loop(t, s, transfer.Settings{}, "refill")
	hot := w.read(ref).Buckets[0]
	held := hot.Epoch.Outstanding // a first step: a tenth of the even share
	step := func(use int64, known bool) (o int64) {
		w.use(hot.ID, use)
		w.advance(time.Second)
		if known {
			s.Used(ref.ID)
		}
		w.ok(refill(w.ctx))
		return w.read(ref).Buckets[0].Epoch.Outstanding
	}
	if got := step(1000, true); got != held-1000 {
		t.Errorf("with enough left: %d", got)
	}
	if got := step(300, true); got != held-1300 { // about 85 a second: it lasts
		t.Errorf("with less left: %d", got)
	}
	if got := step(3600, false); got != held-4900 {
		t.Errorf("a budget that this node did not use: %d", got)
	}
	if got := step(90, true); got <= 10 {
		t.Errorf("nearly dry: %d", got)
	}
	if idle := w.read(ref).Buckets[1].Epoch.Outstanding; idle != held {
		t.Errorf("the idle bucket holds %d, want %d", idle, held)
	}
}

// TestSweepLoop checks that returned units are in the total after one pass.
func TestSweepLoop(t *testing.T) {
	w := newWorld(t)
	s := w.node()
	ref := w.create(promo("sale", 90, 3), 3)
	id := w.read(ref).Buckets[0].ID
	w.use(id, 10)
	w.ok(w.db.Write(w.ctx, "test", func(t *engine.Tx) error {
		return t.Hit(1, `UPDATE bucket_epoch SET used_quantity = used_quantity - 4,
			returning_quantity = 4 WHERE bucket_id = ?`, id)
	}))
	w.ok(loop(t, s, transfer.Settings{}, "sweep")(w.ctx))
	if got := w.figures(ref).Undistributed; got != 4 {
		t.Errorf("undistributed %d, want 4", got)
	}
}
