package bucket_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/budgetd/budgetd/bucket"
	"github.com/budgetd/budgetd/budget"
	"github.com/budgetd/budgetd/internal/memstore"
	"github.com/budgetd/budgetd/ledger"
)

// one makes a world with a single instance, so that a test knows where things are.
func one(t *testing.T) (*world, *memstore.Server) {
	w := newWorld(t)
	delete(w.servers, "m1")
	delete(w.servers, "m2")
	return w, w.servers["m0"]
}

// slow is a node that does not tidy up while a test looks.
func slow() bucket.Settings {
	set := quick
	set.Chores, set.Deadline = time.Hour, 2*time.Second
	return set
}

// TestStoreGoesBackBeforeTheCommit: the entry of one request is replaced by that of another at the
// same position. Nobody is told "accepted" with another's outcome (I4, I7).
func TestStoreGoesBackBeforeTheCommit(t *testing.T) {
	w, server := one(t)
	var held atomic.Bool
	admitted := make(chan struct{}, 1)
	w.model.Hook = func(method string, before bool) error {
		if method == "Commit" && before && held.Load() {
			select {
			case admitted <- struct{}{}:
			default:
			}
			for held.Load() {
				time.Sleep(time.Millisecond)
			}
		}
		return nil
	}
	s := w.node(quick)
	ref := w.create(s, promo("forked", 1000, 1))
	other := w.node(quick)
	if _, err := deduct(s, ref, "first", 1); err != nil {
		t.Fatal(err)
	}
	image := server.Snapshot()
	held.Store(true)
	var x, y bucket.DeductAnswer
	var xErr, yErr error
	var all sync.WaitGroup
	all.Go(func() { x, xErr = deduct(s, ref, "x", 7) })
	<-admitted
	server.Restore(image, true) // x's entry is gone, nobody can tell by the identity
	all.Go(func() { y, yErr = deduct(other, ref, "y", 5) })
	time.Sleep(50 * time.Millisecond)
	held.Store(false)
	all.Wait()
	if xErr == nil && (x.RequestID != "x" || x.Amount != 7) {
		t.Errorf("x was told %+v", x)
	}
	if yErr == nil && (y.RequestID != "y" || y.Amount != 5) {
		t.Errorf("y was told %+v", y)
	}
	used := int64(1)
	for id, amount := range map[string]int64{"x": 7, "y": 5} { // whoever is not sure repeats the id
		if a, err := deduct(other, ref, id, amount); err != nil || a.Amount != amount {
			t.Errorf("repeat of %s: %+v, %v", id, a, err)
		}
		used += amount
	}
	w.settled(s, ref, used)
}

// TestOfflineOfAnOpeningBucket is refused, and the bucket comes online.
func TestOfflineOfAnOpeningBucket(t *testing.T) {
	w := newWorld(t)
	var failing atomic.Bool
	failing.Store(true)
	w.model.Hook = func(method string, before bool) error {
		if method == "MarkOpen" && before && failing.Load() {
			return errors.New("injected")
		}
		return nil
	}
	s := w.node(quick)
	ref := w.create(s, promo("opening", 100, 2))
	if _, err := s.Offline(context.Background(), ref, "opening:bucket-0"); !budget.Is(err, budget.Unavailable) {
		t.Errorf("offline while opening: %v", err)
	}
	failing.Store(false)
	w.settled(s, ref, 0)
	if _, err := deduct(s, ref, "all", 100); err != nil {
		t.Error(err)
	}
	w.settled(s, ref, 100)
}

// TestFailingCommitIsWaitedFor: while commits fail, a request is not executed again and again.
func TestFailingCommitIsWaitedFor(t *testing.T) {
	w := newWorld(t)
	var executed atomic.Int64
	for _, server := range w.servers {
		server.Hook = func(c memstore.Call) memstore.Fault {
			if c.Verb == "deduct" && !c.After {
				executed.Add(1)
			}
			return memstore.Proceed
		}
	}
	var failing atomic.Bool
	w.model.Hook = func(method string, before bool) error {
		if method == "Commit" && before && failing.Load() {
			return errors.New("injected")
		}
		return nil
	}
	s := w.node(quick)
	ref := w.create(s, promo("stuck", 1000, 3))
	failing.Store(true)
	time.AfterFunc(700*time.Millisecond, func() { failing.Store(false) })
	var all sync.WaitGroup
	for i := range 20 {
		all.Go(func() {
			if _, err := deduct(s, ref, fmt.Sprint("o", i), 2); err != nil {
				t.Error(err)
			}
		})
	}
	all.Wait()
	if n := executed.Load(); n != 20 {
		t.Errorf("20 requests were executed %d times", n)
	}
	w.settled(s, ref, 40)
}

// TestCancelledReaderDoesNotHurtALane: a caller that gives up says nothing about the store.
func TestCancelledReaderDoesNotHurtALane(t *testing.T) {
	w, _ := one(t)
	s := w.node(slow())
	ref := w.create(s, promo("read", 100, 1))
	gone, cancel := context.WithCancel(context.Background())
	cancel()
	if _, err := s.Audit(gone, ref); err == nil {
		t.Log("the audit was quicker than its caller")
	}
	lanes, err := s.Lanes(context.Background())
	if err != nil || !lanes[0].Reachable {
		t.Errorf("%+v, %v", lanes, err)
	}
	if _, err := deduct(s, ref, "o1", 1); err != nil {
		t.Error(err)
	}
}

// TestErrorAfterAWrite: what may have happened is not called "certainly not done".
func TestErrorAfterAWrite(t *testing.T) {
	w := newWorld(t)
	var failing atomic.Bool
	w.model.Hook = func(method string, before bool) error {
		if method == "Figures" && before && failing.Load() {
			return errors.New("injected")
		}
		return nil
	}
	s := w.node(slow())
	ref := w.create(s, promo("written", 100, 2))
	failing.Store(true)
	ctx, yes := context.Background(), true
	if _, err := s.Adjust(ctx, bucket.AdjustRequest{Budget: ref, RequestID: "a", Quantity: 50}); !budget.Is(err, budget.OutcomeUnknown) {
		t.Errorf("append: %v", err)
	}
	if _, err := s.Change(ctx, ref, bucket.Change{Paused: &yes}); !budget.Is(err, budget.OutcomeUnknown) {
		t.Errorf("change: %v", err)
	}
	if _, _, err := s.Create(ctx, promo("second", 10, 1)); !budget.Is(err, budget.OutcomeUnknown) {
		t.Errorf("create: %v", err)
	}
	failing.Store(false)
	v, err := s.Adjust(ctx, bucket.AdjustRequest{Budget: ref, RequestID: "a", Quantity: 50})
	if err != nil || !v.Replayed || v.Figures.Total != 150 {
		t.Errorf("repeat: %+v, %v", v, err)
	}
}

// TestShrinkLeavesTheRestWithinReach: what a shrink took back and did not need is handed out again,
// also where no bucket may apply any more.
func TestShrinkLeavesTheRestWithinReach(t *testing.T) {
	w := newWorld(t)
	s := w.node(quick)
	d := promo("bounded", 100, 2)
	d.AdjustCnt = 1
	ref := w.create(s, d)
	if _, err := s.Adjust(context.Background(), bucket.AdjustRequest{Budget: ref, RequestID: "s", Quantity: -10}); err != nil {
		t.Fatal(err)
	}
	for i := range 90 {
		if _, err := deduct(s, ref, fmt.Sprint("o", i), 1); err != nil {
			t.Fatalf("unit %d of 90: %v", i+1, err)
		}
	}
	w.settled(s, ref, 90)
}

// TestOperatorsOfflineStays: recovering a fenced bucket does not bring back what an operator took away.
func TestOperatorsOfflineStays(t *testing.T) {
	w := newWorld(t)
	var failing atomic.Bool
	w.model.Hook = func(method string, before bool) error {
		if method == "CloseEpoch" && before && failing.Load() {
			return errors.New("injected")
		}
		return nil
	}
	s := w.node(quick)
	ref := w.create(s, promo("away", 100, 2))
	ctx := context.Background()
	failing.Store(true)
	if _, err := s.Offline(ctx, ref, "away:bucket-0"); !budget.Is(err, budget.OutcomeUnknown) {
		t.Errorf("offline: %v", err)
	}
	b, err := w.sql.Budget(ctx, ref)
	if err != nil {
		t.Fatal(err)
	}
	if err := w.sql.Fence(ctx, b.Buckets[0].Ref(), "a test"); err != nil {
		t.Fatal(err)
	}
	failing.Store(false)
	w.settled(s, ref, 0)
	list, err := s.Buckets(ctx, ref)
	if err != nil || list[0].Online || list[0].OfflineBy != bucket.ByOperator {
		t.Errorf("%+v, %v", list[0], err)
	}
	if _, err := deduct(s, ref, "all", 100); err != nil {
		t.Error(err)
	}
}

// stepped is a clock that can be set back.
type stepped struct {
	bucket.SystemClock
	back atomic.Int64
}

func (c *stepped) Now() time.Time { return time.Now().Add(-time.Duration(c.back.Load())) }

// TestClockStepsBackBeforeAFence: a fenced bucket is recovered at once, however far the clock was set back.
func TestClockStepsBackBeforeAFence(t *testing.T) {
	w := newWorld(t)
	clock := &stepped{}
	w.clock = clock
	s := w.node(quick)
	ref := w.create(s, promo("fenced", 100, 2))
	clock.back.Store(int64(time.Hour))
	bk := w.budget(ref).Buckets[0]
	if err := w.sql.Fence(context.Background(), bk.Ref(), "by a test"); err != nil {
		t.Fatal(err)
	}
	w.until("recovered", func() bool {
		now := w.budget(ref).Buckets[0].Epoch
		return now.Number > bk.Epoch.Number && now.Status == ledger.Open
	})
	if _, err := deduct(s, ref, "all", 100); err != nil {
		t.Error(err)
	}
}

// TestClockStepsBack: a node whose clock was set back still sees changes within a second (I8).
func TestClockStepsBack(t *testing.T) {
	w := newWorld(t)
	clock := &stepped{}
	w.clock = clock
	s, other := w.node(quick), w.node(quick)
	ref := w.create(s, promo("stepped", 100, 2))
	if _, err := deduct(s, ref, "before", 1); err != nil {
		t.Fatal(err)
	}
	clock.back.Store(int64(time.Hour))
	yes := true
	if _, err := other.Change(context.Background(), ref, bucket.Change{Paused: &yes}); err != nil {
		t.Fatal(err)
	}
	time.Sleep(time.Second)
	if _, err := deduct(s, ref, "after", 1); !budget.Is(err, budget.BudgetPaused) {
		t.Errorf("paused a second ago: %v", err)
	}
}
