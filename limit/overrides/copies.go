package overrides

import (
	"context"
	"maps"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/budgetd/budgetd/budget"
	"github.com/budgetd/budgetd/limit"
)

const (
	// most bounds the overrides of all copies. One copy may exceed it alone.
	most = 4 * limit.MaxOverrides
	// patience is how long a definition waits for the copy that belongs to it.
	patience = 300 * time.Millisecond
	// readTime bounds one read.
	readTime = 5 * time.Second
	// pageSize is how many rows of a series are read at a time, changesAtOnce how many changes, each
	// of at most limit.MaxOverrideList rows.
	pageSize      = 10_000
	changesAtOnce = 10
	// farBehind is the number of changes after which everything is read again. The database keeps
	// more removals than that: see KeptRemovals.
	farBehind = 1_000
)

// KeptRemovals is how many changes back the database must know what was removed.
const KeptRemovals = 2 * farBehind

// Row is an override, or its removal.
type Row struct {
	Series  int64
	Key     string
	Bound   limit.Bound
	Removed bool
}

// Rows reads overrides from the database. Error of both: Unavailable.
type Rows interface {
	// OverridesOf reads overrides of a series in the order of their keys, those after a key.
	OverridesOf(ctx context.Context, budgetID, series int64, after string, most int) ([]Row, error)
	// OverridesSince reads what the changes from the one after a version until another have set and
	// removed, as it is now. Removals come first.
	OverridesSince(ctx context.Context, budgetID, version, until int64) ([]Row, error)
}

// Copies are the copies of a node. It is safe for concurrent use.
type Copies struct {
	rows   Rows
	failed func(error)
	most   int

	mu   sync.Mutex
	list map[int64]*Copy
}

// New returns no copies yet. rows may be nil if no budget is in store mode. failed is called with
// the errors of reads.
func New(rows Rows, failed func(error)) *Copies {
	return &Copies{rows: rows, failed: failed, most: most, list: map[int64]*Copy{}}
}

// Follow returns the copy of a budget's overrides, nil if it never had any. It begins to bring the
// copy to the version of the limits, and waits for that, but not long.
func (c *Copies) Follow(budgetID int64, limits *budget.Limits) *Copy {
	if limits == nil || limits.OverridesVersion == 0 {
		return nil
	}
	c.mu.Lock()
	one := c.list[budgetID]
	if one == nil {
		one = &Copy{of: c, budget: budgetID, series: map[int64]table{}}
		c.list[budgetID] = one
	}
	c.mu.Unlock()
	done := one.follow(limits)
	if done == nil {
		return one
	}
	wait := time.NewTimer(patience)
	defer wait.Stop()
	select {
	case <-done:
	case <-wait.C:
	}
	return one
}

// Forget drops the copy of a budget.
func (c *Copies) Forget(budgetID int64) {
	c.mu.Lock()
	one := c.list[budgetID]
	delete(c.list, budgetID)
	c.mu.Unlock()
	if one != nil {
		one.drop()
	}
}

// Len returns how many overrides the copies have.
func (c *Copies) Len() (n int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, one := range c.list {
		n += one.len()
	}
	return n
}

// shrink drops the copies that were not used for longest, but not that of a budget, until the bound
// is kept.
func (c *Copies) shrink(except *Copy) {
	c.mu.Lock()
	defer c.mu.Unlock()
	all := slices.SortedFunc(maps.Values(c.list), func(a, b *Copy) int {
		return int(min(max(a.used.Load()-b.used.Load(), -1), 1))
	})
	n := 0
	for _, one := range all {
		n += one.len()
	}
	for _, one := range all {
		if n > c.most && one != except {
			n -= one.drop()
		}
	}
}

// value is the first half of the SHA-256 of a key: nobody can find two with the same.
type value [16]byte

// exempt stands for the maximum of a value without one.
const exempt = -1

type table map[value]int64

// Copy is the copy of one budget's overrides. It is safe for concurrent use.
type Copy struct {
	of     *Copies
	budget int64
	used   atomic.Int64 // when it was last used, in ms

	mu      sync.RWMutex
	series  map[int64]table
	version int64 // up to which it is complete; 0 if it has nothing

	// reading is closed when the reader ends, and nil while nobody reads. wanted is what it reads
	// next.
	reading chan struct{}
	wanted  *budget.Limits
}
