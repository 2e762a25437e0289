package e2e

import (
	"context"
	"fmt"
	"github.com/go-json-experiment/json"
	"os/exec"
	"slices"
	"testing"

	"github.com/budgetd/budgetd/client"
	"github.com/budgetd/budgetd/internal/proof/testservers"
)

// TestRebalanceInstances creates a budget in store mode with four buckets on two instances, and gives
// a third instance its share with `budgetctl instances rebalance`: 2, 1 and 1. No unit may be lost,
// and another rebalance must move nothing. A budget in ledger mode is on no instance.
func TestRebalanceInstances(t *testing.T) {
	c := newCluster(t)
	all := c.text
	third := fmt.Sprintf("  - name: redis-2\n    driver: redis\n    addrs: [%q]\n", c.redis[2].Addr())
	c.config = writeConfig(t, all[:len(all)-len(third)])
	two := c.start(t)
	api := two.client()
	const name = "counters"
	create(t, api, "rows", 1000, 4)
	createStore(t, api, name, 1000, 4)
	take(t, api, name, "before", 40)
	if got := loadsOf(t, api, name); !slices.Equal(got, []int{0, 2, 2}) {
		t.Fatalf("before: %v", got)
	}
	if got := loadsOf(t, api, "rows"); !slices.Equal(got, []int{0, 0, 0}) {
		t.Errorf("in ledger mode: %v", got)
	}
	two.stop()
	c.config = writeConfig(t, all)
	n := c.start(t)
	api = n.client()
	rebalance := func(flags ...string) (out client.Rebalance) {
		t.Helper()
		args := append([]string{"--server", "http://" + n.addr, "-o", "json", "instances", "rebalance"}, flags...)
		text, err := exec.Command(testservers.Program(t, "budgetctl"), args...).CombinedOutput()
		if err == nil {
			err = json.Unmarshal(text, &out)
		}
		if err != nil {
			t.Fatalf("rebalance: %v\n%s", err, text)
		}
		return out
	}
	plan := rebalance("--dry-run")
	if !plan.DryRun || plan.Budgets != 1 || plan.Misplaced < 1 || plan.Moved != 0 || len(plan.Moves) != plan.Misplaced {
		t.Errorf("dry run: %+v", plan)
	}
	if done := rebalance(); done.Moved != plan.Misplaced || done.Problem != "" {
		t.Errorf("rebalanced: %+v, the plan was %+v", done, plan)
	}
	if got := loadsOf(t, api, name); !slices.Equal(got, []int{1, 1, 2}) {
		t.Errorf("after: %v", got)
	}
	take(t, api, name, "before", 40) // earlier ids are known
	take(t, api, name, "after", 40)
	awaitView(t, api, name, "all is counted", func(b *client.Budget) bool { return b.Used == 80 })
	if audit, err := api.Audit(context.Background(), name); err != nil || !audit.OK || audit.Quarantined > 0 {
		t.Errorf("audit %+v, %v", audit, err)
	}
	if again := rebalance(); again.Misplaced != 0 || again.Moved != 0 {
		t.Errorf("rebalanced again: %+v", again)
	}
}

// take deducts one unit under each of n ids.
func take(t *testing.T, c *client.Client, name, id string, n int) {
	t.Helper()
	for i := range n {
		_, err := c.Deduct(context.Background(), name,
			client.DeductRequest{RequestID: fmt.Sprintf("%s-%d", id, i), Amount: 1})
		must(t, err)
	}
}

// loadsOf counts the buckets of a budget on each of the three instances, the fewest first.
func loadsOf(t *testing.T, c *client.Client, name string) []int {
	t.Helper()
	list, err := c.Buckets(context.Background(), name)
	must(t, err)
	loads := map[string]int{"redis-0": 0, "redis-1": 0, "redis-2": 0}
	for _, b := range list.Buckets {
		if b.Home.Instance != "" { // a bucket in SQL is on none
			loads[b.Home.Instance]++
		}
	}
	var out []int
	for _, n := range loads {
		out = append(out, n)
	}
	slices.Sort(out)
	return out
}
