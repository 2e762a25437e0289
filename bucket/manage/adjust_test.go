package manage_test

import (
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/budgetd/budgetd/bucket"
	"github.com/budgetd/budgetd/bucket/manage"
	"github.com/budgetd/budgetd/budget"
	"github.com/budgetd/budgetd/internal/sql/engine"
	"github.com/budgetd/budgetd/ledger"
)

// exceeds adjusts and expects a refusal with the figure.
func (w *world) exceeds(id int64, request string, quantity, available int64) {
	w.Helper()
	_, err := w.adjust(id, request, quantity)
	e := w.refused(err, budget.AmountExceedsRemaining)
	if e.Available == nil || *e.Available != available {
		w.Fatalf("%+v, want %d available", e, available)
	}
	w.conserved(id)
}

func TestAppendHandsOut(t *testing.T) {
	onEveryEngine(t, func(w *world) {
		b, other := w.create(promo("b", 30, 2)), w.create(promo("other", 30, 1))
		w.later(time.Second)
		first := w.adjusts(b.ID, "more", 21)
		equal(w, "replayed", first.Replayed, false)
		seen, err := w.part.View(w.ctx, bucket.BudgetRef{ID: b.ID})
		w.ok(err)
		equal(w, "view", first.View, seen)
		after := w.read(b.ID)
		equal(w, "total", after.TotalQuantity, 51)
		equal(w, "version", after.Version, 2)
		for i, want := range []int64{26, 25} {
			one := after.Buckets[i]
			equal(w, "outstanding", one.Epoch.Outstanding, want)
		}
		w.unchanged(b.ID, "a repeated append", func() {
			again := w.adjusts(b.ID, "more", 21)
			equal(w, "replayed", again.Replayed, true)
			equal(w, "total", again.View.Figures.Total, 51)
			for _, quantity := range []int64{20, 22, -21} {
				_, err := w.adjust(b.ID, "more", quantity)
				w.refused(err, budget.RequestConflict)
			}
		})
		w.adjusts(other.ID, "more", 1) // another request there
		w.adjusts(b.ID, "More", 1)
		_, err = w.adjust(other.ID+1, "more", 1)
		w.refused(err, budget.BudgetNotFound)
		order := manage.Adjustment{Budget: b.ID, RequestID: "own", Nonce: "nonce-01", Quantity: 1}
		for _, want := range []bool{false, false, true} {
			if want {
				order.Nonce = "nonce-02"
			}
			out, err := w.part.Adjust(w.ctx, order)
			w.ok(err)
			equal(w, "replayed by "+order.Nonce, out.Replayed, want)
		}
	})
}

func TestAdjustOutOfRange(t *testing.T) {
	onEveryEngine(t, func(w *world) {
		b := w.create(promo("b", 30, 1))
		w.unchanged(b.ID, "an adjustment out of range", func() {
			for _, quantity := range []int64{0, budget.MaxAmount - 29, budget.MaxAmount, 1<<63 - 1, -30,
				-31, -budget.MaxAmount} {
				_, err := w.adjust(b.ID, fmt.Sprint("q", quantity), quantity)
				e := w.refused(err, budget.Invalid)
				equal(w, "field", e.Fields[0].Field, "quantity")
			}
		})
		w.adjusts(b.ID, "to the largest", budget.MaxAmount-30)
		_, err := w.adjust(b.ID, "one more", 1)
		w.refused(err, budget.Invalid)
	})
}

// TestAppendBringsBucketsOnline checks that an append brings a bucket online that the service took
// offline because no units were left.
func TestAppendBringsBucketsOnline(t *testing.T) {
	onEveryEngine(t, func(w *world) {
		b := w.create(promo("b", 20, 2))
		w.use(b.Buckets[0], 10)
		w.use(b.Buckets[1], 10)
		w.exec(`UPDATE bucket_epoch SET status = 'closed' WHERE bucket_id = ?`, b.Buckets[1].ID)
		w.exec(`UPDATE sharding_budget_management_bucket SET status = 'offline', offline_by = 'service'
			WHERE id = ?`, b.Buckets[1].ID)
		w.adjusts(b.ID, "more", 10)
		w.has(b.ID, ledger.Figures{Total: 30, InBuckets: 10, Used: 20, Online: 2})
		back := w.read(b.ID).Buckets[1]
		equal(w, "epoch", back.Epoch.Number, 2)
		equal(w, "outstanding", back.Epoch.Outstanding, 5)
	})
}

func TestAppendToADay(t *testing.T) {
	onEveryEngine(t, func(w *world) {
		b := w.create(daily("days", 8, 10, budget.Spread))
		w.adjusts(b.ID, "more", 7) // the day has 8 of 10
		w.has(b.ID, ledger.Figures{Total: 15, Unfunded: 5, InBuckets: 10, Online: 2})
		w.adjusts(b.ID, "less", -7) // what is not funded first
		w.has(b.ID, ledger.Figures{Total: 8, InBuckets: 8, Online: 2})
		w.later(48 * time.Hour)
		w.adjusts(b.ID, "while nobody rolled it over", 3)
		w.has(b.ID, ledger.Figures{Total: 11, Unfunded: 3, InBuckets: 8, Online: 2})
	})
}

// TestShrinkTakesFromFewBuckets checks that a shrink takes undistributed units first, then
// returning ones, then those of the fullest buckets.
func TestShrinkTakesFromFewBuckets(t *testing.T) {
	onEveryEngine(t, func(w *world) {
		b := w.create(promo("b", 40, 4))
		w.use(b.Buckets[0], 8)
		w.back(b.Buckets[0], 5)
		w.hold(b.Buckets[1], 1) // O 2, 9, 10, 10; R 5; S 3; H 1
		w.adjusts(b.ID, "less", -17)
		w.has(b.ID, ledger.Figures{Total: 23, InBuckets: 19, Used: 3, Held: 1,
			Online: 4})
		after := w.read(b.ID)
		for i, want := range []int64{2, 9, 0, 8} {
			equal(w, fmt.Sprint("bucket ", i), after.Buckets[i].Epoch.Outstanding, want)
		}
		w.unchanged(b.ID, "a repeated shrink", func() {
			equal(w, "replayed", w.adjusts(b.ID, "less", -17).Replayed, true)
		})
		w.exceeds(b.ID, "too much", -20, 19)
		w.adjusts(b.ID, "exactly", -19)
		w.has(b.ID, ledger.Figures{Total: 4, Used: 3, Held: 1, Online: 4})
	})
}

func TestShrinkRefusedChangesNothing(t *testing.T) {
	onEveryEngine(t, func(w *world) {
		b := w.create(promo("b", 40, 2))
		w.use(b.Buckets[0], 9)
		w.back(b.Buckets[0], 4) // S 5
		w.unchanged(b.ID, "a refused shrink", func() {
			w.exceeds(b.ID, "id", -36, 35)
			w.exceeds(b.ID, "id", -36, 35)
		})
		w.adjusts(b.ID, "id", 7) // a refused id may be used again, with another quantity even
		_, err := w.adjust(b.ID, "id", -36)
		w.refused(err, budget.RequestConflict)
	})
}

// TestShrinkLeavesAHaltedBucket checks that a shrink takes nothing from a halted bucket, which
// waits for an operator.
func TestShrinkLeavesAHaltedBucket(t *testing.T) {
	onEveryEngine(t, func(w *world) {
		b := w.create(promo("b", 40, 2))
		w.exec(`UPDATE bucket_epoch SET halted = ? WHERE bucket_id = ?`, []byte("odd"), b.Buckets[0].ID)
		w.exceeds(b.ID, "less", -21, 20)
		w.adjusts(b.ID, "all of the other", -20)
		equal(w, "halted", w.read(b.ID).Buckets[0].Epoch.Outstanding, 20)
	})
}

// TestShrinkOfReturnsThatExpire checks that a shrink does not take late units of a period that is
// over, because they are forfeited.
func TestShrinkOfReturnsThatExpire(t *testing.T) {
	onEveryEngine(t, func(w *world) {
		d := promo("b", 40, 1)
		d.Type, d.LateRefund = budget.Daily, budget.Forfeit
		d.Rule = &budget.Rule{Kind: budget.Calendar, Every: budget.Day, Quantity: 40,
			Unused: budget.Forfeit, Partial: budget.Whole}
		d.StartAt, d.EndAt = w.db.Now().Add(-time.Hour), w.db.Now().Add(time.Hour)
		b := w.create(d)
		w.use(b.Buckets[0], 40)
		w.exec(`UPDATE bucket_epoch SET status = 'closed', used_quantity = 30, returning_quantity = 10,
			late_quantity = 10 WHERE bucket_id = ?`, b.Buckets[0].ID)
		w.exec(`UPDATE budget_management_bucket SET is_over = 1, roll_over_ms = 0 WHERE id = ?`, b.ID)
		w.exceeds(b.ID, "less", -5, 0)
		equal(w, "returning", w.figures(b.ID).Returning, 10) // a refusal moves nothing
	})
}

func (w *world) stored(total int64) bucket.Budget {
	w.Helper()
	w.partition("store-0")
	d := promo("stored", total, 1)
	d.Durability = budget.Store
	b := w.create(d)
	w.exec(`UPDATE bucket_epoch SET status = 'open' WHERE bucket_id = ?`, b.Buckets[0].ID)
	return b
}

// close ends the epoch of a store-mode bucket as its store's answer says.
func (w *world) close(b bucket.Budget) {
	w.Helper()
	units := w.read(b.ID).Buckets[0].Epoch.Outstanding
	w.exec(`UPDATE bucket_epoch SET status = 'closed', closed_quantity = outstanding_quantity,
		outstanding_quantity = 0 WHERE bucket_id = ?`, b.Buckets[0].ID)
	w.exec(`UPDATE budget_management_bucket SET undistributed_quantity = undistributed_quantity + ?,
		out_quantity = out_quantity - ? WHERE id = ?`, units, units, b.ID)
}

func TestShrinkInStoreModeWaits(t *testing.T) {
	onEveryEngine(t, func(w *world) {
		b := w.stored(40)
		w.use(b.Buckets[0], 8)
		w.exceeds(b.ID, "too much", -33, 32)
		out, err := w.adjust(b.ID, "less", -17)
		w.ok(err)
		equal(w, "state", out.State, bucket.AdjustmentPending)
		equal(w, "pending", w.figures(b.ID).PendingShrink, 17)
		equal(w, "total", w.figures(b.ID).Total, 40)
		w.exceeds(b.ID, "another", -16, 15) // the first one has its units first
		shrinks, err := w.part.Shrinks(w.ctx, 10)
		w.ok(err)
		equal(w, "shrinks", len(shrinks), 1)
		w.unchanged(b.ID, "while nothing came back", func() {
			out, err := w.part.Adjust(w.ctx, shrinks[0])
			w.ok(err)
			equal(w, "state", out.State, bucket.AdjustmentPending)
			_, err = w.adjust(b.ID, "less", -16)
			w.refused(err, budget.RequestConflict)
		})
		w.close(b)
		w.conserved(b.ID)
		equal(w, "may be released", w.releasable(b.ID), 15)
		out, err = w.part.Adjust(w.ctx, shrinks[0])
		w.ok(err)
		equal(w, "state", out.State, bucket.AdjustmentDone)
		w.has(b.ID, ledger.Figures{Total: 23, Undistributed: 15, Used: 8, Online: 1})
		w.conserved(b.ID)
		equal(w, "replayed", w.adjusts(b.ID, "less", -17).Replayed, true)
	})
}

func TestShrinkInStoreModeIsRefusedLater(t *testing.T) {
	onEveryEngine(t, func(w *world) {
		b := w.stored(40)
		for _, quantity := range []int64{-35, -30} {
			out, err := w.adjust(b.ID, "less", quantity)
			w.ok(err)
			equal(w, "state", out.State, bucket.AdjustmentPending)
			if quantity == -35 {
				w.use(b.Buckets[0], 8)
				w.exceeds(b.ID, "less", quantity, 32) // used meanwhile
			} else {
				w.later(time.Minute)
				w.exceeds(b.ID, "less", quantity, 32) // past its deadline
			}
			equal(w, "pending", w.figures(b.ID).PendingShrink, 0)
		}
		out, err := w.part.Adjust(w.ctx, manage.Adjustment{Budget: b.ID, RequestID: "less",
			Quantity: -30, Continue: true})
		w.ok(err)
		equal(w, "goes on", out.State, bucket.AdjustmentRefused)
	})
}

// releasable is what apply may take.
func (w *world) releasable(id int64) (units int64) {
	w.Helper()
	w.ok(w.db.Read(w.ctx, "test", func(r *engine.Reader) error {
		_, err := r.Get(&units, `SELECT undistributed_quantity - pending_shrink_quantity
			FROM budget_management_bucket WHERE id = ?`, id)
		return err
	}))
	return units
}

// TestAdjustmentsRace checks that concurrent appends, shrinks and deductions conserve the total,
// and that a shrink never takes used units.
func TestAdjustmentsRace(t *testing.T) {
	onEveryEngine(t, func(w *world) {
		b := w.create(promo("b", 200, 4))
		var total, used atomic.Int64
		total.Store(200)
		var all sync.WaitGroup
		for i := range 6 {
			all.Go(func() {
				for j := range 8 {
					if i%3 == 2 {
						used.Add(w.tryUse(b.Buckets[(i+j)%4], 3))
						continue
					}
					quantity := int64(10)
					if i%3 == 1 {
						quantity = -23
					}
					_, err := w.adjust(b.ID, fmt.Sprint(i, "-", j/2), quantity) // each twice
					switch {
					case budget.Is(err, budget.AmountExceedsRemaining), budget.Is(err, budget.Invalid):
					case err != nil:
						w.Error(err)
					}
				}
			})
		}
		all.Wait()
		w.conserved(b.ID)
		equal(w, "used", w.figures(b.ID).Used, used.Load())
	})
}

// tryUse moves units O -> S of a bucket, if it has them, as a commit does.
func (w *world) tryUse(b bucket.Bucket, units int64) (used int64) {
	err := w.db.Write(w.ctx, "test", func(t *engine.Tx) error {
		n, err := t.Exec(`UPDATE bucket_epoch SET outstanding_quantity = outstanding_quantity - ?,
			used_quantity = used_quantity + ? WHERE bucket_id = ? AND epoch = 1
			AND outstanding_quantity >= ?`, units, units, b.ID, units)
		used = n * units
		return err
	})
	if err != nil {
		w.Error(err)
		return 0
	}
	return used
}
