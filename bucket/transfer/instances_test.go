package transfer_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/budgetd/budgetd/bucket/transfer"
	"github.com/budgetd/budgetd/budget"
)

func TestDrainUndrainAndRebalance(t *testing.T) {
	w := newCluster(t)
	s := w.node()
	w.create(promo("rows", 90, 6)) // its buckets are on no instance
	ref := w.stored(promo("sale", 90, 6), 3)
	view, err := s.Drain(w.ctx, "store-1")
	w.ok(err)
	if !view.Draining || !view.Done || view.Left != 0 || view.Moved != 2 {
		t.Errorf("drained: %+v", view)
	}
	b := w.read(ref)
	for i := range b.Buckets {
		bk := &b.Buckets[i]
		if bk.Partition.Instance == "store-1" || bk.Epoch.Number != 1 || bk.Epoch.Outstanding != 15 {
			t.Errorf("bucket %s is on %s: %+v", bk.Key, bk.Partition, bk.Epoch)
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
		loads[bk.Partition.Instance]++
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
	w := newCluster(t)
	s := w.node()
	ref := w.stored(promo("sale", 90, 6), 2)
	run := loop(t, s, transfer.Settings{Rebalance: true}, "rebalance")
	third := func() (n int) {
		for _, bk := range w.read(ref).Buckets {
			if bk.Partition.Instance == "store-2" {
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

func TestPartitionsAndRecover(t *testing.T) {
	w := newCluster(t)
	s := w.node()
	w.stored(promo("sale", 90, 6), 3)
	w.stores.down["store-2"] = true
	views, err := s.Partitions(w.ctx)
	w.ok(err)
	if len(views) != 3 || !views[0].Reachable || *views[0].Buckets != 2 || views[2].Reachable ||
		views[2].Problem != "connection refused" {
		t.Errorf("partitions %+v", views)
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
	other := transfer.New(transfer.Config{Ledger: w.part, Partitions: w.partitions[:2]})
	if got := other.Missing(w.ctx); len(got) != 1 || !strings.Contains(got[0], "store-2/0") {
		t.Errorf("missing %v", got)
	}
}
