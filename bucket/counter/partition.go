package counter

import (
	"errors"
	"sync"
	"sync/atomic"
	"time"

	"github.com/budgetd/budgetd/bucket"
	"github.com/budgetd/budgetd/bucket/batch"
	"github.com/budgetd/budgetd/bucket/deduct"
	"github.com/budgetd/budgetd/bucket/span"
	"github.com/budgetd/budgetd/budget"
	"github.com/budgetd/budgetd/ledger"
)

// partition is this node's access to one partition of a store.
type partition struct {
	s     *Service
	name  bucket.Partition
	store *Store
	// deducts may have several calls in the air: a script is atomic, and a second one finds the record
	// of the first. finds runs one.
	deducts, finds *batch.Queue[*op]
	returns        *batch.Queue[*returnOp]

	known     atomic.Pointer[remembered] // nil until verified
	verifying sync.Mutex
	err       error     // of the last verification
	again     time.Time // earliest time of the next verification
	// suspect says why the memory of incarnation suspected was given up although its marker is right.
	suspect   string
	suspected int64

	raising sync.Mutex
	raises  map[int64]int64 // bucket -> version of the limits that the store has not confirmed

	away atomic.Int64 // the time of a round trip to the store, in ns

	syncing  sync.Mutex
	syncedAt time.Time // when the last successful sync began

	// Of the last time that SyncLoop ended all lost epochs: m.since, and when that began.
	endedSince int64
	endedAt    time.Time
}

// calls holds the lists of calls between their uses.
var calls = sync.Pool{New: func() any { return new(call) }}

// call is the deductions of one call.
type call struct {
	list []bucket.StoreDeduction
	sent []*op
}

// partitionOf returns a partition, or nil if this node does not have the instance.
func (s *Service) partitionOf(name bucket.Partition) *partition {
	if l, known := s.partitions.Load(name); known {
		return l.(*partition)
	}
	store := s.stores[name.Instance]
	if store == nil {
		return nil
	}
	l := &partition{s: s, name: name, store: store}
	l.deducts = batch.New(batch.Config[*op]{Run: l.deduct, Refuse: (*op).Overload, Owner: (*op).Owner,
		Size: s.set.PartitionOperations, Bound: s.set.Queue, Most: func(usual time.Duration) int {
			return batch.InTheAir(usual, time.Duration(l.away.Load()))
		}})
	l.finds = batch.New(batch.Config[*op]{Run: l.find, Refuse: (*op).Overload, Owner: (*op).Owner,
		Size: s.set.PartitionOperations, Bound: s.set.Queue})
	l.returns = batch.New(batch.Config[*returnOp]{Run: l.giveBack, Size: s.set.PartitionOperations,
		Bound: s.set.Queue, Owner: func(g *returnOp) int64 { return g.budget.ID },
		Refuse: func(g *returnOp) { g.done <- returnResult{err: deduct.Overloaded("rollback")} }})
	kept, _ := s.partitions.LoadOrStore(name, l)
	return kept.(*partition)
}

// notConfigured is the error for a bucket on an instance that this node does not have.
func notConfigured(name bucket.Partition) *budget.Error {
	e := budget.Refuse(budget.Unavailable, "reach a store", "instance %s is not configured here",
		name.Instance)
	e.Reason, e.RetryAfter = budget.ReasonStoreDown, time.Second
	return e
}

// deduct makes one call with deductions and returns them to their waves with their outcomes.
func (l *partition) deduct(ops []*op) {
	c := calls.Get().(*call)
	c.list, c.sent = c.list[:0], c.sent[:0]
	defer func() {
		clear(c.list)
		clear(c.sent)
		calls.Put(c)
	}()
	ctx, cancel := l.s.bounded()
	defer cancel()
	m, err := l.memory(ctx)
	if err != nil {
		for _, o := range ops {
			o.Step, o.Err = deduct.StepFailed, err
			o.Back(true)
		}
		return
	}
	for _, o := range ops {
		switch {
		case !o.Claim():
		case o.Route.Epoch.Incarnation < m.since:
			// The epoch belongs to a memory that was given up, whatever the store has for it.
			o.Step = stepGone
			o.Back(true)
		default:
			c.list, c.sent = append(c.list, o.StoreDeduction), append(c.sent, o)
		}
	}
	if len(c.sent) == 0 {
		return
	}
	began := l.s.clock.Now()
	ctx, end := span.Flight(ctx, l.s.tracer, "flight", c.sent)
	answer, err := l.store.Deduct(ctx, m.Memory, c.list)
	end(err)
	l.s.observer.PartitionCall(ctx, l.name, len(c.sent), l.s.clock.Now().Sub(began))
	if err == nil && len(answer.Outcomes) != len(c.sent) {
		err = budget.Refuse(budget.OutcomeUnknown, "deduct", "not every deduction got an outcome")
	}
	if err != nil {
		l.failed(m, err)
	}
	for i, o := range c.sent {
		o.Err, o.Step = err, stepDeducted
		if err == nil {
			o.outcome, o.partitionMS = &answer.Outcomes[i], answer.NowMS
			if o.outcome.Verdict == bucket.Accepted {
				o.Spent = o.state.Spent.Add(o.Amount)
			}
		}
		o.Back(err != nil || o.outcome.Verdict != bucket.Accepted)
	}
}

// failed reports the error of a call, and forgets the memory if the store has another one.
func (l *partition) failed(m *remembered, err error) {
	l.s.failed("store", err)
	if errors.Is(err, bucket.ErrOtherMemory) {
		l.forget(m)
	}
}

// find reads the records of operations.
func (l *partition) find(ops []*op) {
	ctx, cancel := l.s.bounded()
	defer cancel()
	ids := make([]bucket.RecordID, len(ops))
	for i, o := range ops {
		ids[i] = o.RecordID
	}
	var found []bucket.StoreReturn
	m, err := l.memory(ctx)
	if err == nil {
		found, err = l.store.Find(ctx, m.Memory, ids)
		if err == nil && len(found) != len(ops) {
			err = budget.Refuse(budget.Unavailable, "find", "not every id got an answer")
		}
		if err != nil {
			l.failed(m, err)
		}
	}
	for i, o := range ops {
		o.Step, o.Err = stepFound, err
		if err == nil {
			o.found = &found[i]
		}
		o.Back(true)
	}
}

// op is a deduction in progress.
type op struct {
	deduct.Op
	bucket.StoreDeduction
	state *state

	// Results of the last step.
	outcome     *bucket.StoreOutcome // of the last call that answered
	found       *bucket.StoreReturn
	partitionMS int64
	cover       ledger.Cover
	turn        bool // the budget's period must be rolled over first
	certain     bool // the database has confirmed, since the request began, what may refuse it
}

// The steps after which an operation returns to its wave, and the fields that each one sets.
const (
	stepDeducted  = iota + deduct.OwnSteps // outcome or Err
	stepGone                               // the bucket has another epoch now
	stepFound                              // found or Err
	stepSupplied                           // its bucket may have received units
	stepExhausted                          // cover; the sum is below the amount
	stepFigures                            // the sum for an answer was read, or could not be
)

// state is what a node caches about a budget besides its definition.
type state struct {
	deduct.State
	// recorded is the part of Spent that SQL had after the last sync. marked is Spent at the time
	// that sync began.
	recorded, marked atomic.Int64
	terms            atomic.Pointer[terms]
	recent           deduct.Recent
}

// figuresAge bounds the age of a sum in an answer. Together with the age of SQL's figures that is
// at most 1 s.
const figuresAge = SyncEvery

// readFigures reads the sums of the operations' budgets for their answers.
func (s *Service) readFigures(ops []*op) {
	ctx, cancel := s.bounded()
	defer cancel()
	at := s.clock.Now()
	var ids []int64
	recorded := map[int64]int64{}
	for _, o := range ops {
		if _, seen := recorded[o.Budget.ID]; !seen {
			recorded[o.Budget.ID] = o.state.recorded.Load()
			ids = append(ids, o.Budget.ID)
		}
	}
	covers, err := s.covers.Covers(ctx, ids, false)
	s.failed("sql", err)
	for _, o := range ops {
		if c, known := covers[o.Budget.ID]; known {
			o.state.Note(&deduct.Sum{Cover: c, At: at, Spent: recorded[o.Budget.ID]})
		}
		o.Step, o.Err = stepFigures, err
		o.Back(true)
	}
}
