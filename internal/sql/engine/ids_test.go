package engine

import (
	"context"
	"sync"
	"testing"

	"github.com/budgetd/budgetd/internal/proof/testservers"
)

// TestTakeIDs checks that no id is handed out twice, by one node or by several, whatever the size of
// the requests, and that a node asks the database once in a thousand ids.
func TestTakeIDs(t *testing.T) {
	t.Run("sqlite", func(t *testing.T) { testTakeIDs(t, openFile(t, nil)) })
	t.Run("mariadb", func(t *testing.T) {
		config := Config{Driver: "mysql", DSN: testservers.SharedMariaDB(t).NewDatabase(t)}
		testTakeIDs(t, mustOpen(t, config), mustOpen(t, config))
	})
}

func testTakeIDs(t *testing.T, nodes ...*DB) {
	if id, err := nodes[0].TakeIDs(t.Context(), SequenceBudget, 1); err != nil || id != 1 {
		t.Fatalf("the first budget: %d, %v", id, err)
	}
	ended, end := context.WithCancel(t.Context())
	end()
	for want := int64(2); want <= idBlock; want++ { // reserved, so no database is asked
		if id, err := nodes[0].TakeIDs(ended, SequenceBudget, 1); err != nil || id != want {
			t.Fatalf("%d, %v; want %d", id, err, want)
		}
	}
	if id, err := nodes[0].TakeIDs(ended, SequenceBudget, 1); err == nil {
		t.Errorf("%d without a database", id)
	}

	var mu sync.Mutex
	taken := map[int64]bool{}
	take := func(node *DB, n int) {
		first, err := node.TakeIDs(t.Context(), SequenceBucket, n)
		if err != nil {
			t.Error(err)
		}
		mu.Lock()
		defer mu.Unlock()
		for id := first; id < first+int64(n); id++ {
			if taken[id] || id < 1 {
				t.Errorf("id %d is handed out twice", id)
			}
			taken[id] = true
		}
	}
	var group sync.WaitGroup
	for worker := range 4 {
		group.Go(func() {
			for i := range 100 {
				take(nodes[i%len(nodes)], 1+(worker*100+i)*7%40)
			}
		})
	}
	group.Wait()
	take(nodes[0], 5000) // more than a block
	take(nodes[0], 1)
}
