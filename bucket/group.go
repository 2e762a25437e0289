package bucket

import (
	"context"
	"sync"

	"github.com/budgetd/budgetd/budget"
)

// group is a batcher per key: items of one key that arrive while that key's call is in flight go
// into its next call; different keys run side by side. A key without work costs nothing.
type group[K comparable, Q, A any] struct {
	run         func(key K, items []Q) []result[A]
	size, bound int
	turns       turns
	// gather is a batcher's, by key; nil: none.
	gather func(key K) *gather

	mu   sync.Mutex
	keys map[K]*member[Q, A]
}

type member[Q, A any] struct {
	batcher *batcher[Q, A]
	users   int
}

func newGroup[K comparable, Q, A any](run func(K, []Q) []result[A], size, bound int, turns turns) *group[K, Q, A] {
	return &group[K, Q, A]{run: run, size: size, bound: bound, turns: turns, keys: map[K]*member[Q, A]{}}
}

// do waits for the item's answer: as batcher.do.
func (g *group[K, Q, A]) do(ctx context.Context, key K, question Q) (A, error) {
	g.mu.Lock()
	m := g.keys[key]
	if m == nil {
		m = &member[Q, A]{batcher: &batcher[Q, A]{size: g.size, bound: g.bound, workers: 1, turns: g.turns,
			run: func(items []Q) []result[A] { return g.run(key, items) }}}
		if g.gather != nil {
			m.batcher.gather = g.gather(key)
		}
		g.keys[key] = m
	}
	m.users++
	g.mu.Unlock()
	defer func() {
		g.mu.Lock()
		if m.users--; m.users == 0 {
			delete(g.keys, key)
		}
		g.mu.Unlock()
	}()
	return m.batcher.do(ctx, question)
}

// flights lets one call of a request id through at a time on this node.
type flights struct {
	mu   sync.Mutex
	byID map[ID]*flight
}

type flight struct {
	fingerprint string
	// done is closed, and what follows is set, when it has landed; nil: nobody waits. Guarded by flights.mu until then.
	done   chan struct{}
	answer *DeductAnswer
	err    error
}

// join returns the flight of an id. leader: the caller must land it; otherwise it may wait for it.
func (f *flights) join(id ID, fingerprint string) (fl *flight, leader bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if fl = f.byID[id]; fl != nil {
		if fl.done == nil {
			fl.done = make(chan struct{})
		}
		return fl, false
	}
	if f.byID == nil {
		f.byID = map[ID]*flight{}
	}
	fl = &flight{fingerprint: fingerprint}
	f.byID[id] = fl
	return fl, true
}

// land publishes the flight's outcome.
func (f *flights) land(id ID, fl *flight, answer DeductAnswer, err error) {
	f.mu.Lock()
	delete(f.byID, id)
	done := fl.done
	f.mu.Unlock()
	if done == nil { // and nobody can find it any more
		return
	}
	fl.answer, fl.err = &answer, err
	close(done)
}

// wait waits for the flight, until ctx ends.
func (fl *flight) wait(ctx context.Context) error {
	select {
	case <-fl.done:
		return nil
	case <-ctx.Done():
		return &budget.Error{Code: budget.Unavailable, Op: "deduct",
			Message: "another call with this request id is still under way; repeat later", Err: ctx.Err()}
	}
}
