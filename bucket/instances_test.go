package bucket_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/budgetd/budgetd/bucket"
	"github.com/budgetd/budgetd/budget"
	"github.com/budgetd/budgetd/internal/memstore"
	"github.com/budgetd/budgetd/internal/redisstore"
	"github.com/budgetd/budgetd/internal/testservers"
)

// onFour runs a test in memory and on MariaDB with four Redis, in both durabilities. keys lists what an
// instance's store holds of buckets; nil in memory.
func onFour(t *testing.T, test func(t *testing.T, w *world, keys func(instance string) []string)) {
	for _, durability := range []budget.Durability{budget.Ledger, budget.Store} {
		t.Run(string(durability)+"/memory", func(t *testing.T) {
			w := newWorld(t)
			w.durability = durability
			test(t, w, nil)
		})
		t.Run(string(durability)+"/mariadb and redis", func(t *testing.T) {
			w, keys := fourRedis(t)
			w.durability = durability
			test(t, w, keys)
		})
	}
}

func fourRedis(t *testing.T) (*world, func(string) []string) {
	db := openSQL(t, "mysql", testservers.SharedMariaDB(t).NewDatabase(t))
	servers := map[string]*testservers.RedisServer{}
	for i := range 4 {
		servers[fmt.Sprintf("m%d", i)] = testservers.Redis(t)
	}
	w := &world{t: t, sql: db, connect: func() map[string]bucket.Instance {
		out := map[string]bucket.Instance{}
		for name, server := range servers {
			store, err := redisstore.New(redisstore.Config{Name: name, Addr: server.Addr(), Lanes: 1,
				InstallationID: db.InstallationID()})
			if err != nil {
				t.Fatal(err)
			}
			out[name] = store
		}
		return out
	}}
	return w, func(instance string) []string {
		found, err := servers[instance].Command("EVAL", "return table.concat(redis.call('KEYS', 'budgetd:*'), ' ')", "0")
		if err != nil {
			t.Fatal(err)
		}
		return strings.Fields(found)
	}
}

// calls are deductions of one unit each, for many ids, through all nodes, every third id twice, until it is
// stopped. Any error fails the test.
type calls struct {
	stop chan struct{}
	all  sync.WaitGroup
	made atomic.Int64
	mu   sync.Mutex
	ids  []string
}

func (w *world) traffic(nodes []*bucket.Service, ref bucket.BudgetRef, prefix string) *calls {
	tr := &calls{stop: make(chan struct{})}
	for worker := range 4 {
		tr.all.Go(func() {
			for i := 0; ; i++ {
				select {
				case <-tr.stop:
					return
				default:
				}
				id := fmt.Sprintf("%s-%d-%d", prefix, worker, i)
				a, err := deduct(nodes[(worker+i)%len(nodes)], ref, id, 1)
				if err != nil || a.Replayed {
					w.t.Errorf("deduct %s: replayed %v, %v", id, a.Replayed, err)
					return
				}
				tr.made.Add(1)
				tr.mu.Lock()
				tr.ids = append(tr.ids, id)
				tr.mu.Unlock()
				if i%3 == 0 {
					if b, err := deduct(nodes[(worker+i+1)%len(nodes)], ref, id, 1); err != nil || !b.Replayed {
						w.t.Errorf("repeat %s: %+v, %v", id, b, err)
						return
					}
				}
			}
		})
	}
	return tr
}

// end stops the traffic, repeats every id and returns how many there were.
func (tr *calls) end(t *testing.T, nodes []*bucket.Service, ref bucket.BudgetRef) int64 {
	t.Helper()
	close(tr.stop)
	tr.all.Wait()
	for i, id := range tr.ids {
		if a, err := deduct(nodes[i%len(nodes)], ref, id, 1); err != nil || !a.Replayed || a.Amount != 1 {
			t.Fatalf("repeat %s at the end: %+v, %v", id, a, err)
		}
	}
	return tr.made.Load()
}

// goesOn waits until traffic made some progress.
func (tr *calls) goesOn(w *world) {
	w.t.Helper()
	from := tr.made.Load()
	w.until("traffic goes on", func() bool { return tr.made.Load() >= from+20 || w.t.Failed() })
}

// drained waits until an instance is drained.
func (w *world) drained(s *bucket.Service, name string) bucket.DrainView {
	w.t.Helper()
	var v bucket.DrainView
	eventually(w.t, name+" is drained", func() (err error) {
		if v, err = s.Drain(context.Background(), name); err == nil && !v.Done {
			err = fmt.Errorf("%+v", v)
		}
		return err
	})
	return v
}

// TestDrainUnderTraffic: an instance loses all its buckets and keys while two nodes serve without an error,
// every id counts once, new buckets land elsewhere, and afterwards it takes buckets again.
func TestDrainUnderTraffic(t *testing.T) {
	onFour(t, func(t *testing.T, w *world, keys func(string) []string) {
		ctx := context.Background()
		nodes := []*bucket.Service{w.node(storeQuick()), w.node(storeQuick())}
		ref := w.create(nodes[0], promo("moving", 200_000, 8))
		idle := w.create(nodes[0], promo("idle", 100, 6))
		on := w.home(ref)
		tr := w.traffic(nodes, ref, "t")
		tr.goesOn(w)
		v, err := nodes[1].Drain(ctx, on)
		if err != nil || !v.Draining {
			t.Fatalf("%+v, %v", v, err)
		}
		v = w.drained(nodes[0], on)
		if v.Left != 0 || v.Moved == 0 || v.Uncleared != 0 || v.Problem != "" {
			t.Errorf("drained: %+v", v)
		}
		if keys != nil {
			if left := keys(on); len(left) > 0 {
				t.Errorf("keys left on %s: %q", on, left)
			}
		}
		tr.goesOn(w)
		later := w.create(nodes[0], promo("later", 100, 8))
		for _, b := range []bucket.BudgetRef{ref, idle, later} {
			if n, _, _ := w.onLane(b, on); n > 0 {
				t.Errorf("%d buckets on %s", n, on)
			}
		}
		if v, err = nodes[1].Undrain(ctx, on); err != nil || v.Draining {
			t.Fatalf("%+v, %v", v, err)
		}
		eventually(t, "buckets land on it again", func() error {
			b := w.create(nodes[1], promo(fmt.Sprint("again-", time.Now().UnixNano()), 100, 8))
			if n, _, _ := w.onLane(b, on); n == 0 {
				return errors.New("none did")
			}
			return nil
		})
		made := tr.end(t, nodes, ref)
		w.settled(nodes[0], ref, made)
		w.settled(nodes[0], idle, 0)
		t.Logf("%d deductions", made)
	})
}

// TestDrainGoesOnAfterACrash: wherever the node that drains stops, another one ends it, and no unit and no
// id is lost.
func TestDrainGoesOnAfterACrash(t *testing.T) {
	for _, durability := range []budget.Durability{budget.Ledger, budget.Store} {
		for _, at := range []string{"Ending", "CloseEpoch", "Move", "MarkOpen", "NextActivation", "Departed", "Cleared"} {
			for _, before := range []bool{true, false} {
				t.Run(fmt.Sprintf("%s/%s before=%v", durability, at, before), func(t *testing.T) {
					crashDraining(t, durability, at, before)
				})
			}
		}
	}
}

// mortal kills the only node of a world: from a step of SQL on nothing of it gets through any more.
type mortal struct {
	step atomic.Pointer[func(method string, before bool) bool]
	dead atomic.Bool
	// ahead is by how much SQL's clock is ahead, in ns: a dead node is silent for long at once.
	ahead atomic.Int64
}

func newMortal(t *testing.T, durability budget.Durability) (*world, *mortal) {
	w, m := newWorld(t), &mortal{}
	w.durability = durability
	w.model = memstore.NewSQL(func() time.Time { return time.Now().Add(time.Duration(m.ahead.Load())) })
	w.sql = w.model
	w.model.Hook = func(method string, before bool) error {
		if step := m.step.Load(); step != nil && (m.dead.Load() || (*step)(method, before)) {
			m.dead.Store(true)
			return errors.New("the node is dead")
		}
		return nil
	}
	return w, m
}

func (m *mortal) at(method string, before bool) {
	step := func(is string, isBefore bool) bool { return is == method && isBefore == before }
	m.step.Store(&step)
}

// bury ends what is left of the dead node, so that another one can live.
func (m *mortal) bury(s *bucket.Service) {
	ctx, cancel := context.WithTimeout(context.Background(), 500*time.Millisecond)
	defer cancel()
	_ = s.Stop(ctx) // what it cannot report stays open
	m.step.Store(nil)
	m.ahead.Add(int64(time.Minute))
}

func crashDraining(t *testing.T, durability budget.Durability, at string, before bool) {
	w, dies := newMortal(t, durability)
	s := w.node(storeQuick())
	ref := w.create(s, promo("crash", 9000, 6))
	for i := range 60 {
		if _, err := deduct(s, ref, fmt.Sprint("o", i), 1); err != nil {
			t.Fatal(err)
		}
	}
	on := w.home(ref)
	w.settled(s, ref, 60)
	dies.at(at, before)
	_, _ = s.Drain(context.Background(), on)
	w.until("the node dies at "+at, dies.dead.Load)
	dies.bury(s)
	other := w.node(storeQuick())
	w.drained(other, on)
	if n, _, _ := w.onLane(ref, on); n > 0 {
		t.Errorf("%d buckets left", n)
	}
	for i := range 60 {
		if a, err := deduct(other, ref, fmt.Sprint("o", i), 1); err != nil || !a.Replayed {
			t.Fatalf("repeat of o%d: %+v, %v", i, a, err)
		}
	}
	w.settled(other, ref, 60)
	v, err := other.View(context.Background(), ref)
	if f := v.Figures; err != nil || f.Undistributed+f.Remaining != 8940 || f.Quarantined != 0 {
		t.Errorf("%+v, %v", v.Figures, err)
	}
}

// TestDrainOfADownInstance: in ledger mode the buckets of an instance that cannot be reached move, and its
// keys go when it is back; in store mode they stay until it is back.
func TestDrainOfADownInstance(t *testing.T) {
	for _, durability := range []budget.Durability{budget.Ledger, budget.Store} {
		t.Run(string(durability), func(t *testing.T) {
			w := newWorld(t)
			w.durability = durability
			cut := w.cuttable()
			set := downSoon()
			set.ReportWait = 300 * time.Millisecond
			s := w.node(set)
			ref := w.create(s, promo("down", 9000, 6))
			on := w.home(ref)
			cut.cut(on, true)
			eventually(t, "the lane is down", func() error {
				if v, err := s.Drain(context.Background(), on); err != nil || v.Problem == "" {
					return fmt.Errorf("%+v, %v", v, err)
				}
				return nil
			})
			if durability == budget.Ledger {
				v := w.drained(s, on)
				if v.Left > 0 || v.Uncleared == 0 {
					t.Errorf("down and drained: %+v", v)
				}
			} else {
				time.Sleep(5 * set.DownAfter)
				if n, _, _ := w.onLane(ref, on); n == 0 {
					t.Error("buckets in store mode moved although their store cannot be read")
				}
			}
			cut.cut(on, false)
			eventually(t, "its keys are gone", func() error {
				if v, err := s.Drain(context.Background(), on); err != nil || !v.Done || v.Uncleared > 0 {
					return fmt.Errorf("%+v, %v", v, err)
				}
				return nil
			})
			w.settled(s, ref, 0)
			if v, err := s.View(context.Background(), ref); err != nil || v.Figures.Quarantined > 0 {
				t.Errorf("%+v, %v", v.Figures, err)
			}
		})
	}
}

// TestDrainIsSeenByEveryNode: who looks at the instances is told of a drain that began on another node just now.
func TestDrainIsSeenByEveryNode(t *testing.T) {
	w := newWorld(t)
	set := quick
	set.Chores = time.Hour
	s, other := w.node(set), w.node(set)
	if _, err := s.Drain(context.Background(), "m0"); err != nil {
		t.Fatal(err)
	}
	for _, node := range []*bucket.Service{s, other} {
		lanes, err := node.Lanes(context.Background())
		if err != nil || !lanes[0].Draining || lanes[1].Draining {
			t.Errorf("%+v, %v", lanes, err)
		}
	}
}

// TestDrainRefused: what is not there, and the last instance.
func TestDrainRefused(t *testing.T) {
	w := newWorld(t)
	s := w.node(quick)
	ctx := context.Background()
	for _, verb := range []func(context.Context, string) (bucket.DrainView, error){s.Drain, s.Undrain} {
		if _, err := verb(ctx, "nobody"); !budget.Is(err, budget.InstanceNotFound) {
			t.Errorf("an instance that is not there: %v", err)
		}
	}
	if _, err := s.Recover(ctx, "nobody"); !budget.Is(err, budget.InstanceNotFound) {
		t.Errorf("recovery of an instance that is not there: %v", err)
	}
	for _, name := range []string{"m0", "m1"} {
		if v, err := s.Drain(ctx, name); err != nil || !v.Draining {
			t.Fatalf("%+v, %v", v, err)
		}
	}
	if _, err := s.Drain(ctx, "m2"); !budget.Is(err, budget.LastInstance) {
		t.Errorf("the last one: %v", err)
	}
	if v, err := s.Drain(ctx, "m1"); err != nil || !v.Done {
		t.Errorf("repeated: %+v, %v", v, err)
	}
}

// TestRecoverOnDemand: the epochs of an instance are replaced and every unit and id is there afterwards.
func TestRecoverOnDemand(t *testing.T) {
	for _, durability := range []budget.Durability{budget.Ledger, budget.Store} {
		t.Run(string(durability), func(t *testing.T) {
			w := newWorld(t)
			w.durability = durability
			s := w.node(storeQuick())
			ref := w.create(s, promo("recover", 9000, 6))
			for i := range 30 {
				if _, err := deduct(s, ref, fmt.Sprint("o", i), 1); err != nil {
					t.Fatal(err)
				}
			}
			on := w.home(ref)
			was := w.activation(on)
			lanes, err := s.Recover(context.Background(), on)
			if err != nil || len(lanes) != 1 || lanes[0].Activation != was+1 || !lanes[0].Reachable {
				t.Fatalf("%+v, %v", lanes, err)
			}
			w.settled(s, ref, 30)
			for i := range 30 {
				if a, err := deduct(s, ref, fmt.Sprint("o", i), 1); err != nil || !a.Replayed {
					t.Fatalf("repeat: %+v, %v", a, err)
				}
			}
			eventually(t, "all units are there", func() error {
				v, err := s.View(context.Background(), ref)
				if f := v.Figures; err != nil || f.Remaining+f.Undistributed != 8970 {
					return fmt.Errorf("%+v, %v", f, err)
				}
				return nil
			})
		})
	}
}

// TestRecoveryGoesOn: a recovery that cannot be finished now has begun, and is finished without another call.
func TestRecoveryGoesOn(t *testing.T) {
	w := newWorld(t)
	lines := w.cuttable()
	s := w.node(never())
	ref := w.create(s, promo("recover", 900, 6))
	gone := w.home(ref)
	lines.cut(gone, true)
	if _, err := s.Recover(context.Background(), gone); !budget.Is(err, budget.OutcomeUnknown) ||
		!strings.Contains(err.Error(), gone+"/0") {
		t.Errorf("of an instance out of reach: %v", err)
	}
	lines.cut(gone, false)
	eventually(t, "it is recovered", func() error {
		if n := w.activation(gone); n != 2 {
			return fmt.Errorf("activation %d", n)
		}
		return nil
	})
	if f := w.quiet(s, ref).Figures; f.Remaining+f.Undistributed != 900 {
		t.Errorf("%+v", f)
	}
}

// TestMissingInstance: a node without the instance of some buckets says so, and serves the others.
func TestMissingInstance(t *testing.T) {
	w := newWorld(t)
	s := w.node(quick)
	ref := w.create(s, promo("missing", 900, 6))
	if got := s.Missing(); len(got) > 0 {
		t.Errorf("with all instances: %q", got)
	}
	on := w.home(ref)
	all := w.connect
	w.connect = func() map[string]bucket.Instance {
		out := all()
		delete(out, on)
		return out
	}
	other := w.node(quick)
	if got := other.Missing(); len(got) != 1 || !strings.Contains(got[0], on+"/0") {
		t.Errorf("without %s: %q", on, got)
	}
	if reasons := other.Ready(context.Background()); len(reasons) > 0 {
		t.Errorf("not ready: %q", reasons)
	}
	if _, err := other.Drain(context.Background(), on); !budget.Is(err, budget.InstanceNotFound) {
		t.Errorf("drain of it: %v", err)
	}
	if _, err := deduct(other, ref, "o", 1); err != nil {
		t.Errorf("deduct elsewhere: %v", err)
	}
}

// TestMissingInstanceInStoreMode: a node without the instance of a bucket whose log is not in the ledger yet does not say
// of an id in it that it is refused or not there (I4, I5).
func TestMissingInstanceInStoreMode(t *testing.T) {
	w := newStoreWorld(t)
	set := storeQuick()
	set.Deadline = 300 * time.Millisecond
	s := w.node(set)
	ref := w.create(s, promo("missing", 900, 1))
	on := w.home(ref)
	w.fails("Commit")
	a, err := deduct(s, ref, "id", 1)
	if err != nil {
		t.Fatal(err)
	}
	all := w.connect
	w.connect = func() map[string]bucket.Instance {
		out := all()
		delete(out, on)
		return out
	}
	other, ctx := w.node(set), context.Background()
	unknown := func(what string, err error) {
		t.Helper()
		if !budget.Is(err, budget.Unavailable) && !budget.Is(err, budget.OutcomeUnknown) {
			t.Errorf("%s without %s: %v", what, on, err)
		}
	}
	_, err = other.Deduction(ctx, ref, "id")
	unknown("deduction", err)
	for _, receipt := range []string{"", a.Receipt} {
		_, err = other.Rollback(ctx, bucket.RollbackRequest{Budget: ref, RequestID: "id", RollbackID: "back", Receipt: receipt})
		unknown("rollback", err)
	}
	_, err = deduct(other, ref, "id", 1)
	unknown("repeat", err)
	paused := true
	if _, err := other.Change(ctx, ref, bucket.Change{Paused: &paused}); err != nil {
		t.Fatal(err)
	}
	_, err = deduct(other, ref, "id", 1)
	unknown("repeat while paused", err)
	w.fails()
	w.until("the ledger has it", func() bool {
		d, err := other.Deduction(ctx, ref, "id")
		return err == nil && d.Amount == 1
	})
	paused = false
	if _, err := other.Change(ctx, ref, bucket.Change{Paused: &paused}); err != nil {
		t.Fatal(err)
	}
	if got, err := deduct(other, ref, "id", 1); err != nil || !got.Replayed {
		t.Errorf("in the ledger: %+v, %v", got, err)
	}
}

// TestResizeUnderTraffic: a live budget gets more and fewer buckets while two nodes, which learn of it at
// different moments, serve without an error; ids of before and between replay through every number.
func TestResizeUnderTraffic(t *testing.T) {
	onFour(t, func(t *testing.T, w *world, _ func(string) []string) {
		ctx := context.Background()
		slow := storeQuick()
		slow.Refresh = time.Hour // learns of it when a bucket refuses, or after a second
		nodes := []*bucket.Service{w.node(storeQuick()), w.node(slow)}
		ref := w.create(nodes[0], promo("resize", 200_000, 4))
		tr := w.traffic(nodes, ref, "t")
		tr.goesOn(w)
		for i, n := range []int{12, 3, 1, 8} {
			v, err := nodes[i%2].Change(ctx, ref, bucket.Change{BucketQuantity: &n})
			if err != nil || v.Definition.BucketQuantity != n {
				t.Fatalf("%d buckets: %+v, %v", n, v.Definition, err)
			}
			views, err := nodes[i%2].Buckets(ctx, ref)
			if err != nil || len(views) != n {
				t.Fatalf("%d buckets: %d, %v", n, len(views), err)
			}
			tr.goesOn(w)
			tr.mu.Lock()
			ids := slices.Clone(tr.ids)
			tr.mu.Unlock()
			for j := 0; j < len(ids); j += max(len(ids)/20, 1) {
				if a, err := deduct(nodes[j%2], ref, ids[j], 1); err != nil || !a.Replayed {
					t.Fatalf("repeat of %s with %d buckets: %+v, %v", ids[j], n, a, err)
				}
			}
		}
		if _, err := nodes[0].Offline(ctx, ref, "resize:bucket-8"); !budget.Is(err, budget.BucketNotFound) {
			t.Errorf("a bucket that has retired: %v", err)
		}
		made := tr.end(t, nodes, ref)
		w.settled(nodes[0], ref, made)
		if v, err := nodes[0].Rollback(ctx, bucket.RollbackRequest{Budget: ref, RequestID: tr.ids[0]}); err != nil || v.RolledBack != 1 {
			t.Errorf("rollback after it: %+v, %v", v, err)
		}
		w.settled(nodes[0], ref, made-1)
		t.Logf("%d deductions", made)
	})
}

// TestResizeGoesOnAfterACrash: any node ends a change of the number of buckets that another one began.
func TestResizeGoesOnAfterACrash(t *testing.T) {
	for _, durability := range []budget.Durability{budget.Ledger, budget.Store} {
		for _, at := range []string{"Change", "Resize", "CloseEpoch", "MarkOpen", "HandOut"} {
			for _, from := range []int{3, 6} {
				if durability == budget.Ledger && (at == "CloseEpoch" && from == 3 || at == "MarkOpen" && from == 6) {
					continue // no epoch ends, none begins
				}
				t.Run(fmt.Sprintf("%s/%s from %d", durability, at, from), func(t *testing.T) {
					w, dies := newMortal(t, durability)
					s := w.node(storeQuick())
					ref := w.create(s, promo("crash", 9000, from))
					for i := range 30 {
						if _, err := deduct(s, ref, fmt.Sprint("o", i), 1); err != nil {
							t.Fatal(err)
						}
					}
					w.settled(s, ref, 30)
					dies.at(at, false)
					n := 9 - from
					_, _ = s.Change(context.Background(), ref, bucket.Change{BucketQuantity: &n})
					w.until("the node dies at "+at, dies.dead.Load)
					dies.bury(s)
					other := w.node(storeQuick())
					eventually(t, "the number is changed", func() error {
						v, err := other.View(context.Background(), ref)
						if err == nil && v.Definition.BucketQuantity != n {
							err = fmt.Errorf("%d buckets", v.Definition.BucketQuantity)
						}
						return err
					})
					for i := range 30 {
						if a, err := deduct(other, ref, fmt.Sprint("o", i), 1); err != nil || !a.Replayed {
							t.Fatalf("repeat of o%d: %+v, %v", i, a, err)
						}
					}
					w.settled(other, ref, 30)
				})
			}
		}
	}
}
