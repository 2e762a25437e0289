package batch

import (
	"runtime"
	"sync"
)

// Config configures a Queue.
type Config[T any] struct {
	// Run makes one call. It gets 1 … Size items and must not keep the slice. It bounds its own time.
	Run func(items []T)
	// Refuse is called for an item without room, or one that gives way to another owner's. It must
	// not block.
	Refuse func(item T)
	// Owner returns the owner of an item; nil means that all items have the same one.
	Owner func(item T) int64
	// Key returns what an item works on; a call has items of at most Keys different keys. 0 means
	// no bound.
	Key  func(item T) int64
	Keys int
	// Size bounds the items of one call, Bound those that wait.
	Size, Bound int
}

// Queue makes one call after the other from the waiting items. It has a goroutine only while there
// is work. Create one with New. It is safe for concurrent use.
type Queue[T any] struct {
	config Config[T]

	mu      sync.Mutex
	flows   flows[T]
	running bool

	call []T                // the items of the call under way
	keys map[int64]struct{} // what they work on
}

// New returns an empty queue.
func New[T any](config Config[T]) *Queue[T] {
	q := &Queue[T]{config: config}
	if config.Keys > 0 {
		q.keys = make(map[int64]struct{}, config.Keys)
	}
	return q
}

// Add puts an item into the queue and returns at once. If there is no room, the newest item of the
// owner with the most items gives way, or the item itself if that owner would be its own.
func (q *Queue[T]) Add(item T) {
	q.mu.Lock()
	refused, full := q.add(item)
	q.start()
	q.mu.Unlock()
	if full {
		q.config.Refuse(refused)
	}
}

// AddAll is Add for each item, in order.
func (q *Queue[T]) AddAll(items []T) {
	var refused []T
	q.mu.Lock()
	for _, item := range items {
		if out, full := q.add(item); full {
			refused = append(refused, out)
		}
	}
	q.start()
	q.mu.Unlock()
	for _, item := range refused {
		q.config.Refuse(item)
	}
}

// Len returns the number of waiting items.
func (q *Queue[T]) Len() int {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.flows.length
}

func (q *Queue[T]) add(item T) (refused T, full bool) {
	owner := int64(0)
	if q.config.Owner != nil {
		owner = q.config.Owner(item)
	}
	if q.flows.length >= q.config.Bound {
		return q.flows.replace(owner, item), true
	}
	q.flows.add(owner, item)
	return refused, false
}

// start begins calls unless one is running.
func (q *Queue[T]) start() {
	if q.running || q.flows.length == 0 {
		return
	}
	q.running = true
	go q.work()
}

// work makes calls until nothing waits.
func (q *Queue[T]) work() {
	for {
		// Let runnable goroutines add their items first: on a busy machine calls become larger, on
		// an idle one it costs nothing.
		runtime.Gosched()
		q.mu.Lock()
		if q.flows.length == 0 {
			q.running = false
			q.mu.Unlock()
			return
		}
		q.call = q.flows.take(q.call[:0], q.config.Size, q.admit())
		q.mu.Unlock()
		q.config.Run(q.call)
		clear(q.call)
	}
}

// admit returns a function that reports whether an item may join the next call; nil admits all.
func (q *Queue[T]) admit() func(T) bool {
	if q.config.Keys == 0 {
		return nil
	}
	clear(q.keys)
	return func(item T) bool {
		key := q.config.Key(item)
		if _, known := q.keys[key]; known {
			return true
		}
		if len(q.keys) == q.config.Keys {
			return false
		}
		q.keys[key] = struct{}{}
		return true
	}
}
