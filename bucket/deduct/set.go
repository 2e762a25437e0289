package deduct

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/budgetd/budgetd/bucket"
	"github.com/budgetd/budgetd/budget"
	"github.com/budgetd/budgetd/ledger"
)

// setOp is what the legs of an operation have in common.
type setOp struct {
	bucket.Set
	request *bucket.DeductRequest
	// plain says that the request names one budget, which charges others. The owner of the set is the
	// row of its own leg, so that it is repeated as any deduction is.
	plain bool
	named int                // the legs that the request names, which come first
	at    *Leg               // the leg whose outcome decides what follows
	rows  []ledger.Deduction // of the legs of a set that was deducted before, as its owner lists them
}

// isOfTenant reports whether the operation is a set of a tenant.
func (o *Op) isOfTenant() bool { return o.set != nil && !o.set.plain }

// legs yields what the operation deducts: one leg, or those of a set.
func (o *Op) legs(yield func(*Leg) bool) {
	if !yield(&o.Leg) {
		return
	}
	for i := range o.others {
		if !yield(&o.others[i]) {
			return
		}
	}
}

// legsIn returns how many legs the attempts of operations have.
func legsIn(ops []*Op) (n int) {
	for _, o := range ops {
		for range o.active {
			n++
		}
	}
	return n
}

// request returns the operation's request, of a set as a whole.
func (o *Op) request() *bucket.DeductRequest {
	if o.set != nil {
		return o.set.request
	}
	return o.Request
}

// id returns the id by which a repetition of the operation is found.
func (o *Op) id() bucket.ID {
	if o.set != nil {
		return o.set.Owner
	}
	return bucket.ID{Budget: o.Budget.ID, RequestID: o.Row.ID}
}

// decisive returns the leg whose outcome decides what follows.
func (o *Op) decisive() *Leg {
	if o.set != nil && o.set.at != nil {
		return o.set.at
	}
	return &o.Leg
}

// prepareSet builds the legs of a set in the budgets that were found.
func (c *call) prepareSet(o *Op, found []*bucket.Budget, errs []error) {
	r := o.Request
	o.way = &c.s.inSQL
	o.set = &setOp{request: r, Set: bucket.Set{
		Owner: bucket.ID{RequestID: ledger.SetID(r.Budget.Tenant, r.RequestID)}}}
	if r.Group != "" {
		o.set.Group = ledger.SetID(r.Budget.Tenant, r.Group)
	}
	if err := notFoundLegs(r, errs); err != nil {
		c.reply(o, err)
		return
	}
	if err := checkSet(r, found); err != nil {
		c.reply(o, err)
		return
	}
	if err := c.buildSet(o, found); err != nil {
		c.reply(o, err)
	}
}

// buildSet builds the legs of a set of a tenant: those of the request, in budgets that were found,
// and those that these budgets charge.
func (c *call) buildSet(o *Op, found []*bucket.Budget) error {
	r, nonce := o.set.request, o.Row.Nonce
	legs := make([]Leg, 0, len(found))
	prints := make([]ledger.LegPrint, len(r.Legs))
	o.set.named = len(found)
	for i := range r.Legs {
		leg := r.Legs[i]
		leg.RequestID, leg.Reference, leg.By = r.RequestID, r.Reference, r.By
		leg.HoldTTL, leg.Above, leg.ExpiresAs = r.HoldTTL, r.Above, r.ExpiresAs
		list := found[:len(leg.Refs())]
		found = found[len(list):]
		if len(leg.From) > 0 {
			if err := checkSources(i, list); err != nil {
				return err
			}
		}
		var of []Leg
		of, prints[i] = sourcesOf(&leg, list, nonce)
		legs = append(legs, of...)
	}
	legs, err := c.chargeLegs(legs)
	if err != nil {
		return err
	}
	fingerprint := ledger.SetFingerprint(prints, r.Group)
	for i := range legs {
		l := &legs[i]
		l.State, l.Row = c.s.states.Of(l.Budget.ID), rowOf(l.Request, nonce)
		l.Row.ID, l.Row.Fingerprint = ledger.LegID(0, r.RequestID), fingerprint
	}
	o.set.Legs = len(legs)
	o.Leg, o.others = legs[0], legs[1:]
	return nil
}

// notFoundLegs returns why budgets of legs could not be found, or nil.
func notFoundLegs(r *bucket.DeductRequest, errs []error) error {
	for i, err := range errs {
		var e *budget.Error
		switch {
		case err == nil:
		case errors.As(err, &e) && e.Code == budget.BudgetNotFound:
			named := *e
			named.Fields = []budget.FieldError{{Field: fieldsOf(r)[i],
				Message: fmt.Sprintf("there is no budget %q", namedBy(r)[i].Name)}}
			return &named
		default:
			return Unavailable(err)
		}
	}
	return nil
}

// checkSet refuses a set of one budget twice, a malformed hold, and budgets in store mode.
func checkSet(r *bucket.DeductRequest, found []*bucket.Budget) error {
	seen := map[int64]bool{}
	for i, b := range found {
		if err := b.NeedsRows("set", bucket.InsteadOfSet); err != nil {
			return err
		}
		if seen[b.ID] {
			return &budget.Error{Code: budget.Invalid, Op: "deduct",
				Message: "a set deducts from each budget once",
				Fields: []budget.FieldError{{Field: fieldsOf(r)[i],
					Message: "is named before; add the amounts up"}}}
		}
		seen[b.ID] = true
	}
	if r.ForHold() {
		return checkHold(found[0], r)
	}
	return nil
}

// beginSet is begin for a set: it goes to a flight if every leg passes its definition.
func (c *call) beginSet(o *Op) {
	o.set.at = nil
	for l := range o.legs {
		l.Outcome, l.refusal, l.idle = nil, nil, false
		_, l.Route = l.Budget.Routed(l.Request)
		if o.Unsure && l.Budget.UnknownZone() == nil {
			continue
		}
		if e := l.Budget.RefusalNow(l.Request.Amount, c.sqlNow); e != nil {
			l.refusal = e
		}
	}
	if o.isRefused() {
		c.find(o, nil)
		return
	}
	for l := range o.legs {
		if !o.Unsure && l.refusal == nil && l.Budget.Period.OverAt(c.sqlNow) {
			c.out.putFor(o.way.rollovers, l.Budget.ID, o)
			return
		}
	}
	i := 0
	for l := range o.legs {
		if err := l.count(); err != nil {
			c.refuse(o, o.faultsOfLeg(l, i, err))
			return
		}
		i++
	}
	if !o.choose(c.now) {
		c.seek(o)
		return
	}
	for l := range o.active {
		if l.Route == nil {
			o.chooseAll()
			c.out.putFor(o.way.supplies, l.Budget.ID, o)
			return
		}
	}
	c.out.put(c.s.sql.gate.decides, o)
}

// faultsOfLeg names the leg in the faults of an error: by its number if the request names it in a
// list, else by its budget.
func (o *Op) faultsOfLeg(l *Leg, i int, err error) error {
	var e *budget.Error
	if !errors.As(err, &e) || o.set.plain && !l.charged {
		return err
	}
	named := *e
	named.Fields = nil
	for _, f := range e.Fields {
		if l.charged {
			f.Message += " (budget " + l.Budget.Name + ", which is also charged)"
		} else {
			f.Field = fmt.Sprintf("legs[%d].%s", i, f.Field)
		}
		named.Fields = append(named.Fields, f)
	}
	return &named
}

// weights orders the verdicts of legs: that of a set is the first of them that a leg has.
var weights = map[bucket.Verdict]int{bucket.Known: 1, bucket.Over: 2, bucket.Gone: 3,
	bucket.Outdated: 4, bucket.Short: 5, bucket.GroupClosed: 6, bucket.Limited: 7,
	bucket.Exhausted: 8, bucket.Fits: 9, bucket.Accepted: 9, bucket.Passed: 10}

// take takes the outcomes of the operation's legs, and returns those of the operations after it.
func (o *Op) take(outcomes []bucket.Outcome) []bucket.Outcome {
	first, guess := &outcomes[0], false
	best := first
	for l := range o.active {
		l.Outcome = &outcomes[0]
		outcomes = outcomes[1:]
		guess = guess || l.Outcome.Guess
		if o.set != nil && (o.set.at == nil || weights[l.Outcome.Verdict] < weights[best.Verdict]) {
			best, o.set.at = l.Outcome, l
		}
	}
	o.Verdict, o.Recorded = best.Verdict, &first.Deduction
	o.Unsure = o.Unsure && guess
	return outcomes
}

// legsRefused returns the refusal of a set, which names every leg that refuses, with the figures of
// those that the request names; of a leg with sources all of them. looked has the legs that no
// transaction has judged.
func (c *call) legsRefused(o *Op, looked map[*Leg]bucket.CheckAnswer) error {
	var list [][]budget.LegRefusal
	legs := 0
	for group := range o.asked {
		legs++
		var of []budget.LegRefusal
		for _, l := range group {
			err := cmp.Or(l.refusal, looked[l].Err)
			switch {
			case err != nil || l.Outcome == nil:
			case l.Outcome.Verdict == bucket.Limited:
				err = l.Budget.LimitExceeded(l.Outcome.Refused, c.sqlNow)
			case l.Outcome.Verdict == bucket.Exhausted:
				err = l.Budget.Exhausted(l.Outcome.Availability, l.Request.Amount, c.sqlNow)
			}
			var refusal *budget.Error
			switch {
			case !errors.As(err, &refusal):
			case refusal.Code.Kind() != budget.NotDone:
				of = append(of, refusalOf(l.Budget.Name, refusal, l.charged))
			case l.refusal != nil:
				return refusal
			}
		}
		if len(of) == len(group) {
			mayTogether(group, of)
			list = append(list, of)
		}
	}
	return refuseLegs(list, legs)
}

// refusalOf names a leg that refuses. Of a budget that the request does not name it shows no
// figures.
func refusalOf(name string, reason *budget.Error, charged bool) budget.LegRefusal {
	if charged {
		reason = &budget.Error{Code: reason.Code, Op: reason.Op, Never: reason.Never,
			RetryAfter: reason.RetryAfter, Message: "budget " + name + " is also charged and refuses"}
	}
	return budget.LegRefusal{Budget: name, Reason: reason}
}

// refuseLegs returns the refusal of a set by some of its legs, each of which lists the refusals of
// its budget, or of all of its sources.
func refuseLegs(list [][]budget.LegRefusal, legs int) error {
	e := budget.Refuse(budget.LegRefused, "deduct", "")
	var reasons []string
	for _, of := range list {
		never, after := true, time.Duration(0)
		for _, r := range of {
			reasons = append(reasons, r.Reason.Message)
			never = never && r.Reason.Never
			if wait := r.Reason.RetryAfter; wait > 0 && (after == 0 || wait < after) {
				after = wait
			}
		}
		e.Refusals = append(e.Refusals, of...)
		e.Never, e.RetryAfter = e.Never || never, max(e.RetryAfter, after)
	}
	if e.Never {
		e.RetryAfter = 0
	}
	e.Message = fmt.Sprintf("%d of %d legs refuse, and nothing was deducted: %s", len(list), legs,
		strings.Join(reasons, "; "))
	return e
}

// dryRunSet is DryRun for a set. One that is recorded is repeated, which changes nothing.
func (s *Service) dryRunSet(ctx context.Context, r bucket.DeductRequest) (
	answer bucket.CheckAnswer, err error) {
	id := bucket.ID{RequestID: ledger.SetID(r.Budget.Tenant, r.RequestID)}
	found, err := s.sql.lookup.Recorded(ctx, []bucket.ID{id})
	if err != nil {
		return answer, Unavailable(err)
	}
	if d, known := found[id]; known && d.Decides(r.By) {
		got, err := s.Deduct(ctx, r)
		answer.Recorded, answer.Err = &got, err
		return answer, nil
	}
	o := Op{Leg: Leg{Request: &r}, Result: new(bucket.DeductResult)}
	c := &call{s: s, ctx: ctx, left: 1}
	c.tick()
	budgets, errs := s.budgets.FindAll(ctx, namedBy(&r))
	if c.prepareSet(&o, budgets, errs); o.done {
		answer.Err = o.Result.Err
		return answer, nil
	}
	looked := c.lookAt(&o)
	refused := false
	for group := range o.asked {
		leg := looked[group[0]]
		if group[0].from != nil {
			leg = partsOf(group, looked)
		}
		switch kind := budget.CodeOf(leg.Err).Kind(); {
		case leg.Err == nil:
		case kind == budget.Refused:
			refused = true
		case kind == budget.Faulty:
			answer.Err = o.faultsOfLeg(group[0], len(answer.Legs), leg.Err)
			return answer, nil
		default:
			answer.Err = leg.Err
			return answer, nil
		}
		if !group[0].charged {
			answer.Legs = append(answer.Legs, leg)
		}
	}
	if refused {
		answer.Err = c.legsRefused(&o, looked)
	}
	return answer, nil
}
