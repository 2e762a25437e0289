package counter_test

import (
	"context"
	"sync/atomic"
	"testing"

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
