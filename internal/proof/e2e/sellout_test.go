package e2e

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/budgetd/budgetd/budget"
	"github.com/budgetd/budgetd/client"
)

// TestNearSellOut sells a budget with many buckets out through four nodes. Every unit must be sold
// exactly once, and no call refused while the budget covers it (I3).
func TestNearSellOut(t *testing.T) {
	const total, buckets, name = 2500, 64, "last"
	world := newCluster(t)
	var nodes []*node
	for range 4 {
		nodes = append(nodes, world.start(t))
	}
	create(t, nodes[0].client(), name, total, buckets)
	sold := sellOut(t, nodes, name, 24, total)
	if sold != total {
		t.Errorf("sold %d of %d", sold, total)
	}
	checkBooks(t, nodes[3].client(), name, total, sold)
}

// sellOut deducts amounts of 1 to 5 through all nodes until nothing is left, and returns what was
// sold. It reports a refusal as wrong if, when it arrives, the total covers the refused amount in
// addition to all that was sold or is being asked for. Nothing is given back meanwhile, so the
// total also covered it when the refusal was decided.
func sellOut(t *testing.T, nodes []*node, name string, callers int, total int64) int64 {
	t.Helper()
	var sold, asked, slowest atomic.Int64
	var all sync.WaitGroup
	for caller := range callers {
		c := nodes[caller%len(nodes)].client()
		all.Go(func() {
			for i, most := 0, int64(5); ; i++ {
				amount := min(1+int64(i%5), most)
				id, began := fmt.Sprintf("%d-%d", caller, i), time.Now()
				asked.Add(amount)
				_, err := c.Deduct(context.Background(), name,
					client.DeductRequest{RequestID: id, Amount: amount})
				for took := int64(time.Since(began)); took > slowest.Load(); {
					slowest.Store(took)
				}
				if err == nil {
					sold.Add(amount)
					continue
				}
				p := problem(err)
				if left := total - asked.Add(-amount); left >= amount {
					t.Errorf("%s of %d units is refused while at least %d are left: %v", id, amount, left, err)
				}
				if client.CodeOf(err) != budget.BudgetExhausted || p.Available == nil ||
					*p.Available >= amount {
					t.Errorf("%s of %d units, %d sold: %v", id, amount, sold.Load(), err)
					return
				}
				if most = amount - 1; most == 0 {
					return
				}
			}
		})
	}
	all.Wait()
	t.Logf("%d of %d sold; the slowest call took %s", sold.Load(), total,
		time.Duration(slowest.Load()).Round(time.Millisecond))
	return sold.Load()
}
