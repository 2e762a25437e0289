package batch

import (
	"sync"
	"time"
)

// Waiter is a wait that a Watch may end.
type Waiter interface {
	// CheckDeadline ends the wait if its deadline has passed at an instant, and otherwise does
	// nothing. It must not block.
	CheckDeadline(now time.Time)
}

// Watch checks waiters with one goroutine, which runs while there are any. A context with a
// deadline and a select per waiter would cost several microseconds each. Create one with NewWatch.
// It is safe for concurrent use.
type Watch struct {
	every time.Duration

	mu      sync.Mutex
	first   *Watched
	running bool
}

// Watched is a waiter's entry in a Watch. It is part of the waiter, so that adding it allocates
// nothing.
type Watched struct {
	waiter     Waiter
	prev, next *Watched
	in         bool
}

// NewWatch returns a watch that checks its waiters at an interval.
func NewWatch(every time.Duration) *Watch { return &Watch{every: every} }

// Add watches a waiter until Remove. The entry must not be in a watch already.
func (w *Watch) Add(place *Watched, waiter Waiter) {
	w.mu.Lock()
	defer w.mu.Unlock()
	place.waiter, place.prev, place.next, place.in = waiter, nil, w.first, true
	if w.first != nil {
		w.first.prev = place
	}
	w.first = place
	if !w.running {
		w.running = true
		go w.run()
	}
}

// Remove removes a waiter. Afterwards CheckDeadline is not called for it, unless a call is already
// running.
func (w *Watch) Remove(place *Watched) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if !place.in {
		return
	}
	if place.prev != nil {
		place.prev.next = place.next
	} else {
		w.first = place.next
	}
	if place.next != nil {
		place.next.prev = place.prev
	}
	place.prev, place.next, place.in = nil, nil, false
}

// run checks the waiters until the last has left.
func (w *Watch) run() {
	tick := time.NewTicker(w.every)
	defer tick.Stop()
	var all []Waiter
	for now := range tick.C {
		w.mu.Lock()
		if w.first == nil {
			w.running = false
			w.mu.Unlock()
			return
		}
		all = all[:0]
		for p := w.first; p != nil; p = p.next {
			all = append(all, p.waiter)
		}
		w.mu.Unlock()
		for _, waiter := range all {
			waiter.CheckDeadline(now)
		}
		clear(all)
	}
}
