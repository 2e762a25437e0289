package counter

import (
	"context"
	"errors"
	"time"

	"github.com/budgetd/budgetd/bucket"
	"github.com/budgetd/budgetd/budget"
	"github.com/budgetd/budgetd/ledger"
)

// begin judges an operation by its budget's definition and hands it to the store of its bucket.
func (w *wave) begin(o *op) {
	o.step = stepBegin
	if w.seen > inTime {
		w.timeUp(o)
		return
	}
	o.route = o.budget.Home(o.key)
	if o.route == nil {
		w.fail(o, offline(o))
		return
	}
	b := o.budget
	o.Bucket, o.Epoch = o.route.ID, o.route.Epoch.Number
	o.Terms = o.state.termsOf(b, max(w.sqlNow.UnixMilli(), o.laneMS))
	if err := o.touch(&w.requests[o.at]); err != nil {
		w.fail(o, err)
		return
	}
	if !o.unsure { // else, whatever the definition says by now, only the store can tell
		if refusal := b.RefusalNow(o.Amount, w.sqlNow); refusal != nil {
			w.refuse(o, refusal)
			return
		}
		if b.Period.OverAt(w.sqlNow) {
			o.turn = true
			w.out.putForSupply(o)
			return
		}
	}
	switch e := &o.route.Epoch; {
	case e.Fenced != "" && e.Status.Live():
		w.refuse(o, stopped(o))
	case o.route.OfflineBy == bucket.ByOperator || o.route.OfflineBy == bucket.ByResize:
		w.refuse(o, offline(o))
	case e.Status != ledger.Open:
		w.out.putForSupply(o)
	default:
		w.toStore(o)
	}
}

// toStore hands an operation to the lane of its bucket.
func (w *wave) toStore(o *op) {
	l := w.s.laneOf(o.route.Lane)
	if l == nil {
		w.failed(o, notConfigured(o.route.Lane))
		return
	}
	w.out.put(l.deducts, o)
}

// refuse answers a refusal that depends on state once the record was looked up: a repeat of an
// accepted id gets its outcome.
func (w *wave) refuse(o *op, refusal error) {
	o.refusal = refusal
	l := w.s.laneOf(o.route.Lane)
	if l == nil {
		w.failed(o, notConfigured(o.route.Lane))
		return
	}
	w.out.put(l.finds, o)
}

// advance decides about an operation that came back.
func (w *wave) advance(o *op) {
	switch o.step {
	case stepDeducted:
		if o.err == nil {
			w.judge(o)
		} else {
			w.notDeducted(o)
		}
		return
	case stepFailed:
		w.failed(o, o.err)
		return
	case stepFigures:
		w.complete(o)
		return
	}
	if w.seen > inTime {
		w.timeUp(o)
		return
	}
	switch o.step {
	case stepFound:
		w.lookedUp(o)
	case stepExhausted:
		w.refuse(o, o.budget.Exhausted(o.cover, o.Amount, w.sqlNow))
	case stepSupplied:
		w.again(o)
	case stepGone:
		w.out.putForSupply(o)
	default:
		w.begin(o)
	}
}

// judge acts on what the store said.
func (w *wave) judge(o *op) {
	out := o.outcome
	if out.Verdict != bucket.TooOld {
		o.unsure = false // the verdict is after an earlier attempt, if there was one
	}
	switch out.Verdict {
	case bucket.Accepted:
		w.accept(o)
		return
	case bucket.Known:
		w.repeat(o, &out.Record)
		return
	case bucket.Limited:
		w.fail(o, o.budget.LimitExceeded(o.limitStates(true), w.sqlNow))
		return
	case bucket.TooOld:
		w.timeUp(o)
		return
	}
	if w.seen > inTime {
		w.timeUp(o)
		return
	}
	switch out.Verdict {
	case bucket.Short:
		o.seeking = true
		w.out.putForSupply(o)
	case bucket.Over:
		o.turn = true
		w.out.putForSupply(o)
	case bucket.Lost, bucket.Broken:
		w.out.putForSupply(o)
	default: // Closed, Moving, Outdated, WindowOver
		w.again(o)
	}
}

// again reads the definition and begins once more, at once for a few times and then after a pause.
func (w *wave) again(o *op) {
	const atOnce = 4
	b, err := w.s.budgets.Reload(w.ctx, o.budget.ID)
	if err != nil {
		w.failed(o, err)
		return
	}
	o.budget = b
	if o.tries++; o.tries > atOnce {
		w.pause(o)
		return
	}
	w.begin(o)
}

// pause begins an operation again after a little while, a longer one each time.
func (w *wave) pause(o *op) {
	const first, doublings = 2 * time.Millisecond, 5
	wait := first << min(o.pauses, doublings)
	o.pauses++
	o.step, o.err = stepBegin, nil
	o.tries = 0
	o.phase.Store(phaseWaiting)
	w.mu.Lock()
	w.away++
	w.mu.Unlock()
	go func() {
		_ = w.s.clock.Sleep(context.WithoutCancel(w.ctx), wait)
		w.back(o, true)
	}()
}

// notDeducted acts on a call that failed. What may have been done is repeated with the same id
// until the deadline: its record tells.
func (w *wave) notDeducted(o *op) {
	if errors.Is(o.err, bucket.ErrOtherMemory) {
		if w.seen > inTime {
			w.timeUp(o)
			return
		}
		w.pause(o)
		return
	}
	if budget.CodeOf(o.err).Kind() == budget.MayBeDone {
		o.unsure = true
	}
	if !o.unsure {
		w.failed(o, storeDown(o.route.Lane, o.err))
		return
	}
	if w.seen > inTime {
		w.fail(o, outcomeUnknown(o.err))
		return
	}
	w.pause(o)
}

// failed answers an operation by the error of its last step, which has deducted nothing.
func (w *wave) failed(o *op, err error) {
	switch {
	case o.answered:
		w.finish(o)
	case o.unsure && w.seen == inTime:
		w.pause(o)
	case o.unsure:
		w.fail(o, outcomeUnknown(err))
	default:
		w.fail(o, unavailable(err))
	}
}

// lookedUp refuses an operation whose id has no record.
func (w *wave) lookedUp(o *op) {
	var kind budget.Kind
	var e *budget.Error
	if errors.As(o.refusal, &e) {
		kind = e.Code.Kind()
	}
	switch {
	case o.err != nil && kind == budget.NotDone:
		w.failed(o, o.refusal)
	case errors.Is(o.err, bucket.ErrOtherMemory):
		w.pause(o)
	case o.err != nil:
		w.failed(o, storeDown(o.route.Lane, o.err))
	case o.found.Verdict == bucket.Known:
		o.unsure = false
		w.repeat(o, &o.found.Record)
	case o.found.Verdict == bucket.Moving:
		w.again(o)
	default:
		w.fail(o, o.refusal)
	}
}
