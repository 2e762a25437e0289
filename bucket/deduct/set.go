package deduct

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/budgetd/budgetd/bucket"
	"github.com/budgetd/budgetd/budget"
	"github.com/budgetd/budgetd/ledger"
)

// setOp is what the legs of an operation have in common.
type setOp struct {
	bucket.Set
	request *bucket.DeductRequest
	at      *Leg // the leg whose outcome decides what follows
}

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

// legsIn returns how many legs operations have.
func legsIn(ops []*Op) (n int) {
	for _, o := range ops {
		n += 1 + len(o.others)
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
	r, nonce := o.Request, o.Row.Nonce
	o.way = &c.s.inSQL
	o.set = &setOp{request: r, Set: bucket.Set{Legs: len(r.Legs),
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
	o.others = make([]Leg, len(r.Legs)-1)
	i, prints := 0, make([]ledger.LegPrint, len(r.Legs))
	for l := range o.legs {
		leg := r.Legs[i]
		leg.RequestID, leg.Reference, leg.By = r.RequestID, r.Reference, r.By
		leg.HoldTTL, leg.Above, leg.ExpiresAs = r.HoldTTL, r.Above, r.ExpiresAs
		*l = Leg{Request: &leg, Budget: found[i], State: c.s.states.Of(found[i].ID),
			Row: rowOf(&leg, nonce)}
		prints[i] = ledger.LegPrint{Budget: found[i].ID, Fingerprint: l.Row.Fingerprint}
		i++
	}
	fingerprint := ledger.SetFingerprint(prints, r.Group)
	for l := range o.legs {
		l.Row.ID, l.Row.Fingerprint = ledger.LegID(0, r.RequestID), fingerprint
	}
}

// notFoundLegs returns why budgets of legs could not be found, or nil.
func notFoundLegs(r *bucket.DeductRequest, errs []error) error {
	for i, err := range errs {
		var e *budget.Error
		switch {
		case err == nil:
		case errors.As(err, &e) && e.Code == budget.BudgetNotFound:
			named := *e
			named.Fields = []budget.FieldError{{Field: fmt.Sprintf("legs[%d].budget", i),
				Message: fmt.Sprintf("there is no budget %q", r.Legs[i].Budget.Name)}}
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
				Fields: []budget.FieldError{{Field: fmt.Sprintf("legs[%d].budget", i),
					Message: "is the budget of an earlier leg; add the amounts up"}}}
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
	refused := false
	for l := range o.legs {
		l.Outcome, l.refusal = nil, nil
		_, l.Route = l.Budget.Routed(l.Request)
		if o.Unsure && l.Budget.UnknownZone() == nil {
			continue
		}
		if e := l.Budget.RefusalNow(l.Request.Amount, c.sqlNow); e != nil {
			l.refusal, refused = e, true
		}
	}
	if refused {
		c.find(o, nil)
		return
	}
	for l := range o.legs {
		if !o.Unsure && l.Budget.Period.OverAt(c.sqlNow) {
			c.out.putFor(o.way.rollovers, l.Budget.ID, o)
			return
		}
	}
	i := 0
	for l := range o.legs {
		if err := l.count(); err != nil {
			c.refuse(o, faultsOfLeg(i, err))
			return
		}
		i++
	}
	for l := range o.legs {
		if l.Route == nil {
			c.out.putFor(o.way.supplies, l.Budget.ID, o)
			return
		}
	}
	c.out.put(c.s.sql.gate.decides, o)
}

// faultsOfLeg names the leg in the faults of an error.
func faultsOfLeg(i int, err error) error {
	var e *budget.Error
	if !errors.As(err, &e) {
		return err
	}
	named := *e
	named.Fields = nil
	for _, f := range e.Fields {
		f.Field = fmt.Sprintf("legs[%d].%s", i, f.Field)
		named.Fields = append(named.Fields, f)
	}
	return &named
}

// weights orders the verdicts of legs: that of a set is the first of them that a leg has.
var weights = map[bucket.Verdict]int{bucket.Known: 1, bucket.Over: 2, bucket.Gone: 3,
	bucket.Outdated: 4, bucket.Short: 5, bucket.GroupClosed: 6, bucket.Limited: 7,
	bucket.Exhausted: 8, bucket.Fits: 9, bucket.Accepted: 9}

// take takes the outcomes of the operation's legs, and returns those of the operations after it.
func (o *Op) take(outcomes []bucket.Outcome) []bucket.Outcome {
	first, guess := &outcomes[0], false
	best := first
	for l := range o.legs {
		l.Outcome = &outcomes[0]
		outcomes = outcomes[1:]
		guess = guess || l.Outcome.Guess
		if o.set != nil && (l == &o.Leg || weights[l.Outcome.Verdict] < weights[best.Verdict]) {
			best, o.set.at = l.Outcome, l
		}
	}
	o.Verdict, o.Recorded = best.Verdict, &first.Deduction
	o.Unsure = o.Unsure && guess
	return outcomes
}

// legsRefused returns the refusal of a set, which names every leg that refuses, with its figures.
// Legs that no transaction has judged are looked at now.
func (c *call) legsRefused(o *Op) error {
	var looked []bucket.CheckAnswer
	if unknown := o.unnamed(); len(unknown) > 0 {
		looked = c.s.predict(c.ctx, unknown)
	}
	e := budget.Refuse(budget.LegRefused, "deduct", "")
	var reasons []string
	for l := range o.legs {
		err := l.refusal
		switch {
		case err != nil:
		case l.Outcome == nil:
			err, looked = looked[0].Err, looked[1:]
		case l.Outcome.Verdict == bucket.Limited:
			err = l.Budget.LimitExceeded(l.Outcome.Refused, c.sqlNow)
		case l.Outcome.Verdict == bucket.Exhausted:
			err = l.Budget.Exhausted(l.Outcome.Availability, l.Request.Amount, c.sqlNow)
		}
		var refusal *budget.Error
		if !errors.As(err, &refusal) || refusal.Code.Kind() == budget.NotDone && l.refusal == nil {
			continue
		}
		if refusal.Code.Kind() == budget.NotDone {
			return refusal
		}
		e.Refusals = append(e.Refusals, budget.LegRefusal{Budget: l.Budget.Name, Reason: refusal})
		e.Never = e.Never || refusal.Never
		e.RetryAfter = max(e.RetryAfter, refusal.RetryAfter)
		reasons = append(reasons, refusal.Message)
	}
	if e.Never {
		e.RetryAfter = 0
	}
	e.Message = fmt.Sprintf("%d of %d legs refuse, and nothing was deducted: %s", len(e.Refusals),
		o.set.Legs, strings.Join(reasons, "; "))
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
	refs := make([]bucket.BudgetRef, len(r.Legs))
	for i := range r.Legs {
		refs[i] = r.Legs[i].Budget
	}
	budgets, errs := s.budgets.FindAll(ctx, refs)
	if c.prepareSet(&o, budgets, errs); o.done {
		answer.Err = o.Result.Err
		return answer, nil
	}
	answer.Legs = s.predict(ctx, o.unnamed())
	refused, i := false, 0
	for l := range o.legs {
		leg := &answer.Legs[i]
		leg.Budget = l.Budget.Name
		switch kind := budget.CodeOf(leg.Err).Kind(); {
		case leg.Err == nil:
		case kind == budget.Refused:
			l.refusal, refused = leg.Err, true
		case kind == budget.Faulty:
			answer.Err = faultsOfLeg(i, leg.Err)
			return answer, nil
		default:
			answer.Err = leg.Err
			return answer, nil
		}
		i++
	}
	if refused {
		answer.Err = c.legsRefused(&o)
	}
	return answer, nil
}

// unnamed returns the requests of the legs that no transaction has judged and no definition
// refuses, as a check asks for them.
func (o *Op) unnamed() (asked []bucket.DeductRequest) {
	for l := range o.legs {
		if l.refusal == nil && l.Outcome == nil {
			leg := *l.Request
			leg.RequestID, leg.HoldTTL, leg.Above, leg.ExpiresAs = "", 0, "", ""
			asked = append(asked, leg)
		}
	}
	return asked
}

// acceptSet answers a set that a transaction has just carried out.
func (c *call) acceptSet(o *Op) {
	a := c.beginAnswer(o, &o.Leg.Outcome.Deduction)
	i := 0
	for l := range o.legs {
		a.Legs[i] = l.answer(&l.Outcome.Deduction)
		a.Legs[i].Limits = l.Outcome.Limits
		a.Legs[i].BucketRemaining, a.Legs[i].RemainingUnknown = l.Outcome.Remaining, false
		i++
	}
	c.completeSet(o)
}

// repeatSet answers from the rows of the legs of a set that was deducted before.
func (c *call) repeatSet(o *Op) {
	left := int64(0)
	for l := range o.legs {
		switch {
		case o.Err != nil:
			c.retry(o, o.Err)
			return
		case l.row == nil:
			c.reply(o, &budget.Error{Code: budget.Internal, Op: "deduct",
				Message: "a leg of the set is missing in budget " + l.Budget.Name})
			return
		}
		left += l.row.Left()
	}
	if left == 0 {
		c.reply(o, ledger.Gone("deduct", o.request().RequestID, o.row.State))
		return
	}
	a := c.beginAnswer(o, o.row)
	a.Replayed = o.Recorded.Nonce != o.Row.Nonce
	i := 0
	for l := range o.legs {
		l.Spent = l.State.Spent.Load()
		a.Legs[i] = l.answer(l.row)
		i++
	}
	o.recent = true
	c.completeSet(o)
}

// beginAnswer begins the answer to a set whose first leg is recorded as d.
func (c *call) beginAnswer(o *Op, d *ledger.Deduction) *bucket.DeductAnswer {
	o.answered = true
	o.Result.Answer = bucket.DeductAnswer{RequestID: o.request().RequestID, State: d.State,
		HoldUntil: d.HoldUntil, FiguresUnknown: true, RemainingUnknown: true,
		Legs: make([]bucket.DeductAnswer, o.set.Legs)}
	return &o.Result.Answer
}

// answer returns the answer to a leg, without figures.
func (l *Leg) answer(d *ledger.Deduction) bucket.DeductAnswer {
	a := answerOf(l.Budget, l.Route, d)
	a.RequestID, a.Budget = l.Request.RequestID, l.Budget.Name
	return a
}

// completeSet adds the figures to the answers of the legs. It reads them first if cached ones are
// too old, or a repeat might be younger than they are.
func (c *call) completeSet(o *Op) {
	i, missing := 0, false
	for l := range o.legs {
		a := &o.Result.Answer.Legs[i]
		i++
		read := l.State.fresh(c.now, figuresAge)
		switch {
		case l.Budget.Unlimited:
		case o.Step == stepFigures && l.Sum != nil:
			l.figures(a, l.Sum)
		case read != nil && !o.recent:
			l.figures(a, read)
		default:
			missing = missing || c.mayRead(l.Budget.ID)
		}
	}
	if missing && o.Step != stepFigures && c.passed == inTime {
		c.out.put(c.s.figures, o)
		return
	}
	c.reply(o, nil)
}
