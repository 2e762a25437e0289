package memstore

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/budgetd/budgetd/bucket"
	"github.com/budgetd/budgetd/budget"
)

// Server is the memory of an instance, as a Redis is: every node has its own Store of it. All
// methods are safe for concurrent use; an operation of a call is one atomic step.
type Server struct {
	// Hook, when set, is asked before and after every operation of every call what is to happen to
	// it. It is called without any lock, so that it may wait: that is a slow network. Set it before
	// the first call.
	Hook func(Call) Fault
	// Now is the lanes' clock, which cuts time into slices of RecordWindow for request records; nil:
	// time.Now. RecordWindow 0 is 10 minutes. Set them before the first call.
	Now          func() time.Time
	RecordWindow time.Duration

	name  string
	lanes int

	mu       sync.Mutex
	identity int
	memory   memory
	waiting  []func()
}

// memory is what a restart without data loses.
type memory struct {
	scripts map[script]bool
	buckets map[address]*shard
}

// script is what Activate leaves in a lane; without it the lane answers nothing but reads.
type script struct {
	lane       int
	activation int64
}

type address struct {
	lane   int
	bucket int64
}

// Call says which operation a Hook is asked about.
type Call struct {
	// Verb is open, grant, deduct, void, unload, close, read, balances, trim, forget, leave, identity or activate.
	Verb string
	Lane bucket.Lane
	Ref  bucket.Ref
	// Index counts the operations of the call from 0; Of is how many there are.
	Index, Of int
	// After: the operation has been done; of the faults, DropReply and Duplicate still apply.
	After bool
}

// Fault is what happens to an operation.
type Fault int

// The faults.
const (
	// Proceed: nothing special.
	Proceed Fault = iota
	// Refuse: this operation and the later ones of the call are not done. Unavailable, unless an
	// earlier one was done: then OutcomeUnknown.
	Refuse
	// DropRequest: as Refuse, but the caller cannot know: OutcomeUnknown.
	DropRequest
	// DropReply: everything is done; OutcomeUnknown.
	DropReply
	// Duplicate: the operation is done twice in a row; the first answer counts.
	Duplicate
	// Postpone: this operation and the later ones of the call are done when Release is called;
	// OutcomeUnknown.
	Postpone
	// Forgotten: this operation and the later ones of the call are not done, because the lane does
	// not know its scripts: ErrMemoryLost, unless an earlier one was done: then OutcomeUnknown.
	Forgotten
)

// NewServer makes an empty memory for an instance of that name with so many lanes.
func NewServer(name string, lanes int) *Server {
	s := &Server{name: name, lanes: lanes}
	s.Lose()
	return s
}

// Connect returns a Store of this memory, for one node. It has to be activated.
func (s *Server) Connect() *Store {
	return &Store{server: s, lanes: make(map[int]activated)}
}

// Lose forgets everything, as a restart without data does: the identity changes.
func (s *Server) Lose() {
	s.Restore(&Image{memory: memory{scripts: make(map[script]bool),
		buckets: make(map[address]*shard)}}, false)
}

// Forge appends an entry of an epoch and position to a bucket's log, as somebody does who can write to the
// instance; nothing of ours knows of it.
func (s *Server) Forge(lane int, bucketID, epoch, seq int64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	b := s.shard(lane, bucketID)
	b.log = append(b.log, line{epoch: epoch, seq: seq, text: "forged"})
}

// End returns the position of the last entry of a bucket's epoch; found is false where the memory does
// not have the epoch. It asks no Hook.
func (s *Server) End(lane int, ref bucket.Ref) (seq int64, found bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	b := s.memory.buckets[address{lane: lane, bucket: ref.Bucket}]
	if b == nil || b.epochs[ref.Epoch] == nil {
		return 0, false
	}
	return b.epochs[ref.Epoch].seq, true
}

// Image is a copy of a memory.
type Image struct{ memory memory }

// Snapshot copies the memory as it is.
func (s *Server) Snapshot() *Image {
	s.mu.Lock()
	defer s.mu.Unlock()
	return &Image{memory: s.memory.copy()}
}

// Restore goes back to an image. With keepIdentity nobody can tell by the identity, as after DEBUG
// RELOAD, and the scripts stay; otherwise it is a restart with old data, which knows no scripts.
func (s *Server) Restore(image *Image, keepIdentity bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	scripts := s.memory.scripts
	s.memory = image.memory.copy()
	if keepIdentity {
		s.memory.scripts = scripts
		return
	}
	s.memory.scripts = make(map[script]bool)
	s.identity++
}

// Release does what was postponed, in the order in which it was, and returns how many operations
// that were. Their answers are nobody's.
func (s *Server) Release() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	waiting := s.waiting
	s.waiting = nil
	for _, do := range waiting {
		do()
	}
	return len(waiting)
}

func (m memory) copy() memory {
	out := memory{scripts: maps.Clone(m.scripts), buckets: make(map[address]*shard)}
	for at, b := range m.buckets {
		c := &shard{log: slices.Clone(b.log), epochs: make(map[int64]*balance)}
		for number, e := range b.epochs {
			balance := *e
			balance.records, balance.void = maps.Clone(e.records), maps.Clone(e.void)
			c.epochs[number] = &balance
		}
		for from, n := range b.counters {
			if c.counters == nil {
				c.counters = make(map[int64]*counters)
			}
			c.counters[from] = n.copy()
		}
		out.buckets[at] = c
	}
	return out
}

// shard returns a bucket's part of the memory. s.mu is held.
func (s *Server) shard(lane int, bucketID int64) *shard {
	at := address{lane: lane, bucket: bucketID}
	b := s.memory.buckets[at]
	if b == nil {
		b = &shard{epochs: make(map[int64]*balance)}
		s.memory.buckets[at] = b
	}
	return b
}

// now is the lanes' clock.
func (s *Server) now() time.Time {
	if s.Now != nil {
		return s.Now()
	}
	return time.Now()
}

// slice returns the present slice of the lanes' clock.
func (s *Server) slice() int64 {
	window := 10 * time.Minute
	if s.RecordWindow != 0 {
		window = s.RecordWindow
	}
	return s.now().UnixMilli() / window.Milliseconds()
}

func (s *Server) who() string { return fmt.Sprintf("memory %d of %s", s.identity, s.name) }

// lane is a lane of a call: which one, and what the node was activated for.
type lane struct {
	bucket.Lane
	activated
}

type activated struct {
	identity   string
	activation int64
}

// walk does the n operations of a call, each with the faults that the hook wants. do is called with
// s.mu held. again is true for the second time of a duplicate.
func (s *Server) walk(ctx context.Context, verb string, l lane, n int, ref func(int) bucket.Ref,
	do func(i int, again bool) error) error {
	if err := ctx.Err(); err != nil {
		return &budget.Error{Code: budget.Unavailable, Op: verb, Message: "not sent", Err: err}
	}
	dropped, done := false, 0
	for i := range n {
		call := Call{Verb: verb, Lane: l.Lane, Ref: ref(i), Index: i, Of: n}
		fault := s.ask(call)
		switch fault {
		case Refuse, DropRequest, Postpone:
			if fault == Postpone {
				s.postpone(i, n, do)
			}
			return s.unanswered(verb, fault == Refuse && done == 0 && !dropped)
		case Forgotten:
			if done > 0 || dropped {
				return s.unanswered(verb, false)
			}
			return bucket.ErrMemoryLost
		case DropReply:
			dropped = true
		}
		if err := s.step(i, false, do); err != nil {
			if done > 0 || dropped {
				return s.unanswered(verb, false)
			}
			return err
		}
		done++
		call.After = true
		after := s.ask(call)
		dropped = dropped || after == DropReply
		if fault == Duplicate || after == Duplicate {
			_ = s.step(i, true, do) // nobody hears the answer
		}
	}
	if dropped {
		return s.unanswered(verb, false)
	}
	return nil
}

func (s *Server) ask(call Call) Fault {
	if s.Hook == nil {
		return Proceed
	}
	return s.Hook(call)
}

func (s *Server) step(i int, again bool, do func(int, bool) error) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return do(i, again)
}

func (s *Server) postpone(from, n int, do func(int, bool) error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for i := from; i < n; i++ {
		s.waiting = append(s.waiting, func() { _ = do(i, true) })
	}
}

func (s *Server) unanswered(verb string, known bool) error {
	if known {
		return budget.Refuse(budget.Unavailable, verb, "instance %s refused", s.name)
	}
	return budget.Refuse(budget.OutcomeUnknown, verb, "instance %s did not answer", s.name)
}
