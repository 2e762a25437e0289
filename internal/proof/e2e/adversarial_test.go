package e2e

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/budgetd/budgetd/budget"
	"github.com/budgetd/budgetd/client"
	"github.com/budgetd/budgetd/internal/proof/adversarial"
)

// figures returns what a refused request must not change in a budget, as a text.
func figures(t *testing.T, c *client.Client, name string) string {
	t.Helper()
	b, err := c.Budget(context.Background(), name)
	if err != nil {
		t.Fatal(err)
	}
	return fmt.Sprintf("version %d total %d undistributed %d remaining %d used %d held %d in transit %d buckets %+v status %s",
		b.Version, *b.TotalQuantity, *b.Undistributed, *b.InBuckets, b.Used, b.Held, b.InTransit, b.Buckets, b.Status)
}

// TestHostileInput sends the whole table of package adversarial to real servers. No figure may change
// (I6).
func TestHostileInput(t *testing.T) {
	t.Run("embedded", func(t *testing.T) { hostileInput(t, start(t, t.TempDir(), "--config", patient(t, ""))) })
	t.Run("cluster", func(t *testing.T) {
		hostileInput(t, start(t, t.TempDir(), "--config", patient(t, newCluster(t).text)))
	})
}

// patient writes a configuration that soon ends a request that arrives slowly, and without
// automatic recycles, which would change figures during a case.
func patient(t *testing.T, text string) string {
	t.Helper()
	return writeConfig(t, text+"http:\n  read_timeout: 2s\nrecycle:\n  stranded_share: 0\n")
}

func hostileInput(t *testing.T, n *node) {
	c := n.client()
	create(t, c, "sale", 1000, 4)
	if _, err := c.Deduct(context.Background(), "sale", client.DeductRequest{RequestID: "first", Amount: 5}); err != nil {
		t.Fatal(err)
	}
	before := figures(t, c, "sale")
	list := budgets(t, c)
	target := adversarial.Target{Addr: n.addr, Budget: "sale", BodyBytes: 1 << 20, BatchBytes: 4 << 20, BatchItems: 1000,
		ReadTimeout: 2 * time.Second}
	t.Run("table", func(t *testing.T) { // its cases run in parallel and end with this subtest
		adversarial.Run(t, target, func() string {
			if after := figures(t, c, "sale"); after != before {
				return after + ", before " + before
			}
			if now := budgets(t, c); now != list {
				return "budgets " + now + ", before " + list
			}
			return ""
		})
	})
	oddIDs(t, c)
	checkBooks(t, c, "odd", int64(2*len(adversarial.OddIDs())), int64(len(adversarial.OddIDs())))
	hostileMeaning(t, c)
}

func budgets(t *testing.T, c *client.Client) string {
	t.Helper()
	var names []string
	for b, err := range c.Budgets(context.Background(), client.Filter{}) {
		if err != nil {
			t.Fatal(err)
		}
		names = append(names, b.Name)
	}
	return strings.Join(names, " ")
}

// oddIDs checks that ids that look alike are different requests in every database.
func oddIDs(t *testing.T, c *client.Client) {
	t.Helper()
	ids := adversarial.OddIDs()
	create(t, c, "odd", int64(2*len(ids)), 1)
	ctx := context.Background()
	for round, replayed := range []bool{false, true} {
		for _, id := range ids {
			a, err := c.Deduct(ctx, "odd", client.DeductRequest{RequestID: id, Amount: 1})
			if err != nil || a.Replayed != replayed || a.RequestID != id {
				t.Errorf("round %d, id %q: %+v, %v", round, id, a, err)
			}
		}
	}
	for _, id := range ids {
		if d, err := c.Deduction(ctx, "odd", id); err != nil || d.RequestID != id {
			t.Errorf("read of %q: %+v, %v", id, d, err)
		}
	}
}

// hostileMeaning sends well-formed requests that contradict what is recorded.
func hostileMeaning(t *testing.T, c *client.Client) {
	t.Helper()
	ctx := context.Background()
	create(t, c, "other", 50, 2)
	create(t, c, "future", 50, 1)
	paused, over := "paused", "over"
	create(t, c, paused, 50, 1)
	create(t, c, over, 50, 1)
	_, err := c.Create(ctx, client.CreateRequest{Name: "tomorrow", Unit: budget.Count, Type: budget.Promo,
		TotalQuantity: 5, StartAt: time.Now().Add(24 * time.Hour)})
	must(t, err)
	_, err = c.Patch(ctx, paused, client.PatchRequest{Status: budget.Paused})
	must(t, err)
	_, err = c.Patch(ctx, over, client.PatchRequest{EndAt: new(time.Now().Add(-time.Minute)),
		AllowPast: true})
	must(t, err)
	_, err = c.Rollback(ctx, "sale", client.RollbackRequest{RequestID: "first", RollbackID: "part", Amount: 2})
	must(t, err)
	_, err = c.Deduct(ctx, "other", client.DeductRequest{RequestID: "first", Amount: 7})
	must(t, err) // in another budget it is another request
	_, err = c.Deduct(ctx, "other", client.DeductRequest{RequestID: "gone", Amount: 1})
	must(t, err)
	_, err = c.Rollback(ctx, "other", client.RollbackRequest{RequestID: "gone"})
	must(t, err)
	// Units on their way to the total must arrive before figures are compared.
	eventually(t, time.Minute, "returns are swept", func() error {
		for _, name := range []string{"sale", "other"} {
			if b, err := c.Budget(ctx, name); err != nil || b.InTransit != 0 {
				return fmt.Errorf("%+v, %v", b, err)
			}
		}
		return nil
	})
	deduct := func(name string, r client.DeductRequest) func() error {
		return func() error { _, err := c.Deduct(ctx, name, r); return err }
	}
	rollback := func(name string, r client.RollbackRequest) func() error {
		return func() error { _, err := c.Rollback(ctx, name, r); return err }
	}
	appendTo := func(name string, q int64) func() error {
		return func() error {
			_, err := c.Append(ctx, name, client.AppendRequest{RequestID: "a" + fmt.Sprint(q), Quantity: q})
			return err
		}
	}
	for _, tc := range []struct {
		name, budget string
		call         func() error
		want         budget.Code
	}{
		{"same id, another amount", "sale", deduct("sale", client.DeductRequest{RequestID: "first", Amount: 6}), budget.RequestConflict},
		{"same id, another key", "sale", deduct("sale", client.DeductRequest{RequestID: "first", Amount: 5, Key: "k"}), budget.RequestConflict},
		{"same id, a dimension", "sale", deduct("sale", client.DeductRequest{RequestID: "first", Amount: 5, Dimensions: map[string]string{"user": "u"}}), budget.RequestConflict},
		{"rollback of an unknown id", "sale", rollback("sale", client.RollbackRequest{RequestID: "never"}), budget.DeductionNotFound},
		{"rollback twice with two ids", "other", rollback("other", client.RollbackRequest{RequestID: "gone", RollbackID: "second"}), budget.AlreadyRolledBack},
		{"rollback of more than was deducted", "other", rollback("other", client.RollbackRequest{RequestID: "first", Amount: 8}), budget.AmountExceedsRemaining},
		{"a second part that sums above it", "sale", rollback("sale", client.RollbackRequest{RequestID: "first", RollbackID: "more", Amount: 4}), budget.AmountExceedsRemaining},
		{"same rollback id, another amount", "sale", rollback("sale", client.RollbackRequest{RequestID: "first", RollbackID: "part", Amount: 3}), budget.RequestConflict},
		{"more than the budget has", "sale", deduct("sale", client.DeductRequest{RequestID: "big", Amount: budget.MaxAmount}), budget.BudgetExhausted},
		{"unknown budget", "sale", deduct("no-such-budget", client.DeductRequest{RequestID: "x", Amount: 1}), budget.BudgetNotFound},
		{"paused budget", paused, deduct(paused, client.DeductRequest{RequestID: "x", Amount: 1}), budget.BudgetPaused},
		{"future budget", "tomorrow", deduct("tomorrow", client.DeductRequest{RequestID: "x", Amount: 1}), budget.BudgetNotEffective},
		{"expired budget", over, deduct(over, client.DeductRequest{RequestID: "x", Amount: 1}), budget.BudgetExpired},
		{"an append that overflows", "sale", appendTo("sale", budget.MaxAmount), budget.Invalid},
		{"a shrink below what is used", "other", appendTo("other", -44), budget.AmountExceedsRemaining},
		{"a shrink to nothing", "future", appendTo("future", -50), budget.Invalid},
		{"a bucket of another budget", "sale", func() error { _, err := c.Offline(ctx, "sale", "other:bucket-0"); return err }, budget.BucketNotFound},
		{"the last bucket offline", "future", func() error { _, err := c.Offline(ctx, "future", "future:bucket-0"); return err }, budget.LastBucket},
		{"a taken name", "sale", func() error {
			_, err := c.Create(ctx, client.CreateRequest{Name: "sale", Unit: budget.Count, Type: budget.Promo, TotalQuantity: 999})
			return err
		}, budget.NameTaken},
		{"a stale version", "sale", func() error {
			_, err := c.Patch(ctx, "sale", client.PatchRequest{Status: budget.Paused, IfVersion: 99})
			return err
		}, budget.VersionConflict},
	} {
		t.Run(tc.name, func(t *testing.T) {
			before := figures(t, c, tc.budget)
			if err := tc.call(); client.CodeOf(err) != tc.want {
				t.Errorf("%v, want %s", err, tc.want)
			}
			if after := figures(t, c, tc.budget); after != before {
				t.Errorf("it changed something:\n%s\nbefore\n%s", after, before)
			}
		})
	}
	batchOfDuplicates(t, c)
	thousandAtOnce(t, c)
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// batchOfDuplicates repeats an id in one batch, with the same and with another amount.
func batchOfDuplicates(t *testing.T, c *client.Client) {
	t.Helper()
	item := func(id string, amount int64) client.BatchItem {
		return client.BatchItem{Budget: "other", DeductRequest: client.DeductRequest{RequestID: id, Amount: amount}}
	}
	results, err := c.DeductBatch(context.Background(), []client.BatchItem{item("double", 2), item("double", 2), item("double", 3), item("single", 1)})
	must(t, err)
	if r := results[0]; r.Err != nil || r.Answer.Replayed {
		t.Errorf("first: %+v", r)
	}
	if r := results[1]; r.Err != nil || !r.Answer.Replayed {
		t.Errorf("the same again: %+v", r)
	}
	if r := results[2]; client.CodeOf(r.Err) != budget.RequestConflict {
		t.Errorf("with another amount: %+v", r)
	}
	if r := results[3]; r.Err != nil {
		t.Errorf("another: %+v", r)
	}
}

// thousandAtOnce checks that 1,000 concurrent calls with the same id take effect once.
func thousandAtOnce(t *testing.T, c *client.Client) {
	t.Helper()
	ctx := context.Background()
	before, err := c.Budget(ctx, "sale")
	must(t, err)
	fresh := make(chan bool, 1000)
	var all sync.WaitGroup
	slots := make(chan struct{}, 100)
	for range 1000 {
		slots <- struct{}{}
		all.Go(func() {
			defer func() { <-slots }()
			a, err := c.Deduct(ctx, "sale", client.DeductRequest{RequestID: "popular", Amount: 4})
			if err != nil {
				t.Error(err)
				return
			}
			fresh <- !a.Replayed
		})
	}
	all.Wait()
	close(fresh)
	n := 0
	for first := range fresh {
		if first {
			n++
		}
	}
	after, err := c.Budget(ctx, "sale")
	must(t, err)
	if n != 1 || after.Used-before.Used != 4 {
		t.Errorf("%d took effect, %d units", n, after.Used-before.Used)
	}
}
