package counter

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/budgetd/budgetd/bucket"
	"github.com/budgetd/budgetd/budget"
	"github.com/budgetd/budgetd/ledger"
)

// returnOp is a rollback or a cancel in progress.
type returnOp struct {
	bucket.StoreRollback
	budget *bucket.Budget
	cancel bool
	done   chan returnResult
}

// returnResult is the result of a returnOp. synced reports that SQL has the sums.
type returnResult struct {
	bucket.StoreReturn
	synced bool
	err    error
}

// Rollback returns units of a deduction to the budget, whatever became of its bucket (I5), and
// never more than was deducted. It answers after SQL has the bucket's sums, so that the budget's
// sum includes the units (I3). Repeating a rollback id replays its result; without an id, the
// request rolls back the whole deduction. Ids are unique per routing key, so the request must
// contain the key or the receipt.
//
// Errors:
//   - BudgetNotFound.
//   - Invalid: neither key nor receipt names the bucket.
//   - DeductionNotFound: not final. Cancel makes it so.
//   - RequestVoid, RequestConflict, AlreadyRolledBack, AmountExceedsRemaining.
//   - Unavailable: nothing happened.
//   - OutcomeUnknown: the caller must repeat the same rollback id, unless the message says that the
//     id is older than the record window.
func (s *Service) Rollback(ctx context.Context, r bucket.RollbackRequest) (
	bucket.DeductionView, error) {
	b, bk, err := s.locate(ctx, "rollback", r)
	if err != nil {
		return bucket.DeductionView{}, err
	}
	got, err := s.returnUnits(ctx, b, bk, r, false)
	if err == nil {
		err = repeated(r, got)
	}
	if err != nil {
		return bucket.DeductionView{}, err
	}
	return returned("rollback", bk, r, got)
}

// Cancel makes certain that a request id has no effect. It returns what is left of its deduction.
// If there is no deduction, it writes a void record, which refuses one that arrives later.
// Repeating it returns the same answer. Errors: BudgetNotFound, Invalid, Unavailable,
// OutcomeUnknown.
func (s *Service) Cancel(ctx context.Context, r bucket.RollbackRequest) (
	bucket.DeductionView, error) {
	r.RollbackID, r.Amount = "", 0
	b, bk, err := s.locate(ctx, "cancel", r)
	if err != nil {
		return bucket.DeductionView{}, err
	}
	got, err := s.returnUnits(ctx, b, bk, r, true)
	if err != nil {
		return bucket.DeductionView{}, err
	}
	return returned("cancel", bk, r, got)
}

// Deduction reads the deduction of a request id within the record window. Errors: BudgetNotFound;
// Invalid; DeductionNotFound (not final while the deduction is in progress); OutcomeUnknown if the
// record may have been lost or forgotten; Unavailable.
func (s *Service) Deduction(ctx context.Context, r bucket.RollbackRequest) (
	bucket.DeductionView, error) {
	_, bk, err := s.locate(ctx, "read", r)
	if err != nil {
		return bucket.DeductionView{}, err
	}
	l := s.partitionOf(bk.Partition)
	if l == nil {
		return bucket.DeductionView{}, notConfigured(bk.Partition)
	}
	ctx, cancel := context.WithTimeout(ctx, s.set.StepTime)
	defer cancel()
	found, err := l.find(ctx, []bucket.RecordID{{Bucket: bk.ID, ID: r.RequestID}})
	if err != nil {
		return bucket.DeductionView{}, storeDown(l.name, err)
	}
	got := found[0]
	if got.Verdict == bucket.NotFound && got.Young || got.Record.Unsure {
		got.Verdict = bucket.Unclear
	}
	return returned("read", bk, r, returnResult{StoreReturn: got})
}

// repeated refuses a rollback that contradicts the record.
func repeated(r bucket.RollbackRequest, got returnResult) error {
	if got.Verdict != bucket.Known {
		return nil
	}
	done := slices.ContainsFunc(got.Record.Rollbacks, func(x bucket.RecordedRollback) bool {
		return x.ID == r.RollbackID
	})
	switch {
	case got.Record.Void:
		return budget.Refuse(budget.RequestVoid, "rollback",
			"request %q was cancelled before it had an effect; there is nothing to give back", r.RequestID)
	case !done:
		return ledger.Gone("rollback", r.RequestID, ledger.StateRolledBack)
	case r.Amount != 0 && r.Amount != got.Amount:
		return budget.Refuse(budget.RequestConflict, "rollback",
			"rollback %q of request %q was recorded with another amount", r.RollbackID, r.RequestID)
	}
	return nil
}

// locate finds the bucket that has the records of the id.
func (s *Service) locate(ctx context.Context, op string, r bucket.RollbackRequest) (
	*bucket.Budget, *bucket.Bucket, error) {
	b, err := s.budgets.Find(ctx, r.Budget)
	if err != nil {
		return nil, nil, err
	}
	if r.Receipt != "" {
		if id, _, ok := bucket.ParseReceipt(r.Receipt); ok {
			if bk := b.Bucket(id); bk != nil {
				return b, bk, nil
			}
		}
		return nil, nil, faulty(op, "receipt", "is not one of this budget")
	}
	if why := unnamed(b, &r); why != "" {
		return nil, nil, faulty(op, "key", why)
	}
	bk := b.Home(b.HomeKey(r.Dimensions, r.Key, r.RequestID))
	if bk == nil {
		return nil, nil, budget.Refuse(budget.Unavailable, op, "budget %s has no bucket", b.Name)
	}
	return b, bk, nil
}

// unnamed says what a call must name so that it finds the bucket to which its deduction was routed,
// or "" if the call names it. Another call would be carried out in another bucket: a cancel would
// find nothing there, answer "void", and leave the units used.
func unnamed(b *bucket.Budget, r *bucket.RollbackRequest) string {
	switch {
	case r.Key != "":
		return ""
	case b.RoutingDimension == "" && !r.NoKey:
		return `must be the deduction's, "" if it had none, or its receipt must be given: the ` +
			"budget is in store mode"
	case b.RoutingDimension != "" && r.Dimensions[b.RoutingDimension] == "" &&
		!(r.NoKey && r.Dimensions != nil):
		return "must be the deduction's value of " + b.RoutingDimension +
			", or its dimensions or its receipt must be given"
	}
	return ""
}

func faulty(op, field, message string) error {
	return &budget.Error{Code: budget.Invalid, Op: op, Message: field + " " + message,
		Fields: []budget.FieldError{{Field: field, Message: message}}}
}

// returnUnits sends a rollback or a cancel to its partition. While the outcome is not known it
// repeats it, until the deadline.
func (s *Service) returnUnits(ctx context.Context, b *bucket.Budget, bk *bucket.Bucket,
	r bucket.RollbackRequest, cancel bool) (returnResult, error) {
	const first, longest = 5 * time.Millisecond, 200 * time.Millisecond
	unsure, pause, until := false, first, s.clock.Now().Add(s.set.Deadline)
	var own *bucket.StoreReturn // what this call did; a repetition finds it, and what others did since
	for {
		l := s.partitionOf(bk.Partition)
		if l == nil {
			return returnResult{}, notConfigured(bk.Partition)
		}
		g := &returnOp{budget: b, cancel: cancel, done: make(chan returnResult, 1)}
		g.RecordID, g.RollbackID, g.Amount = bucket.RecordID{Bucket: bk.ID, ID: r.RequestID},
			r.RollbackID, r.Amount
		if b.HasLimits() {
			g.Terms = termsOf(s.states.Of(b.ID), b, s.sqlNow().UnixMilli())
		}
		l.returns.Add(g)
		var got returnResult
		select {
		case got = <-g.done:
		case <-ctx.Done():
			return returnResult{}, s.unclear(g, ctx.Err())
		}
		switch {
		case got.err == nil && got.Verdict == bucket.Accepted:
			own = &got.StoreReturn
		case own != nil && got.Verdict == bucket.Known:
			got.StoreReturn = *own
		}
		moving := got.err == nil && got.Verdict == bucket.Moving
		if got.err == nil && !moving && got.synced {
			if unsure && got.Verdict == bucket.NotFound { // the lost attempt may follow a deduction
				return returnResult{}, s.unclear(g, nil)
			}
			return got, nil
		}
		if got.err == nil && !moving || budget.CodeOf(got.err).Kind() == budget.MayBeDone {
			unsure = true // it was done, but SQL may not have it
		}
		late := s.clock.Now().After(until) || s.clock.Sleep(ctx, pause) != nil
		switch {
		case late && unsure:
			return returnResult{}, s.unclear(g, got.err)
		case late && moving:
			return returnResult{}, storeDown(bk.Partition, nil)
		case late, got.err != nil && !unsure && !errors.Is(got.err, bucket.ErrOtherMemory):
			return returnResult{}, storeDown(bk.Partition, got.err)
		}
		pause = min(2*pause, longest)
		if moving || got.err != nil {
			again, err := s.budgets.Reload(ctx, b.ID)
			if err == nil {
				b = again
			}
			if at := b.Bucket(bk.ID); at != nil {
				bk = at
			}
		}
	}
}

// unclear is the answer for a rollback or cancel that may have been done.
func (s *Service) unclear(g *returnOp, cause error) error {
	op := "rollback"
	if g.cancel {
		op = "cancel"
	}
	return &budget.Error{Code: budget.OutcomeUnknown, Op: op, Err: cause,
		Message: "the store or the database did not confirm the " + op + "; repeat it"}
}

// giveBack makes one call with rollbacks and one with cancels, and records the sums in SQL.
func (l *partition) giveBack(list []*returnOp) {
	ctx, cancel := l.s.bounded()
	defer cancel()
	m, err := l.memory(ctx)
	if err != nil {
		for _, g := range list {
			g.done <- returnResult{err: err}
		}
		return
	}
	var kinds [2][]*returnOp
	for _, g := range list {
		kind := 0
		if g.cancel {
			kind = 1
		}
		kinds[kind] = append(kinds[kind], g)
	}
	answers := map[*returnOp]returnResult{}
	units := false
	for kind, call := range []func(context.Context, bucket.Memory, []bucket.StoreRollback) (
		[]bucket.StoreReturn, error){l.store.Rollback, l.store.Cancel} {
		if len(kinds[kind]) == 0 {
			continue
		}
		all := make([]bucket.StoreRollback, len(kinds[kind]))
		for i, g := range kinds[kind] {
			all[i] = g.StoreRollback
		}
		got, err := call(ctx, m.Memory, all)
		if err != nil {
			_ = l.failed(m, err)
		}
		for i, g := range kinds[kind] {
			if err != nil {
				answers[g] = returnResult{err: err}
				continue
			}
			answers[g] = returnResult{StoreReturn: got[i], synced: true}
			units = units || got[i].Verdict == bucket.Accepted || got[i].Verdict == bucket.Known
		}
	}
	if units {
		began := l.s.clock.Now() // after the scripts
		err = l.sync(ctx, began)
		l.s.failed("sql", err)
	}
	for _, g := range list {
		a := answers[g]
		if a.err == nil && err != nil && (a.Verdict == bucket.Accepted || a.Verdict == bucket.Known) {
			a.synced = false
		}
		g.done <- a
	}
}

// returned is the answer of a rollback, a cancel or a lookup.
func returned(op string, bk *bucket.Bucket, r bucket.RollbackRequest, got returnResult) (
	bucket.DeductionView, error) {
	record := &got.Record
	left := record.Amount - record.RolledBack
	refuse := func(code budget.Code, format string, args ...any) (bucket.DeductionView, error) {
		return bucket.DeductionView{}, budget.Refuse(code, op, format, args...)
	}
	switch got.Verdict {
	case bucket.Accepted, bucket.Known, bucket.Voided:
		return view(bk, r, got), nil
	case bucket.NotFound:
		if r.Receipt != "" {
			return bucket.DeductionView{}, tooOld(op, r.RequestID)
		}
		return refuse(budget.DeductionNotFound, "bucket %s has no record of request %q; a record lasts "+
			"for the record window, and only the key of its request finds it", bk.Key, r.RequestID)
	case bucket.Unclear:
		return bucket.DeductionView{}, tooOld(op, r.RequestID)
	case bucket.TooMuch:
		if left == 0 {
			return bucket.DeductionView{}, ledger.Gone(op, r.RequestID, ledger.StateRolledBack)
		}
		e := budget.Refuse(budget.AmountExceedsRemaining, op,
			"request %q has %d left to give back, %d were asked for", r.RequestID, left, r.Amount)
		e.Available = &left
		return bucket.DeductionView{}, e
	case bucket.TooMany:
		return refuse(budget.RequestConflict, "request %q has %d rollbacks already; cancel it instead",
			r.RequestID, bucket.MostRollbackIDs)
	}
	return bucket.DeductionView{}, storeDown(bk.Partition, nil)
}

// view shows a record.
func view(bk *bucket.Bucket, r bucket.RollbackRequest, got returnResult) bucket.DeductionView {
	record := &got.Record
	v := bucket.DeductionView{RequestID: r.RequestID, State: stateOf(record), Amount: record.Amount,
		RolledBack: record.RolledBack, CountedAt: time.UnixMilli(record.AtMS).UTC(),
		Replayed: got.Verdict == bucket.Known}
	if record.Void {
		v.State, v.Amount, v.RolledBack = ledger.StateVoid, 0, 0
		return v
	}
	v.Bucket, v.Receipt = bk.Key, bucket.Receipt(bk.ID, record.Epoch)
	return v
}

// tooOld is the answer if the record was lost or forgotten.
func tooOld(op, id string) error {
	return budget.Refuse(budget.OutcomeUnknown, op,
		"there is no record of request %q; it may be older than the record window, or "+
			"have been lost with the memory of its store", id)
}
