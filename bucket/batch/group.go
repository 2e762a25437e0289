package batch

import "sync"

// Group is a queue per key. It makes one call at a time per key, and at most workers concurrently.
// Create one with NewGroup. It is safe for concurrent use.
type Group[T any] struct {
	run           func(key int64, items []T)
	refuse        func(item T)
	size, bound   int
	workers, busy int

	mu     sync.Mutex
	length int // of all keys
	waits  map[int64]*wait[T]
	ready  []*wait[T] // have items and no call under way, in the order of their turns
}

// GroupConfig configures a Group.
type GroupConfig[T any] struct {
	// Run makes one call for 1 … Size items of one key. It bounds its own time.
	Run func(key int64, items []T)
	// Refuse is called for an item without room. It must not block.
	Refuse func(item T)
	// Size bounds the items of one call, Bound those that wait, Workers the concurrent calls.
	Size, Bound, Workers int
}

type wait[T any] struct {
	key     int64
	items   []T
	running bool
}

// NewGroup returns an empty group.
func NewGroup[T any](c GroupConfig[T]) *Group[T] {
	return &Group[T]{run: c.Run, refuse: c.Refuse, size: c.Size, bound: c.Bound, workers: c.Workers,
		waits: map[int64]*wait[T]{}}
}

// Add puts an item into the queue of a key and returns at once. It refuses the item if there is no
// room.
func (g *Group[T]) Add(key int64, item T) {
	g.mu.Lock()
	if g.length >= g.bound {
		g.mu.Unlock()
		g.refuse(item)
		return
	}
	w := g.waits[key]
	if w == nil {
		w = &wait[T]{key: key}
		g.waits[key] = w
	}
	w.items = append(w.items, item)
	g.length++
	if len(w.items) == 1 && !w.running {
		g.ready = append(g.ready, w)
		if g.busy < g.workers {
			g.busy++
			go g.work()
		}
	}
	g.mu.Unlock()
}

// work makes calls until no key has waiting items.
func (g *Group[T]) work() {
	g.mu.Lock()
	for len(g.ready) > 0 {
		w := g.ready[0]
		g.ready = g.ready[1:]
		n := min(len(w.items), g.size)
		call := w.items[:n:n]
		w.items, w.running = w.items[n:], true
		g.length -= n
		g.mu.Unlock()
		g.run(w.key, call)
		g.mu.Lock()
		w.running = false
		if len(w.items) > 0 {
			g.ready = append(g.ready, w)
		} else {
			delete(g.waits, w.key)
		}
	}
	g.busy--
	g.mu.Unlock()
}
