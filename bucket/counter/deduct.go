package counter

import (
	"context"
	"time"

	"github.com/budgetd/budgetd/bucket"
	"github.com/budgetd/budgetd/bucket/deduct"
	"github.com/budgetd/budgetd/budget"
	"github.com/budgetd/budgetd/ledger"
)

// Deduct takes units from a budget for a request id. Within the record window, and while the store
// keeps its memory, it does so at most once, whichever node the request is repeated through (I4).
// It returns after the script of the bucket's store. Repeating an accepted id returns the recorded
// outcome with Replayed set, even after the budget was sold out, paused or over.
//
// Errors:
//   - LedgerModeOnly: the request asks for a hold or a group.
//   - BudgetNotFound.
//   - RequestConflict: the id was used with another payload. RequestVoid: the id was cancelled.
//   - BudgetExpired, BudgetPaused, BudgetNotEffective.
//   - Invalid: a limit's dimension is missing.
//   - LimitExceeded: lists every limit that the deduction would exceed.
//   - BudgetExhausted, PeriodExhausted: what the period may still get is below the amount (I3). The
//     error states what is available.
//   - Unavailable: nothing happened. The error states the reason.
//   - OutcomeUnknown: the caller must repeat the same id.
//
// A refusal changes nothing (I6). Deduct is safe for concurrent use.
func (s *Service) Deduct(ctx context.Context, request bucket.DeductRequest) (
	bucket.DeductAnswer, error) {
	one := new(struct {
		wave    wave
		request [1]bucket.DeductRequest
		result  [1]bucket.DeductResult
		op      [1]op
	})
	one.request[0] = request
	w := &one.wave
	w.s, w.ops = s, one.op[:]
	w.Serve(ctx, &s.host, w, one.request[:], one.result[:])
	return one.result[0].Answer, one.result[0].Err
}

// DeductAll makes independent deductions in one call and returns their results in the order of the
// requests. Requests with the same id run one after the other, in the order given. All others run
// concurrently and share calls of stores. Errors, persistence and idempotency are those of Deduct
// for each request. DeductAll is safe for concurrent use.
func (s *Service) DeductAll(ctx context.Context,
	requests []bucket.DeductRequest) []bucket.DeductResult {
	w := &wave{s: s, ops: make([]op, len(requests))}
	results := make([]bucket.DeductResult, len(requests))
	w.Serve(ctx, &s.host, w, requests, results)
	return results
}

// wave holds the requests of one call.
type wave struct {
	deduct.Wave
	s   *Service
	ops []op
	out deduct.Outbox[*op]
}

// Op and the other exported methods implement deduct.Steps.
func (w *wave) Op(i int) *deduct.Op { return &w.ops[i].Op }

func (w *wave) Begin(i int) { w.begin(&w.ops[i]) }

func (w *wave) Advance(i int) { w.advance(&w.ops[i]) }

func (w *wave) Send() { w.out.Send(&w.Wave) }

// Check refuses holds and groups.
func (w *wave) Check(r *bucket.DeductRequest) error { return needsNoRows(r) }

// needsNoRows refuses holds and groups, which need rows.
func needsNoRows(r *bucket.DeductRequest) error {
	if r.HoldTTL != 0 || r.Group != "" {
		return budget.Refuse(budget.LedgerModeOnly, "deduct",
			"holds and groups need rows, which a budget in store mode does not have")
	}
	return nil
}

// Prepare builds what the store keeps of a request.
func (w *wave) Prepare(i int, nonce string) {
	o := &w.ops[i]
	r := o.Request
	o.state = deduct.StateOf(w.s.states, o.Budget.ID)
	o.Key = o.Budget.HomeKey(r.Dimensions, r.Key, r.RequestID)
	o.ID, o.Amount, o.Nonce = r.RequestID, r.Amount, nonce
	o.Fingerprint = fingerprint(r)
	o.NotAfterMS = w.SQLNow.Add(w.s.set.Late).UnixMilli()
}

// accept answers an operation that the store has just carried out.
func (w *wave) accept(o *op) {
	w.s.used(o, o.state.recent.Add(o.Amount), w.Now)
	a := w.answer(o, o.Epoch)
	a.Amount, a.State, a.BucketRemaining = o.Amount, ledger.StateUsed, o.outcome.Balance
	if len(o.outcome.Limits) > 0 {
		a.Limits = o.limitStates()
	}
	w.complete(o)
}

// repeat answers from the record of an id. The record is this call's own if it has its nonce.
func (w *wave) repeat(o *op, r *bucket.Record) {
	switch {
	case r.Void:
		w.Fail(&o.Op, deduct.Voided(o.ID))
		return
	case r.Fingerprint != o.Fingerprint:
		w.Fail(&o.Op, deduct.Conflicting(o.ID))
		return
	case r.RolledBack == r.Amount: // its units may be sold to others
		w.Fail(&o.Op, ledger.Gone("deduct", o.ID, ledger.StateRolledBack))
		return
	}
	a := w.answer(o, r.Epoch)
	a.Amount, a.State, a.Replayed = r.Amount, stateOf(r), r.Nonce != o.Nonce
	a.RemainingUnknown = !a.Unlimited // SQL may not have this deduction yet
	o.Spent = o.state.Spent.Load()
	if w.Seen > deduct.InTime {
		w.Finish(&o.Op)
		return
	}
	w.complete(o)
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

// answer fills an operation's result, without amount and figures.
func (w *wave) answer(o *op, epoch int64) *bucket.DeductAnswer {
	o.Answered = true
	a := &o.Result.Answer
	a.RequestID, a.Bucket = o.ID, o.Route.Key
	a.Receipt = bucket.Receipt(o.Bucket, epoch)
	a.Unlimited, a.FiguresUnknown = o.Budget.Unlimited, !o.Budget.Unlimited
	return a
}

// complete adds the figures to an answer. It reads them first if the cached ones are too old.
func (w *wave) complete(o *op) {
	if !o.Budget.Unlimited {
		read := o.state.Fresh(w.Now, figuresAge)
		if read == nil && o.Step != stepFigures && w.Seen == deduct.InTime &&
			!w.s.budgets.IsSilent() && w.MayRead(o.Budget.ID) {
			w.out.Put(w.s.figures, o)
			return
		}
		if read != nil {
			o.Figures(read)
		}
	}
	w.Finish(&o.Op)
}

// offline is the answer if the only bucket that may serve a request is offline.
func offline(o *op) error {
	e := budget.Refuse(budget.Unavailable, "deduct",
		"the bucket of this request is offline in budget %s; bring it online", o.Budget.Name)
	e.Reason, e.RetryAfter = budget.ReasonOffline, time.Second
	return e
}

func stopped(o *op) error {
	e := budget.Refuse(budget.Unavailable, "deduct", "bucket %s is stopped: %s", o.Route.Key,
		o.Route.Epoch.Halted)
	e.Reason, e.RetryAfter = budget.ReasonOffline, time.Second
	return e
}
