package transfer_test

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/budgetd/budgetd/bucket"
	"github.com/budgetd/budgetd/bucket/transfer"
	"github.com/budgetd/budgetd/budget"
	"github.com/budgetd/budgetd/internal/sql/engine"
)

func TestVerbsOnBuckets(t *testing.T) {
	w := newCluster(t)
	s := w.node()
	ref := w.create(promo("sale", 90, 3))
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
	view, err = s.ApplyTo(w.ctx, ref, "bucket-0") // an even share, for two, of the 30 that came back
	if w.ok(err); view.Remaining != 45 {
		t.Errorf("applied: %+v", view)
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
}

func TestRecycleAndItsHistory(t *testing.T) {
	w := newCluster(t)
	s := w.node()
	ref := w.create(promo("sale", 8000, 4))
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
	if after.Epoch.Outstanding < 5000 {
		t.Errorf("the bucket that sells is %+v", after.Epoch)
	}
	list, err := s.Recycles(w.ctx, ref, 0, 5)
	if w.ok(err); len(list) != 1 || list[0] != run {
		t.Errorf("history %+v, want %+v", list, run)
	}
	if _, err = s.Recycle(w.ctx, bucket.BudgetRef{ID: 99}); !budget.Is(err, budget.BudgetNotFound) {
		t.Error(err)
	}
}

// TestRecycleWithoutBeingAsked checks that the schedule recycles each effective budget once, whatever the number of nodes, and that a budget of
// which too much is stranded is recycled automatically.
func TestRecycleWithoutBeingAsked(t *testing.T) {
	w := newCluster(t)
	first, second := w.create(promo("first", 8000, 4)), w.create(promo("second", 8000, 4))
	paused := promo("paused", 80, 4)
	paused.Paused = true
	third := w.create(paused)
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
	all()
	expect("before the time", first)
	w.advance(2 * time.Hour)
	all()
	all()
	expect("by schedule", first, bucket.OnSchedule)
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
	w.advance(2 * time.Minute)
	w.ok(w.db.Write(w.ctx, "test", func(t *engine.Tx) error {
		_, err := t.Exec(`UPDATE budget_management_bucket SET contraction_bound = 100`)
		return err
	}))
	nodes[1].Used(first.ID)
	all()
	all()
	expect("a contraction is over", first, bucket.Automatic, bucket.OnSchedule)
}

// TestRollOverIsShared checks that all requests that meet an ended epoch share one rollover, and
// that the loop rolls over the others.
func TestRollOverIsShared(t *testing.T) {
	w := newCluster(t)
	nodes := []*transfer.Service{w.node(), w.node()}
	d := promo("daily", 1000, 3)
	d.Type = budget.Daily
	d.Rule = &budget.Rule{Kind: budget.Calendar, Every: budget.Hour, Quantity: 30}
	d.StartAt = w.clock()
	first := w.create(d)
	d.Name = "other"
	second := w.create(d)
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
	w := newCluster(t)
	s := w.node()
	d := promo("free", 100_000, 2)
	d.Type, d.Rule = budget.Daily, &budget.Rule{Kind: budget.Free}
	ref := w.create(d)
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
	w := newCluster(t)
	s := w.node()
	ref := w.create(promo("sale", 90, 3))
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
