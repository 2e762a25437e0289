package bucket

import (
	"context"
	"sync"

	"github.com/budgetd/budgetd/budget"
)

// batcher aggregates calls: whatever arrives while a call is in flight goes into the next one
// (DESIGN 5.3). There is no timer and no added waiting when idle: the first caller's item is sent at
// once, alone. At most workers calls run at the same time; more than bound waiting items are refused
// with Unavailable (back-pressure). The zero value is not usable; safe for concurrent use.
type batcher[Q, A any] struct {
	// run does one call for many items and returns one answer for each, in order. It has bounds of
	// its own: it is not cancelled when callers give up.
	run func(items []Q) []result[A]
	// size is the most items of one call.
	size, bound, workers int
	turns                turns

	mu      sync.Mutex
	queue   []*item[Q, A]
	running int
}

type result[A any] struct {
	answer A
	err    error
}

type item[Q, A any] struct {
	question Q
	taken    bool // a call has it: it may be executed; guarded by batcher.mu
	done     chan result[A]
	place    int64
}

// do waits for the item's answer. When ctx ends first the error is Unavailable if no call has taken
// the item yet (it is withdrawn), else OutcomeUnknown.
func (b *batcher[Q, A]) do(ctx context.Context, question Q) (A, error) {
	it := &item[Q, A]{question: question, done: make(chan result[A], 1), place: b.turns.take()}
	var none A
	b.mu.Lock()
	if len(b.queue) >= b.bound {
		b.mu.Unlock()
		return none, budget.Refuse(budget.Unavailable, "queue",
			"%d requests are waiting already; repeat later", b.bound)
	}
	b.queue = append(b.queue, it)
	if b.running < b.workers {
		b.running++
		go b.work()
	}
	b.mu.Unlock()

	select {
	case r := <-it.done:
		return r.answer, r.err
	case <-ctx.Done():
	}
	b.mu.Lock()
	taken := it.taken
	if !taken {
		b.withdraw(it)
	}
	b.mu.Unlock()
	if taken {
		select {
		case r := <-it.done: // it came in at the last moment
			return r.answer, r.err
		default:
		}
		return none, &budget.Error{Code: budget.OutcomeUnknown, Op: "queue",
			Message: "the deadline passed while the call was under way", Err: ctx.Err()}
	}
	return none, &budget.Error{Code: budget.Unavailable, Op: "queue",
		Message: "the deadline passed before the call was sent", Err: ctx.Err()}
}

func (b *batcher[Q, A]) withdraw(it *item[Q, A]) {
	for i, other := range b.queue {
		if other == it {
			b.queue = append(b.queue[:i], b.queue[i+1:]...)
			return
		}
	}
}

// work calls run until the queue is empty.
func (b *batcher[Q, A]) work() {
	for {
		b.mu.Lock()
		n := min(len(b.queue), b.size)
		if n == 0 {
			b.running--
			b.mu.Unlock()
			return
		}
		group := make([]*item[Q, A], n)
		copy(group, b.queue)
		b.queue = append(b.queue[:0], b.queue[n:]...)
		questions := make([]Q, n)
		for i, it := range group {
			it.taken = true
			questions[i] = it.question
		}
		b.mu.Unlock()
		for i, r := range b.run(questions) {
			group[i].done <- r
			b.turns.wait(group[i].place) // whoever got the answer goes on alone
		}
	}
}

// failAll is the answer of a call that failed as a whole.
func failAll[A any](n int, err error) []result[A] {
	out := make([]result[A], n)
	for i := range out {
		out[i].err = err
	}
	return out
}
