package memstore

import (
	"math/rand/v2"
	"sync"

	"github.com/budgetd/budgetd/budget"
)

// Fault is the treatment of one call.
type Fault int

// The faults.
const (
	// None executes the call.
	None Fault = iota
	// LoseRequest executes nothing and answers Unavailable.
	LoseRequest
	// LoseReply executes the call and answers OutcomeUnknown.
	LoseReply
	// HoldBack answers OutcomeUnknown and executes the call when Release is called.
	HoldBack
	// Repeat executes the call twice and returns the second answer.
	Repeat
)

// faults decides the fault of each call and keeps delayed calls.
type faults struct {
	mu     sync.Mutex
	decide func(op string) Fault
	held   []func()
	random *rand.Rand
}

// Inject lets decide choose the fault of every following call; nil injects no faults. op is the
// call's name: deduct, rollback, cancel, find, open, grant, close, read, changed,
// acknowledge, sweep, identity, marker, mark or copy. seed is that of random answers and orders.
func (s *Store) Inject(seed uint64, decide func(op string) Fault) {
	s.faults.mu.Lock()
	defer s.faults.mu.Unlock()
	s.faults.decide = decide
	s.faults.random = rand.New(rand.NewPCG(seed, seed)) //nolint:gosec // reproducible
}

// Release executes the delayed calls in random order and discards the answers. It returns their
// number.
func (s *Store) Release() int {
	s.faults.mu.Lock()
	held := s.faults.held
	s.faults.held = nil
	if s.faults.random != nil {
		s.faults.random.Shuffle(len(held), func(i, j int) { held[i], held[j] = held[j], held[i] })
	}
	s.faults.mu.Unlock()
	for _, call := range held {
		call()
	}
	return len(held)
}

// next returns the fault of a call and keeps the call if it is delayed.
func (f *faults) next(op string, call func()) Fault {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.decide == nil {
		return None
	}
	fault := f.decide(op)
	if fault == HoldBack {
		f.held = append(f.held, call)
	}
	return fault
}

// faulty executes a call subject to its fault.
func faulty[T any](s *Store, op string, do func() (T, error)) (T, error) {
	var none T
	switch s.faults.next(op, func() { _, _ = do() }) {
	case LoseRequest:
		return none, budget.Refuse(budget.Unavailable, op, "the request was lost")
	case HoldBack:
		return none, budget.Refuse(budget.OutcomeUnknown, op, "the request is held back")
	case LoseReply:
		_, _ = do()
		return none, budget.Refuse(budget.OutcomeUnknown, op, "the reply was lost")
	case Repeat:
		_, _ = do()
	}
	return do()
}

// Memory is a past state of a partition.
type Memory struct{ partition *partition }

// Remember returns the present state of a partition.
func (s *Store) Remember(index int) Memory {
	s.mu.Lock()
	defer s.mu.Unlock()
	return Memory{s.partitions[index].clone()}
}

// GoBack restores a past state of a partition. If sameProcess, the partition keeps its present
// identity, as after a resync from another master or an edit. Otherwise it gets a new one, as after
// a restart.
func (s *Store) GoBack(index int, to Memory, sameProcess bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	identity := s.partitions[index].identity
	if !sameProcess {
		identity = s.identity()
	}
	s.partitions[index] = to.partition.clone()
	s.partitions[index].identity = identity
}

// Wipe empties a partition, as FLUSHALL does in the same process and a restart without data in
// another.
func (s *Store) Wipe(index int, sameProcess bool) {
	s.GoBack(index, Memory{newPartition("")}, sameProcess)
}

// Forget removes the entry of one bucket and nothing else.
func (s *Store) Forget(index int, bucketID int64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.partitions[index].entries, bucketID)
}
