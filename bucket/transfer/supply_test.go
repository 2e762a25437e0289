package transfer_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/budgetd/budgetd/bucket"
	"github.com/budgetd/budgetd/budget"
	"github.com/budgetd/budgetd/internal/sql/engine"
	"github.com/budgetd/budgetd/ledger/books"
)

// stock creates a budget with that much undistributed, and 1 unit in each bucket.
func (w *world) stock(name string, units int64, buckets int,
	edits ...func(*budget.Definition)) bucket.Budget {
	w.Helper()
	d := promo(name, int64(buckets), buckets)
	for _, edit := range edits {
		edit(&d)
	}
	b := w.create(d)
	w.append(b.ID, units)
	return w.read(b.ID)
}

// append adds units to a budget and to its open period.
func (w *world) append(id, units int64) {
	w.Helper()
	w.change(func(t *engine.Tx) error {
		err := t.Hit(1, `UPDATE budget_management_bucket SET total_quantity = total_quantity + ?,
			undistributed_quantity = undistributed_quantity + ? WHERE id = ?`, units, units, id)
		if err != nil {
			return err
		}
		return t.Hit(1, `UPDATE budget_period SET funded_quantity = funded_quantity + ?
			WHERE budget_id = ? AND number = 1`, units, id)
	})
}

// lacks is what a bucket applies for that lacks so many units and uses none.
func lacks(units int64) books.Refill { return books.Refill{Lacks: units, Of: 1} }

func (w *world) apply(budgetID, bucketID, units int64) int64 {
	w.Helper()
	return must(w.part.Apply(w.ctx, budgetID, bucketID, lacks(units)))(w)
}

func TestApplyGrants(t *testing.T) {
	everywhere(t, func(w *world) {
		b := w.stock("b", 100, 2)
		first := b.Buckets[0]
		equal(w, "applied", w.apply(b.ID, first.ID, 30), 30)
		read := w.read(b.ID)
		equal(w, "out_quantity", read.Buckets[0].OutQuantity, 31)
		equal(w, "out_cnt", read.Buckets[0].OutCnt, 2)
		equal(w, "out_cnt of the other", read.Buckets[1].OutCnt, 1)
		equal(w, "next grant", read.Buckets[0].Epoch.NextGrant, 3)
		equal(w, "outstanding", read.Buckets[0].Epoch.Outstanding, 31)
		equal(w, "list version", read.ListVersion, b.ListVersion)
		equal(w, "undistributed", w.figures(b.ID).Undistributed, 70)
		_, err := w.part.Apply(w.ctx, b.ID+99, first.ID, lacks(1))
		w.refused(err, budget.BudgetNotFound)
		equal(w, "three seconds of its use, at most the even share", must(w.part.Apply(w.ctx, b.ID,
			first.ID, books.Refill{Lacks: 1, Rate: 100, Of: 2}))(w), 36)
	})
}

// TestApplyToSweeps checks that an operator's apply moves what is returning to U first, and that the
// budget that it answers is the one afterwards.
func TestApplyToSweeps(t *testing.T) {
	everywhere(t, func(w *world) {
		b := w.create(promo("b", 90, 3))
		w.use(b.Buckets[0].ID, "a", 9)
		w.giveBack(b.ID, "a", "r", 9, false)
		got, err := w.part.ApplyTo(w.ctx, b.ID, b.Buckets[1].ID)
		w.ok(err)
		equal(w, "units", got.Units, 3)
		equal(w, "in the answer", got.After.Buckets[1].Epoch.Outstanding, 33)
		equal(w, "undistributed", w.figures(b.ID).Undistributed, 6)
	})
}

func TestApplyIsBounded(t *testing.T) {
	everywhere(t, func(w *world) {
		for i, tc := range []struct {
			name                    string
			undistributed, sharding int64
			units, granted          int64
		}{
			{"all it asks for", 100, 0, 30, 30},
			{"what is left", 20, 0, 30, 20},
			{"nothing left", 0, 0, 30, 0},
			{"sharding_quantity", 100, 7, 30, 7},
			{"sharding_quantity above the units", 100, 31, 30, 30},
			{"the largest want", 100, 0, budget.MaxAmount, 100},
		} {
			b := w.stock(fmt.Sprint("b", i), tc.undistributed, 1,
				func(d *budget.Definition) { d.ShardingQuantity = tc.sharding })
			got := w.apply(b.ID, b.Buckets[0].ID, tc.units)
			equal(w, tc.name, got, tc.granted)
			equal(w, tc.name+": undistributed", w.figures(b.ID).Undistributed,
				tc.undistributed-tc.granted)
		}
	})
}

// TestApplyCounts checks that adjust_cnt bounds applies for units that no bucket had; those that
// came back are free, so none are stranded.
func TestApplyCounts(t *testing.T) {
	everywhere(t, func(w *world) {
		b := w.stock("b", 100, 2, func(d *budget.Definition) { d.AdjustCnt = 2 })
		first, second := b.Buckets[0].ID, b.Buckets[1].ID
		apply := func(bucketID, units int64) int64 {
			return must(w.part.Apply(w.ctx, b.ID, bucketID, books.Refill{Lacks: units, Of: 4}))(w)
		}
		equal(w, "the even share; the distribution counts as the first", apply(first, 10), 25)
		equal(w, "used up", apply(first, 10), 0)
		equal(w, "more than the even share", apply(second, 20), 20)
		w.ok(w.offline(b.ID, second, bucket.ByOperator)) // 21 units come back
		equal(w, "units that came back, the even share", apply(first, 10), 19)
		equal(w, "they are not counted", w.read(b.ID).Buckets[0].OutCnt, 2)
		equal(w, "no more than came back", apply(first, 50), 2)
		equal(w, "fresh ones stay", apply(first, 50), 0)
		equal(w, "undistributed", w.figures(b.ID).Undistributed, 55)
	})
}

func TestApplyOnlyToAnOpenEpoch(t *testing.T) {
	everywhere(t, func(w *world) {
		b, other := w.stock("b", 1000, 4), w.stock("other", 10, 1)
		w.ok(w.offline(b.ID, b.Buckets[1].ID, bucket.ByOperator))
		w.change(func(t *engine.Tx) error {
			return t.Hit(1, `UPDATE bucket_epoch SET halted = 'broken' WHERE bucket_id = ?`,
				b.Buckets[2].ID)
		})
		for name, id := range map[string]int64{"offline": b.Buckets[1].ID, "halted": b.Buckets[2].ID,
			"another budget's": other.Buckets[0].ID, "no such bucket": 1 << 40} {
			equal(w, name, w.apply(b.ID, id, 1), 0)
		}
		equal(w, "an open one", w.apply(b.ID, b.Buckets[0].ID, 1), 1)
		w.change(func(t *engine.Tx) error {
			return t.Hit(1, `UPDATE budget_management_bucket SET pending_shrink_quantity = 995
				WHERE id = ?`, b.ID)
		})
		equal(w, "what a shrink waits for stays", // U is 1000: 999 and 1 of the offline bucket
			w.apply(b.ID, b.Buckets[0].ID, 9), 5)
	})
}

func TestDistribute(t *testing.T) {
	everywhere(t, func(w *world) {
		b := w.stock("b", 11, 4)
		moved := must(w.part.Distribute(w.ctx, b.ID))(w)
		equal(w, "units", moved.Units, 11)
		equal(w, "buckets", moved.Buckets, 4)
		w.lies("evenly, the remainder to the first", b.ID, 4, 4, 4, 3)
		equal(w, "again", must(w.part.Distribute(w.ctx, b.ID))(w).Units, 0)
		_, err := w.part.Distribute(w.ctx, b.ID+99)
		w.refused(err, budget.BudgetNotFound)
	})
}

func TestDistributeReopensWhatTheServiceTookOffline(t *testing.T) {
	everywhere(t, func(w *world) {
		b := w.create(promo("b", 50, 5))
		ids := make([]int64, 5)
		for i := range ids {
			ids[i] = b.Buckets[i].ID
		}
		w.use(ids[1], "order", 1)
		w.ok(w.offline(b.ID, ids[1], bucket.ByService))
		w.ok(w.offline(b.ID, ids[3], bucket.ByService))
		w.ok(w.offline(b.ID, ids[4], bucket.ByOperator))
		before := w.read(b.ID)
		equal(w, "undistributed", w.figures(b.ID).Undistributed, 29)
		moved := must(w.part.Distribute(w.ctx, b.ID))(w)
		w.lies("distributed", b.ID, 18, 7, 17, 7, 0)
		equal(w, "buckets", moved.Buckets, 4)
		after := w.read(b.ID)
		for _, at := range []int{1, 3} {
			equal(w, "epoch", after.Buckets[at].Epoch.Number, 2)
		}
		equal(w, "online", w.figures(b.ID).Online, 4)
		equal(w, "entries go on", after.Buckets[1].Epoch.NextEntry, 2)
		if after.ListVersion <= before.ListVersion {
			w.Errorf("list version %d became %d", before.ListVersion, after.ListVersion)
		}
		w.use(ids[3], "another", 7)
	})
}

// TestDistributeToManyBuckets checks that U is divided evenly over many buckets.
func TestDistributeToManyBuckets(t *testing.T) {
	everywhere(t, func(w *world) {
		const n = 131
		b := w.stock("b", 10*n+7, n)
		equal(w, "units", must(w.part.Distribute(w.ctx, b.ID))(w).Units, 10*n+7)
		held := w.outstanding(b.ID)
		if least, most := slices.Min(held), slices.Max(held); least != 11 || most != 12 {
			w.Errorf("buckets hold %d to %d", least, most)
		}
	})
}

func TestOfflineAndOnline(t *testing.T) {
	everywhere(t, func(w *world) {
		b := w.create(promo("sale", 40, 2))
		first, second := b.Buckets[0].ID, b.Buckets[1].ID
		w.use(first, "order", 5)
		w.ok(w.offline(b.ID, first, bucket.ByService))
		equal(w, "undistributed", w.figures(b.ID).Undistributed, 15)
		equal(w, "offline by", w.read(b.ID).Buckets[0].OfflineBy, bucket.ByService)
		w.ok(w.offline(b.ID, first, bucket.ByOperator))
		equal(w, "now by", w.read(b.ID).Buckets[0].OfflineBy, bucket.ByOperator)
		w.ok(w.offline(b.ID, first, bucket.ByService))
		equal(w, "still by", w.read(b.ID).Buckets[0].OfflineBy, bucket.ByOperator)

		err := w.offline(b.ID, second, bucket.ByOperator)
		w.refused(err, budget.LastBucket)
		if text := fmt.Sprint(err); !strings.Contains(text, "sale:bucket-1") {
			w.Errorf("the refusal does not name the bucket: %s", text)
		}
		w.refused(w.offline(b.ID, 1<<40, bucket.ByOperator), budget.BucketNotFound)

		equal(w, "units", must(w.online(b.ID, first))(w), 15)
		w.lies("back online", b.ID, 8, 27)
		equal(w, "again", must(w.online(b.ID, first))(w), 0)
		equal(w, "epoch", w.read(b.ID).Buckets[0].Epoch.Number, 2)
	})
}

func TestOnlineWithoutAnOpenPeriod(t *testing.T) {
	everywhere(t, func(w *world) {
		b := w.daily("b", 100, day(""), func(d *budget.Definition) { d.EndAt = start.Add(dayLong) })
		w.until(dayLong)
		must(w.rolledOver(b.ID))(w)
		_, err := w.online(b.ID, b.Buckets[0].ID)
		w.refused(err, budget.BudgetExpired)
	})
}
