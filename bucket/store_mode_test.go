package bucket_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/budgetd/budgetd/bucket"
	"github.com/budgetd/budgetd/budget"
	"github.com/budgetd/budgetd/internal/memstore"
	"github.com/budgetd/budgetd/ledger"
)

// storeWorld is a world in memory for budgets in store mode whose SQL can be made to fail and whose
// SQL clock can be moved.
type storeWorld struct {
	*world
	ahead atomic.Int64 // of SQL's clock, in ns
	// broken names the methods of SQL that fail before they are done; "*": all.
	mu     sync.Mutex
	broken map[string]bool
}

func newStoreWorld(t *testing.T) *storeWorld {
	w := &storeWorld{world: newWorld(t), broken: map[string]bool{}}
	w.durability = budget.Store
	w.model = memstore.NewSQL(func() time.Time { return time.Now().Add(time.Duration(w.ahead.Load())) })
	w.model.Hook = func(method string, before bool) error {
		w.mu.Lock()
		defer w.mu.Unlock()
		if before && (w.broken["*"] || w.broken[method]) {
			return errors.New("SQL is down")
		}
		return nil
	}
	w.sql = w.model
	return w
}

// fails makes methods of SQL fail, until it is called again.
func (w *storeWorld) fails(methods ...string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.broken = map[string]bool{}
	for _, m := range methods {
		w.broken[m] = true
	}
}

// restart makes every store come back with its data: its scripts and its identity are gone.
func (w *storeWorld) restart() {
	for _, server := range w.servers {
		server.Restore(server.Snapshot(), false)
	}
}

// lose makes every store come back empty.
func (w *storeWorld) lose() {
	for _, server := range w.servers {
		server.Lose()
	}
}

func (w *storeWorld) figures(s *bucket.Service, ref bucket.BudgetRef) ledger.Figures {
	w.t.Helper()
	v, err := s.View(context.Background(), ref)
	if err != nil {
		w.t.Fatal(err)
	}
	return v.Figures
}

// until waits for a condition.
func (w *world) until(what string, true func() bool) {
	w.t.Helper()
	for deadline := time.Now().Add(time.Minute); !true(); time.Sleep(2 * time.Millisecond) {
		if time.Now().After(deadline) {
			w.t.Fatalf("never: %s", what)
		}
	}
}

// storeQuick is quick for store mode, with short waits.
func storeQuick() bucket.Settings {
	set := quick
	set.Deadline, set.ReportWait = 5*time.Second, 300*time.Millisecond
	return set
}

// TestStoreModeAnswersBeforeTheLedger: "accepted" does not wait for SQL, a repetition replays, and the
// ledger gets every entry once SQL is back (I7).
func TestStoreModeAnswersBeforeTheLedger(t *testing.T) {
	w := newStoreWorld(t)
	s, other := w.node(storeQuick()), w.node(storeQuick())
	ref := w.create(s, promo("ahead", 1000, 3))
	for _, node := range []*bucket.Service{s, other} { // each node tells SQL of every lane it uses
		for i := range 30 {
			if _, err := deduct(node, ref, fmt.Sprint("first", i), 1); err != nil {
				t.Fatal(err)
			}
		}
	}
	w.settled(s, ref, 30)
	w.fails("Commit")
	for i := range 50 {
		a, err := deduct(s, ref, fmt.Sprint("o", i), 2)
		if err != nil || a.Replayed || a.State != ledger.StateUsed {
			t.Fatalf("%+v, %v", a, err)
		}
	}
	for i := range 50 {
		a, err := deduct(other, ref, fmt.Sprint("o", i), 2)
		if err != nil || !a.Replayed || a.Amount != 2 {
			t.Fatalf("repeat: %+v, %v", a, err)
		}
	}
	if _, err := deduct(other, ref, "o1", 3); !budget.Is(err, budget.Unavailable) {
		t.Errorf("an id with another amount that cannot be drained: %v", err)
	}
	if f := w.figures(s, ref); f.Used != 30 || f.Remaining != 970 {
		t.Errorf("the ledger is ahead of itself: %+v", f)
	}
	if _, err := s.Deduction(context.Background(), ref, "o1"); !budget.Is(err, budget.Unavailable) {
		t.Errorf("an id that cannot be drained: %v", err)
	}
	w.fails()
	if v, err := s.Deduction(context.Background(), ref, "o1"); err != nil || v.State != ledger.StateUsed {
		t.Errorf("%+v, %v", v, err)
	}
	for i := range 50 {
		if _, err := deduct(other, ref, fmt.Sprint("o", i), 3); !budget.Is(err, budget.RequestConflict) {
			t.Fatalf("another amount: %v", err)
		}
	}
	w.settled(s, ref, 130)
	report, err := s.Audit(context.Background(), ref)
	if err != nil || report.AtRisk != 870 {
		t.Errorf("at risk %d, %v", report.AtRisk, err)
	}
}

// TestWindow: the ledger is never further behind a bucket than the window, in units and in time, on
// all nodes together; then the bucket waits for it.
func TestWindow(t *testing.T) {
	for _, test := range []struct {
		name  string
		units int64
		time  time.Duration
	}{{"units", 40, time.Hour}, {"time", 1 << 40, 300 * time.Millisecond}} {
		t.Run(test.name, func(t *testing.T) {
			w := newStoreWorld(t)
			set := storeQuick()
			set.Deadline, set.WindowUnits, set.WindowTime = 400*time.Millisecond, test.units, test.time
			nodes := []*bucket.Service{w.node(set), w.node(set)}
			ref := w.create(nodes[0], promo("window", 1000, 1))
			for i, node := range nodes {
				if _, err := deduct(node, ref, fmt.Sprint("first", i), 1); err != nil {
					t.Fatal(err)
				}
			}
			w.settled(nodes[0], ref, 2)
			w.fails("Commit")
			accepted, full := int64(2), 0
			for i := 0; full < 2; i++ {
				if _, err := deduct(nodes[i%2], ref, fmt.Sprint("o", i), 7); budget.Is(err, budget.Unavailable) {
					full++
					continue
				} else if err != nil {
					t.Fatal(err)
				}
				if accepted += 7; accepted > 900 {
					time.Sleep(50 * time.Millisecond)
				}
			}
			if ahead := accepted - 2; test.name == "units" && (ahead > 40 || ahead < 34) {
				t.Errorf("%d units ahead of the ledger, the window is 40", ahead)
			}
			w.fails()
			w.settled(nodes[0], ref, accepted)
			if _, err := deduct(nodes[1], ref, "after", 1); err != nil {
				t.Errorf("once the ledger is there: %v", err)
			}
		})
	}
}

// TestSQLDownInStoreMode: while nothing of SQL can be reached, deductions go on up to the window.
func TestSQLDownInStoreMode(t *testing.T) {
	for _, window := range []time.Duration{1500 * time.Millisecond, 8 * time.Second} {
		t.Run(window.String(), func(t *testing.T) {
			t.Parallel()
			w := newStoreWorld(t)
			set := storeQuick()
			set.Deadline, set.WindowTime = 500*time.Millisecond, window
			s := w.node(set)
			ref := w.create(s, promo("down", 100_000, 1))
			if _, err := deduct(s, ref, "first", 1); err != nil {
				t.Fatal(err)
			}
			w.settled(s, ref, 1)
			w.fails("*")
			accepted, began, last := int64(1), time.Now(), time.Time{}
			for i := 0; time.Since(began) < window+2*time.Second; i++ {
				_, err := deduct(s, ref, fmt.Sprint("o", i), 1)
				if err == nil {
					accepted, last = accepted+1, time.Now()
				} else if k := budget.CodeOf(err).Kind(); k != budget.NotDone {
					t.Fatalf("%v", err)
				}
				time.Sleep(time.Millisecond)
			}
			if went := last.Sub(began); went < window-time.Second/2 || went > window+3*time.Second/2 {
				t.Errorf("it went on for %v, the window is %v", went, window)
			}
			w.fails()
			w.settled(s, ref, accepted)
		})
	}
}

// TestStoreComesBackWithItsData: nothing is quarantined when every node says how far it acknowledged
// and the log reaches that far.
func TestStoreComesBackWithItsData(t *testing.T) {
	w := newStoreWorld(t)
	nodes := []*bucket.Service{w.node(storeQuick()), w.node(storeQuick())}
	ref := w.create(nodes[0], promo("back", 5000, 6))
	accepted := int64(0)
	for round := range 5 {
		for i := range 60 {
			if _, err := deduct(nodes[i%2], ref, fmt.Sprint("o", round, "-", i), 3); err != nil {
				t.Fatalf("round %d: %v", round, err)
			}
			accepted += 3
		}
		w.restart()
	}
	w.settled(nodes[0], ref, accepted)
	if f := w.figures(nodes[0], ref); f.Quarantined != 0 {
		t.Errorf("quarantined %d", f.Quarantined)
	}
	if a, err := deduct(nodes[1], ref, "o0-0", 3); err != nil || !a.Replayed {
		t.Errorf("an id of an earlier epoch: %+v, %v", a, err)
	}
}

// TestStoreComesBackEmpty: what was accepted and is in no log is never sold again; an operator decides
// what becomes of the rest (I2).
func TestStoreComesBackEmpty(t *testing.T) {
	w := newStoreWorld(t)
	s := w.node(storeQuick())
	ref := w.create(s, promo("empty", 1000, 1))
	ctx := context.Background()
	for i := range 10 {
		if _, err := deduct(s, ref, fmt.Sprint("kept", i), 10); err != nil {
			t.Fatal(err)
		}
	}
	w.settled(s, ref, 100)
	w.fails("Commit")
	if _, err := deduct(s, ref, "lost", 50); err != nil {
		t.Fatal(err)
	}
	w.lose()
	w.fails()
	w.until("quarantined", func() bool { return w.figures(s, ref).Quarantined > 0 })
	report := w.quiet(s, ref)
	if f := report.Figures; f.Quarantined != 900 || f.Used != 100 {
		t.Fatalf("%+v", f)
	}
	_, err := deduct(s, ref, "more", 1)
	if !budget.Is(err, budget.BudgetExhausted) {
		t.Errorf("with everything in quarantine: %v", err)
	}
	list, err := s.Quarantines(ctx, ref)
	if err != nil || len(list) != 1 || list[0].Held() != 900 || list[0].Cause == "" {
		t.Errorf("%+v, %v", list, err)
	}
	release := bucket.ReleaseRequest{Budget: ref, RequestID: "r1", Quantity: 850, Reason: "50 were sold", By: "op"}
	for i := range 2 {
		got, err := s.Release(ctx, release)
		if err != nil || got.Released != 850 || got.Quarantined != 50 || got.Replayed != (i == 1) {
			t.Errorf("%+v, %v", got, err)
		}
	}
	if _, err := deduct(s, ref, "rest", 850); err != nil {
		t.Errorf("what was released: %v", err)
	}
	w.settled(s, ref, 950)
}

// TestEmptyStoreThatLostNothing: the ledger had everything that was acknowledged, so an empty store
// costs no unit.
func TestEmptyStoreThatLostNothing(t *testing.T) {
	w := newStoreWorld(t)
	s := w.node(storeQuick())
	ref := w.create(s, promo("drained", 1000, 3))
	for i := range 30 {
		if _, err := deduct(s, ref, fmt.Sprint("o", i), 10); err != nil {
			t.Fatal(err)
		}
	}
	w.settled(s, ref, 300)
	w.lose()
	if _, err := deduct(s, ref, "all the rest", 700); err != nil {
		t.Error(err)
	}
	w.settled(s, ref, 1000)
	if f := w.figures(s, ref); f.Quarantined != 0 {
		t.Errorf("quarantined %d", f.Quarantined)
	}
}

// lateLook is a database whose first answer about unsettled epochs of an activation comes late.
type lateLook struct {
	bucket.SQL
	late          atomic.Bool // the next one
	asked, answer chan struct{}
}

func (q *lateLook) Unsettled(ctx context.Context, lane bucket.Lane, activation int64, limit int) ([]bucket.EpochOf, error) {
	out, err := q.SQL.Unsettled(ctx, lane, activation, limit)
	if q.late.CompareAndSwap(true, false) {
		close(q.asked)
		<-q.answer
	}
	return out, err
}

// TestLossDuringALookForLosses: a look that began under one activation, and found nothing to settle, does
// not hide what the next one lost.
func TestLossDuringALookForLosses(t *testing.T) {
	w, server := one(t)
	w.durability = budget.Store
	late := &lateLook{SQL: w.model, asked: make(chan struct{}), answer: make(chan struct{})}
	late.late.Store(true)
	w.sql = late
	s := w.start(storeQuick())
	<-late.asked
	ref := w.create(s, promo("late", 100, 2))
	server.Lose()
	w.until("the lane has its next activation", func() bool {
		_, _ = deduct(s, ref, "first", 1)
		lanes, err := s.Lanes(context.Background())
		return err == nil && lanes[0].Activation == 2 && lanes[0].Reachable
	})
	close(late.answer)
	w.until("sold", func() bool { _, err := deduct(s, ref, "first", 1); return err == nil })
}

// killable is SQL for a node that can be killed: it says nothing any more.
type killable struct {
	bucket.SQL
	dead atomic.Bool
}

var errDead = &budget.Error{Code: budget.Unavailable, Op: "test", Message: "this node is dead"}

func (k *killable) LaneUses(ctx context.Context, node string) ([]bucket.LaneUse, error) {
	if k.dead.Load() {
		return nil, errDead
	}
	return k.SQL.LaneUses(ctx, node)
}

func (k *killable) SeeUses(ctx context.Context, node string, lease time.Duration) ([]bucket.LaneUse, error) {
	if k.dead.Load() {
		return nil, errDead
	}
	return k.SQL.SeeUses(ctx, node, lease)
}

func (k *killable) Commit(ctx context.Context, logs []ledger.Log) (bucket.CommitReport, error) {
	if k.dead.Load() {
		return bucket.CommitReport{}, errDead
	}
	return k.SQL.Commit(ctx, logs)
}

// victim starts a node that can be killed.
func (w *storeWorld) victim() (*bucket.Service, *killable) {
	k := &killable{SQL: w.sql}
	w.sql = k
	s := w.node(storeQuick())
	w.sql = k.SQL
	w.t.Cleanup(func() { k.dead.Store(false) }) // so that it can be stopped
	return s, k
}

// TestNodeThatNeverReports: a node was killed, then the stores restart. Nobody knows how far it had
// acknowledged, so the units are quarantined.
func TestNodeThatNeverReports(t *testing.T) {
	w := newStoreWorld(t)
	s := w.node(storeQuick())
	ref := w.create(s, promo("unheard", 1000, 1))
	v, dead := w.victim()
	if _, err := deduct(v, ref, "by the victim", 10); err != nil {
		t.Fatal(err)
	}
	w.settled(s, ref, 10)
	dead.dead.Store(true)
	w.restart()
	w.until("quarantined", func() bool { return w.figures(s, ref).Quarantined == 990 })
	// It was only paused: its report is the proof.
	dead.dead.Store(false)
	w.until("released", func() bool { return w.figures(s, ref).Quarantined == 0 })
	w.settled(s, ref, 10)
}

// lateReport is SQL to which the report of a lane's first activation does not get through while held.
type lateReport struct {
	bucket.SQL
	held  atomic.Bool
	mu    sync.Mutex
	first map[bucket.Ref]int64 // as reported in the end
}

func (r *lateReport) ReportLane(ctx context.Context, node string, lane bucket.Lane, activation int64,
	acknowledged map[bucket.Ref]int64) error {
	if activation == 1 && r.held.Load() {
		return errDead
	}
	err := r.SQL.ReportLane(ctx, node, lane, activation, acknowledged)
	if activation == 1 && len(acknowledged) > 0 && err == nil {
		r.mu.Lock()
		maps.Copy(r.first, acknowledged)
		r.mu.Unlock()
	}
	return err
}

// lateReporter starts a node whose reports of lanes' first activations are held.
func (w *storeWorld) lateReporter() (*lateReport, *bucket.Service) {
	reports := &lateReport{SQL: w.sql, first: map[bucket.Ref]int64{}}
	reports.held.Store(true)
	w.sql = reports
	s := w.node(storeQuick())
	w.t.Cleanup(func() { reports.held.Store(false) }) // so that it can be stopped
	return reports, s
}

// TestReportsThatOvertake: a store loses its memory twice, and SQL hears what a node had acknowledged under the
// second activation before it hears of the first. The first report still says all, and what was told
// "accepted" stays in quarantine (I2).
func TestReportsThatOvertake(t *testing.T) {
	w := newStoreWorld(t)
	reports, s := w.lateReporter()
	ref := w.create(s, promo("overtaken", 1000, 1))
	if _, err := deduct(s, ref, "kept", 10); err != nil {
		t.Fatal(err)
	}
	w.settled(s, ref, 10)
	w.fails("Commit")
	if _, err := deduct(s, ref, "lost", 10); err != nil {
		t.Fatal(err)
	}
	w.lose()
	w.fails()
	w.until("quarantined", func() bool { return w.figures(s, ref).Quarantined == 990 })
	if _, err := s.Adjust(context.Background(), bucket.AdjustRequest{Budget: ref, RequestID: "more", Quantity: 100}); err != nil {
		t.Fatal(err)
	}
	w.until("it serves under the second activation", func() bool { _, err := deduct(s, ref, "second", 10); return err == nil })
	w.settled(s, ref, 20)
	w.restart()
	w.until("it serves under the third activation", func() bool { _, err := deduct(s, ref, "third", 10); return err == nil })
	w.settled(s, ref, 30)
	reports.held.Store(false)
	w.until("the first report is heard", func() bool { return len(w.unreported(1)) == 0 })
	time.Sleep(4 * quick.Chores) // looks that must release nothing
	reports.mu.Lock()
	defer reports.mu.Unlock()
	if len(reports.first) != 1 {
		t.Errorf("reported of the first activation: %v", reports.first)
	}
	if f := w.figures(s, ref); f.Quarantined != 990 {
		t.Errorf("quarantined %d, want 990", f.Quarantined)
	}
}

// stuck is SQL for a node that, while stuck, does not hear of a lane's next activation: its looks at lanes fail, its
// commits too, and its reports unless they are let through.
type stuck struct {
	bucket.SQL
	stuck, reports atomic.Bool
}

func (s *stuck) failing() error {
	if s.stuck.Load() {
		return errDead
	}
	return nil
}

func (s *stuck) KnownLanes(ctx context.Context) ([]bucket.LaneRow, error) {
	if err := s.failing(); err != nil {
		return nil, err
	}
	return s.SQL.KnownLanes(ctx)
}

func (s *stuck) Lane(ctx context.Context, lane bucket.Lane, identity string) (bucket.LaneRow, error) {
	if err := s.failing(); err != nil {
		return bucket.LaneRow{}, err
	}
	return s.SQL.Lane(ctx, lane, identity)
}

func (s *stuck) EndLost(ctx context.Context, order bucket.LostOrder) (bucket.Settlement, error) {
	if err := s.failing(); err != nil {
		return bucket.Settlement{}, err
	}
	return s.SQL.EndLost(ctx, order)
}

func (s *stuck) Commit(ctx context.Context, logs []ledger.Log) (bucket.CommitReport, error) {
	if err := s.failing(); err != nil {
		return bucket.CommitReport{}, err
	}
	return s.SQL.Commit(ctx, logs)
}

func (s *stuck) LaneUses(ctx context.Context, node string) ([]bucket.LaneUse, error) {
	if err := s.failing(); err != nil && !s.reports.Load() {
		return nil, err
	}
	return s.SQL.LaneUses(ctx, node)
}

// beforeEnd is SQL for a node that does something before its first EndLost.
type beforeEnd struct {
	bucket.SQL
	once sync.Once
	do   func()
}

func (b *beforeEnd) EndLost(ctx context.Context, order bucket.LostOrder) (bucket.Settlement, error) {
	b.once.Do(b.do)
	return b.SQL.EndLost(ctx, order)
}

// TestAcceptedAfterTheDrain: an operator gives a lane the next activation, and one node has not heard of it when
// another has drained the logs: what it accepts until its report is in the ledger too, and nothing is quarantined (I7).
func TestAcceptedAfterTheDrain(t *testing.T) {
	w := newStoreWorld(t)
	set := storeQuick()
	set.ReportWait = time.Minute
	behind := &stuck{SQL: w.model}
	w.sql = behind
	slow := w.node(set)
	ref := w.create(slow, promo("late", 1000, 1))
	if _, err := deduct(slow, ref, "early", 10); err != nil {
		t.Fatal(err)
	}
	w.settled(slow, ref, 10)
	ender := &beforeEnd{SQL: w.model, do: func() {
		if a, err := deduct(slow, ref, "late", 20); err != nil || a.Replayed {
			t.Errorf("through the node that has not heard: %+v, %v", a, err)
		}
		behind.reports.Store(true)
		w.until("it has reported", func() bool { return len(w.unreported(1)) == 0 })
	}}
	w.sql = ender
	operator := w.node(set)
	t.Cleanup(func() { behind.stuck.Store(false) }) // so that it can be stopped
	behind.stuck.Store(true)
	if _, err := operator.Recover(context.Background(), w.home(ref)); err != nil {
		t.Fatal(err)
	}
	w.until("settled", func() bool { return w.newestEpoch(ref) > 1 })
	behind.stuck.Store(false)
	w.settled(operator, ref, 30)
	if f := w.figures(operator, ref); f.Quarantined != 0 {
		t.Errorf("quarantined %d", f.Quarantined)
	}
	if v, err := operator.Deduction(context.Background(), ref, "late"); err != nil || v.Amount != 20 {
		t.Errorf("%+v, %v", v, err)
	}
}

// unreported lists the uses of an activation that nobody has reported or ended.
func (w *storeWorld) unreported(activation int64) []bucket.LaneUse {
	return slices.DeleteFunc(w.model.Uses(), func(u bucket.LaneUse) bool { return u.Activation != activation })
}

// TestUnreportedUnderAFormerName: a node was paused, its use of one lane was ended by others and it goes on under another
// name. A use of the name before that nobody ended is still reported, so nothing stays in quarantine.
func TestUnreportedUnderAFormerName(t *testing.T) {
	w := newStoreWorld(t)
	reports, s := w.lateReporter()
	ref := w.create(s, promo("former", 1000, 1))
	if _, err := deduct(s, ref, "first", 10); err != nil {
		t.Fatal(err)
	}
	w.settled(s, ref, 10)
	w.restart()
	w.until("quarantined", func() bool { return w.figures(s, ref).Quarantined == 990 }) // its report is missing
	if _, err := s.Adjust(context.Background(), bucket.AdjustRequest{Budget: ref, RequestID: "more", Quantity: 100}); err != nil {
		t.Fatal(err)
	}
	w.until("it serves under the second activation", func() bool { _, err := deduct(s, ref, "second", 10); return err == nil })
	was := w.unreported(2)
	if len(was) != 1 || len(w.unreported(1)) != 1 {
		t.Fatalf("unreported %+v", w.model.Uses())
	}
	if err := w.model.EndSilent(context.Background(), was[0], -time.Hour); err != nil {
		t.Fatal(err)
	}
	asked := 0
	w.until("it acknowledges under another name", func() bool {
		asked++
		_, err := deduct(s, ref, fmt.Sprint("third", asked), 1)
		time.Sleep(50 * time.Millisecond)
		now := w.unreported(2)
		return err == nil && len(now) == 1 && now[0].Node != was[0].Node
	})
	reports.held.Store(false)
	w.until("the use of the name before is reported", func() bool { return len(w.unreported(1)) == 0 })
	w.until("released", func() bool { return w.figures(s, ref).Quarantined == 0 })
}

// TestSilentNode: a node was killed long before the stores restart. The others have drained all it can
// have acknowledged, so nothing is quarantined; should it only have been paused, it says "accepted" no
// more under its old name.
func TestSilentNode(t *testing.T) {
	w := newStoreWorld(t)
	s := w.node(storeQuick())
	ref := w.create(s, promo("silent", 1000, 1))
	v, dead := w.victim()
	for i, node := range []*bucket.Service{s, v} {
		if _, err := deduct(node, ref, fmt.Sprint("o", i), 10); err != nil {
			t.Fatal(err)
		}
	}
	dead.dead.Store(true)
	w.ahead.Store(int64(20 * time.Second))
	time.Sleep(4 * quick.Chores) // the other node is seen
	w.ahead.Store(int64(45 * time.Second))
	w.until("the use is ended", func() bool {
		uses, err := w.model.SilentUses(context.Background(), 20*time.Second, 10)
		return err == nil && len(uses) == 0
	})
	w.restart()
	w.until("settled", func() bool { return w.noneStale(ref) })
	if f := w.figures(s, ref); f.Quarantined != 0 {
		t.Errorf("quarantined %d", f.Quarantined)
	}
	dead.dead.Store(false)
	w.until("it serves again", func() bool {
		_, err := deduct(v, ref, "o2", 10)
		return err == nil
	})
	w.settled(s, ref, 30)
}

// TestCancelInStoreMode: a deduct that is still on its way when its id is cancelled never takes effect
// (I4), and one that was deducted and is not in the ledger yet is given back.
func TestCancelInStoreMode(t *testing.T) {
	w := newStoreWorld(t)
	var postpone atomic.Bool
	for _, server := range w.servers {
		server.Hook = func(c memstore.Call) memstore.Fault {
			if c.Verb == "deduct" && !c.After && postpone.Load() {
				return memstore.Postpone
			}
			return memstore.Proceed
		}
	}
	set := storeQuick()
	set.Deadline = 300 * time.Millisecond
	s := w.node(set)
	ref := w.create(s, promo("cancel", 1000, 3))
	ctx := context.Background()
	if _, err := deduct(s, ref, "before", 1); err != nil {
		t.Fatal(err)
	}
	postpone.Store(true)
	if _, err := deduct(s, ref, "late", 100); !budget.Is(err, budget.OutcomeUnknown) {
		t.Fatalf("a call that hangs: %v", err)
	}
	postpone.Store(false)
	v, err := s.Cancel(ctx, ref, "late")
	if err != nil || v.State != ledger.StateVoid {
		t.Fatalf("%+v, %v", v, err)
	}
	for _, server := range w.servers {
		server.Release()
	}
	if _, err := deduct(s, ref, "late", 100); !budget.Is(err, budget.RequestVoid) {
		t.Errorf("the late one: %v", err)
	}
	w.fails("Commit")
	if _, err := deduct(s, ref, "done", 7); err != nil {
		t.Fatal(err)
	}
	w.fails()
	if v, err = s.Cancel(ctx, ref, "done"); err != nil || v.State != ledger.StateRolledBack || v.RolledBack != 7 {
		t.Errorf("%+v, %v", v, err)
	}
	w.settled(s, ref, 1)
}

// TestRollbackRightAfterTheAnswer: a deduction that is not in the ledger yet is found, by its receipt
// or without (I5).
func TestRollbackRightAfterTheAnswer(t *testing.T) {
	w := newStoreWorld(t)
	s, other := w.node(storeQuick()), w.node(storeQuick())
	ref := w.create(s, promo("rollback", 1000, 4))
	for i := range 40 {
		id := fmt.Sprint("o", i)
		a, err := deduct(s, ref, id, 5)
		if err != nil {
			t.Fatal(err)
		}
		r := bucket.RollbackRequest{Budget: ref, RequestID: id}
		if i%2 == 0 {
			r.Receipt = a.Receipt
		}
		v, err := other.Rollback(context.Background(), r)
		if err != nil || v.State != ledger.StateRolledBack {
			t.Errorf("%s: %+v, %v", id, v, err)
		}
	}
	_, err := other.Rollback(context.Background(), bucket.RollbackRequest{Budget: ref, RequestID: "never"})
	if !budget.Is(err, budget.DeductionNotFound) {
		t.Errorf("an id that was never deducted: %v", err)
	}
	w.settled(s, ref, 0)
}

// TestRequestsDoNotMove: a key's requests are served by one bucket, whatever is where; the budget
// moves there, to the last unit.
func TestRequestsDoNotMove(t *testing.T) {
	w := newStoreWorld(t)
	nodes := []*bucket.Service{w.node(storeQuick()), w.node(storeQuick())}
	ref := w.create(nodes[0], promo("still", 1000, 8))
	ctx := context.Background()
	served := ""
	for i := range 100 {
		a, err := nodes[i%2].Deduct(ctx, bucket.DeductRequest{Budget: ref, RequestID: fmt.Sprint("o", i),
			Amount: 10, Key: "one customer"})
		if err != nil {
			t.Fatalf("%d: %v", i, err)
		}
		if served == "" {
			served = a.Bucket
		}
		if a.Bucket != served {
			t.Fatalf("request %d was served by %s, the first by %s", i, a.Bucket, served)
		}
	}
	if _, err := deduct(nodes[0], ref, "one more", 1); !budget.Is(err, budget.BudgetExhausted) {
		t.Errorf("after the last unit: %v", err)
	}
	w.settled(nodes[0], ref, 1000)
}
