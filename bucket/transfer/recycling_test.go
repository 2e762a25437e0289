package transfer_test

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/budgetd/budgetd/bucket"
	"github.com/budgetd/budgetd/bucket/transfer"
	"github.com/budgetd/budgetd/budget"
	"github.com/budgetd/budgetd/internal/sql/engine"
)

// recycle recycles a budget, and proves I1.
func (w *world) recycle(id int64) bucket.Recycle {
	w.Helper()
	run, began := w.recycleFor(id, bucket.OnDemand, time.Time{})
	equal(w, "began", began, true)
	return run
}

func (w *world) recycleFor(id int64, cause bucket.RecycleCause, since time.Time) (
	run bucket.Recycle, began bool) {
	w.Helper()
	b := w.read(id)
	after, out, err := w.part.Recycle(w.ctx, &b, transfer.Recycling{Cause: cause, Since: since})
	w.ok(err)
	w.conserved(id)
	equal(w, "the list's version after it", after.ListVersion, w.read(id).ListVersion)
	return out.Run, out.Began
}

// TestRecycleFollowsDemand checks that the bucket that sold gets most, out_cnt starts from 0, and
// no epoch ends.
func TestRecycleFollowsDemand(t *testing.T) {
	everywhere(t, func(w *world) {
		b := w.create(promo("skewed", 8000, 8))
		for i := range 20 {
			w.use(b.Buckets[3].ID, fmt.Sprint("hot-", i), 40)
			w.clock.set(w.clock.Now().Add(time.Second))
		}
		must(0, w.db.Write(w.ctx, "test", func(t *engine.Tx) error {
			_, err := t.Exec(`UPDATE sharding_budget_management_bucket SET collect_cnt = 2`)
			return err
		}))(w)
		const left = 8000 - 800
		run := w.recycle(b.ID)
		if run.Buckets != 8 || run.Skipped != 0 || run.Cause != bucket.OnDemand ||
			run.Moved < left/2 || run.Before.Units != left || run.After.Units != left ||
			run.Before.Stranded == 0 || run.After.Stranded != 0 {
			w.Errorf("%+v", run)
		}
		held, sum := w.outstanding(b.ID), int64(0)
		for _, units := range held {
			sum += units
		}
		if sum != left || held[3] < left*2/3 {
			w.Errorf("buckets hold %v", held)
		}
		after := w.read(b.ID)
		for i := range after.Buckets {
			equal(w, "out_cnt", after.Buckets[i].OutCnt, 0)
			equal(w, "collect_cnt", after.Buckets[i].CollectCnt, 0)
			equal(w, "epoch", after.Buckets[i].Epoch.Number, 1)
		}
		list := must(w.part.RecycleHistory(w.ctx, b.ID, 0, 10))(w)
		if len(list) != 1 || list[0] != run {
			w.Errorf("history %+v, want %+v", list, run)
		}
		equal(w, "moved by another one", w.recycle(b.ID).Moved, 0)
		w.use(b.Buckets[3].ID, "later", held[3])
	})
}

// TestRecycleContracts checks that units too few for all buckets go to one; the others go offline,
// and come back with the next units.
func TestRecycleContracts(t *testing.T) {
	everywhere(t, func(w *world) {
		b := w.create(promo("low", 4000, 4))
		for i := range b.Buckets {
			w.use(b.Buckets[i].ID, fmt.Sprint("d", i), 980) // 20 each: below a tenth of the share
		}
		run := w.recycle(b.ID)
		if run.Before.Stranded == 0 || run.After.Stranded != 0 {
			w.Errorf("stranded %d, then %d", run.Before.Stranded, run.After.Stranded)
		}
		held := w.outstanding(b.ID)
		if slices.Max(held) != 80 {
			w.Errorf("buckets hold %v, want 80 in one", held)
		}
		f := w.figures(b.ID)
		equal(w, "online", f.Online, 1)
		equal(w, "undistributed", f.Undistributed, 0)
		w.append(b.ID, 400)
		must(w.part.Distribute(w.ctx, b.ID))(w)
		equal(w, "online with more units", w.figures(b.ID).Online, 4)
	})
}

// TestRecycleOfManyBuckets checks that one transaction recycles all buckets of a large budget, more
// than one query of their demand reads.
func TestRecycleOfManyBuckets(t *testing.T) {
	everywhere(t, func(w *world) {
		const n = 300
		b := w.create(promo("many", 100*n, n))
		for i := range n {
			w.use(b.Buckets[i].ID, fmt.Sprint("a-", i), 1)
		}
		for i := range 10 {
			w.use(b.Buckets[n-1].ID, fmt.Sprint("hot-", i), 9)
			w.clock.set(w.clock.Now().Add(time.Second))
		}
		run := w.recycle(b.ID)
		equal(w, "buckets", run.Buckets, n)
		held, sum := w.outstanding(b.ID), int64(0)
		for _, units := range held {
			sum += units
		}
		equal(w, "units", sum+w.figures(b.ID).Undistributed, 99*n-90)
		if held[n-1] < held[0]*5 {
			w.Errorf("the bucket that sells holds %d, another one %d", held[n-1], held[0])
		}
		for i, bk := range w.read(b.ID).Buckets {
			if bk.OutCnt != 0 {
				w.Fatalf("bucket %d: out_cnt %d", i, bk.OutCnt)
			}
		}
	})
}

// TestRecycleOnce checks that a recycle of a cause is not repeated if another node did it since.
func TestRecycleOnce(t *testing.T) {
	everywhere(t, func(w *world) {
		b := w.create(promo("b", 80, 4))
		first, began := w.recycleFor(b.ID, bucket.OnSchedule, w.db.Now())
		equal(w, "began", began, true)
		second, began := w.recycleFor(b.ID, bucket.OnSchedule, first.BeganAt)
		equal(w, "of the same time again", began, false)
		equal(w, "the one that was", second, first)
		third, began := w.recycleFor(b.ID, bucket.Automatic, first.BeganAt)
		equal(w, "of another cause", began, true)
		equal(w, "number", third.Number, 2)
		w.clock.set(w.clock.Now().Add(time.Second))
		_, began = w.recycleFor(b.ID, bucket.OnSchedule, w.db.Now())
		equal(w, "of a later time", began, true)
		_, _, err := w.part.Recycle(w.ctx, &bucket.Budget{Definition: budget.Definition{ID: 1 << 40}},
			transfer.Recycling{Cause: bucket.OnDemand})
		w.refused(err, budget.BudgetNotFound)
	})
}

// TestRecycleLeavesOut checks that buckets which an operator took offline or which are stopped stay
// unchanged.
func TestRecycleLeavesOut(t *testing.T) {
	everywhere(t, func(w *world) {
		b := w.create(promo("b", 400, 4))
		w.ok(w.offline(b.ID, b.Buckets[0].ID, bucket.ByOperator))
		w.change(func(t *engine.Tx) error {
			return t.Hit(1, `UPDATE bucket_epoch SET halted = 'broken' WHERE bucket_id = ?`,
				b.Buckets[1].ID)
		})
		run := w.recycle(b.ID)
		equal(w, "buckets", run.Buckets, 2)
		equal(w, "skipped", run.Skipped, 1)
		w.lies("the others share what came back", b.ID, 0, 100, 150, 150)
	})
}

// TestRecycleOfAPeriod checks that a fragment is measured by what the open period got, not by the
// total.
func TestRecycleOfAPeriod(t *testing.T) {
	everywhere(t, func(w *world) {
		b := w.daily("b", 8_000_000, budget.Rule{Kind: budget.Calendar, Every: budget.Month,
			Quantity: 8000, Partial: budget.Whole}, func(d *budget.Definition) { d.BucketQuantity = 8 })
		run := w.recycle(b.ID)
		equal(w, "before", run.Before, bucket.Spread{Units: 8000})
		equal(w, "after", run.After, bucket.Spread{Units: 8000})
		equal(w, "online", w.figures(b.ID).Online, 8)
	})
}

func TestLayout(t *testing.T) {
	everywhere(t, func(w *world) {
		b := w.create(promo("b", 4000, 4))
		w.use(b.Buckets[0].ID, "a", 70)
		w.ok(w.offline(b.ID, b.Buckets[3].ID, bucket.ByOperator))
		b = w.read(b.ID)
		l := must(w.part.Layout(w.ctx, &b))(w)
		equal(w, "units", l.Units, 3930)
		equal(w, "least", l.Least, 100)
		equal(w, "holdings", len(l.Holdings), 3)
		equal(w, "status", l.Status, budget.Effective)
		if l.Holdings[0].Demand == 0 || l.Holdings[1].Demand != 0 {
			w.Errorf("demands %+v", l.Holdings)
		}
		now := engine.ToMS(w.db.Now())
		for _, test := range []struct {
			bound, contracted int64
			want              bool
		}{{0, 0, false}, {982, now - 10_000, true}, {983, now - 10_000, false}, {982, now - 9_000, false}} {
			w.change(func(t *engine.Tx) error {
				_, err := t.Exec(`UPDATE budget_management_bucket SET contraction_bound = ?, contracted_ms = ?`,
					test.bound, test.contracted)
				return err
			})
			if l := must(w.part.Layout(w.ctx, &b))(w); l.Outgrown != test.want {
				w.Errorf("%+v: outgrown is %v", test, l.Outgrown)
			}
		}
	})
}

func TestStocks(t *testing.T) {
	everywhere(t, func(w *world) {
		b, empty := w.stock("b", 100, 3, func(d *budget.Definition) { d.ShardingQuantity = 7 }),
			w.create(promo("empty", 10, 2))
		w.use(b.Buckets[0].ID, "a", 1)
		w.ok(w.offline(b.ID, b.Buckets[2].ID, bucket.ByOperator))
		list := must(w.part.Stocks(w.ctx, []int64{b.ID, empty.ID, 1 << 40}))(w)
		if len(list) != 1 || len(list[0].Buckets) != 2 {
			w.Fatalf("stocks %+v", list)
		}
		s := list[0]
		equal(w, "bucket", s.Buckets[0], transfer.StockBucket{ID: b.Buckets[0].ID, Epoch: 1, Used: 1,
			Entries: 1})
	})
}

func TestExpireCounters(t *testing.T) {
	everywhere(t, func(w *world) {
		now := engine.ToMS(w.db.Now())
		for i, expires := range []int64{0, now - 5, now, now + 1} {
			w.change(func(t *engine.Tx) error {
				return t.Hit(1, `INSERT INTO limit_counter (budget_id, dimension, value, version, counts,
					expires_ms) VALUES (1, ?, ?, 3, ?, ?)`, []byte("user"), []byte(fmt.Sprint(i)),
					[]byte("x"), expires)
			})
		}
		equal(w, "removed", must(w.part.ExpireCounters(w.ctx, 1))(w), 1)
		equal(w, "removed then", must(w.part.ExpireCounters(w.ctx, 10))(w), 1)
		equal(w, "removed at last", must(w.part.ExpireCounters(w.ctx, 10))(w), 0)
	})
}
