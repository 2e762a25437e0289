package transfer_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"github.com/budgetd/budgetd/bucket"
	"github.com/budgetd/budgetd/bucket/transfer"
	"github.com/budgetd/budgetd/budget"
	"github.com/budgetd/budgetd/internal/sql/engine"
)

// errShort means that the bucket had too little, or no open epoch.
var errShort = errors.New("too little")

// take is a flight's conditional UPDATE and feed row.
func (w *world) take(ctx context.Context, bucketID int64, units int64) error {
	err := w.db.Write(ctx, "test", func(t *engine.Tx) error {
		n, err := t.Exec(`UPDATE bucket_epoch SET outstanding_quantity = outstanding_quantity - ?,
			used_quantity = used_quantity + ?, next_entry = next_entry + 1
			WHERE bucket_id = ? AND status = 'open' AND outstanding_quantity >= ?`,
			units, units, bucketID, units)
		if err == nil && n == 0 {
			return budget.Refuse(budget.BudgetExhausted, "test", "too little")
		}
		return err
	})
	if budget.Is(err, budget.BudgetExhausted) {
		return errShort
	}
	return err
}

// TestMovementsAtOnce checks that apply, distribution, offline, online, recycle, sweep, move and
// rollover concurrently with each other and with deductions keep I1, and answer nothing but their
// own refusals.
func TestMovementsAtOnce(t *testing.T) {
	everywhere(t, func(w *world) {
		const n, rounds = 6, 15
		b := w.daily("b", 1_000_000, budget.Rule{Kind: budget.Calendar, Every: budget.Hour,
			Quantity: 5000, Unused: budget.Next}, func(d *budget.Definition) { d.BucketQuantity = n })
		ids := make([]int64, n)
		for i := range ids {
			ids[i] = b.Buckets[i].ID
		}
		var all sync.WaitGroup
		run := func(name string, do func(r *rand.Rand, i int) error) {
			all.Go(func() {
				r := rand.New(rand.NewPCG(uint64(len(name)), 7))
				for i := range rounds {
					err := do(r, i)
					switch budget.CodeOf(err) {
					case "", budget.LastBucket, budget.BudgetExpired:
					default:
						if !errors.Is(err, errShort) {
							t.Errorf("%s: %v", name, err)
						}
					}
				}
			})
		}
		any := func(r *rand.Rand) int64 { return ids[r.IntN(n)] }
		for k := range 2 {
			run(fmt.Sprint("take", k), func(r *rand.Rand, _ int) error {
				return w.take(w.ctx, any(r), 1+r.Int64N(50))
			})
			run(fmt.Sprint("apply", k), func(r *rand.Rand, _ int) error {
				_, err := w.part.Apply(w.ctx, b.ID, any(r), lacks(100))
				return err
			})
		}
		run("distribute", func(*rand.Rand, int) error {
			_, err := w.part.Distribute(w.ctx, b.ID)
			return err
		})
		run("offline", func(r *rand.Rand, i int) error {
			by := []bucket.OfflineBy{bucket.ByOperator, bucket.ByService}[i%2]
			return w.offline(b.ID, any(r), by)
		})
		run("online", func(r *rand.Rand, _ int) error {
			_, err := w.online(b.ID, any(r))
			return err
		})
		run("recycle", func(r *rand.Rand, _ int) error {
			_, _, err := w.part.Recycle(w.ctx, &b, transfer.Recycling{Cause: bucket.OnDemand})
			return err
		})
		run("sweep", func(*rand.Rand, int) error {
			_, err := w.part.Sweep(w.ctx, []int64{b.ID})
			return err
		})
		run("roll over", func(_ *rand.Rand, i int) error {
			w.until(time.Duration(i) * 20 * time.Minute)
			_, _, err := w.part.RollOver(w.ctx, b.ID)
			return err
		})
		all.Wait()
		w.until(100 * time.Hour)
		w.rollOver(b.ID)
		w.conserved(b.ID)
	})
}
