package manage_test

import (
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/budgetd/budgetd/bucket"
	"github.com/budgetd/budgetd/budget"
	"github.com/budgetd/budgetd/internal/sql/engine"
	"github.com/budgetd/budgetd/ledger"
)

func TestCreateStoresTheDefinition(t *testing.T) {
	onEveryEngine(t, func(w *world) {
		start := w.db.Now().Add(-time.Hour).Truncate(time.Second)
		d := budget.Definition{Tenant: "shop", Name: "spring-sale", GLCode: "4711 É",
			Unit: budget.Amount, Durability: budget.Ledger, OnLoss: budget.Quarantine,
			Type: budget.Promo, TotalQuantity: 1_000_000, BucketQuantity: 3, ShardingQuantity: 5_000,
			AdjustCnt: 7, StartAt: start, EndAt: start.Add(48 * time.Hour), RoutingDimension: "user"}
		b := w.create(d)
		equal(w, "read back", w.read(b.ID), b)
		d.ID, d.Version, d.CreatedAt, d.UpdatedAt = b.ID, 1, b.CreatedAt, b.CreatedAt
		equal(w, "definition", b.Definition, d)
		for i, one := range b.Buckets {
			equal(w, "ordinal", one.Ordinal, i)
			equal(w, "key", one.Key, fmt.Sprint("spring-sale:bucket-", i))
			equal(w, "home", one.Partition, bucket.Partition{})
			equal(w, "online", one.Online, true)
			equal(w, "end", one.Epoch.EndAt, d.EndAt)
		}
	})
}

func TestCreateHandsOutEvenly(t *testing.T) {
	onEveryEngine(t, func(w *world) {
		made, err := w.part.Create(w.ctx, promo("b", 11, 4), make([]bucket.Partition, 4))
		w.ok(err)
		b := made.Budget
		for i, want := range []int64{3, 3, 3, 2} {
			one := b.Buckets[i]
			equal(w, "handed out", one.OutQuantity, want)
			equal(w, "applications", one.OutCnt, 1)
			equal(w, "epoch", one.Epoch, ledger.Epoch{Budget: b.ID, Bucket: one.ID, Number: 1,
				Status: ledger.Open, Outstanding: want, NextGrant: 2, NextEntry: 1, Period: 1,
				DefinitionVersion: 1})
		}
		w.has(b.ID, ledger.Figures{Total: 11, InBuckets: 11, Online: 4})
		few := w.create(promo("few", 2, 5))
		w.has(few.ID, ledger.Figures{Total: 2, InBuckets: 2, Online: 5})
		equal(w, "no application", few.Buckets[4].OutCnt, 0)
		large := w.create(promo("large", budget.MaxAmount, 1024))
		equal(w, "last share", large.Buckets[1023].OutQuantity, budget.MaxAmount/1024)
	})
}

func TestCreateFundsTheFirstDay(t *testing.T) {
	onEveryEngine(t, func(w *world) {
		b := w.create(daily("days", 100, 15, budget.Forfeit))
		w.has(b.ID, ledger.Figures{Total: 100, Unfunded: 85, InBuckets: 15,
			Online: 2})
		equal(w, "first bucket", b.Buckets[0].Epoch.Outstanding, 8)
		if end := b.Period.End; !b.Buckets[0].Epoch.EndAt.Equal(end) || end.IsZero() {
			t.Errorf("the epoch ends at %v, the period at %v", b.Buckets[0].Epoch.EndAt, end)
		}
	})
}

func TestCreateInStoreModeBeginsOpening(t *testing.T) {
	onEveryEngine(t, func(w *world) {
		d := promo("stored", 10, 2)
		d.Durability, d.OnLoss = budget.Store, budget.AssumeUnused
		_, err := w.part.Create(w.ctx, d, partitions(2))
		w.refused(err, budget.Unavailable) // no store was ever reached
		for i := range 2 {
			w.partition(fmt.Sprint("store-", i))
		}
		made, err := w.part.Create(w.ctx, d, partitions(2))
		w.ok(err)
		w.conserved(made.Budget.ID)
		equal(w, "on loss", made.Budget.OnLoss, budget.AssumeUnused)
		for _, one := range made.Budget.Buckets {
			equal(w, "status", one.Epoch.Status, ledger.Opening)
			equal(w, "incarnation", one.Epoch.Incarnation, 7)
		}
		w.has(made.Budget.ID, ledger.Figures{Total: 10, Unsettled: 10, Online: 2})
		w.exec(`UPDATE grant_log SET status = 'done' WHERE bucket_id = ? AND number = 1
			AND status = 'pending'`, made.Budget.Buckets[0].ID)
	})
}

func TestCreateOnADrainedPartition(t *testing.T) {
	onEveryEngine(t, func(w *world) {
		w.exec(`INSERT INTO store_partition (instance, partition_number, identity, incarnation, since_incarnation, is_draining,
			began_at) VALUES (?, 0, ?, 1, 1, 1, 1)`, []byte("store-1"), []byte{})
		w.partition("store-0")
		d := promo("b", 10, 2)
		d.Durability = budget.Store
		_, err := w.part.Create(w.ctx, d, partitions(2))
		w.refused(err, budget.Unavailable)
		_, err = w.part.Budget(w.ctx, bucket.BudgetRef{Tenant: "shop", Name: "b"})
		w.refused(err, budget.BudgetNotFound)
	})
}

func TestCreateAgain(t *testing.T) {
	onEveryEngine(t, func(w *world) {
		d := promo("again", 100, 3)
		d.StartAt, d.EndAt = w.db.Now().Add(time.Hour), w.db.Now().Add(2*time.Hour)
		b := w.create(d)
		repeat := func(when string) {
			w.Helper()
			w.unchanged(b.ID, "a repeated create "+when, func() {
				made, err := w.part.Create(w.ctx, d, partitions(3))
				w.ok(err)
				equal(w, "new "+when, made.New, false)
				equal(w, "budget "+when, made.Budget, w.read(b.ID))
			})
		}
		repeat("at once")
		d.OnLoss = budget.Quarantine
		repeat("with the default said in words")
		d.Timezone, d.LateRefund = "UTC", budget.ToTotal
		repeat("with two more defaults")
		paused := true
		w.change(b.ID, bucket.Change{Paused: &paused})
		w.adjusts(b.ID, "more", 50)
		w.use(b.Buckets[0], 5)
		repeat("after a change, an append and a deduction")
		for field, edit := range map[string]func(*budget.Definition){
			"gl_code":           func(d *budget.Definition) { d.GLCode = "1" },
			"unit":              func(d *budget.Definition) { d.Unit = budget.Amount },
			"total_quantity":    func(d *budget.Definition) { d.TotalQuantity = 150 },
			"bucket_quantity":   func(d *budget.Definition) { d.BucketQuantity = 2 },
			"sharding_quantity": func(d *budget.Definition) { d.ShardingQuantity = 1 },
			"adjust_cnt":        func(d *budget.Definition) { d.AdjustCnt = 1 },
			"start_at":          func(d *budget.Definition) { d.StartAt = w.db.Now() },
			"end_at":            func(d *budget.Definition) { d.EndAt = time.Time{} },
			"unlimited":         func(d *budget.Definition) { d.Unlimited = true },
			"on_loss":           func(d *budget.Definition) { d.OnLoss = budget.AssumeUnused },
			"timezone":          func(d *budget.Definition) { d.Timezone = "Europe/Berlin" },
			"late_refund":       func(d *budget.Definition) { d.LateRefund = budget.Forfeit },
		} {
			other := d
			edit(&other)
			w.unchanged(b.ID, field, func() {
				_, err := w.part.Create(w.ctx, other, make([]bucket.Partition, other.BucketQuantity))
				w.refused(err, budget.NameTaken)
			})
		}
		theirs := d
		theirs.Tenant = "games"
		w.create(theirs)
	})
}

// TestCreateOfAnyNumber checks that a definition without a number of buckets gets one per
// partition, and that the number of partitions does not make it another definition. Nor does that
// number written out. Another number does.
func TestCreateOfAnyNumber(t *testing.T) {
	onEveryEngine(t, func(w *world) {
		d := promo("any", 100, 0)
		made, err := w.part.Create(w.ctx, d, partitions(2))
		w.ok(err)
		equal(w, "buckets", len(made.Budget.Buckets), 2)
		again, err := w.part.Create(w.ctx, d, partitions(3))
		w.ok(err)
		equal(w, "again", again.Budget, made.Budget)
		d.BucketQuantity = 2
		again, err = w.part.Create(w.ctx, d, partitions(2))
		w.ok(err)
		equal(w, "written out", again.Budget, made.Budget)
		d.BucketQuantity = 3
		_, err = w.part.Create(w.ctx, d, partitions(3))
		w.refused(err, budget.NameTaken)
		d.Name = "other"
		made, err = w.part.Create(w.ctx, d, partitions(3))
		w.ok(err)
		d.BucketQuantity = 0
		again, err = w.part.Create(w.ctx, d, partitions(3))
		w.ok(err)
		equal(w, "left out", again.Budget, made.Budget)
		_, err = w.part.Create(w.ctx, d, partitions(2))
		w.refused(err, budget.NameTaken)
	})
}

func TestUnlimitedDrawsFromNothing(t *testing.T) {
	onEveryEngine(t, func(w *world) {
		d := promo("unlimited", 0, 2)
		d.Unlimited = true
		b := w.create(d)
		w.has(b.ID, ledger.Figures{Online: 2})
		equal(w, "epoch", b.Buckets[0].Epoch, ledger.Epoch{Budget: b.ID, Bucket: b.Buckets[0].ID,
			Number: 1, Status: ledger.Open, NextGrant: 1, NextEntry: 1, Period: 1,
			DefinitionVersion: 1})
		for _, quantity := range []int64{5, -5} {
			_, err := w.adjust(b.ID, "more", quantity)
			w.refused(err, budget.Invalid)
		}
		n := 4
		w.change(b.ID, bucket.Change{BucketQuantity: &n})
		w.has(b.ID, ledger.Figures{Online: 4})
		for _, one := range w.read(b.ID).Buckets { // each saturates, and so does their sum
			w.exec(`UPDATE bucket_epoch SET used_quantity = ?`+ofBucket, budget.MaxAmount, one.ID)
		}
		equal(w, "used", w.figures(b.ID).Used, budget.MaxAmount)
		for n := int64(1); n <= 512; n *= 2 { // 4 buckets with 1,024 epochs each
			w.ok(w.db.Write(w.ctx, "test", func(t *engine.Tx) error {
				_, err := t.Exec(`INSERT INTO bucket_epoch (bucket_id, epoch, budget_id, status, period, period_end_ms,
				definition_version, outstanding_quantity, held_quantity, used_quantity,
				returning_quantity, closed_quantity, swept_quantity, next_grant, next_entry, halted,
				created_at) SELECT bucket_id, epoch + ?, budget_id, status, period, period_end_ms,
				definition_version, outstanding_quantity, held_quantity, used_quantity,
				returning_quantity, closed_quantity, swept_quantity, next_grant, next_entry, halted,
				created_at FROM bucket_epoch WHERE budget_id = ?`, n, b.ID)
				return err
			}))
		}
		f, err := w.part.Figures(w.ctx, b.ID)
		w.ok(err)
		equal(w, "used in all epochs", f.Used, budget.MaxAmount)
		equal(w, "used in the period", f.PeriodUsed, budget.MaxAmount)
		equal(w, "held", f.Held, 0)
	})
}

// TestCreatesRace checks that concurrent creations of one definition make one budget, and that all
// of them return it.
func TestCreatesRace(t *testing.T) {
	onEveryEngine(t, func(w *world) {
		var made atomic.Int64
		var ids sync.Map
		var all sync.WaitGroup
		for i := range 8 {
			all.Go(func() {
				got, err := w.part.Create(w.ctx, promo(fmt.Sprint("b", i%2), 100, 3), make([]bucket.Partition, 3))
				if err != nil {
					w.Error(err)
					return
				}
				if got.New {
					made.Add(1)
				}
				ids.Store(got.Budget.ID, true)
			})
		}
		all.Wait()
		n := 0
		ids.Range(func(id, _ any) bool {
			w.conserved(id.(int64))
			n++
			return true
		})
		equal(w, "made", made.Load(), 2)
		equal(w, "budgets", n, 2)
	})
}
