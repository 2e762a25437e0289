package counter

import (
	"context"
	"hash/maphash"
	"math/bits"

	"github.com/budgetd/budgetd/bucket"
	"github.com/budgetd/budgetd/budget"
	"github.com/budgetd/budgetd/ledger"
)

// Deduct takes units from a budget for a request id, at most once within the record window while the
// store keeps its memory, whichever node the request is repeated through (I4). It returns after the
// script of the bucket's store. A repeat of an accepted id gets the recorded outcome with Replayed set,
// also after the budget was sold out, paused or over.
//
// Errors: LedgerModeOnly for a hold or a group; BudgetNotFound; RequestConflict where the id has another
// payload, RequestVoid where it was cancelled; BudgetExpired, BudgetPaused, BudgetNotEffective; Invalid
// where a limit's dimension is missing; LimitExceeded with every limit that would be exceeded;
// BudgetExhausted or PeriodExhausted with what is available, only if what the period may still get is
// below the amount (I3); Unavailable with the reason: nothing happened; OutcomeUnknown: repeat the same
// id. A refusal has changed nothing (I6). Safe for concurrent use.
func (s *Service) Deduct(ctx context.Context, request bucket.DeductRequest) (bucket.DeductAnswer, error) {
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

// DeductAll makes many deductions in one call, each for itself, and returns what became of each in the
// order given. It is as if Deduct were called for each: those of one request id one after the other in
// the order given, all others side by side. They share calls of stores. Errors, idempotency and what is
// persisted: as Deduct, for each. Safe for concurrent use.
func (s *Service) DeductAll(ctx context.Context, requests []bucket.DeductRequest) []bucket.DeductResult {
	w := &wave{s: s, ctx: ctx, requests: requests, results: make([]bucket.DeductResult, len(requests)),
		ops: make([]op, len(requests))}
	w.admit()
	w.chain()
	w.run()
	return w.results
}

// nonceBytes is the length of a nonce.
const nonceBytes = 8

// admit finds the budget of each request and prepares its operation. What is wrong with a request is
// its answer.
func (w *wave) admit() {
	w.left = len(w.ops)
	random := make([]byte, nonceBytes*len(w.ops))
	w.s.rand(random)
	nonces := string(random)
	var last *op
	for i := range w.ops {
		o, r := &w.ops[i], &w.requests[i]
		o.wave, o.at = w, i
		o.Nonce = nonces[i*nonceBytes : (i+1)*nonceBytes]
		if r.HoldTTL != 0 || r.Group != "" {
			w.fail(o, budget.Refuse(budget.LedgerModeOnly, "deduct",
				"holds and groups need rows, which a budget in store mode does not have"))
			continue
		}
		if last != nil && w.requests[last.at].Budget == r.Budget {
			o.budget, o.state = last.budget, last.state
		} else if o.budget = w.s.budgets.Fresh(r.Budget); o.budget == nil {
			b, err := w.s.budgets.Find(w.ctx, r.Budget)
			if err != nil {
				w.fail(o, unavailable(err))
				continue
			}
			o.budget = b
		}
		if o.state == nil {
			o.state = w.s.stateOf(o.budget.ID)
		}
		o.prepare(r)
		last = o
	}
}

// prepare makes what the store keeps of a request.
func (o *op) prepare(r *bucket.DeductRequest) {
	o.key = o.budget.HomeKey(r.Dimensions, r.Key, r.RequestID)
	o.ID, o.Amount = r.RequestID, r.Amount
	o.Fingerprint = ledger.RequestFingerprint(r.Amount, r.Key, ledger.Request{Reference: r.Reference,
		Dimensions: ledger.Dimensions(r.Dimensions), Counts: ledger.Counts(r.Counts)})
	o.NotAfterMS = o.wave.s.sqlNow().Add(o.wave.s.set.Late).UnixMilli()
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
		at := maphash.String(seed, o.ID) & uint64(size-1)
		for last[at] != nil && !sameID(last[at], o) {
			at = (at + 1) & uint64(size-1)
		}
		if earlier := last[at]; earlier != nil {
			earlier.after, o.held = o, true
		}
		last[at] = o
	}
}

func sameID(a, b *op) bool { return a.ID == b.ID && a.budget.ID == b.budget.ID }
