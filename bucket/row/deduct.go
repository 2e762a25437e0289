package row

import (
	"context"

	"github.com/budgetd/budgetd/bucket"
	"github.com/budgetd/budgetd/bucket/deduct"
	"github.com/budgetd/budgetd/budget"
	"github.com/budgetd/budgetd/ledger"
)

// Deduct takes units from a budget for a request id. It does so at most once, whichever node or
// bucket the request is repeated through (I4). It returns after the row of the deduction is
// committed (I7). Repeating an accepted id returns the recorded outcome with Replayed set, even
// after the budget was sold out, paused or over.
//
// Errors:
//   - Invalid: the hold or group is malformed, or a limit's dimension is missing.
//   - BudgetNotFound.
//   - RequestConflict: the id was used with another payload. RequestVoid: the id was cancelled.
//   - BudgetExpired, BudgetPaused, BudgetNotEffective.
//   - LimitExceeded: lists every limit that the deduction would exceed.
//   - GroupClosed.
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
// concurrently and share transactions. Errors, persistence and idempotency are
// those of Deduct for each request. DeductAll is safe for concurrent use.
func (s *Service) DeductAll(ctx context.Context, requests []bucket.DeductRequest) (
	results []bucket.DeductResult) {
	w := &wave{s: s, ops: make([]op, len(requests))}
	results = make([]bucket.DeductResult, len(requests))
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

// Prepare builds the row of a request.
func (w *wave) Prepare(i int, nonce string) {
	o := &w.ops[i]
	r := o.Request
	o.state = deduct.StateOf(w.s.states, o.Budget.ID)
	o.Key = o.Budget.RouteKey(r)
	o.row.Request = ledger.Request{ID: r.RequestID, Amount: r.Amount, Nonce: nonce,
		Reference: r.Reference, Dimensions: ledger.Dimensions(r.Dimensions),
		Counts:  ledger.Counts(r.Counts),
		HoldTTL: r.HoldTTL.Milliseconds(), Group: r.Group, By: r.By}
	o.row.Request.Fingerprint = ledger.RequestFingerprint(r.Amount, r.Key, o.row.Request)
}

// Check refuses a malformed hold.
func (w *wave) Check(r *bucket.DeductRequest) error {
	switch {
	case r.HoldTTL == 0 && r.Group == "":
		return nil
	case !budget.ValidHoldTTL(r.HoldTTL):
		fault := budget.FieldError{Field: "hold_ttl",
			Message: "must be whole milliseconds within its bounds; a group needs it"}
		return &budget.Error{Code: budget.Invalid, Op: "deduct", Fields: []budget.FieldError{fault}}
	}
	return nil
}
