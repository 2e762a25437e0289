package e2e

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/budgetd/budgetd/budget"
	"github.com/budgetd/budgetd/client"
)

// TestBulkGoesOn kills a node while it appends to 400 budgets, and repeats the call on the next one
// with the same request id. Each budget must have got the units once.
func TestBulkGoesOn(t *testing.T) {
	const budgets, total, more = 400, 100, 7
	dir, ctx := t.TempDir(), context.Background()
	n := start(t, dir)
	c := n.client()
	nameOf := func(i int) string { return fmt.Sprintf("b-%03d", i) }
	for i := range budgets {
		create(t, c, nameOf(i), total, 1)
	}
	request := client.BulkRequest{RequestID: "refill", Filter: client.BulkFilter{Search: "b-"}, Expected: budgets,
		Action: "append", Quantity: more}
	appendAll := func(c *client.Client) (answer *client.BulkAnswer) {
		eventually(t, time.Minute, "all budgets are counted", func() (err error) {
			if answer, err = c.ChangeMany(ctx, request); client.CodeOf(err) == budget.VersionConflict {
				return err
			}
			return nil
		})
		return answer
	}
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		once := n.clientWith(client.Retry{Attempts: 1})
		for {
			if _, err := once.ChangeMany(ctx, request); client.CodeOf(err) != budget.VersionConflict {
				return
			}
			time.Sleep(10 * time.Millisecond)
		}
	}()
	totalOf := func(c *client.Client, i int) int64 {
		b, err := c.Budget(ctx, nameOf(i))
		must(t, err)
		return *b.TotalQuantity
	}
	eventually(t, time.Minute, "the append has begun", func() error {
		if totalOf(c, 10) == total {
			return fmt.Errorf("the eleventh budget has its old total")
		}
		return nil
	})
	n.kill()
	<-ended
	c = start(t, dir).client()
	first, last := totalOf(c, 0), totalOf(c, budgets-1)
	if first != total+more || last != total {
		t.Fatalf("the first budget has %d units and the last %d: the call was not interrupted", first, last)
	}
	answer := appendAll(c)
	if answer == nil || answer.Done == 0 || answer.Unchanged < 10 || answer.Done+answer.Unchanged != budgets ||
		answer.Left+answer.Failed > 0 {
		t.Errorf("repeated: %+v", answer)
	}
	for i := range budgets {
		if got := totalOf(c, i); got != total+more {
			t.Errorf("%s has %d units, want %d", nameOf(i), got, total+more)
		}
	}
}
