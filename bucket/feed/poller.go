package feed

import (
	"context"
	"slices"
	"sync"
	"time"

	"github.com/budgetd/budgetd/bucket"
	"github.com/budgetd/budgetd/internal/sql/engine"
)

const (
	// pollEvery is the interval at which the heads are read of the budgets that readers wait for.
	pollEvery = 200 * time.Millisecond
	// pollTime bounds one read.
	pollTime = 2 * time.Second
)

// poller wakes readers that wait for entries. While there are any, one goroutine reads the heads of
// all their budgets in one statement per round, and ends overdue waits.
type poller struct {
	db    *engine.DB
	clock bucket.Clock

	mu      sync.Mutex
	waiting map[*reader]struct{}
	running bool
}

// reader is a waiting reader.
type reader struct {
	budget int64
	// head is what it has read up to.
	head     int64
	deadline time.Time
	// woken is closed when there is something new, or at the deadline.
	woken chan struct{}
}

// wait waits until a budget's head may have changed. It returns false if the deadline has passed,
// until is closed, or ctx ends.
func (n *poller) wait(ctx context.Context, budgetID, head int64, deadline time.Time,
	until <-chan struct{}) bool {
	if !n.clock.Now().Before(deadline) {
		return false
	}
	r := &reader{budget: budgetID, head: head, deadline: deadline, woken: make(chan struct{})}
	n.mu.Lock()
	if n.waiting == nil {
		n.waiting = map[*reader]struct{}{}
	}
	n.waiting[r] = struct{}{}
	if !n.running {
		n.running = true
		go n.run()
	}
	n.mu.Unlock()
	select {
	case <-r.woken:
		return n.clock.Now().Before(deadline)
	case <-until:
	case <-ctx.Done():
	}
	n.mu.Lock()
	delete(n.waiting, r)
	n.mu.Unlock()
	return false
}

// run polls until nobody waits.
func (n *poller) run() {
	for {
		_ = n.clock.Sleep(context.Background(), pollEvery)
		budgets, some := n.budgets()
		if !some {
			return
		}
		ctx, cancel := context.WithTimeout(context.Background(), pollTime)
		heads, err := readHeads(ctx, n.db, budgets)
		cancel()
		if err != nil {
			heads = nil // the readers that are woken by their deadline see the error themselves
		}
		n.wake(heads)
	}
}

// budgets lists the budgets that readers wait for. Without any, the goroutine ends.
func (n *poller) budgets() (ids []int64, some bool) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if len(n.waiting) == 0 {
		n.running = false
		return nil, false
	}
	seen := map[int64]bool{}
	for r := range n.waiting {
		if !seen[r.budget] {
			seen[r.budget] = true
			ids = append(ids, r.budget)
		}
	}
	return ids, true
}

// wake ends the waits of readers that have something to read or are overdue.
func (n *poller) wake(heads map[int64]int64) {
	now := n.clock.Now()
	n.mu.Lock()
	defer n.mu.Unlock()
	for r := range n.waiting {
		head, known := heads[r.budget]
		if known && head != r.head || !now.Before(r.deadline) {
			delete(n.waiting, r)
			close(r.woken)
		}
	}
}

const (
	selectHeads = `SELECT b.budget_id, SUM(e.next_entry) AS head
		FROM sharding_budget_management_bucket b /*by budget_id*/
		/*in order*/ JOIN bucket_epoch e /*by PRIMARY*/ ON e.bucket_id = b.id AND e.epoch = b.epoch
		WHERE `
	perBudget = ` GROUP BY b.budget_id`
)

// readHeads returns Σ(last + 1) over the buckets of each budget, which changes with each entry. A
// budget that does not exist is missing.
func readHeads(ctx context.Context, db *engine.DB, budgets []int64) (
	out map[int64]int64, err error) {
	budgets = slices.Compact(slices.Sorted(slices.Values(budgets)))
	err = db.Read(ctx, "feed", func(r *engine.Reader) error {
		out = make(map[int64]int64, len(budgets))
		for chunk := range slices.Chunk(budgets, engine.ListChunk) {
			s := r.Statement()
			s.SQL(selectHeads)
			s.Numbers("b.budget_id", chunk)
			s.SQL(perBudget)
			var found []struct {
				Budget int64 `db:"budget_id"`
				Head   int64 `db:"head"`
			}
			if err := r.RowsOf(&found, s); err != nil {
				return err
			}
			for _, f := range found {
				out[f.Budget] = f.Head
			}
		}
		return nil
	})
	return out, err
}
