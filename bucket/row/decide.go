package row

import (
	"context"
	"time"

	"github.com/budgetd/budgetd/bucket"
	"github.com/budgetd/budgetd/budget"
)

// begin judges an operation by its budget's definition and hands it to the bucket that it belongs
// to.
func (w *wave) begin(o *op) {
	o.step = stepBegin
	if w.seen > inTime {
		w.timeUp(o)
		return
	}
	if o.unsure.Load() { // whatever the definition says by now: only a commit can tell
		w.commit(o)
		return
	}
	b, now := o.Budget, w.sqlNow
	if refusal := b.RefusalNow(o.Request.Amount, now); refusal != nil {
		w.refuse(o, refusal)
		return
	}
	if b.Period.OverAt(now) {
		w.out.putFor(w.s.turns, o)
		return
	}
	if refusal := o.touch(w.request(o)); refusal != nil {
		w.refuse(o, refusal)
		return
	}
	if w.s.usedUp.refuses(o, now) {
		w.out.put(w.s.reads.limits, o)
		return
	}
	w.proceed(o)
}

// proceed hands an operation that its definition and its limits let pass to its bucket, or to a
// look at the sums where the budget was found sold out.
func (w *wave) proceed(o *op) {
	if o.state.isSoldOut(o.Request.Amount) {
		o.remembered = true
		w.out.put(w.s.reads.hints, o)
		return
	}
	w.dispatch(o)
}

func (w *wave) request(o *op) *bucket.DeductRequest { return &w.requests[o.at] }

// touch finds what the operation counts against the budget's limits. It returns why they cannot
// judge it: Invalid with every fault.
func (o *op) touch(r *bucket.DeductRequest) error {
	set := o.Budget.LimitSet()
	if len(r.Counts) == 0 && (set == nil || len(set.List) == 0) {
		return nil
	}
	faults := append(set.CheckDimensions(r.Dimensions), set.CheckCounts(r.Counts)...)
	if len(faults) > 0 {
		return &budget.Error{Code: budget.Invalid, Op: "deduct", Fields: faults,
			Message: "the limits of the budget cannot judge the request"}
	}
	o.Touches, _ = set.Touches(r.Amount, r.Dimensions, r.Counts)
	return nil
}

// dispatch hands an operation to the filter of its bucket, or straight to the flight where there is
// none that would answer.
func (w *wave) dispatch(o *op) {
	bk := o.Budget.Route(o.key)
	if bk == nil {
		w.seekUnits(o)
		return
	}
	if o.route != bk {
		o.release()
		o.route, o.Operation.Bucket, o.skip = bk, bk.ID, false
	}
	if o.skip || o.took.content != nil || o.Budget.Unlimited {
		w.commit(o)
		return
	}
	if l := w.s.laneOf(bk.Lane); l.answers(w.now) {
		w.out.put(l.queue, o)
		return
	}
	w.s.observer.Skipped(1)
	w.commit(o)
}

// commit hands an operation to its flight.
func (w *wave) commit(o *op) { w.out.put(w.s.slots[w.s.slotIndex(o.Operation.Bucket)].queue, o) }

// advance decides about an operation that came back.
func (w *wave) advance(o *op, late lateness) {
	switch o.step {
	case stepCommitted, stepGathered:
		if o.err == nil {
			w.judge(o)
		} else {
			w.notWritten(o)
		}
		return
	case stepFailed:
		w.failed(o)
		return
	}
	if late > inTime {
		o.release()
		w.timeUp(o)
		return
	}
	if o.err != nil {
		w.failed(o)
		return
	}
	switch o.step {
	case stepRefused, stepStale:
		// A filter that refuses is not asked again: either it is wrong, or the units are elsewhere.
		o.skip = o.step == stepRefused || o.stale
		o.stale = true
		o.reads = o.route.ID
		w.out.put(w.s.reads.standings, o)
	case stepStanding:
		w.standing(o)
	case stepHint:
		w.hinted(o)
	case stepExact:
		if o.sum.Sum() >= o.Request.Amount {
			w.gather(o)
			return
		}
		w.refuse(o, w.exhausted(o, o.sum.Cover))
	case stepIDs:
		w.lookedUp(o)
	case stepLimits:
		if len(o.exceeded) > 0 {
			w.refuse(o, o.Budget.LimitExceeded(o.exceeded, w.sqlNow))
			return
		}
		w.s.usedUp.forget(o)
		w.proceed(o)
	case stepOldPlace, stepFigures:
		w.complete(o)
	case stepTurned:
		w.again(o)
	default:
		w.begin(o)
	}
}

// judge acts on what a transaction did with an operation. Each verdict was given under the lock of
// the id, so an earlier attempt is not in doubt any more.
func (w *wave) judge(o *op) {
	o.unsure.Store(false)
	out := o.outcome
	switch out.Verdict {
	case bucket.Accepted:
		w.accept(o)
		return
	case bucket.Known:
		w.repeat(o, &out.Deduction)
		return
	case bucket.Limited:
		w.s.usedUp.note(o, out.Refused)
		w.fail(o, o.Budget.LimitExceeded(out.Refused, w.sqlNow))
		return
	case bucket.GroupClosed:
		w.fail(o, groupClosed(o.Request.Group))
		return
	case bucket.Exhausted:
		w.fail(o, w.exhausted(o, out.Cover))
		return
	}
	if w.seen > inTime {
		w.timeUp(o)
		return
	}
	switch out.Verdict {
	case bucket.Short:
		if o.step == stepGathered {
			w.pause(o)
			return
		}
		w.seekUnits(o)
	case bucket.Over:
		w.out.putFor(w.s.turns, o)
	case bucket.Gone, bucket.Outdated:
		w.again(o)
	default:
		w.fail(o, &budget.Error{Code: budget.Internal, Op: "deduct", Message: "no verdict"})
	}
}

// again reads the definition and begins once more, at once for a few times and then after a pause:
// a list that keeps changing must not keep the database busy.
func (w *wave) again(o *op) {
	const atOnce = 3
	b, err := w.s.budgets.Reload(w.ctx, o.Budget.ID)
	if err != nil {
		w.fail(o, unavailable(err))
		return
	}
	o.Budget, o.skip = b, false
	if o.tries++; o.tries > atOnce {
		w.pause(o)
		return
	}
	w.begin(o)
}

// pause begins an operation again after a little while, a longer one each time.
func (w *wave) pause(o *op) {
	const first, doublings = 5 * time.Millisecond, 4
	wait := first << min(o.pauses, doublings)
	o.pauses++
	o.step, o.err = stepBegin, nil
	o.phase.Store(phaseWaiting)
	w.mu.Lock()
	w.away++
	w.mu.Unlock()
	go func() {
		_ = w.s.clock.Sleep(context.WithoutCancel(w.ctx), wait)
		w.back(o, true)
	}()
}

// notWritten acts on a transaction that failed. What may have been written is handed in again with
// the same id and nonce, until the deadline: only a transaction that has waited for the locks of
// the earlier one can tell.
func (w *wave) notWritten(o *op) {
	if budget.CodeOf(o.err).Kind() == budget.MayBeDone {
		o.unsure.Store(true)
	}
	if !o.unsure.Load() {
		w.failed(o)
		return
	}
	if w.seen > inTime {
		w.fail(o, outcomeUnknown(o.err))
		return
	}
	w.pause(o)
}

// failed answers an operation by the error of its last step.
func (w *wave) failed(o *op) {
	switch {
	case o.answered:
		w.finish(o) // only a figure could not be read
	case o.unsure.Load():
		w.fail(o, outcomeUnknown(o.err))
	default:
		o.release()
		w.fail(o, unavailable(o.err))
	}
}

// standing acts on fill and O of a bucket whose filter refused an operation, or had nothing of it.
func (w *wave) standing(o *op) {
	switch {
	case !o.open:
		w.again(o)
	case o.standing < o.Request.Amount:
		w.seekUnits(o)
	default:
		w.dispatch(o)
	}
}

// seekUnits looks for units outside of an operation's bucket, if the sum of all says that there may
// be enough.
func (w *wave) seekUnits(o *op) {
	o.seeking = true
	if o.unsure.Load() {
		w.gather(o)
		return
	}
	w.out.put(w.s.reads.hints, o)
}

// hinted acts on a sum that was read without locks. It only decides what to look at next.
func (w *wave) hinted(o *op) {
	if o.sum.Sum() < o.Request.Amount {
		w.out.put(w.s.reads.exacts, o)
		return
	}
	if o.remembered {
		o.remembered = false
		o.state.soldOut.Store(0)
		w.dispatch(o)
		return
	}
	w.gather(o)
}

// gather hands an operation to the transaction that brings units together.
func (w *wave) gather(o *op) {
	bk := o.Budget.Route(o.key)
	if bk == nil {
		w.refuse(o, offline(o.Budget.Name))
		return
	}
	o.release()
	o.route, o.Operation.Bucket = bk, bk.ID
	w.out.putFor(w.s.gathers, o)
}

// refuse answers a refusal that depends on state once the id was looked up: a repeat of an accepted
// id gets its outcome.
func (w *wave) refuse(o *op, refusal error) {
	o.release()
	o.refusal = refusal
	w.out.put(w.s.reads.ids, o)
}

// lookedUp refuses an operation whose id has no row.
func (w *wave) lookedUp(o *op) {
	if o.recorded == nil {
		w.fail(o, o.refusal)
		return
	}
	w.repeat(o, o.recorded)
}
