package deduct

import (
	"hash/maphash"
	"math/bits"

	"github.com/budgetd/budgetd/bucket"
)

// NonceBytes is the length of a nonce.
const NonceBytes = 8

// admit finds the budget of each request and prepares its operation. It answers a request that is
// invalid, or whose budget is not found, with that error.
func (w *Wave) admit(requests []bucket.DeductRequest, results []bucket.DeductResult) {
	w.left = w.n
	random := make([]byte, NonceBytes*w.n)
	w.host.Rand(random)
	nonces := string(random)
	var unread []*Op
	var last *Op
	for i := range w.n {
		o := w.steps.Op(i)
		o.wave, o.at, o.Request, o.Result = w, i, &requests[i], &results[i]
		if err := w.steps.Check(o.Request); err != nil {
			w.Fail(o, err)
			continue
		}
		if last != nil && last.Request.Budget == o.Request.Budget {
			o.Budget = last.Budget
		} else if o.Budget = w.host.Budgets.Fresh(o.Request.Budget); o.Budget == nil {
			unread = append(unread, o)
			continue
		}
		w.steps.Prepare(i, nonces[i*NonceBytes:(i+1)*NonceBytes])
		last = o
	}
	if len(unread) > 0 {
		w.read(unread, nonces)
	}
}

// read finds the budgets that are not cached.
func (w *Wave) read(ops []*Op, nonces string) {
	refs := make([]bucket.BudgetRef, len(ops))
	for i, o := range ops {
		refs[i] = o.Request.Budget
	}
	found, errs := w.host.Budgets.FindAll(w.Ctx, refs)
	for i, o := range ops {
		if errs[i] != nil {
			w.Fail(o, Unavailable(errs[i]))
			continue
		}
		o.Budget = found[i]
		w.steps.Prepare(o.at, nonces[o.at*NonceBytes:(o.at+1)*NonceBytes])
	}
}

// seed is the seed of the hashes in chain.
var seed = maphash.MakeSeed()

// chain makes each request of an id wait until the one before it in the call is done.
func (w *Wave) chain() {
	size := 1 << bits.Len(uint(2*w.n))
	last := make([]*Op, size) // by hash, with linear probing
	for i := range w.n {
		o := w.steps.Op(i)
		if o.done {
			continue
		}
		at := maphash.String(seed, o.Request.RequestID) & uint64(size-1)
		for last[at] != nil && !sameID(last[at], o) {
			at = (at + 1) & uint64(size-1)
		}
		if earlier := last[at]; earlier != nil {
			earlier.after, o.held = o, true
		}
		last[at] = o
	}
}

func sameID(a, b *Op) bool {
	return a.Request.RequestID == b.Request.RequestID && a.Budget.ID == b.Budget.ID
}
