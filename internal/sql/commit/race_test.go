package commit_test

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/budgetd/budgetd/bucket"
	"github.com/budgetd/budgetd/budget"
	"github.com/budgetd/budgetd/internal/sql/commit"
	"github.com/budgetd/budgetd/limit"
)

// TestConcurrentFlights checks that nodes that commit and bring concurrently over the same ids,
// buckets and limit values give out every unit once, and that all rows agree.
func TestConcurrentFlights(t *testing.T) {
	limits := []budget.Limit{perUser("amount", 60, budget.MeasureAmount),
		perUser("calls", 20, budget.MeasureCount)}
	each(t, 1200, 4, limits, func(w *world) {
		const callers, flights, size, ids = 4, 25, 8, 700
		nodes := []*commit.Decider{w.decider, commit.New(w.DB)}
		var mu sync.Mutex
		taken, owners := map[string]int64{}, map[string]int{}
		var group sync.WaitGroup
		for caller := range callers {
			group.Go(func() {
				random := rand.New(rand.NewPCG(uint64(caller), 7))
				node := nodes[caller%len(nodes)]
				for n := range flights {
					var ops []bucket.Operation
					for range size {
						i := random.IntN(ids)
						op := w.asks(random.IntN(4), fmt.Sprintf("r%d", i), int64(1+i%7),
							user(fmt.Sprintf("u%d", i%25)), func(op *bucket.Operation) {
								op.Request.Nonce = fmt.Sprintf("%d-%d", caller, n)
							})
						if i%5 == 0 {
							hold(time.Hour, fmt.Sprintf("g%d", i%3))(&op)
						}
						ops = append(ops, op)
					}
					out, err := node.Commit(w.Ctx, ops)
					if err == nil && random.IntN(4) == 0 {
						ops = slices.DeleteFunc(ops, func(op bucket.Operation) bool { return false })
						var more []bucket.Outcome
						more, err = node.Bring(w.Ctx, map[int64]int64{w.b.ID: int64(random.IntN(7))}, ops)
						out = append(out, more...)
					}
					if err != nil {
						t.Errorf("caller %d: %v", caller, err)
						return
					}
					mu.Lock()
					for _, o := range out {
						if o.Verdict == bucket.Accepted {
							taken[o.Deduction.RequestID] = o.Deduction.Amount
							owners[o.Deduction.RequestID]++
						}
					}
					mu.Unlock()
				}
			})
		}
		group.Wait()
		sum := int64(0)
		for id, n := range owners {
			sum += taken[id]
			if n != 1 {
				t.Errorf("%s was accepted %d times", id, n)
			}
		}
		if got := w.figure(`SELECT SUM(used_quantity + held_quantity) FROM bucket_epoch`); got != sum || sum > 1200 {
			t.Errorf("the columns hold %d units, %d of at most 1200 were accepted", got, sum)
		}
		if n := w.figure(`SELECT COUNT(*) FROM deduction`); n != int64(len(owners)) {
			t.Errorf("%d rows for %d accepted deductions", n, len(owners))
		}
		w.bounds(limits)
		w.consistent()
		packets, locking := nodes[0].Forms()
		t.Logf("%d units in %d deductions; one node wrote %d flights by packets, %d by the locking form",
			sum, len(owners), packets, locking)
	})
}

// bounds makes sure that no value took more than the limits say.
func (w *world) bounds(limits []budget.Limit) {
	w.Helper()
	var rows []struct {
		Counts string `db:"counts"`
	}
	w.list(&rows, `SELECT counts FROM limit_counter`)
	for _, row := range rows {
		counts, err := limit.ReadCounters(row.Counts)
		w.OK(err)
		for _, c := range counts.List {
			for _, l := range limits {
				if l.Name == c.Limit && c.Row.Counted > l.Max {
					w.Errorf("limit %s: %d of %d", l.Name, c.Row.Counted, l.Max)
				}
			}
		}
	}
}
