// Package faultstore puts a network between a test and a Redis store. The network loses, delays,
// doubles and reorders calls and replies. The store and its server are real.
package faultstore

import (
	"context"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/budgetd/budgetd/bucket"
	"github.com/budgetd/budgetd/budget"
)

// Fault is the treatment of one call.
type Fault int

// The faults.
const (
	// None makes the call.
	None Fault = iota
	// LoseCall does nothing and answers Unavailable.
	LoseCall
	// LoseReply makes the call and answers OutcomeUnknown.
	LoseReply
	// Delay makes the call after a random pause, so that concurrent calls overtake it.
	Delay
	// HoldBack answers OutcomeUnknown. Release makes the call.
	HoldBack
	// Double makes the call twice and returns the second answer.
	Double
)

// mostDelay bounds the pause of Delay.
const mostDelay = 5 * time.Millisecond

// Network decides the fault of each call of its stores, and keeps the calls that are held back. Its
// zero value has no faults. It is safe for concurrent use.
type Network struct {
	mu     sync.Mutex
	decide func(op string, partition bucket.Partition) Fault
	held   []func()
}

// Inject lets decide choose the fault of each later call; nil ends the faults. op is the call's
// name: deduct, predict, rollback, cancel, find, open, grant, close, read, changed, acknowledge,
// sweep, identity, marker, mark, doubt, raise or copy. decide must be safe for concurrent use.
func (n *Network) Inject(decide func(op string, partition bucket.Partition) Fault) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.decide = decide
}

// Release makes the calls that were held back, in random order, and discards the answers. It
// returns their number.
func (n *Network) Release() int {
	n.mu.Lock()
	held := n.held
	n.held = nil
	n.mu.Unlock()
	rand.Shuffle(len(held), func(i, j int) { held[i], held[j] = held[j], held[i] })
	for _, call := range held {
		call()
	}
	return len(held)
}

// fault chooses the fault of a call, and keeps the call if it is held back.
func (n *Network) fault(op string, partition bucket.Partition, call func()) Fault {
	n.mu.Lock()
	decide := n.decide
	n.mu.Unlock()
	if decide == nil {
		return None
	}
	fault := decide(op, partition)
	if fault == HoldBack {
		n.mu.Lock()
		defer n.mu.Unlock()
		n.held = append(n.held, call)
	}
	return fault
}

// send makes a call, subject to its fault.
func send[T any](ctx context.Context, n *Network, op string, partition bucket.Partition,
	call func(context.Context) (T, error)) (T, error) {
	var none T
	later := context.WithoutCancel(ctx)
	switch n.fault(op, partition, func() { _, _ = call(later) }) {
	case LoseCall:
		return none, budget.Refuse(budget.Unavailable, op, "the call was lost")
	case LoseReply:
		_, _ = call(ctx)
		return none, budget.Refuse(budget.OutcomeUnknown, op, "the reply was lost")
	case HoldBack:
		return none, budget.Refuse(budget.OutcomeUnknown, op, "the call is held back")
	case Delay:
		time.Sleep(rand.N(mostDelay)) //nolint:gosec // the order of concurrent calls is random anyway
	case Double:
		_, _ = call(ctx)
	}
	return call(ctx)
}

// sendPage is send for a call whose answer is a page and the cursor of the next one.
func sendPage[T any](ctx context.Context, n *Network, op string, partition bucket.Partition,
	call func(context.Context) (T, string, error)) (T, string, error) {
	type page struct {
		rows T
		next string
	}
	got, err := send(ctx, n, op, partition, func(ctx context.Context) (page, error) {
		rows, next, err := call(ctx)
		return page{rows, next}, err
	})
	return got.rows, got.next, err
}
