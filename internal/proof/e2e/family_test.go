package e2e

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/budgetd/budgetd/budget"
	"github.com/budgetd/budgetd/client"
)

// TestFamilyWhoseOwnerDies asks for 100 children of 20 out of 1,000 units at once: exactly 50 are
// made. They deduct and hold, and nobody closes them. What they have not used is in the parent again
// after their end, what is rolled back still later serves the parent at once, and every audit agrees.
func TestFamilyWhoseOwnerDies(t *testing.T) { kinds(t, familyWhoseOwnerDies) }

func familyWhoseOwnerDies(t *testing.T, n *node) {
	const total, each, used, held = 1000, 20, 7, 5
	const life = 20 * time.Second // longer than it takes to make and use them
	ctx, c := context.Background(), n.client()
	create(t, c, "org", total, 4)
	end := time.Now().Add(life)
	names := askForChildren(t, c, 100, client.CreateRequest{Parent: "org", Unit: budget.Count, Type: budget.Promo,
		TotalQuantity: each, EndAt: end})
	if len(names) != total/each {
		t.Fatalf("%d children of %d out of %d", len(names), each, total)
	}
	spendAndHold(t, c, names, used, held, life)
	agree(t, c, append(names, "org")...)

	left := func(allocated int64) func() error {
		return func() error {
			b, err := c.Budget(ctx, "org")
			if err != nil || b.Allocated == allocated && *b.Remaining == total-allocated {
				return err
			}
			return fmt.Errorf("%d with the children, %d remain", b.Allocated, *b.Remaining)
		}
	}
	time.Sleep(time.Until(end))
	eventually(t, time.Minute, "what is neither used nor held is back", left(50*(used+held)))
	t.Logf("%s after the end", time.Since(end).Round(10*time.Millisecond))
	eventually(t, time.Minute, "what was held is back", left(50*used))
	agree(t, c, append(names, "org")...)

	taken := int64(total - 50*used)
	_, err := c.Deduct(ctx, "org", client.DeductRequest{RequestID: "all", Amount: taken})
	must(t, err)
	for i, name := range names {
		_, err := c.Rollback(ctx, name, client.RollbackRequest{RequestID: "used"})
		must(t, err)
		_, err = c.Deduct(ctx, "org", client.DeductRequest{RequestID: fmt.Sprint("late-", i), Amount: used})
		must(t, err)
	}
	_, err = c.Deduct(ctx, "org", client.DeductRequest{RequestID: "one more", Amount: 1})
	if p := problem(err); p == nil || p.Code != budget.BudgetExhausted {
		t.Errorf("one more than all: %v", err)
	}
	agree(t, c, append(names, "org")...)
}

// askForChildren asks for n children at once and returns the names of those that were made.
func askForChildren(t *testing.T, c *client.Client, n int, r client.CreateRequest) (names []string) {
	t.Helper()
	var mu sync.Mutex
	var all sync.WaitGroup
	for i := range n {
		all.Go(func() {
			r := r
			r.Name = fmt.Sprint("task-", i)
			_, err := c.Create(context.Background(), r)
			for k := client.KindOf(err); err != nil && (k == budget.NotDone || k == budget.MayBeDone); k = client.KindOf(err) {
				_, err = c.Create(context.Background(), r)
			}
			mu.Lock()
			defer mu.Unlock()
			if p := problem(err); err == nil {
				names = append(names, r.Name)
			} else if p == nil || p.Code != budget.BudgetExhausted {
				t.Error(err)
			}
		})
	}
	all.Wait()
	return names
}

// spendAndHold deducts from each budget, and holds.
func spendAndHold(t *testing.T, c *client.Client, names []string, used, held int64, ttl time.Duration) {
	t.Helper()
	var all sync.WaitGroup
	for _, name := range names {
		all.Go(func() {
			for _, r := range []client.DeductRequest{{RequestID: "used", Amount: used},
				{RequestID: "held", Amount: held, HoldTTL: ttl.String()}} {
				if _, err := c.Deduct(context.Background(), name, r); err != nil {
					t.Errorf("%s: %v", name, err)
				}
			}
		})
	}
	all.Wait()
}

// agree checks that audits find nothing.
func agree(t *testing.T, c *client.Client, names ...string) {
	t.Helper()
	for _, name := range names {
		report, err := c.Audit(context.Background(), name)
		must(t, err)
		if !report.OK {
			t.Errorf("%s: %+v", name, report.Discrepancies)
		}
	}
}
