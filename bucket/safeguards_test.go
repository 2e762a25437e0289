package bucket_test

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/budgetd/budgetd/bucket"
	"github.com/budgetd/budgetd/budget"
	"github.com/budgetd/budgetd/internal/memstore"
	"github.com/budgetd/budgetd/ledger"
)

// TestNoAnswerBeforeTheCommit: in ledger mode nobody is told "accepted" while no commit succeeds (I7).
func TestNoAnswerBeforeTheCommit(t *testing.T) {
	w := newWorld(t)
	var failing atomic.Bool
	w.model.Hook = func(method string, before bool) error {
		if method == "Commit" && before && failing.Load() {
			return errors.New("injected")
		}
		return nil
	}
	set := quick
	set.Deadline = 300 * time.Millisecond
	s := w.node(set)
	ref := w.create(s, promo("early", 100, 1))
	failing.Store(true)
	if a, err := deduct(s, ref, "o1", 5); !budget.Is(err, budget.OutcomeUnknown) {
		t.Errorf("before the commit: %+v, %v", a, err)
	}
	failing.Store(false)
	w.until("accepted", func() bool { _, err := deduct(s, ref, "o1", 5); return err == nil })
	w.settled(s, ref, 5)
}

// gated is SQL for a node whose commits wait while it is shut.
type gated struct {
	bucket.SQL
	shut    atomic.Bool
	waiting chan struct{}
}

func (g *gated) Commit(ctx context.Context, logs []ledger.Log) (bucket.CommitReport, error) {
	if g.shut.Load() {
		select {
		case g.waiting <- struct{}{}:
		default:
		}
		for g.shut.Load() {
			time.Sleep(time.Millisecond)
		}
	}
	return g.SQL.Commit(ctx, logs)
}

// TestAnotherEntryAtThePosition: before a node has committed its entry the store goes back, and another
// node's entry is committed at the same position. The first is not told the other's outcome (I4, I7).
func TestAnotherEntryAtThePosition(t *testing.T) {
	w, server := one(t)
	other := w.node(quick)
	g := &gated{SQL: w.sql, waiting: make(chan struct{}, 1)}
	w.sql = g
	s := w.node(quick)
	w.sql = g.SQL
	ref := w.create(other, promo("position", 1000, 1))
	if _, err := deduct(s, ref, "first", 1); err != nil {
		t.Fatal(err)
	}
	image := server.Snapshot()
	g.shut.Store(true)
	var x bucket.DeductAnswer
	var xErr error
	var all sync.WaitGroup
	all.Go(func() { x, xErr = deduct(s, ref, "x", 7) })
	<-g.waiting
	server.Restore(image, true)
	if _, err := deduct(other, ref, "y", 5); err != nil {
		t.Errorf("y: %v", err)
	}
	g.shut.Store(false)
	all.Wait()
	if xErr != nil || x.RequestID != "x" || x.Amount != 7 || x.Replayed {
		t.Errorf("x was told %+v, %v", x, xErr)
	}
	w.settled(other, ref, 13)
}

// newestEpoch is the number of a bucket's newest epoch once that is open.
func (w *world) newestEpoch(ref bucket.BudgetRef) int64 {
	w.t.Helper()
	b, err := w.sql.Budget(context.Background(), ref)
	if err != nil {
		w.t.Fatal(err)
	}
	if e := b.Buckets[0].Epoch; e.Status == ledger.Open {
		return e.Number
	}
	return 0
}

// TestAcknowledgedIsNotSoldAgain: what a node acknowledged and no log holds any more is quarantined
// together with all that its epoch held (I2).
func TestAcknowledgedIsNotSoldAgain(t *testing.T) {
	w := newStoreWorld(t)
	s := w.node(storeQuick())
	ref := w.create(s, promo("word", 1000, 1))
	if _, err := deduct(s, ref, "kept", 1); err != nil {
		t.Fatal(err)
	}
	w.settled(s, ref, 1)
	w.fails("Commit")
	if _, err := deduct(s, ref, "lost", 50); err != nil {
		t.Fatal(err)
	}
	for _, server := range w.servers {
		server.Lose()
	}
	w.fails()
	w.until("replaced", func() bool { return w.newestEpoch(ref) > 1 })
	if f := w.figures(s, ref); f.Quarantined != 999 {
		t.Errorf("quarantined %d of 999: %+v", f.Quarantined, f)
	}
}

// TestYoungEpochAsksTheLedger: an id that was accepted in an epoch before is a repetition, also through
// a node that knows nothing of it (I4).
func TestYoungEpochAsksTheLedger(t *testing.T) {
	w := newStoreWorld(t)
	s := w.node(storeQuick())
	ref := w.create(s, promo("young", 1000, 1))
	if _, err := deduct(s, ref, "o1", 5); err != nil {
		t.Fatal(err)
	}
	w.settled(s, ref, 5)
	w.restart()
	w.until("replaced", func() bool { return w.newestEpoch(ref) > 1 })
	if a, err := deduct(w.node(storeQuick()), ref, "o1", 5); err != nil || !a.Replayed {
		t.Errorf("the repetition: %+v, %v", a, err)
	}
	w.settled(s, ref, 5)
}

// TestCancelFindsWhatAnotherNodeAcknowledged: the node that deducted cannot bring its entry into the
// ledger; whoever cancels does, and gives the units back instead of denying that they were used (I4).
func TestCancelFindsWhatAnotherNodeAcknowledged(t *testing.T) {
	w := newStoreWorld(t)
	v, dead := w.victim()
	set := storeQuick()
	set.Chores = time.Hour
	s := w.node(set)
	ref := w.create(s, promo("found", 1000, 1))
	dead.dead.Store(true)
	if _, err := deduct(v, ref, "x", 7); err != nil {
		t.Fatal(err)
	}
	got, err := s.Cancel(context.Background(), ref, "x")
	if err != nil || got.State != ledger.StateRolledBack || got.RolledBack != 7 {
		t.Errorf("%+v, %v", got, err)
	}
	dead.dead.Store(false)
	w.settled(v, ref, 0)
}

// TestLateReplyIsNotAcknowledged: a node that SQL has not heard of for longer than its lease says
// "accepted" no more, also for what its store did in time: others may have drained the log and ended
// its word meanwhile (I2).
func TestLateReplyIsNotAcknowledged(t *testing.T) {
	w := newStoreWorld(t)
	clock := &stepped{}
	w.clock = clock
	var hold atomic.Bool
	entered, release := make(chan struct{}), make(chan struct{})
	for _, server := range w.servers {
		server.Hook = func(c memstore.Call) memstore.Fault {
			if c.Verb == "deduct" && c.After && hold.CompareAndSwap(true, false) {
				entered <- struct{}{}
				<-release
			}
			return memstore.Proceed
		}
	}
	s := w.node(storeQuick())
	ref := w.create(s, promo("lease", 1000, 1))
	if _, err := deduct(s, ref, "first", 1); err != nil {
		t.Fatal(err)
	}
	w.fails("UseLane", "SeeUses")
	hold.Store(true)
	var err error
	var all sync.WaitGroup
	all.Go(func() { _, err = deduct(s, ref, "x", 10) })
	<-entered
	clock.back.Store(-int64(11 * time.Second))
	close(release)
	all.Wait()
	if !budget.Is(err, budget.OutcomeUnknown) {
		t.Errorf("a reply of 11 s ago: %v", err)
	}
	w.fails()
	w.until("accepted", func() bool { _, err := deduct(s, ref, "x", 10); return err == nil })
	w.settled(s, ref, 11)
}
