package deduct

import (
	"context"
	"errors"
	"fmt"
	"maps"

	"github.com/budgetd/budgetd/bucket"
	"github.com/budgetd/budgetd/budget"
	"github.com/budgetd/budgetd/ledger"
)

// maxSetBudgets is the most budgets of a set, those included that others charge.
const maxSetBudgets = 16

// charge makes an operation that names one budget a set with the budgets that it charges, by the
// definition that the operation has now. Error: Unavailable.
func (c *call) charge(o *Op) error {
	charged := o.Budget.AlsoCharges.IDs
	if o.others, o.set = nil, nil; len(charged) == 0 {
		return nil
	}
	r := o.Request
	found, err := c.findCharged(charged)
	if err != nil {
		return err
	}
	o.others = make([]Leg, len(found))
	for i, b := range found {
		leg := chargedRequest(b, r)
		o.others[i] = Leg{Request: &leg, Budget: b, State: c.s.states.Of(b.ID),
			Row: rowOf(&leg, o.Row.Nonce), charged: true}
		row := &o.others[i].Row
		row.ID, row.Fingerprint = ledger.LegID(o.Budget.ID, r.RequestID), o.Row.Fingerprint
	}
	o.set = &setOp{request: r, plain: true, named: 1, Set: bucket.Set{Legs: 1 + len(found),
		Owner: bucket.ID{Budget: o.Budget.ID, RequestID: r.RequestID}, Group: r.Group}}
	return nil
}

// chargeFirst is charge for a new request. Error: Invalid for a hold that takes more than it holds,
// which is of one budget.
func (c *call) chargeFirst(o *Op) error {
	if o.Request.Above != "" {
		return refuseLeg("above", "is for budgets that charge no others")
	}
	return c.charge(o)
}

// rebuild finds the legs of an operation again, after its budgets were read again.
func (c *call) rebuild(o *Op) error {
	if !o.isOfTenant() {
		if o.set != nil || len(o.Budget.AlsoCharges.IDs) > 0 {
			return c.charge(o)
		}
		return nil
	}
	named := make([]*bucket.Budget, 0, o.set.named)
	for l := range o.legs {
		if len(named) < o.set.named {
			named = append(named, l.Budget)
		}
	}
	return c.buildSet(o, named)
}

// chargedRequest returns what a request asks of a budget that another one charges. Any bucket of it
// serves, and its limits see the request's dimensions.
func chargedRequest(b *bucket.Budget, r *bucket.DeductRequest) bucket.DeductRequest {
	return bucket.DeductRequest{Budget: bucket.BudgetRef{ID: b.ID}, RequestID: r.RequestID,
		Amount: r.Amount, Dimensions: r.Dimensions, Reference: r.Reference, HoldTTL: r.HoldTTL,
		ExpiresAs: r.ExpiresAs, By: r.By}
}

// findCharged finds the budgets that a definition charges. Error: Unavailable.
func (c *call) findCharged(ids []int64) ([]*bucket.Budget, error) {
	refs := make([]bucket.BudgetRef, len(ids))
	for i, id := range ids {
		refs[i].ID = id
	}
	found, errs := c.s.budgets.FindAll(c.ctx, refs)
	for _, err := range errs {
		if err != nil {
			return nil, Unavailable(err)
		}
	}
	return found, nil
}

// chargeLegs adds what the budgets of the legs of a request charge. What several charge to one
// budget is one leg with their sum, and so it is if the request names that budget too. Errors:
// Invalid for too many budgets, a sum that is too large, and legs with different values of a
// dimension that charge one budget; Unavailable.
func (c *call) chargeLegs(legs []Leg) ([]Leg, error) {
	for i := range len(legs) {
		if len(legs[i].Budget.AlsoCharges.IDs) == 0 {
			continue
		}
		found, err := c.findCharged(legs[i].Budget.AlsoCharges.IDs)
		if err != nil {
			return nil, err
		}
		legs[i].tied = true
		for _, b := range found {
			if legs, err = addCharged(legs, i, b); err != nil {
				return nil, err
			}
		}
	}
	if len(legs) > maxSetBudgets {
		return nil, refuseLeg("legs", fmt.Sprintf("charge %d budgets, and may charge at most %d",
			len(legs), maxSetBudgets))
	}
	return legs, nil
}

// addCharged adds what the leg with an index charges to a budget.
func addCharged(legs []Leg, from int, b *bucket.Budget) ([]Leg, error) {
	r := legs[from].Request
	for i := range legs {
		to := &legs[i]
		if to.Budget.ID != b.ID {
			continue
		}
		if to.from != nil {
			return nil, refuseLeg("legs", "charge budget "+b.Name+", which is a source of another leg")
		}
		sum := *to.Request
		if sum.Amount > budget.MaxAmount-r.Amount {
			return nil, refuseLeg(fmt.Sprintf("legs[%d].amount", from),
				"is too large together with what else budget "+b.Name+" is charged")
		}
		sum.Amount += r.Amount
		sum.Dimensions = maps.Clone(sum.Dimensions)
		for name, value := range r.Dimensions {
			if was, has := sum.Dimensions[name]; has && was != value {
				return nil, refuseLeg(fmt.Sprintf("legs[%d].dimensions.%s", from, name),
					"must be that of the other legs that charge budget "+b.Name)
			}
			if sum.Dimensions == nil {
				sum.Dimensions = map[string]string{}
			}
			sum.Dimensions[name] = value
		}
		to.Request, to.Budget, to.tied = &sum, b, true
		return legs, nil
	}
	leg := chargedRequest(b, r)
	leg.Above = r.Above
	return append(legs, Leg{Request: &leg, Budget: b, charged: true, tied: true}), nil
}

func refuseLeg(field, message string) error {
	return &budget.Error{Code: budget.Invalid, Op: "deduct", Message: "the legs cannot be deducted",
		Fields: []budget.FieldError{{Field: field, Message: message}}}
}

// chargedBy returns the legs of a plain deduction in the budgets that it also charged.
func (c *call) chargedBy(o *Op, d *ledger.Deduction) (legs []bucket.DeductAnswer) {
	list, _ := d.Legs.List()
	for _, l := range list {
		leg := bucket.DeductAnswer{Amount: d.Amount, IsCharged: true}
		for i := range o.others {
			if o.others[i].Budget.ID == l.Budget {
				leg.Budget = o.others[i].Budget.Name
			}
		}
		if leg.Budget == "" { // the definition names other budgets now
			leg.Budget = c.nameOf(l.Budget)
		}
		legs = append(legs, leg)
	}
	return legs
}

// nameOf returns the name of a budget, "" if it cannot be read.
func (c *call) nameOf(id int64) string {
	b, err := c.s.budgets.Find(c.ctx, bucket.BudgetRef{ID: id})
	if err != nil {
		return ""
	}
	return b.Name
}

// predictAll is predict for requests that may be of budgets that charge others: what one of these
// refuses is refused.
func (s *Service) predictAll(ctx context.Context, requests []bucket.DeductRequest) (
	answers []bucket.CheckAnswer) {
	c := &call{s: s, ctx: ctx}
	all := requests[:len(requests):len(requests)]
	charged := make([][]*bucket.Budget, len(requests))
	names := make([]string, len(requests))
	for i := range requests {
		b, err := s.budgets.Find(ctx, requests[i].Budget)
		if err != nil || len(b.AlsoCharges.IDs) == 0 {
			continue // predict returns the error
		}
		names[i] = b.Name
		if charged[i], err = c.findCharged(b.AlsoCharges.IDs); err != nil {
			continue
		}
		for _, to := range charged[i] {
			all = append(all, bucket.DeductRequest{Budget: bucket.BudgetRef{ID: to.ID},
				Amount: requests[i].Amount, Dimensions: requests[i].Dimensions})
		}
	}
	got := s.predict(ctx, all)
	answers, got = got[:len(requests)], got[len(requests):]
	for i, list := range charged {
		answers[i].Err = withCharged(&answers[i], names[i], list, got[:len(list)])
		got = got[len(list):]
	}
	return answers
}

// withCharged returns the error of a prediction, given those for the budgets that are also charged.
// What is recorded is repeated, whatever they have.
func withCharged(a *bucket.CheckAnswer, name string, charged []*bucket.Budget,
	got []bucket.CheckAnswer) error {
	own := budget.CodeOf(a.Err)
	switch {
	case len(charged) == 0, a.Recorded != nil:
		return a.Err
	case a.Err != nil && own.Kind() != budget.Refused,
		own == budget.AlreadyRolledBack, own == budget.RequestVoid, own == budget.RequestConflict:
		return a.Err
	}
	var list [][]budget.LegRefusal
	var refusal *budget.Error
	if errors.As(a.Err, &refusal) {
		list = append(list, []budget.LegRefusal{refusalOf(name, refusal, false)})
	}
	for i, b := range charged {
		if err := got[i].Err; err != nil && budget.CodeOf(err).Kind() != budget.Refused {
			return err
		}
		if errors.As(got[i].Err, &refusal) {
			list = append(list, []budget.LegRefusal{refusalOf(b.Name, refusal, true)})
		}
	}
	if len(list) == 0 {
		return nil
	}
	return refuseLegs(list, 1+len(charged))
}
