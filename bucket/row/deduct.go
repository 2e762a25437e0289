package row

import (
	"context"
	"hash/maphash"
	"math/bits"

	"github.com/budgetd/budgetd/bucket"
	"github.com/budgetd/budgetd/budget"
	"github.com/budgetd/budgetd/ledger"
)

// Deduct takes units from a budget for a request id, at most once, whichever node and bucket the
// request is repeated through (I4). It returns after the deduction is a committed row (I7). A
// repeat of an accepted id gets the recorded outcome with Replayed set, also after the budget was
// sold out, paused or over.
//
// Errors: Invalid where hold or group cannot be; BudgetNotFound; RequestConflict where the id has
// another payload, RequestVoid where it was cancelled; BudgetExpired, BudgetPaused,
// BudgetNotEffective; Invalid where a limit's dimension is missing; LimitExceeded with every limit
// that would be exceeded; GroupClosed; BudgetExhausted or PeriodExhausted with what is available,
// only if what the period may still get is below the amount (I3); Unavailable with the reason:
// nothing happened; OutcomeUnknown: repeat the same id. A refusal has changed nothing (I6). Safe
// for concurrent use.
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
	w.s, w.ctx = s, ctx
	w.requests, w.results, w.ops = one.request[:], one.result[:], one.op[:]
	w.admit()
	w.run()
	return one.result[0].Answer, one.result[0].Err
}

// DeductAll makes many deductions in one call, each for itself, and returns what became of each in
// the order given. It is as if Deduct were called for each: those of one request id one after the
// other in the order given, all others side by side. They share filter calls and transactions.
// Errors, idempotency and what is persisted: as Deduct, for each. Safe for concurrent use.
func (s *Service) DeductAll(ctx context.Context, requests []bucket.DeductRequest) (
	results []bucket.DeductResult) {
	w := &wave{s: s, ctx: ctx, requests: requests, ops: make([]op, len(requests)),
		results: make([]bucket.DeductResult, len(requests))}
	w.admit()
	w.chain()
	w.run()
	return w.results
}

// nonceBytes is the length of a nonce.
const nonceBytes = 8

// admit finds the budget of each request and prepares its operation. What is wrong with a request
// is its answer.
func (w *wave) admit() {
	w.left = len(w.ops)
	random := make([]byte, nonceBytes*len(w.ops))
	w.s.rand(random)
	nonces := string(random)
	var unread []*op
	var last *op
	for i := range w.ops {
		o, r := &w.ops[i], &w.requests[i]
		o.wave, o.at = w, i
		o.Request.Nonce = nonces[i*nonceBytes : (i+1)*nonceBytes]
		if err := checkHold(r); err != nil {
			w.fail(o, err)
			continue
		}
		if last != nil && w.requests[last.at].Budget == r.Budget {
			o.Budget, o.state = last.Budget, last.state
			o.prepare(r)
			continue
		}
		b := w.s.budgets.Fresh(r.Budget)
		if b == nil {
			unread = append(unread, o)
			continue
		}
		o.Budget, o.state = b, w.s.stateOf(b.ID)
		o.prepare(r)
		last = o
	}
	if len(unread) > 0 {
		w.read(unread)
	}
}

// read finds the budgets of operations that have to be read.
func (w *wave) read(ops []*op) {
	refs := make([]bucket.BudgetRef, len(ops))
	for i, o := range ops {
		refs[i] = w.request(o).Budget
	}
	found, errs := w.s.budgets.FindAll(w.ctx, refs)
	for i, o := range ops {
		if errs[i] != nil {
			w.fail(o, unavailable(errs[i]))
			continue
		}
		o.Budget, o.state = found[i], w.s.stateOf(found[i].ID)
		o.prepare(w.request(o))
	}
}

// prepare makes the row of a request.
func (o *op) prepare(r *bucket.DeductRequest) {
	o.key = o.Budget.RouteKey(r)
	o.Request = ledger.Request{ID: r.RequestID, Amount: r.Amount, Nonce: o.Request.Nonce,
		Reference: r.Reference, Dimensions: ledger.Dimensions(r.Dimensions),
		Counts:  ledger.Counts(r.Counts),
		HoldTTL: r.HoldTTL.Milliseconds(), Group: r.Group, By: r.By}
	o.Request.Fingerprint = ledger.RequestFingerprint(r.Amount, r.Key, o.Request)
}

// seed is of the hashes in chain.
var seed = maphash.MakeSeed()

// chain holds each request of an id until the one before it in the call is done.
func (w *wave) chain() {
	size := 1 << bits.Len(uint(2*len(w.ops)))
	last := make([]*op, size) // by hash, with linear probing
	for i := range w.ops {
		o := &w.ops[i]
		if o.done {
			continue
		}
		at := maphash.String(seed, o.Request.ID) & uint64(size-1)
		for last[at] != nil && !sameID(last[at], o) {
			at = (at + 1) & uint64(size-1)
		}
		if earlier := last[at]; earlier != nil {
			earlier.after, o.held = o, true
		}
		last[at] = o
	}
}

func sameID(a, b *op) bool { return a.Request.ID == b.Request.ID && a.Budget.ID == b.Budget.ID }

// checkHold refuses a hold that cannot be.
func checkHold(r *bucket.DeductRequest) error {
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
