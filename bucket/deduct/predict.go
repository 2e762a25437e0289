package deduct

import (
	"context"
	"slices"

	"github.com/budgetd/budgetd/bucket"
	"github.com/budgetd/budgetd/budget"
)

// Check predicts, for each request in order, whether Deduct would accept it now. It changes
// nothing, except that it rolls over a period that is over. One read of a kind serves all requests.
// Each request is evaluated alone: two that fit separately may not fit together. The prediction is
// valid only at the instant of the read.
//
// Each answer contains its own error. The errors are those of Deduct, without those of request ids
// and without OutcomeUnknown. An answer names every limit that would be exceeded.
func (s *Service) Check(ctx context.Context, requests []bucket.CheckRequest) []bucket.CheckAnswer {
	deducts := make([]bucket.DeductRequest, len(requests))
	for i, r := range requests {
		deducts[i] = bucket.DeductRequest{Budget: r.Budget, Amount: r.Amount,
			Dimensions: r.Dimensions, Counts: r.Counts}
	}
	return s.predictAll(ctx, deducts)
}

// DryRun predicts the answer of Deduct for the same request. It changes nothing, except that it
// rolls over a period that is over. For a recorded id, Recorded has the answer of a repeat.
//
// Errors: BudgetNotFound, Unavailable. What Deduct would refuse, RequestConflict and RequestVoid
// included, is in the answer's Err.
func (s *Service) DryRun(ctx context.Context, r bucket.DeductRequest) (bucket.CheckAnswer, error) {
	if len(r.Legs) > 0 {
		return s.dryRunSet(ctx, r)
	}
	answer := s.predictAll(ctx, []bucket.DeductRequest{r})[0]
	if budget.Is(answer.Err, budget.BudgetNotFound) || budget.Is(answer.Err, budget.Unavailable) {
		return bucket.CheckAnswer{}, answer.Err
	}
	return answer, nil
}

// predict predicts the answers of requests.
func (s *Service) predict(ctx context.Context,
	requests []bucket.DeductRequest) []bucket.CheckAnswer {
	const rounds = 3 // a definition, a window or an epoch may have changed just now
	ctx, cancel := context.WithTimeout(ctx, s.set.StepTime)
	defer cancel()
	c := &call{s: s, ctx: ctx, ops: make([]Op, len(requests))}
	c.tick()
	c.began = c.sqlNow
	results := make([]bucket.DeductResult, len(requests))
	refs := make([]bucket.BudgetRef, len(requests))
	for i := range requests {
		refs[i] = requests[i].Budget
	}
	found, errs := s.budgets.FindAll(ctx, refs)
	left := make([]*Op, 0, len(requests))
	for i := range c.ops {
		o, r := &c.ops[i], &requests[i]
		o.call, o.Request, o.Result, o.Budget, o.Err = c, r, &results[i], found[i], errs[i]
		if o.Err == nil && r.ForHold() {
			o.Err = checkHold(o.Budget, r)
		}
		if o.Err == nil {
			o.way, o.State, o.Row = s.wayOf(o.Budget), s.states.Of(o.Budget.ID), rowOf(r, "")
			left = append(left, o)
		}
	}
	judged := slices.Clone(left)
	for range rounds {
		left = c.look(c.prepareAll(left))
	}
	c.readSums(judged)
	answers := make([]bucket.CheckAnswer, len(requests))
	for i := range c.ops {
		answers[i] = c.ops[i].prediction(c)
	}
	return answers
}

// prepareAll evaluates operations against their definitions, and returns those that their homes
// have to evaluate too. It first rolls over periods that are over, each budget once.
func (c *call) prepareAll(ops []*Op) (asked []*Op) {
	rolled := map[int64]error{}
	for _, o := range ops {
		b := o.Budget
		o.Err = nil
		if b.Period.OverAt(c.sqlNow) && b.RefusalNow(o.Row.Amount, c.sqlNow) == nil {
			if _, done := rolled[b.ID]; !done {
				rolled[b.ID] = o.way.RollOver(c.ctx, b.ID)
			}
			if o.reload(); o.Err == nil {
				o.Err = rolled[b.ID]
			}
		}
		if o.Err == nil && c.prepareOne(o) {
			asked = append(asked, o)
		}
	}
	return asked
}

// prepareOne reports whether the answer depends on the home of an operation. A repeat of a refused
// request gets the recorded outcome.
func (c *call) prepareOne(o *Op) bool {
	b := o.Budget
	_, o.Route = b.Routed(o.Request)
	o.Refusal = nil
	final := o.Row.ID == "" || b.UnknownZone() != nil
	if refusal := b.RefusalNow(o.Row.Amount, c.sqlNow); refusal != nil {
		o.Refusal = refusal
	}
	if b.UnknownZone() == nil {
		if err := o.way.Count(o, c.sqlNow); err != nil && o.Refusal == nil {
			o.Refusal, final = err, final || o.way.store
		}
	}
	if o.Refusal == nil {
		_, o.Refusal = o.way.Next(o, c.sqlNow)
	}
	if o.Refusal != nil && final {
		o.Err = o.Refusal
	}
	return o.Err == nil
}

// reload reads the definition again.
func (o *Op) reload() {
	b, err := o.call.s.budgets.Reload(o.call.ctx, o.Budget.ID)
	if err != nil {
		o.Err = err
		return
	}
	o.Budget = b
}

// look asks the homes, one call for each, and returns the operations that must be evaluated again,
// by a newer definition.
func (c *call) look(ops []*Op) (again []*Op) {
	byGate := map[*Gate][]*Op{}
	for _, o := range ops {
		gate, err := o.way.Gate(o)
		if o.Err = err; err == nil {
			byGate[gate] = append(byGate[gate], o)
		}
	}
	for gate, list := range byGate {
		gate.Predict(c.ctx, list, c.now)
	}
	c.tick()
	for _, o := range ops {
		switch o.Verdict {
		case bucket.Outdated, bucket.WindowOver, bucket.Over:
			down := o.Err
			if o.Err = o.Refusal; o.Err != nil {
				continue
			}
			if o.reload(); o.Err == nil {
				o.Err = down // unless it is evaluated again
				again = append(again, o)
			}
		}
	}
	return again
}

// readSums reads I3's sums for figures, and those that do not cover their amounts again, exactly.
// This second read begins after the first has ended (I3).
func (c *call) readSums(ops []*Op) {
	ops = slices.DeleteFunc(ops, func(o *Op) bool {
		return o.Err != nil || o.Budget.Unlimited || o.Refusal != nil && o.Verdict != bucket.Known
	})
	c.s.sql.look(c.ctx, ops, false)
	ops = slices.DeleteFunc(ops, func(o *Op) bool { return o.Err != nil || !o.lacks() })
	c.s.sql.look(c.ctx, ops, true)
}

// lacks reports whether a new id would be refused because the budget does not cover it.
func (o *Op) lacks() bool {
	return o.Sum != nil && o.Sum.Sum() < o.Row.Amount && o.Verdict != bucket.Known &&
		(o.Verdict == bucket.Short || !o.way.store)
}

// prediction returns the answer to a request.
func (o *Op) prediction(c *call) bucket.CheckAnswer {
	a := &o.Result.Answer
	answer := bucket.CheckAnswer{Amount: o.Request.Amount, Limits: a.Limits}
	if o.Budget == nil || o.State == nil {
		answer.Err = o.Err
		return answer
	}
	if o.Err == nil && o.Verdict == bucket.Known {
		*a = answerOf(o.Budget, o.Route, o.Recorded)
		a.Replayed = true
		o.Err = o.notRepeated()
		if a.BucketRemaining = o.balance; !o.way.store {
			a.RemainingUnknown = false
		}
	}
	if o.Sum != nil {
		o.Spent = o.State.Spent.Load()
		o.figures(a, o.Sum)
	}
	answer.Unlimited = o.Budget.Unlimited
	answer.BudgetRemaining, answer.PeriodRemaining = a.BudgetRemaining, a.PeriodRemaining
	switch {
	case o.Err != nil:
		answer.Err = o.Err
	case o.Verdict == bucket.Known:
		answer.Recorded = a
	case o.Refusal != nil:
		answer.Err = o.Refusal
	case o.lacks():
		answer.Err = o.Budget.Exhausted(o.Sum.Availability, o.Row.Amount, c.sqlNow)
	case o.Verdict == bucket.Limited:
		answer.Err = o.Budget.LimitExceeded(o.Exceeded, c.sqlNow)
	}
	if budget.CodeOf(answer.Err).Kind() == budget.Refused && c.isSilent(o) &&
		!c.s.budgets.IsCurrent(o.Budget) {
		answer.Err = outOfDate()
	}
	return answer
}
