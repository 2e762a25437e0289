package deduct

import (
	"hash/maphash"
	"math/bits"

	"github.com/budgetd/budgetd/bucket"
	"github.com/budgetd/budgetd/budget"
	"github.com/budgetd/budgetd/ledger"
)

// NonceBytes is the length of a nonce.
const NonceBytes = 8

// admit finds the budget of each request and prepares its operation. It answers a request that is
// invalid, or whose budget is not found, with that error.
func (c *call) admit(requests []bucket.DeductRequest, results []bucket.DeductResult) {
	c.left = len(c.ops)
	random := make([]byte, NonceBytes*len(c.ops))
	c.s.rand(random)
	nonces := string(random)
	var unread []*Op
	var last *Op
	for i := range c.ops {
		o := &c.ops[i]
		o.call, o.at, o.Request, o.Result = c, i, &requests[i], &results[i]
		o.Row.Nonce = nonces[i*NonceBytes : (i+1)*NonceBytes]
		if len(o.Request.Legs) > 0 {
			unread = append(unread, o)
			continue
		}
		if last != nil && last.Request.Budget == o.Request.Budget {
			o.Budget, o.State = last.Budget, last.State
		} else if o.Budget = c.s.budgets.Fresh(o.Request.Budget); o.Budget == nil {
			unread = append(unread, o)
			continue
		}
		c.prepare(o)
		last = o
	}
	if len(unread) > 0 {
		c.read(unread)
	}
}

// read finds the budgets that are not cached, and those of sets.
func (c *call) read(ops []*Op) {
	var refs []bucket.BudgetRef
	for _, o := range ops {
		refs = append(refs, namedBy(o.Request)...)
	}
	found, errs := c.s.budgets.FindAll(c.ctx, refs)
	for _, o := range ops {
		n := len(namedBy(o.Request))
		switch {
		case len(o.Request.Legs) > 0:
			c.prepareSet(o, found[:n], errs[:n])
		case errs[0] != nil:
			c.reply(o, Unavailable(errs[0]))
		default:
			o.Budget = found[0]
			c.prepare(o)
		}
		found, errs = found[n:], errs[n:]
	}
}

// namedBy returns the budgets that a request names, in the order of its legs and their sources.
func namedBy(r *bucket.DeductRequest) (refs []bucket.BudgetRef) {
	for i := range r.Legs {
		refs = append(refs, r.Legs[i].Refs()...)
	}
	if len(r.Legs) == 0 {
		refs = append(refs, r.Budget)
	}
	return refs
}

// prepare builds what the home of an operation keeps of its request.
func (c *call) prepare(o *Op) {
	r := o.Request
	o.way = c.s.wayOf(o.Budget)
	if o.State == nil {
		o.State = c.s.states.Of(o.Budget.ID)
	}
	if r.ForHold() {
		if err := checkHold(o.Budget, r); err != nil {
			c.reply(o, err)
			return
		}
	}
	o.Row = rowOf(r, o.Row.Nonce)
	if len(o.Budget.AlsoCharges.IDs) > 0 {
		if err := c.chargeFirst(o); err != nil {
			c.reply(o, err)
		}
	}
}

// rowOf returns what a home keeps of a request.
func rowOf(r *bucket.DeductRequest, nonce string) ledger.Request {
	row := ledger.Request{ID: r.RequestID, Amount: r.Amount, Nonce: nonce,
		Reference: r.Reference, Dimensions: ledger.Dimensions(r.Dimensions),
		Counts:  ledger.Counts(r.Counts),
		HoldTTL: r.HoldTTL.Milliseconds(), Group: r.Group, Above: r.Above,
		ExpiresAs: r.ExpiresAs, By: r.By}
	row.Fingerprint = ledger.RequestFingerprint(r.Amount, r.Key, row)
	return row
}

// checkHold refuses a malformed hold, and what needs a hold in store mode, which has no
// rows.
func checkHold(b *bucket.Budget, r *bucket.DeductRequest) error {
	if err := b.NeedsRows("hold", bucket.InsteadOfHold); err != nil {
		return err
	}
	if budget.ValidHoldTTL(r.HoldTTL) {
		return nil
	}
	fault := budget.FieldError{Field: "hold_ttl",
		Message: "must be whole milliseconds within its bounds; group, above and expires_as need it"}
	return &budget.Error{Code: budget.Invalid, Op: "deduct", Fields: []budget.FieldError{fault}}
}

// seed is the seed of the hashes in chain.
var seed = maphash.MakeSeed()

// chain makes each request of an id wait until the one before it in the call is done.
func (c *call) chain() {
	size := 1 << bits.Len(uint(2*len(c.ops)))
	last := make([]*Op, size) // by hash, with linear probing
	for i := range c.ops {
		o := &c.ops[i]
		if o.done {
			continue
		}
		at := maphash.String(seed, o.request().RequestID) & uint64(size-1)
		for last[at] != nil && !sameID(last[at], o) {
			at = (at + 1) & uint64(size-1)
		}
		if earlier := last[at]; earlier != nil {
			earlier.after, o.held = o, true
		}
		last[at] = o
	}
}

func sameID(a, b *Op) bool { return a.id() == b.id() }
