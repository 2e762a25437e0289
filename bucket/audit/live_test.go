package audit_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/budgetd/budgetd/bucket"
	"github.com/budgetd/budgetd/bucket/audit"
	"github.com/budgetd/budgetd/bucket/hold"
	"github.com/budgetd/budgetd/bucket/transfer"
	"github.com/budgetd/budgetd/budget"
	"github.com/budgetd/budgetd/internal/proof/fixture"
	"github.com/budgetd/budgetd/ledger"
)

// TestNoFalseAlarm checks that audits and background loops find nothing, whatever runs
// concurrently.
func TestNoFalseAlarm(t *testing.T) {
	each(t, func(w *world) {
		b := w.make("live", 100_000, 6, perUser(budget.Day))
		ctx, end := context.WithCancel(w.Ctx)
		moving := transfer.NewLedger(w.DB)
		var running sync.WaitGroup
		var accepted, audits, passes atomic.Int64
		for n := range 3 {
			running.Go(func() { w.traffic(ctx, b, n, &accepted) })
		}
		running.Go(func() {
			for i := 0; ctx.Err() == nil; i++ {
				at := b.Buckets[i%len(b.Buckets)].ID
				_, _ = moving.Offline(ctx, b.ID, at, bucket.ByOperator)
				_, _ = moving.Sweep(ctx, []int64{b.ID})
				_, _ = moving.Online(ctx, b.ID, at)
				_, _, _ = fixture.Distribute(ctx, w.DB, b.ID)
			}
		})
		running.Go(func() {
			for ctx.Err() == nil { // a new loop counts everything
				loop := w.s.Loops(audit.Settings{Rows: 10_000_000, Shown: 5})[0]
				if loop.RunOnce(ctx) == nil {
					passes.Add(1)
				}
			}
		})
		begin := time.Now()
		for time.Since(begin) < 2*time.Second || accepted.Load() < 200 || passes.Load() < 5 {
			r, err := w.s.Audit(ctx, bucket.BudgetRef{ID: b.ID})
			w.OK(err)
			if !r.OK {
				t.Errorf("%v", r.Discrepancies)
				break
			}
			audits.Add(1)
		}
		end()
		running.Wait()
		t.Logf("%d deductions, %d audits, %d looks", accepted.Load(), audits.Load(), passes.Load())
		w.clean(b)
		if w.seen.books != 0 || w.seen.halts != 0 {
			t.Errorf("%d discrepancies, %d halts", w.seen.books, w.seen.halts)
		}
	})
}

// traffic deducts, holds, confirms and rolls back until ctx is over.
func (w *world) traffic(ctx context.Context, b *bucket.Budget, n int, accepted *atomic.Int64) {
	rnd := rand.New(rand.NewPCG(uint64(n), 7)) //nolint:gosec // a test
	for i := 0; ctx.Err() == nil; i++ {
		var ops []bucket.Operation
		for j := range 1 + rnd.IntN(20) {
			at, id := rnd.IntN(len(b.Buckets)), fmt.Sprintf("n%d-%d-%d", n, i, j)
			ops = append(ops, operation(b, at, id, 1+rnd.Int64N(9), func(r *ledger.Request) {
				r.Dimensions = ledger.Dimensions(map[string]string{"user": fmt.Sprint("u", rnd.IntN(5))})
				if rnd.IntN(4) == 0 {
					r.HoldTTL = time.Hour.Milliseconds()
				}
			}))
		}
		out, err := w.commits.Commit(ctx, ops)
		if err != nil {
			continue
		}
		var orders []hold.Order
		for j := range out {
			if out[j].Verdict != bucket.Accepted {
				continue
			}
			accepted.Add(1)
			o := hold.Order{Budget: b.ID, RequestID: ops[j].Request.ID, Kind: hold.Rollback}
			if ops[j].Request.HoldTTL > 0 {
				o.Kind = hold.Confirm
			} else if rnd.IntN(2) == 0 {
				o.Amount, o.RollbackID = 1, "r"
			}
			if rnd.IntN(2) == 0 {
				orders = append(orders, o)
			}
		}
		_, _ = w.returns.Execute(ctx, orders)
	}
}

// perUser limits what a user may take, in units.
func perUser(every budget.Every) func(*budget.Definition) {
	return func(d *budget.Definition) {
		d.Limits = &budget.Limits{List: []budget.Limit{{Name: "per-user", Dimension: "user", Max: 1 << 40,
			Measure: budget.MeasureAmount, Enforce: true,
			Window: budget.LimitWindow{Kind: budget.WindowCalendar, Every: every}}, {Name: "slides",
			Dimension: "user", Max: 1 << 40, Measure: budget.MeasureCount, Enforce: true, Optional: true,
			Window: budget.LimitWindow{Kind: budget.WindowSliding, Length: time.Hour, Slot: time.Minute}},
		}}
	}
}
