package counter_test

import (
	"fmt"
	"slices"
	"sync"
	"testing"

	"github.com/budgetd/budgetd/bucket"
	"github.com/budgetd/budgetd/bucket/counter"
	"github.com/budgetd/budgetd/budget"
)

// TestLargeCallersOnSeveralNodes lets callers on several nodes ask for half of a scattered budget
// each. They collect units from each other's buckets, and yet two of them get their half.
func TestLargeCallersOnSeveralNodes(t *testing.T) {
	w := onRedis(t, "mariadb", 2)
	nodes := []*node{w.node}
	for range 3 {
		node, _ := w.newNode(func(*counter.Config) {})
		nodes = append(nodes, node)
	}
	b := w.create(promo("sale", 1000, 8))
	w.settled(b, books{T: 1000, O: 1000})
	codes := make([]budget.Code, 8)
	var answered sync.WaitGroup
	for i := range codes {
		answered.Go(func() {
			for codes[i] = budget.Unavailable; codes[i] == budget.Unavailable; {
				r := nodes[i%len(nodes)].DeductAll(t.Context(),
					[]bucket.DeductRequest{request(b, fmt.Sprint("large-", i), 500)})[0]
				codes[i] = budget.CodeOf(r.Err)
			}
		})
	}
	answered.Wait()
	slices.Sort(codes)
	if codes[1] != "" || codes[2] != budget.BudgetExhausted || codes[7] != budget.BudgetExhausted {
		t.Errorf("answers: %q", codes)
	}
	w.settled(b, books{T: 1000, S: 1000})
}
