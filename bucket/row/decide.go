package row

import (
	"github.com/budgetd/budgetd/bucket"
	"github.com/budgetd/budgetd/bucket/deduct"
	"github.com/budgetd/budgetd/budget"
)

// begin evaluates an operation against its budget's definition and sends it to its bucket.
func (w *wave) begin(o *op) {
	o.Step = deduct.StepBegin
	if w.Seen > deduct.InTime {
		w.TimeUp(&o.Op)
		return
	}
	if o.Unsure { // only a commit can tell, whatever the definition says now
		w.commit(o)
		return
	}
	b, now := o.Budget, w.SQLNow
	if refusal := b.RefusalNow(o.Request.Amount, now); refusal != nil {
		w.refuse(o, refusal)
		return
	}
	if b.Period.OverAt(now) {
		w.out.PutFor(w.s.turns, o)
		return
	}
	if refusal := o.touch(); refusal != nil {
		w.refuse(o, refusal)
		return
	}
	if w.s.usedUp.refuses(o, now) {
		w.out.Put(w.s.reads.limits, o)
		return
	}
	w.proceed(o)
}

// proceed sends an operation that passed its definition and limits to its bucket, or to a read of
// the sums if the budget was found sold out.
func (w *wave) proceed(o *op) {
	if o.state.isSoldOut(o.Request.Amount) {
		o.remembered = true
		w.out.Put(w.s.reads.covers, o)
		return
	}
	w.dispatch(o)
}

// touch determines what the operation counts against the budget's limits. It returns Invalid with
// every fault if the limits cannot be evaluated.
func (o *op) touch() error {
	set, r := o.Budget.LimitSet(), o.Request
	if len(r.Counts) == 0 && (set == nil || len(set.List) == 0) {
		return nil
	}
	if err := o.CheckLimits(); err != nil {
		return err
	}
	o.row.Touches, _ = set.Touches(r.Amount, r.Dimensions, r.Counts)
	return nil
}

// dispatch sends an operation to its bucket.
func (w *wave) dispatch(o *op) {
	bk := o.Budget.Route(o.Key)
	if bk == nil {
		w.seekUnits(o)
		return
	}
	o.Route, o.row.Bucket = bk, bk.ID
	w.commit(o)
}

// commit hands an operation to its flight.
func (w *wave) commit(o *op) { w.out.Put(w.s.flights, o) }

// advance decides what follows after a step of an operation.
func (w *wave) advance(o *op) {
	switch o.Step {
	case stepCommitted, stepBrought:
		if o.Err == nil {
			w.judge(o)
		} else {
			w.notWritten(o)
		}
		return
	case deduct.StepFailed:
		w.Failed(&o.Op, o.Err)
		return
	}
	if w.Seen > deduct.InTime {
		w.TimeUp(&o.Op)
		return
	}
	if o.Err != nil {
		w.Failed(&o.Op, o.Err)
		return
	}
	switch o.Step {
	case stepCovers:
		w.covered(o)
	case stepIDs:
		w.lookedUp(o)
	case stepLimits:
		if len(o.exceeded) > 0 {
			w.refuse(o, o.Budget.LimitExceeded(o.exceeded, w.SQLNow))
			return
		}
		w.s.usedUp.forget(o)
		w.proceed(o)
	case stepOldPlace, stepFigures:
		w.complete(o)
	case stepTurned:
		w.Again(&o.Op)
	default:
		w.begin(o)
	}
}

// judge acts on the verdict of a transaction. An id without a row cannot be locked, so another
// transaction may have accepted it while this one waited for the locks on which it refuses:
// refusals that depend on state look the id up once more. An earlier attempt of this call is no
// longer in doubt, because the transaction waited for its connection's locks.
func (w *wave) judge(o *op) {
	out := o.outcome
	o.Unsure = o.Unsure && out.Guess
	switch out.Verdict {
	case bucket.Accepted:
		w.accept(o)
		return
	case bucket.Known:
		w.repeat(o, &out.Deduction)
		return
	case bucket.Limited:
		w.s.usedUp.note(o, out.Refused)
		w.refuse(o, o.Budget.LimitExceeded(out.Refused, w.SQLNow))
		return
	case bucket.GroupClosed:
		w.refuse(o, groupClosed(o.Request.Group))
		return
	case bucket.Exhausted:
		w.refuse(o, w.exhausted(o, out.Cover))
		return
	}
	if w.Seen > deduct.InTime {
		w.TimeUp(&o.Op)
		return
	}
	switch out.Verdict {
	case bucket.Short:
		if o.Step == stepBrought {
			w.Pause(&o.Op)
			return
		}
		w.seekUnits(o)
	case bucket.Over:
		w.out.PutFor(w.s.turns, o)
	case bucket.Gone, bucket.Outdated:
		if o.Step == stepBrought && out.Verdict == bucket.Gone && o.Budget.Route(o.Key) == nil {
			w.refuse(o, offline(o.Budget.Name))
			return
		}
		w.Again(&o.Op)
	default:
		w.Fail(&o.Op, &budget.Error{Code: budget.Internal, Op: "deduct", Message: "no verdict"})
	}
}

// notWritten acts on a failed transaction. An operation that may have been written is committed
// again with the same id and nonce, until the deadline. Only a transaction that has waited for the
// locks of the earlier one can tell.
func (w *wave) notWritten(o *op) {
	if !w.Doubtful(&o.Op) {
		w.Failed(&o.Op, o.Err)
	}
}

// seekUnits looks for units outside an operation's bucket, unless the sum over all buckets is below
// the amount.
func (w *wave) seekUnits(o *op) {
	o.Seeking = true
	if o.Unsure || o.state.believed(w.Now) >= o.Request.Amount {
		w.bring(o)
		return
	}
	w.out.Put(w.s.reads.covers, o)
}

// covered acts on the sum of an operation's budget, and on its row if the sum is too small.
func (w *wave) covered(o *op) {
	switch {
	case o.recorded != nil && o.recorded.Decides(o.Request.By):
		w.repeat(o, o.recorded)
	case o.sum.Sum() < o.Request.Amount:
		w.Fail(&o.Op, w.exhausted(o, o.sum.Cover))
	case o.remembered:
		o.remembered = false
		o.state.soldOut.Store(0)
		w.dispatch(o)
	default:
		w.bring(o)
	}
}

// bring hands an operation to the transaction that brings units for all that wait.
func (w *wave) bring(o *op) { w.out.PutFor(w.s.brings, o) }

// refuse looks up the id before it answers a refusal that depends on state: a repeat of an accepted
// id gets the recorded outcome.
func (w *wave) refuse(o *op, refusal error) {
	o.Refusal = refusal
	w.out.Put(w.s.reads.ids, o)
}

// lookedUp refuses an operation whose id has no row that decides.
func (w *wave) lookedUp(o *op) {
	if o.recorded == nil || !o.recorded.Decides(o.Request.By) {
		w.Fail(&o.Op, o.Refusal)
		return
	}
	w.repeat(o, o.recorded)
}
