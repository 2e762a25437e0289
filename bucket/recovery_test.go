package bucket_test

import (
	"context"
	"errors"
	"fmt"
	"math"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/budgetd/budgetd/bucket"
	"github.com/budgetd/budgetd/budget"
	"github.com/budgetd/budgetd/internal/memstore"
	"github.com/budgetd/budgetd/internal/sqlstore"
	"github.com/budgetd/budgetd/ledger"
)

// line is one node's connection to an instance; it can be cut.
type line struct {
	bucket.Instance
	cut atomic.Bool
}

func (l *line) down() error {
	if !l.cut.Load() {
		return nil
	}
	return budget.Refuse(budget.Unavailable, "test", "the line is cut")
}

func (l *line) Identity(ctx context.Context, lane bucket.Lane) (string, error) {
	if err := l.down(); err != nil {
		return "", err
	}
	return l.Instance.Identity(ctx, lane)
}

func (l *line) Activate(ctx context.Context, lane bucket.Lane, identity string, activation int64) error {
	return errors.Join(l.down(), l.Instance.Activate(ctx, lane, identity, activation))
}

func (l *line) Open(ctx context.Context, lane bucket.Lane, refs []bucket.Ref) ([]bucket.Reply, error) {
	if err := l.down(); err != nil {
		return nil, err
	}
	return l.Instance.Open(ctx, lane, refs)
}

func (l *line) Grant(ctx context.Context, lane bucket.Lane, orders []bucket.GrantOrder) ([]bucket.Reply, error) {
	if err := l.down(); err != nil {
		return nil, err
	}
	return l.Instance.Grant(ctx, lane, orders)
}

func (l *line) Deduct(ctx context.Context, lane bucket.Lane, operations []bucket.Operation) ([]bucket.Reply, error) {
	if err := l.down(); err != nil {
		return nil, err
	}
	return l.Instance.Deduct(ctx, lane, operations)
}

func (l *line) Close(ctx context.Context, lane bucket.Lane, refs []bucket.Ref) ([]bucket.Reply, error) {
	if err := l.down(); err != nil {
		return nil, err
	}
	return l.Instance.Close(ctx, lane, refs)
}

func (l *line) Read(ctx context.Context, lane bucket.Lane, cursors []bucket.Cursor, limit int) ([]bucket.Extract, error) {
	if err := l.down(); err != nil {
		return nil, err
	}
	return l.Instance.Read(ctx, lane, cursors, limit)
}

func (l *line) Balances(ctx context.Context, lane bucket.Lane, refs []bucket.Ref) ([]bucket.Balance, error) {
	if err := l.down(); err != nil {
		return nil, err
	}
	return l.Instance.Balances(ctx, lane, refs)
}

func (l *line) Trim(ctx context.Context, lane bucket.Lane, cursors []bucket.Cursor) error {
	if err := l.down(); err != nil {
		return err
	}
	return l.Instance.Trim(ctx, lane, cursors)
}

func (l *line) Discard(ctx context.Context, lane bucket.Lane, ends []bucket.LogEnd) ([]bool, error) {
	if err := l.down(); err != nil {
		return nil, err
	}
	return l.Instance.Discard(ctx, lane, ends)
}

func (l *line) Forget(ctx context.Context, lane bucket.Lane, refs []bucket.Ref) error {
	if err := l.down(); err != nil {
		return err
	}
	return l.Instance.Forget(ctx, lane, refs)
}

// lines are the lines of all nodes of a world, in the order in which they were started.
type lines struct{ nodes []map[string]*line }

// cuttable gives every node that is started from now on lines that can be cut. Rows of SQLite are then
// three instances, each behind its line like any other store.
func (w *world) cuttable() *lines {
	connect, all := w.connect, &lines{}
	if db, ok := w.sql.(*sqlstore.DB); ok && len(connect()) == 1 {
		connect = func() map[string]bucket.Instance {
			return map[string]bucket.Instance{"a": db.Rows("a", 1), "b": db.Rows("b", 1), "c": db.Rows("c", 1)}
		}
	}
	w.connect = func() map[string]bucket.Instance {
		mine, out := map[string]*line{}, map[string]bucket.Instance{}
		for name, instance := range connect() {
			mine[name] = &line{Instance: instance}
			out[name] = mine[name]
		}
		all.nodes = append(all.nodes, mine)
		return out
	}
	return all
}

// cut cuts the lines of all nodes to an instance, or mends them.
func (l *lines) cut(instance string, cut bool) {
	for _, node := range l.nodes {
		node[instance].cut.Store(cut)
	}
}

// downSoon declares lanes down after a moment; requests may take long, on a busy machine.
func downSoon() bucket.Settings {
	set := quick
	set.DownAfter, set.Chores = 500*time.Millisecond, 200*time.Millisecond
	return set
}

// never is for tests that must see no lane declared down on their way.
func never() bucket.Settings {
	set := downSoon()
	set.DownAfter = time.Hour
	return set
}

// onLane counts a budget's buckets on an instance, and how many of them are open, and their units.
func (w *world) onLane(ref bucket.BudgetRef, instance string) (buckets, open int, units int64) {
	w.t.Helper()
	b, err := w.sql.Budget(context.Background(), ref)
	if err != nil {
		w.t.Fatal(err)
	}
	for i := range b.Buckets {
		if bk := &b.Buckets[i]; bk.Lane.Instance == instance {
			buckets++
			if bk.Online && bk.Epoch.Status == ledger.Open {
				open++
				units += bk.Epoch.Outstanding
			}
		}
	}
	return buckets, open, units
}

// activation is the one that SQL has of an instance's lane.
func (w *world) activation(instance string) int64 {
	w.t.Helper()
	lane := bucket.Lane{Instance: instance}
	rows, err := w.sql.LaneRows(context.Background(), []bucket.Lane{lane})
	if err != nil {
		w.t.Fatal(err)
	}
	return rows[lane].Activation
}

// eventually waits until a check passes.
func eventually(t testing.TB, what string, check func() error) {
	t.Helper()
	deadline := time.Now().Add(time.Minute)
	for {
		err := check()
		if err == nil {
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("%s: %v", what, err)
		}
		time.Sleep(10 * time.Millisecond)
	}
}

// home is the instance of a budget's first bucket.
func (w *world) home(ref bucket.BudgetRef) string {
	w.t.Helper()
	b, err := w.sql.Budget(context.Background(), ref)
	if err != nil {
		w.t.Fatal(err)
	}
	return b.Buckets[0].Lane.Instance
}

// TestInstanceDown: what lies on an instance that nobody reaches is "unavailable" at once and never
// "exhausted", is sold elsewhere to the last unit, and the instance gets units again when it is back (I3).
func TestInstanceDown(t *testing.T) { inEveryWorld(t, instanceDown) }

func instanceDown(t *testing.T, w *world) {
	lines := w.cuttable()
	patient := w.node(never()) // does not declare anything
	ref := w.create(patient, promo("spread", 900, 9))
	gone := w.home(ref)
	before, _, units := w.onLane(ref, gone)
	if before == 0 || before == 9 || units == 0 {
		t.Fatalf("%d buckets with %d units on %s", before, units, gone)
	}
	lines.cut(gone, true)
	began := time.Now()
	if _, err := deduct(patient, ref, "all", 900); !budget.Is(err, budget.Unavailable) {
		t.Errorf("with a part out of reach: %v", err)
	}
	if took := time.Since(began); took > patientDeadline/2 {
		t.Errorf("it took %s to say so", took)
	}
	if _, err := deduct(patient, ref, "rest", 900-units); err != nil {
		t.Errorf("what is within reach: %v", err)
	}
	first, second := w.brokenNode(downSoon(), gone), w.brokenNode(downSoon(), gone) // declare at once
	eventually(t, "the rest is sold elsewhere", func() error {
		_, err := deduct(first, ref, "late", units)
		if budget.Is(err, budget.BudgetExhausted) {
			t.Fatalf("refused: %v", err)
		}
		return err
	})
	if n := w.activation(gone); n != 2 {
		t.Errorf("activation %d", n)
	}
	if _, err := deduct(second, ref, "one more", 1); !budget.Is(err, budget.BudgetExhausted) {
		t.Errorf("sold out: %v", err)
	}
	time.Sleep(4 * downSoon().DownAfter)
	if n := w.activation(gone); n != 2 {
		t.Errorf("activation %d: it is declared down again and again", n)
	}
	lines.cut(gone, false)
	eventually(t, "the instance is in use again", func() error {
		list, err := patient.Lanes(context.Background())
		for _, l := range list {
			if !l.Reachable {
				err = fmt.Errorf("%+v", l)
			}
		}
		if u, _ := w.sql.Unfinished(context.Background(), 10); len(u.Offline)+len(u.Epochs) > 0 {
			err = fmt.Errorf("%+v", u)
		}
		return err
	})
	if _, err := patient.Adjust(context.Background(), bucket.AdjustRequest{Budget: ref, RequestID: "more", Quantity: 900}); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the instance has its share again", func() error {
		buckets, open, units := w.onLane(ref, gone)
		if open != buckets || units == 0 {
			return fmt.Errorf("%d of %d buckets with %d units", open, buckets, units)
		}
		return nil
	})
	eventually(t, "it sells all again, once it has seen that the instance is back", func() error {
		_, err := deduct(second, ref, "again", 900)
		if err != nil && !budget.Is(err, budget.Unavailable) {
			t.Fatalf("after it came back: %v", err)
		}
		return err
	})
	w.settled(first, ref, 1800)
}

const patientDeadline = 2 * time.Minute // of quick

// brokenNode starts a node that does not reach an instance.
func (w *world) brokenNode(set bucket.Settings, instance string) *bucket.Service {
	w.t.Helper()
	connect := w.connect
	w.connect = func() map[string]bucket.Instance {
		out := connect()
		out[instance].(*line).cut.Store(true)
		return out
	}
	defer func() { w.connect = connect }()
	return w.start(set)
}

// TestOnlyInstanceDown: a budget that has nothing elsewhere is "unavailable", before and after its lane
// is declared down, and whole when it is back.
func TestOnlyInstanceDown(t *testing.T) { inEveryWorld(t, onlyInstanceDown) }

func onlyInstanceDown(t *testing.T, w *world) {
	lines := w.cuttable()
	s := w.node(downSoon())
	ref := w.create(s, promo("single", 50, 1))
	gone := w.home(ref)
	if _, err := deduct(s, ref, "before", 5); err != nil {
		t.Fatal(err)
	}
	lines.cut(gone, true)
	eventually(t, "its lane is declared down", func() error {
		_, err := deduct(s, ref, "meanwhile", 1)
		if !budget.Is(err, budget.Unavailable) {
			t.Fatalf("out of reach: %v", err)
		}
		if n := w.activation(gone); n != 2 {
			return fmt.Errorf("activation %d", n)
		}
		return nil
	})
	for i := range 5 {
		began := time.Now()
		if _, err := deduct(s, ref, "meanwhile", 1); !budget.Is(err, budget.Unavailable) || time.Since(began) > patientDeadline/2 {
			t.Errorf("call %d after it was declared down: %v after %s", i, err, time.Since(began))
		}
		time.Sleep(20 * time.Millisecond)
	}
	lines.cut(gone, false)
	eventually(t, "it serves again", func() error { _, err := deduct(s, ref, "rest", 45); return err })
	w.settled(s, ref, 50)
}

// TestCutOffNode: as long as one node reaches a lane, another that does not declares nothing.
func TestCutOffNode(t *testing.T) { inEveryWorld(t, cutOffNode) }

func cutOffNode(t *testing.T, w *world) {
	lines := w.cuttable()
	cutOff, other := w.node(downSoon()), w.node(downSoon())
	ref := w.create(cutOff, promo("shared", 900, 9))
	gone := w.home(ref)
	lines.nodes[0][gone].cut.Store(true)
	used := int64(0)
	for began := time.Now(); time.Since(began) < 6*downSoon().DownAfter; time.Sleep(20 * time.Millisecond) {
		for i, s := range []*bucket.Service{cutOff, other} {
			if _, err := deduct(s, ref, fmt.Sprint("o", used, i), 1); err != nil {
				t.Errorf("through node %d: %v", i, err)
			}
			used++
		}
	}
	if n := w.activation(gone); n != 1 {
		t.Errorf("activation %d: a lane was declared down that a node reaches", n)
	}
	if buckets, open, _ := w.onLane(ref, gone); open != buckets {
		t.Errorf("%d of %d buckets are open", open, buckets)
	}
	lines.nodes[1][gone].cut.Store(true) // now nobody does
	eventually(t, "its lane is declared down", func() error {
		if n := w.activation(gone); n != 2 {
			return fmt.Errorf("activation %d", n)
		}
		return nil
	})
	eventually(t, "all is sold", func() error { _, err := deduct(cutOff, ref, "rest", 900-used); return err })
	lines.cut(gone, false)
	w.settled(other, ref, 900)
}

// TestLateCommands: what a lane that was declared down executes later changes nothing.
func TestLateCommands(t *testing.T) {
	w := newWorld(t)
	lines := w.cuttable()
	var late atomic.Bool
	var postponed atomic.Int64
	for _, server := range w.servers {
		server.Hook = func(c memstore.Call) memstore.Fault {
			if late.Load() && !c.After && (c.Verb == "deduct" || c.Verb == "grant" || c.Verb == "close") {
				postponed.Add(1)
				return memstore.Postpone
			}
			return memstore.Proceed
		}
	}
	set := downSoon()
	set.Deadline = 300 * time.Millisecond
	s := w.node(set)
	ref := w.create(s, promo("late", 600, 6))
	late.Store(true)
	var all sync.WaitGroup
	for i := range 30 { // whatever bucket they meet: they arrive later
		all.Go(func() {
			_, err := deduct(s, ref, fmt.Sprint("late", i), 2)
			if err == nil || budget.CodeOf(err).Kind() == budget.Refused {
				t.Errorf("without an answer of any store: %v", err)
			}
		})
	}
	all.Wait()
	for name := range w.servers {
		lines.cut(name, true)
	}
	late.Store(false)
	eventually(t, "all are declared down", func() error {
		for name := range w.servers {
			if n := w.activation(name); n != 2 {
				return fmt.Errorf("%s: activation %d", name, n)
			}
		}
		return nil
	})
	released := 0
	for name, server := range w.servers {
		released += server.Release()
		lines.cut(name, false)
	}
	if released == 0 || int64(released) < postponed.Load() {
		t.Errorf("%d commands came late, %d were postponed", released, postponed.Load())
	}
	set.Deadline = quick.Deadline
	other := w.node(set)
	eventually(t, "all is sold", func() error { _, err := deduct(other, ref, "all", 600); return err })
	w.settled(other, ref, 600)
	for i := range 30 {
		if v, err := other.Deduction(context.Background(), ref, fmt.Sprint("late", i)); !budget.Is(err, budget.DeductionNotFound) {
			t.Errorf("late %d: %+v, %v", i, v, err)
		}
	}
}

// TestNobodyWatched: nodes that start after an hour in which nobody noted anything declare nothing down
// because of that.
func TestNobodyWatched(t *testing.T) {
	w := newWorld(t)
	var ahead atomic.Int64
	w.model = memstore.NewSQL(func() time.Time { return time.Now().Add(time.Duration(ahead.Load())) })
	w.sql = w.model
	lines := w.cuttable()
	first := w.node(quick)
	ref := w.create(first, promo("idle", 90, 9))
	gone := w.home(ref)
	eventually(t, "it was noted", func() error {
		rows, err := w.sql.LaneRows(context.Background(), []bucket.Lane{{Instance: gone}})
		if err == nil && rows[bucket.Lane{Instance: gone}].ReachedMS == 0 {
			err = errors.New("never reached")
		}
		return err
	})
	if err := first.Stop(context.Background()); err != nil {
		t.Fatal(err)
	}
	ahead.Store(int64(time.Hour))
	set := quick
	set.DownAfter = time.Minute
	s := w.brokenNode(set, gone)
	time.Sleep(2 * time.Second)
	if n := w.activation(gone); n != 1 {
		t.Errorf("activation %d", n)
	}
	lines.cut(gone, false)
	eventually(t, "all is sold", func() error { _, err := deduct(s, ref, "all", 90); return err })
	if n := w.activation(gone); n != 1 {
		t.Errorf("activation %d", n)
	}
	w.settled(s, ref, 90)
}

// TestPausedNode: a node that was stopped for long does not take its own pause for the lane's.
func TestPausedNode(t *testing.T) {
	w := newWorld(t)
	clock := &stepped{}
	w.clock = clock
	lines := w.cuttable()
	set := quick
	set.DownAfter = time.Minute
	s := w.node(set)
	ref := w.create(s, promo("paused", 90, 9))
	gone := w.home(ref)
	lines.cut(gone, true)
	time.Sleep(3 * time.Second) // looks at it a few times, in vain
	clock.back.Store(-int64(time.Hour))
	time.Sleep(2500 * time.Millisecond)
	if n := w.activation(gone); n != 1 {
		t.Errorf("activation %d", n)
	}
	lines.cut(gone, false)
	eventually(t, "all is sold", func() error { _, err := deduct(s, ref, "all", 90); return err })
	w.settled(s, ref, 90)
}

// TestAbandonedCollect: a node stops in the middle of a collect. The run it leaves open keeps nobody
// from collecting, and another node ends it.
func TestAbandonedCollect(t *testing.T) {
	w := newWorld(t)
	var dying atomic.Bool
	w.model.Hook = func(method string, before bool) error {
		if dying.Load() && before && (method == "CloseEpoch" || method == "EndRun") {
			return errors.New("injected: the node dies here")
		}
		return nil
	}
	set := quick
	set.Deadline, set.StepTimeout = 200*time.Millisecond, 300*time.Millisecond
	first := w.node(set)
	ref := w.create(first, promo("split", 160, 8))
	dying.Store(true)
	if _, err := deduct(first, ref, "big", 100); err == nil {
		t.Fatal("the collect was not broken off")
	}
	if err := first.Stop(context.Background()); err != nil {
		t.Fatal(err)
	}
	dying.Store(false)
	if u, err := w.sql.Unfinished(context.Background(), 10); err != nil || len(u.Runs) != 1 {
		t.Fatalf("runs %+v, %v", u.Runs, err)
	}
	set = quick
	set.StepTimeout = 300 * time.Millisecond
	second := w.node(set)
	if _, err := deduct(second, ref, "big", 100); err != nil {
		t.Errorf("with an abandoned run: %v", err)
	}
	w.settled(second, ref, 100)
	// A node began one just now and is gone. (The run before was ended with the collect, or as abandoned.)
	eventually(t, "another run begins", func() error {
		target := bucket.Ref{Bucket: 1, Epoch: 1, Activation: 1}
		run, err := w.sql.BeginRun(context.Background(), bucket.Run{Budget: ref.ID, Target: target, Units: 5})
		if err == nil && run.Number < 2 {
			err = fmt.Errorf("%+v", run)
		}
		return err
	})
	eventually(t, "it is ended without another collect", func() error {
		u, err := w.sql.Unfinished(context.Background(), 10)
		if err == nil && len(u.Runs) > 0 {
			err = fmt.Errorf("%+v", u.Runs)
		}
		return err
	})
	if _, err := deduct(second, ref, "rest", 60); err != nil {
		t.Error(err)
	}
	w.settled(second, ref, 160)
}

// TestForgedLog: an entry beyond every epoch, written into a bucket's log by somebody else, costs that
// bucket its epoch; the bucket is healed, also where no epoch could ever be greater.
func TestForgedLog(t *testing.T) {
	w, server := one(t)
	s := w.node(quick)
	ref := w.create(s, promo("forged", 900, 3))
	used := int64(0)
	for round, epoch := range []int64{7, budget.MaxAmount, math.MaxInt64} {
		b, err := w.sql.Budget(context.Background(), ref)
		if err != nil {
			t.Fatal(err)
		}
		server.Forge(0, b.Buckets[0].ID, epoch, 5)
		for call := range 60 {
			if _, err := deduct(s, ref, fmt.Sprint(round, "-", call), 1); err != nil {
				t.Errorf("epoch %d: %v", epoch, err)
			}
			used++
		}
		more := 0
		eventually(t, "the bucket has a new life", func() error {
			// The node's list may be from before the bucket's last life, then none of the above asked it.
			if more++; more < 100 {
				if _, err := deduct(s, ref, fmt.Sprint(round, "-more-", more), 1); err != nil {
					t.Errorf("epoch %d: %v", epoch, err)
				}
				used++
			}
			now, err := w.sql.Budget(context.Background(), ref)
			if bk := &now.Buckets[0]; err == nil && (!bk.Online || bk.Epoch.Status != ledger.Open || bk.Epoch.Fenced != "" ||
				bk.Epoch.Number <= b.Buckets[0].Epoch.Number || bk.Epoch.Number > 20) {
				err = fmt.Errorf("%+v", bk)
			}
			return err
		})
		w.settled(s, ref, used)
	}
	if _, err := deduct(s, ref, "rest", 900-used); err != nil {
		t.Error(err)
	}
	w.settled(s, ref, 900)
}
