package counter

import (
	"errors"
	"sync"
	"sync/atomic"
	"time"

	"github.com/budgetd/budgetd/bucket"
	"github.com/budgetd/budgetd/bucket/batch"
	"github.com/budgetd/budgetd/budget"
)

// lane is how a node reaches one lane of a store.
type lane struct {
	s     *Service
	name  bucket.Lane
	store *Store
	// deducts and finds have at most one call under way each; requests that arrive during it go into
	// the next one.
	deducts, finds *batch.Queue[*op]
	returns        *batch.Queue[*giver]

	known     atomic.Pointer[remembered] // nil: it has to be verified
	verifying sync.Mutex
	err       error     // of the last attempt
	again     time.Time // when the next one may be made
	// suspect says why the memory of activation suspected was given up although its marker is right.
	suspect   string
	suspected int64

	syncing  sync.Mutex
	syncedAt time.Time // when the last sync that ended well began

	list []bucket.StoreDeduction // of the call under way
	sent []*op
}

// laneOf returns a lane; nil where this node has no such instance.
func (s *Service) laneOf(name bucket.Lane) *lane {
	if l, known := s.lanes.Load(name); known {
		return l.(*lane)
	}
	store := s.stores[name.Instance]
	if store == nil {
		return nil
	}
	l := &lane{s: s, name: name, store: store}
	l.deducts = batch.New(batch.Config[*op]{Run: l.deduct, Refuse: overload, Owner: ownerOf,
		Size: s.set.LaneOperations, Bound: s.set.Queue})
	l.finds = batch.New(batch.Config[*op]{Run: l.find, Refuse: overload, Owner: ownerOf,
		Size: s.set.LaneOperations, Bound: s.set.Queue})
	l.returns = batch.New(batch.Config[*giver]{Run: l.giveBack, Size: s.set.LaneOperations,
		Bound: s.set.Queue, Owner: func(g *giver) int64 { return g.budget.ID },
		Refuse: func(g *giver) { g.done <- given{err: overloaded("rollback")} }})
	kept, _ := s.lanes.LoadOrStore(name, l)
	return kept.(*lane)
}

// notConfigured is the error of a bucket on an instance that this node does not have.
func notConfigured(name bucket.Lane) *budget.Error {
	e := budget.Refuse(budget.Unavailable, "reach a store", "instance %s is not configured here",
		name.Instance)
	e.Reason, e.RetryAfter = budget.ReasonStoreDown, time.Second
	return e
}

// deduct makes one call with deductions and gives them back with their outcomes.
func (l *lane) deduct(ops []*op) {
	l.list, l.sent = l.list[:0], l.sent[:0]
	defer func() { clear(l.list); clear(l.sent) }()
	ctx, cancel := l.s.bounded()
	defer cancel()
	m, err := l.memory(ctx)
	if err != nil {
		for _, o := range ops {
			o.step, o.err = stepFailed, err
			o.wave.back(o, true)
		}
		return
	}
	for _, o := range ops {
		switch {
		case !o.claim():
		case o.route.Epoch.Activation < m.since:
			// The epoch is of a memory that was given up, whatever the store has of it.
			o.step = stepGone
			o.wave.back(o, true)
		default:
			l.list, l.sent = append(l.list, o.StoreDeduction), append(l.sent, o)
		}
	}
	if len(l.sent) == 0 {
		return
	}
	began := l.s.clock.Now()
	answer, err := l.store.Deduct(ctx, m.Memory, l.list)
	l.s.observer.LaneCall(l.name, len(l.sent), l.s.clock.Now().Sub(began))
	if err == nil && len(answer.Outcomes) != len(l.sent) {
		err = budget.Refuse(budget.OutcomeUnknown, "deduct", "not every deduction got an outcome")
	}
	if err != nil {
		l.failed(m, err)
	}
	for i, o := range l.sent {
		o.err, o.step = err, stepDeducted
		if err == nil {
			o.outcome, o.laneMS = &answer.Outcomes[i], answer.NowMS
			if o.outcome.Verdict == bucket.Accepted {
				o.spent = o.state.spent.Add(o.Amount)
			}
		}
		o.wave.back(o, err != nil || o.outcome.Verdict != bucket.Accepted)
	}
}

// failed acts on the error of a call of the lane.
func (l *lane) failed(m *remembered, err error) {
	l.s.failed("store", err)
	if errors.Is(err, bucket.ErrOtherMemory) {
		l.forget(m)
	}
}

// find reads the records of operations.
func (l *lane) find(ops []*op) {
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
		o.step, o.err = stepFound, err
		if err == nil {
			o.found = &found[i]
		}
		o.wave.back(o, true)
	}
}

// op is one deduction on its way. It belongs to its wave, which hands it to a queue and gets it
// back: who has it may use its fields, except phase.
type op struct {
	bucket.StoreDeduction
	wave   *wave
	budget *bucket.Budget
	state  *state
	route  *bucket.Bucket // where it goes
	next   *op            // in wave.ready
	after  *op            // the next request of the same id in the same call
	held   bool           // the one before it is not done
	at     int            // of wave.requests and wave.results
	key    string         // routing key

	phase atomic.Int32 // see the phases
	// unsure says that an earlier call may have deducted: only the store can tell.
	unsure bool
	done   bool // it is answered

	// What the last step found.
	step    step
	err     error
	outcome *bucket.StoreOutcome // of the last call that answered
	found   *bucket.StoreReturn
	laneMS  int64
	cover   bucket.Cover
	spent   int64 // state.spent after this deduction
	refusal error // is answered unless there is a record of the id

	answered bool // the deduction is recorded, and its result has all but figures
	turn     bool // the budget's period has to be rolled over first
	tries    int  // how often it was begun again at once
	seeking  bool // its bucket did not cover it
	pauses   int
}

// The phases of an operation that was handed out.
const (
	phaseWaiting   int32 = iota // nothing was sent for it
	phaseClaimed                // a call has it
	phaseWithdrawn              // its request was answered: it is dropped
)

// claim takes a waiting operation into a call; false: its request has been answered.
func (o *op) claim() bool { return o.phase.CompareAndSwap(phaseWaiting, phaseClaimed) }

// withdraw makes sure that no call takes the operation; false: one has.
func (o *op) withdraw() bool { return o.phase.CompareAndSwap(phaseWaiting, phaseWithdrawn) }

func (o *op) withdrawn() bool { return o.phase.Load() == phaseWithdrawn }

// step names what an operation comes back from.
type step uint8

const (
	stepBegin     step = iota // nothing was done yet, or it is to be judged again
	stepDeducted              // outcome or err
	stepGone                  // the epoch is not the bucket's any more
	stepFailed                // err is the answer, nothing was deducted
	stepFound                 // found or err
	stepSupplied              // units may have come to its bucket
	stepExhausted             // cover: the sum is below the amount
	stepFigures               // the sum for an answer was read, or could not be
)

// state is what a node remembers of a budget beside its definition.
type state struct {
	// spent is what this node has deducted, in minor units, since it remembers the budget. settled is
	// what of it SQL had at the end of the last sync, marked what it was when that began.
	spent, settled, marked atomic.Int64
	sum                    atomic.Pointer[sum]
	terms                  atomic.Pointer[terms]
}

// sum is I3's sum as read at an instant.
type sum struct {
	bucket.Cover
	at time.Time
	// settled is state.settled before the read began: what was spent later may not be in the sum.
	settled int64
}

// figuresAge is how old a sum in an answer may be; with the age of what SQL knows that is at most 1
// s.
const figuresAge = SyncEvery

func (s *Service) stateOf(budgetID int64) *state {
	if st, known := s.states.Get(budgetID); known {
		return st
	}
	st := &state{}
	if known, was, _ := s.states.PeekOrAdd(budgetID, st); was {
		return known
	}
	return st
}

// fresh returns the sum if it is young enough for an answer; nil: it has to be read.
func (st *state) fresh(now time.Time) *sum {
	read := st.sum.Load()
	if read == nil {
		return nil
	}
	if age := now.Sub(read.at); age < 0 || age >= figuresAge {
		return nil
	}
	return read
}

// readFigures reads the sums of the operations' budgets for their answers.
func (s *Service) readFigures(ops []*op) {
	ctx, cancel := s.bounded()
	defer cancel()
	at := s.clock.Now()
	var ids []int64
	settled := map[int64]int64{}
	for _, o := range ops {
		if _, seen := settled[o.budget.ID]; !seen {
			settled[o.budget.ID] = o.state.settled.Load()
			ids = append(ids, o.budget.ID)
		}
	}
	covers, err := s.ledger.Covers.Covers(ctx, ids, false)
	s.failed("sql", err)
	for _, o := range ops {
		if c, known := covers[o.budget.ID]; known {
			o.state.sum.Store(&sum{Cover: c, at: at, settled: settled[o.budget.ID]})
		}
		o.step, o.err = stepFigures, err
		o.wave.back(o, true)
	}
}
