package counter

import (
	"errors"
	"time"

	"github.com/budgetd/budgetd/bucket"
	"github.com/budgetd/budgetd/bucket/deduct"
	"github.com/budgetd/budgetd/budget"
	"github.com/budgetd/budgetd/ledger"
)

// begin evaluates an operation against its budget's definition and sends it to the store of its
// bucket.
func (w *wave) begin(o *op) {
	o.Step = deduct.StepBegin
	if w.Seen > deduct.InTime {
		w.TimeUp(&o.Op)
		return
	}
	o.Route = o.Budget.Home(o.Key)
	if o.Route == nil {
		w.deny(o, offline(o))
		return
	}
	b := o.Budget
	o.Bucket, o.Epoch = o.Route.ID, o.Route.Epoch.Number
	if err := b.UnknownZone(); err != nil {
		w.refuse(o, err)
		return
	}
	o.Terms = o.state.termsOf(b, max(w.SQLNow.UnixMilli(), o.partitionMS))
	if err := o.touch(); err != nil {
		w.deny(o, err)
		return
	}
	if !o.Unsure { // otherwise only the store can tell, whatever the definition says now
		if refusal := b.RefusalNow(o.Amount, w.SQLNow); refusal != nil {
			w.refuse(o, refusal)
			return
		}
		if b.Period.OverAt(w.SQLNow) {
			o.turn = true
			w.out.PutFor(w.s.supplies, o)
			return
		}
	}
	switch e := &o.Route.Epoch; {
	case e.Halted != "" && e.Status.Live():
		w.refuse(o, stopped(o))
	case o.Route.OfflineBy == bucket.ByOperator || o.Route.OfflineBy == bucket.ByResize:
		w.refuse(o, offline(o))
	case e.Status != ledger.Open:
		w.out.PutFor(w.s.supplies, o)
	default:
		w.toStore(o)
	}
}

// toStore sends an operation to the partition of its bucket.
func (w *wave) toStore(o *op) {
	l := w.s.partitionOf(o.Route.Partition)
	if l == nil {
		w.Failed(&o.Op, notConfigured(o.Route.Partition))
		return
	}
	w.out.Put(l.deducts, o)
}

// refuse looks up the record before it answers a refusal that depends on state: a repeat of an
// accepted id gets the recorded outcome.
func (w *wave) refuse(o *op, refusal error) {
	o.Refusal = refusal
	l := w.s.partitionOf(o.Route.Partition)
	if l == nil {
		w.Failed(&o.Op, notConfigured(o.Route.Partition))
		return
	}
	w.out.Put(l.finds, o)
}

// advance decides what follows after a step of an operation.
func (w *wave) advance(o *op) {
	switch o.Step {
	case stepDeducted:
		if o.Err == nil {
			w.judge(o)
		} else {
			w.notDeducted(o)
		}
		return
	case deduct.StepFailed:
		w.Failed(&o.Op, o.Err)
		return
	case stepFigures:
		w.complete(o)
		return
	}
	if w.Seen > deduct.InTime {
		w.TimeUp(&o.Op)
		return
	}
	switch o.Step {
	case stepFound:
		w.lookedUp(o)
	case stepExhausted:
		o.certain = true
		w.refuse(o, o.Budget.Exhausted(o.cover, o.Amount, w.SQLNow))
	case stepSupplied:
		w.again(o)
	case stepGone:
		w.out.PutFor(w.s.supplies, o)
	default:
		w.begin(o)
	}
}

// judge acts on the store's verdict.
func (w *wave) judge(o *op) {
	out := o.outcome
	switch out.Verdict {
	case bucket.Accepted:
		o.Unsure = false
		w.accept(o)
		return
	case bucket.Known:
		o.Unsure = false
		w.repeat(o, &out.Record)
		return
	case bucket.Limited:
		w.deny(o, o.Budget.LimitExceeded(o.refusedBy(), w.SQLNow))
		return
	case bucket.TooOld:
		w.TimeUp(&o.Op)
		return
	}
	if w.Seen > deduct.InTime {
		w.TimeUp(&o.Op)
		return
	}
	switch out.Verdict {
	case bucket.Short:
		o.Seeking = true
		w.out.PutFor(w.s.supplies, o)
	case bucket.Over:
		o.turn = true
		w.out.PutFor(w.s.supplies, o)
	case bucket.Lost, bucket.Broken:
		w.out.PutFor(w.s.supplies, o)
	default: // Closed, Moving, Outdated, WindowOver
		w.again(o)
	}
}

// notDeducted acts on a failed call. A deduction that may have been done is repeated with the same
// id until the deadline, because its record tells the outcome.
func (w *wave) notDeducted(o *op) {
	if errors.Is(o.Err, bucket.ErrOtherMemory) {
		if w.Seen > deduct.InTime {
			w.TimeUp(&o.Op)
			return
		}
		w.Pause(&o.Op)
		return
	}
	if !w.Doubtful(&o.Op) {
		w.Failed(&o.Op, storeDown(o.Route.Partition, o.Err))
	}
}

// lookedUp refuses an operation whose id has no record.
func (w *wave) lookedUp(o *op) {
	var kind budget.Kind
	var e *budget.Error
	if errors.As(o.Refusal, &e) {
		kind = e.Code.Kind()
	}
	switch {
	case o.Err != nil && kind == budget.NotDone:
		w.Failed(&o.Op, o.Refusal)
	case errors.Is(o.Err, bucket.ErrOtherMemory):
		o.certain = false // it begins by the same definition
		w.Pause(&o.Op)
	case o.Err != nil:
		w.Failed(&o.Op, storeDown(o.Route.Partition, o.Err))
	case o.found.Verdict == bucket.Known:
		o.Unsure = false
		w.repeat(o, &o.found.Record)
	case o.found.Verdict == bucket.Moving:
		w.again(o)
	default:
		w.deny(o, o.Refusal)
	}
}

// deny answers a refusal, unless the reply of an earlier attempt was lost. The store may still
// receive that attempt, after this one, and accept it. Then the operation is begun again until it
// has a record, or the outcome is unknown at the deadline. A definition that the database has not
// confirmed in the last second refuses nothing (I8): it is read again, once, and if the database
// does not answer, the answer is Unavailable.
func (w *wave) deny(o *op, refusal error) {
	switch {
	case o.Unsure:
		w.Failed(&o.Op, refusal)
	case w.s.mayRefuse(o, refusal):
		w.Fail(&o.Op, refusal)
	default:
		o.certain = true // if it can be read
		w.again(o)
	}
}

// mayRefuse reports whether a refusal rests on what the database said in the last second, or since
// the request began.
func (s *Service) mayRefuse(o *op, refusal error) bool {
	return o.certain || budget.CodeOf(refusal).Kind() == budget.NotDone ||
		s.budgets.IsCurrent(o.Budget)
}

// again begins an operation again with the present definition, which nobody waits for while the
// database does not answer.
func (w *wave) again(o *op) {
	if w.s.budgets.IsSilent() {
		w.Failed(&o.Op, outOfDate())
		return
	}
	w.Again(&o.Op)
}

// outOfDate is the answer if what this node knows does not suffice while the database does not
// answer.
func outOfDate() error {
	e := budget.Refuse(budget.Unavailable, "deduct", "the database does not answer, and by what this "+
		"node last read of the budget it cannot decide; nothing was deducted; repeat later")
	e.Reason = budget.ReasonDatabaseDown
	e.RetryAfter = time.Second
	return e
}
