package counter_test

import (
	"context"
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	"github.com/budgetd/budgetd/bucket"
	"github.com/budgetd/budgetd/bucket/counter"
	"github.com/budgetd/budgetd/budget"
)

// counted counts the reads of definitions.
type counted struct {
	bucket.Definitions
	reads *atomic.Int32
}

func (c counted) Budget(ctx context.Context, ref bucket.BudgetRef) (bucket.Budget, error) {
	c.reads.Add(1)
	return c.Definitions.Budget(ctx, ref)
}

// TestReadsOfASupply counts the reads of the definition for a deduction that waits for units: none
// while its bucket keeps its epoch, and two if that was closed: one finds it closed, and one what
// the supply has begun.
func TestReadsOfASupply(t *testing.T) {
	for _, test := range []struct {
		name string
		ends bool
		want int32
	}{{"the same epoch", false, 0}, {"another epoch", true, 2}} {
		t.Run(test.name, func(t *testing.T) {
			w := onRedis(t, "sqlite", 1)
			d := promo("sale", 200, 1)
			d.Type, d.Rule, d.ShardingQuantity = budget.Daily, &budget.Rule{Kind: budget.Free}, 20
			b := w.create(d)
			if test.ends {
				w.ok(w.node.Recall(w.Context(), b.ID, 200))
			}
			var reads atomic.Int32
			w.clock.Stop() // what a node has just read stays fresh
			node, _ := w.newNode(func(c *counter.Config) {
				found, err := bucket.NewBudgets(bucket.BudgetsConfig{
					Definitions: counted{w.defs, &reads}, Clock: w.clock})
				w.ok(err)
				_, err = found.Reload(w.Context(), b.ID)
				w.ok(err)
				c.Budgets = found
			})
			reads.Store(0)
			_, err := node.Deduct(w.Context(), request(b, "waits", 120))
			w.ok(err)
			if got := reads.Load(); got != test.want {
				t.Errorf("the definition was read %d times, want %d", got, test.want)
			}
		})
	}
}

// TestRefillsOfAnEmptyTotal uses several buckets of a budget whose units are all handed out: one
// refill finds that out for all of them, and another one does after a second.
func TestRefillsOfAnEmptyTotal(t *testing.T) {
	w := onRedis(t, "sqlite", 1)
	b := w.create(promo("sale", 800, 8))
	w.clock.Stop()
	used, next := map[int64]bool{}, 0
	use := func(buckets int) {
		for want := len(used) + buckets; len(used) < want; next++ {
			r := request(b, fmt.Sprint(next), 60)
			_, at := b.Routed(&r)
			if used[at.ID] {
				continue
			}
			used[at.ID] = true
			w.deduct(b, r.RequestID, r.Amount)
			for began := time.Now(); w.node.Refilling(b) && time.Since(began) < 10*time.Second; {
				time.Sleep(time.Millisecond)
			}
		}
	}
	use(3)
	if n := w.node.Refused(b); n != 1 {
		t.Errorf("%d buckets asked for units, want 1", n)
	}
	w.clock.Advance(time.Second)
	use(3)
	if n := w.node.Refused(b); n != 2 {
		t.Errorf("%d buckets asked for units after a second, want 2", n)
	}
}
