package bucket

import (
	"context"
	"sync"
	"time"

	"github.com/budgetd/budgetd/budget"
)

// CheckRequest asks whether a budget would be deducted from now. The caller has validated the texts
// (budget.CheckKey) and the amounts.
type CheckRequest struct {
	Budget BudgetRef
	// Amount is in minor units, 1 … budget.MaxAmount.
	Amount     int64
	Dimensions map[string]string
	// Counts are own amounts for single limits, by their names.
	Counts map[string]int64
}

// CheckAnswer is what a deduct would be answered now: accepted, unless Err says otherwise.
type CheckAnswer struct {
	Amount int64
	// BudgetRemaining is what the whole budget covers, in minor units; Unlimited: no figure for callers.
	BudgetRemaining int64
	Unlimited       bool
	// PeriodRemaining is what the open period of a daily budget covers; nil for promo.
	PeriodRemaining *int64
	// Limits are those that it would count for, as they are now: without it.
	Limits []budget.LimitState
	// Recorded is what the request id would be answered as a replay; nil: it is new, or there is none.
	Recorded *DeductAnswer
	// Err is the refusal, or why it cannot be said.
	Err error
}

// checkedAtOnce bounds the budgets that one Check reads side by side.
const checkedAtOnce = 16

// Check answers, for each request in order, whether a deduct would be accepted now, and changes nothing.
// The requests of a budget are judged by one statement for all, each for itself: two that fit one by one
// need not fit together. The answer holds for the instant of the read only, and what the budget covers
// may be a second old; in store mode the limits are behind by up to the window.
//
// Errors, each in its answer: as Deduct, but for those of request ids. Safe for concurrent use.
func (s *Service) Check(ctx context.Context, requests []CheckRequest) []CheckAnswer {
	answers := make([]CheckAnswer, len(requests))
	byBudget := map[BudgetRef][]int{}
	var refs []BudgetRef
	for i, r := range requests {
		if byBudget[r.Budget] == nil {
			refs = append(refs, r.Budget)
		}
		byBudget[r.Budget] = append(byBudget[r.Budget], i)
	}
	var running sync.WaitGroup
	free := make(chan struct{}, checkedAtOnce)
	for _, ref := range refs {
		free <- struct{}{}
		running.Go(func() {
			defer func() { <-free }()
			at := byBudget[ref]
			if err := s.checkBudget(ctx, ref, requests, at, answers); err != nil {
				for _, i := range at {
					answers[i] = CheckAnswer{Amount: requests[i].Amount, Err: err}
				}
			}
		})
	}
	running.Wait()
	return answers
}

// checkBudget answers the requests with these indices, all of one budget.
func (s *Service) checkBudget(ctx context.Context, ref BudgetRef, requests []CheckRequest, at []int,
	answers []CheckAnswer) error {
	entry, err := s.budgets.find(ctx, ref)
	if err != nil {
		return err
	}
	step, cancel := s.bounded(ctx)
	defer cancel()
	s.turnFirst(step, entry)
	b, now := entry.value.Load(), s.sql.Now()
	if refusal := b.refusalAt(now); refusal != nil {
		return refusal
	}
	c, err := s.cover(step, entry)
	if err != nil {
		return s.sqlFailed(err)
	}
	asks := make([]LimitAsk, len(at))
	for n, i := range at {
		asks[n] = LimitAsk{Amount: requests[i].Amount, Dimensions: requests[i].Dimensions, Counts: requests[i].Counts}
	}
	got, err := s.askLimits(step, b, asks)
	if err != nil {
		return err
	}
	for n, i := range at {
		if answers[i] = b.foresee(asks[n], c, got[n], now); got[n].Missing != nil || len(asks[n].Counts) > 0 {
			if why := entry.unfit(b, asks[n].Dimensions, asks[n].Counts); why != nil {
				answers[i] = CheckAnswer{Amount: asks[n].Amount, Err: why}
			}
		}
	}
	return nil
}

// askLimits judges asks by a budget's limits; a budget without limits has nothing against any.
func (s *Service) askLimits(ctx context.Context, b *Budget, asks []LimitAsk) ([]LimitAnswer, error) {
	if b.Limits == nil || len(b.Limits.List) == 0 {
		return make([]LimitAnswer, len(asks)), nil
	}
	got, err := s.sql.CheckLimits(ctx, b.ID, asks)
	return got, s.sqlFailed(err)
}

// foresee is the answer to an ask of a budget that is effective, by its sum and its limits: the
// budget goes first, then its limits in their order.
func (b *Budget) foresee(ask LimitAsk, c Cover, limits LimitAnswer, now time.Time) CheckAnswer {
	var d DeductAnswer
	d.remaining(b, c)
	answer := CheckAnswer{Amount: ask.Amount, BudgetRemaining: d.BudgetRemaining, Unlimited: d.Unlimited,
		PeriodRemaining: d.PeriodRemaining, Limits: limits.States}
	switch {
	case c.Sum() < ask.Amount:
		answer.Err = b.exhausted(c, ask.Amount, now)
	case limits.Refusal != nil:
		answer.Err = limitExceeded(*limits.Refusal, now)
	}
	return answer
}

// DryRun answers what Deduct would be answered now for the same request, and changes nothing: an id that
// is recorded gets what a repetition would, in Recorded. In store mode an id and what limits count are
// seen once they are in the ledger.
//
// Errors: as Deduct; a refusal is in the answer's Err. Never OutcomeUnknown. Safe for concurrent use.
func (s *Service) DryRun(ctx context.Context, r DeductRequest) (CheckAnswer, error) {
	step, cancel := context.WithTimeout(ctx, s.set.Deadline)
	defer cancel()
	entry, err := s.budgets.find(step, r.Budget)
	if err != nil {
		return CheckAnswer{}, err
	}
	s.turnFirst(step, entry)
	a := s.attempt(entry, r)
	j, err := s.judges.do(step, entry.id, judgeAsk{r.RequestID, r.Amount})
	if err != nil {
		return CheckAnswer{}, err
	}
	if d, ok := j.Recorded[r.RequestID]; ok {
		answer, err := a.answerRecorded(step, d)
		return CheckAnswer{Amount: r.Amount, Recorded: &answer, Err: err}, nil
	}
	b, now := entry.value.Load(), s.sql.Now()
	if refusal := b.refusalAt(now); refusal != nil {
		return CheckAnswer{Amount: r.Amount, Err: refusal}, nil
	}
	if why := entry.unfit(b, r.Dimensions, r.Counts); why != nil {
		return CheckAnswer{Amount: r.Amount, Err: why}, nil
	}
	ask := LimitAsk{Amount: r.Amount, Dimensions: r.Dimensions, Counts: r.Counts}
	got, err := s.askLimits(step, b, []LimitAsk{ask})
	if err != nil {
		return CheckAnswer{}, err
	}
	return b.foresee(ask, j.Cover, got[0], now), nil
}

// unfit returns why a request cannot be judged by the budget's limits, nil if it can: Invalid with every
// faulty field. A dimension that a limit needs is missing, or an own amount is for no limit.
func (e *cached) unfit(b *Budget, dimensions map[string]string, counts map[string]int64) error {
	if b.Limits == nil && len(counts) == 0 {
		return nil
	}
	set, err := e.limitSet()
	if err != nil {
		return err
	}
	faults := append(set.CheckCounts(counts), set.CheckDimensions(dimensions)...)
	if len(faults) == 0 {
		return nil
	}
	return &budget.Error{Code: budget.Invalid, Op: "deduct", Fields: faults,
		Message: "the limits of budget " + b.Name + " cannot judge the request"}
}
