package counter

import (
	"context"
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
	// gate may have several scripts in the air: one is atomic, and a second one finds the record of
	// the first.
	gate    *deduct.Gate
	returns *batch.Queue[*returnOp]

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
	changed  int       // buckets that the last one found changed

	// Of the last time that SyncLoop ended all lost epochs: m.since, and when that began.
	endedSince int64
	endedAt    time.Time
}

// flights holds the lists of scripts between their uses.
var flights = sync.Pool{New: func() any { return new(flight) }}

// flight is the deductions of one script.
type flight struct {
	list []bucket.StoreDeduction
	sent []*deduct.Op
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
	l.gate = deduct.NewGate(l, batch.Config[*deduct.Op]{Size: s.set.PartitionOperations,
		Bound: s.set.Queue, Most: func(usual time.Duration) int {
			return batch.InTheAir(usual, time.Duration(l.away.Load()))
		}}, s.set.PartitionOperations)
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

// Gate implements deduct.Home.
func (s *Service) Gate(o *deduct.Op) (*deduct.Gate, error) {
	if o.Route == nil {
		return nil, offline(o.Budget)
	}
	l := s.partitionOf(o.Route.Partition)
	if l == nil {
		return nil, notConfigured(o.Route.Partition)
	}
	return l.gate, nil
}

// Next implements deduct.Home. Only the bucket of an operation may serve it.
func (s *Service) Next(o *deduct.Op, _ time.Time) (*batch.Queue[*deduct.Op], error) {
	if err := closed(o.Budget, o.Route); err != nil || o.Route.Epoch.Status != ledger.Open {
		return nil, err
	}
	gate, err := s.Gate(o)
	if err != nil {
		return nil, err
	}
	return gate.Queue(), nil
}

// closed returns why a bucket may serve no request until an operator acts, or nil.
func closed(b *bucket.Budget, bk *bucket.Bucket) error {
	switch {
	case bk == nil:
		return offline(b)
	case bk.Epoch.Halted != "" && bk.Epoch.Status.Live():
		e := budget.Refuse(budget.Unavailable, "deduct", "bucket %s is stopped: %s", bk.Key,
			bk.Epoch.Halted)
		e.Reason, e.RetryAfter = budget.ReasonOffline, time.Second
		return e
	case bk.OfflineBy == bucket.ByOperator, bk.OfflineBy == bucket.ByResize:
		return offline(b)
	}
	return nil
}

// offline is the answer if the only bucket that may serve a request is offline.
func offline(b *bucket.Budget) error {
	e := budget.Refuse(budget.Unavailable, "deduct",
		"the bucket of this request is offline in budget %s; bring it online", b.Name)
	e.Reason, e.RetryAfter = budget.ReasonOffline, time.Second
	return e
}

// deductionOf returns an operation as it is sent to its store.
func (s *Service) deductionOf(o *deduct.Op) bucket.StoreDeduction {
	return bucket.StoreDeduction{RecordID: recordID(o), Epoch: o.Route.Epoch.Number,
		Amount: o.Row.Amount, NotAfterMS: o.Began().Add(s.set.Late).UnixMilli(),
		Fingerprint: o.Row.Fingerprint, Nonce: o.Row.Nonce,
		Terms: o.Terms, Value: o.Value, Counts: o.Counts, Max: o.Max}
}

func recordID(o *deduct.Op) bucket.RecordID {
	return bucket.RecordID{Bucket: o.Route.ID, ID: o.Row.ID}
}

// Decide implements deduct.Decider: it makes one call with deductions. A refusal leaves earlier
// attempts in doubt: the store may receive them later.
func (l *partition) Decide(ops []*deduct.Op) {
	f := flights.Get().(*flight)
	f.list, f.sent = f.list[:0], f.sent[:0]
	defer func() {
		clear(f.list)
		clear(f.sent)
		flights.Put(f)
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
			o.Step = deduct.StepLost
			o.Back(true)
		default:
			f.list, f.sent = append(f.list, l.s.deductionOf(o)), append(f.sent, o)
		}
	}
	if len(f.sent) == 0 {
		return
	}
	began := l.s.clock.Now()
	ctx, end := span.Flight(ctx, l.s.tracer, "flight", f.sent)
	answer, err := l.store.Deduct(ctx, m.Memory, f.list)
	end(err)
	l.s.observer.PartitionCall(ctx, l.name, len(f.sent), l.s.clock.Now().Sub(began))
	if err == nil && len(answer.Outcomes) != len(f.sent) {
		err = budget.Refuse(budget.OutcomeUnknown, "deduct", "not every deduction got an outcome")
	}
	if err != nil {
		err = l.failed(m, err)
	}
	for i, o := range f.sent {
		o.Step, o.Err, o.Verdict = deduct.StepDecided, err, 0
		if err == nil {
			judged(o, &answer.Outcomes[i], answer.NowMS)
			o.Unsure = o.Unsure && o.Verdict != bucket.Accepted && o.Verdict != bucket.Known
		}
		if o.Verdict == bucket.Accepted {
			o.Spent = o.State.Spent.Add(o.Row.Amount)
		}
		o.Back(o.Verdict != bucket.Accepted)
	}
}

// judged sets the store's verdict on an operation.
func judged(o *deduct.Op, out *bucket.StoreOutcome, nowMS int64) {
	o.Stored, o.StoreMS, o.Verdict, o.Recorded = out, nowMS, out.Verdict, nil
	if out.Verdict == bucket.Known {
		o.Recorded = deductionFrom(o.Route, o.Row.ID, &out.Record)
	}
}

// deductionFrom returns the deduction that a record is of.
func deductionFrom(bk *bucket.Bucket, id string, r *bucket.Record) *ledger.Deduction {
	return &ledger.Deduction{RequestID: id, Amount: r.Amount, RolledBack: r.RolledBack,
		State: stateOf(r), Fingerprint: r.Fingerprint, Nonce: r.Nonce, Bucket: bk.ID, Epoch: r.Epoch,
		CountedAt: time.UnixMilli(r.AtMS).UTC()}
}

// stateOf returns the state of a deduction according to its record.
func stateOf(r *bucket.Record) ledger.State {
	switch {
	case r.Void:
		return ledger.StateVoid
	case r.RolledBack == r.Amount:
		return ledger.StateRolledBack
	}
	return ledger.StateUsed
}

// failed reports the error of a call, and forgets the memory if the store has another one. It
// returns the error for an operation: ErrOtherMemory, OutcomeUnknown, or Unavailable.
func (l *partition) failed(m *remembered, err error) error {
	l.s.failed("store", err)
	switch {
	case errors.Is(err, bucket.ErrOtherMemory):
		l.forget(m)
	case budget.CodeOf(err).Kind() != budget.MayBeDone:
		return storeDown(l.name, err)
	}
	return err
}

// Find implements deduct.Decider: it reads the records of operations. A refusal that does not
// depend on the record stands while the store does not answer.
func (l *partition) Find(ops []*deduct.Op) {
	ctx, cancel := l.s.bounded()
	defer cancel()
	ids := make([]bucket.RecordID, len(ops))
	for i, o := range ops {
		ids[i] = recordID(o)
	}
	found, err := l.find(ctx, ids)
	for i, o := range ops {
		o.Step, o.Err, o.Verdict, o.Recorded = deduct.StepFound, err, 0, nil
		switch {
		case err != nil && budget.CodeOf(o.Refusal).Kind() == budget.NotDone:
			o.Err = o.Refusal
		case err == nil && found[i].Verdict == bucket.Known:
			o.Recorded = deductionFrom(o.Route, o.Row.ID, &found[i].Record)
		case err == nil:
			o.Verdict = found[i].Verdict
		}
		o.Back(true)
	}
}

// find reads records. Errors: ErrOtherMemory, Unavailable.
func (l *partition) find(ctx context.Context, ids []bucket.RecordID) ([]bucket.StoreReturn, error) {
	m, err := l.memory(ctx)
	if err != nil {
		return nil, err
	}
	found, err := l.store.Find(ctx, m.Memory, ids)
	if err == nil && len(found) != len(ids) {
		err = budget.Refuse(budget.Unavailable, "find", "not every id got an answer")
	}
	if err != nil {
		return nil, l.failed(m, err)
	}
	return found, nil
}

// Predict implements deduct.Decider. Budgets with a bucket that is short are synced, because their
// units may have been used just now.
func (l *partition) Predict(ctx context.Context, ops []*deduct.Op, since time.Time) {
	answer, err := l.predict(ctx, ops)
	synced := map[int64]bool{}
	for i, o := range ops {
		if o.Err = err; err != nil {
			continue
		}
		judged(o, &answer.Outcomes[i], answer.NowMS)
		switch o.Verdict {
		case bucket.Known:
		case bucket.Accepted, bucket.Short, bucket.Limited:
			o.Result.Answer.Limits = limitStates(o)
			o.Exceeded = refusedBy(o)
		default: // Moving, Broken; or the definition is too old
			o.Err = storeDown(l.name, nil)
		}
		if o.Verdict == bucket.Short && !o.Budget.Unlimited && !synced[o.Budget.ID] {
			synced[o.Budget.ID] = true
			spent := o.State.Spent.Load()
			if failed := l.s.syncBudget(ctx, ctx, o.Budget, since); len(failed) == 0 {
				o.State.InSQL.Store(spent)
			}
		}
	}
}

// predict asks the store. Error: Unavailable with ReasonStoreDown.
func (l *partition) predict(ctx context.Context, ops []*deduct.Op) (bucket.StoreAnswer, error) {
	m, err := l.memory(ctx)
	if err != nil {
		return bucket.StoreAnswer{}, err
	}
	ask := make([]bucket.StoreDeduction, len(ops))
	for i, o := range ops {
		ask[i] = l.s.deductionOf(o)
	}
	answer, err := l.store.Predict(ctx, m.Memory, ask)
	if err == nil && len(answer.Outcomes) != len(ask) {
		err = budget.Refuse(budget.Unavailable, "predict", "not every deduction got an outcome")
	}
	if err != nil {
		_ = l.failed(m, err)
		return answer, storeDown(l.name, err)
	}
	return answer, nil
}
