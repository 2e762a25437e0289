package counter

import (
	"context"
	"slices"
	"time"

	"github.com/budgetd/budgetd/bucket"
	"github.com/budgetd/budgetd/bucket/deduct"
	"github.com/budgetd/budgetd/budget"
	"github.com/budgetd/budgetd/ledger"
)

// prediction is a request and the prediction of its answer so far.
type prediction struct {
	op
	at      int // its index in the call
	refusal error
	answer  bucket.CheckAnswer
}

// Check predicts, for each request in order, whether Deduct would accept it now. It changes
// nothing, except that it rolls over a period that is over. Each request is evaluated alone: two
// that fit separately may not fit together. The prediction is valid only at the instant of the
// read.
//
// Each answer contains its own error. The errors are those of Deduct, without those of request ids
// and without OutcomeUnknown. An answer names every limit that would be exceeded.
func (s *Service) Check(ctx context.Context, requests []bucket.CheckRequest) []bucket.CheckAnswer {
	deducts := make([]bucket.DeductRequest, len(requests))
	for i, r := range requests {
		deducts[i] = bucket.DeductRequest{Budget: r.Budget, Amount: r.Amount,
			Dimensions: r.Dimensions, Counts: r.Counts}
	}
	return s.predict(ctx, deducts)
}

// DryRun predicts the answer of Deduct for the same request. It changes nothing, except that it
// rolls over a period that is over. For an id with a record, Recorded has the answer of a repeat.
//
// Errors: BudgetNotFound, Unavailable. What Deduct would refuse, RequestConflict and RequestVoid
// included, is in the answer's Err.
func (s *Service) DryRun(ctx context.Context, r bucket.DeductRequest) (bucket.CheckAnswer, error) {
	answer := s.predict(ctx, []bucket.DeductRequest{r})[0]
	if budget.Is(answer.Err, budget.BudgetNotFound) || budget.Is(answer.Err, budget.Unavailable) {
		return bucket.CheckAnswer{}, answer.Err
	}
	if err := needsNoRows(&r); err != nil {
		answer.Err, answer.Recorded = err, nil
	}
	return answer, nil
}

// predict predicts the answers of requests.
func (s *Service) predict(ctx context.Context,
	requests []bucket.DeductRequest) []bucket.CheckAnswer {
	const rounds = 3 // a definition, a window or an epoch may have changed just now
	ctx, cancel := context.WithTimeout(ctx, s.set.Deadline)
	defer cancel()
	answers := make([]bucket.CheckAnswer, len(requests))
	refs := make([]bucket.BudgetRef, len(requests))
	for i := range requests {
		refs[i] = requests[i].Budget
	}
	found, errs := s.budgets.FindAll(ctx, refs)
	var left, looked []*prediction
	for i := range requests {
		answers[i].Amount, answers[i].Err = requests[i].Amount, errs[i]
		if errs[i] == nil {
			c := &prediction{at: i}
			c.Request, c.Budget, c.answer = &requests[i], found[i], answers[i]
			left = append(left, c)
		}
	}
	looked = slices.Clone(left)
	for range rounds {
		left = s.lookAll(ctx, s.prepare(ctx, left))
	}
	for _, c := range left {
		c.answer.Err = storeDown(c.Route.Partition, nil)
	}
	s.judgeCovers(ctx, looked)
	for _, c := range looked {
		if kind := budget.CodeOf(c.answer.Err).Kind(); kind == budget.Refused && s.budgets.IsSilent() &&
			!s.budgets.IsCurrent(c.Budget) {
			c.answer.Err = outOfDate()
		}
		answers[c.at] = c.answer
	}
	return answers
}

// prepare evaluates predictions against their definitions, and returns those that the stores have
// to evaluate too. It first rolls over periods that are over, each budget once.
func (s *Service) prepare(ctx context.Context, all []*prediction) (asked []*prediction) {
	turned := map[int64]error{}
	for _, c := range all {
		now := s.sqlNow()
		if c.Budget.Period.OverAt(now) && c.Budget.RefusalNow(c.Request.Amount, now) == nil {
			if _, done := turned[c.Budget.ID]; !done {
				turned[c.Budget.ID] = s.turn(ctx, c.Budget.ID)
			}
			s.reload(ctx, c)
			if c.answer.Err == nil {
				c.answer.Err = turned[c.Budget.ID]
			}
			if c.answer.Err != nil {
				continue
			}
		}
		if c.begin(s, now) {
			asked = append(asked, c)
		}
	}
	return asked
}

// begin sets what the store is asked. It returns false if the answer does not depend on the store.
func (c *prediction) begin(s *Service, now time.Time) bool {
	b, r := c.Budget, c.Request
	c.state = deduct.StateOf(s.states, b.ID)
	c.Key = b.HomeKey(r.Dimensions, r.Key, r.RequestID)
	c.Terms = c.state.termsOf(b, max(now.UnixMilli(), c.partitionMS))
	if c.Route = b.Home(c.Key); c.Route == nil {
		c.answer.Err = offline(&c.op)
		return false
	}
	err := b.UnknownZone()
	if err == nil {
		err = c.touch()
	}
	if err != nil {
		c.answer.Err = err
		return false
	}
	c.Bucket, c.Epoch, c.ID, c.Amount = c.Route.ID, c.Route.Epoch.Number, r.RequestID, r.Amount
	c.NotAfterMS = now.Add(s.set.Late).UnixMilli()
	c.refusal = nil
	switch e := &c.Route.Epoch; {
	case b.RefusalNow(r.Amount, now) != nil:
		c.refusal = b.RefusalNow(r.Amount, now)
	case e.Halted != "" && e.Status.Live():
		c.refusal = stopped(&c.op)
	case c.Route.OfflineBy == bucket.ByOperator || c.Route.OfflineBy == bucket.ByResize:
		c.refusal = offline(&c.op)
	}
	if c.refusal != nil && c.ID == "" { // otherwise a repeat gets the recorded outcome
		c.answer.Err = c.refusal
		return false
	}
	return true
}

// reload reads the definition again.
func (s *Service) reload(ctx context.Context, c *prediction) {
	b, err := s.budgets.Reload(ctx, c.Budget.ID)
	if err != nil {
		c.answer.Err = err
		return
	}
	c.Budget = b
}

// lookAll asks the stores, one call per partition, and returns the predictions that must be
// repeated with a newer definition.
func (s *Service) lookAll(ctx context.Context, all []*prediction) (again []*prediction) {
	byPartition := map[bucket.Partition][]*prediction{}
	for _, c := range all {
		byPartition[c.Route.Partition] = append(byPartition[c.Route.Partition], c)
	}
	for name, list := range byPartition {
		answer, err := s.look(ctx, name, list)
		for i, c := range list {
			if err != nil {
				c.answer.Err = err
				continue
			}
			c.outcome, c.partitionMS = &answer.Outcomes[i], answer.NowMS
			if !c.judge(s.sqlNow()) {
				s.reload(ctx, c)
				again = append(again, c)
			}
		}
	}
	return slices.DeleteFunc(again, func(c *prediction) bool { return c.answer.Err != nil })
}

// look asks one partition. Error: Unavailable with ReasonStoreDown.
func (s *Service) look(ctx context.Context, name bucket.Partition, list []*prediction) (
	answer bucket.StoreAnswer, err error) {
	l := s.partitionOf(name)
	if l == nil {
		return answer, notConfigured(name)
	}
	m, err := l.memory(ctx)
	if err != nil {
		return answer, err
	}
	ask := make([]bucket.StoreDeduction, len(list))
	for i, c := range list {
		ask[i] = c.StoreDeduction
	}
	answer, err = l.store.Predict(ctx, m.Memory, ask)
	if err == nil && len(answer.Outcomes) != len(ask) {
		err = budget.Refuse(budget.Unavailable, "predict", "not every deduction got an outcome")
	}
	if err != nil {
		l.failed(m, err)
		return answer, storeDown(name, err)
	}
	return answer, nil
}

// judge sets the answer by the store's verdict. It returns false if a newer definition is needed.
func (c *prediction) judge(now time.Time) bool {
	switch c.outcome.Verdict {
	case bucket.Known:
		c.recorded(&c.outcome.Record)
	case bucket.Outdated, bucket.WindowOver, bucket.Over:
		if c.refusal == nil {
			return false
		}
		c.answer.Err = c.refusal
	case bucket.Accepted, bucket.Short, bucket.Limited:
		c.answer.Limits = c.limitStates()
		c.answer.Err = c.refusal
		if c.refusal == nil && c.outcome.Verdict == bucket.Limited {
			c.answer.Err = c.Budget.LimitExceeded(c.refusedBy(), now)
		}
	default: // Moving, Broken
		c.answer.Err = storeDown(c.Route.Partition, nil)
	}
	return true
}

// recorded answers as a repeat of an id with a record.
func (c *prediction) recorded(r *bucket.Record) {
	print := fingerprint(c.Request)
	switch {
	case r.Void:
		c.answer.Err = deduct.Voided(c.ID)
		return
	case r.Fingerprint != print:
		c.answer.Err = deduct.Conflicting(c.ID)
		return
	case r.RolledBack == r.Amount:
		c.answer.Err = ledger.Gone("deduct", c.ID, ledger.StateRolledBack)
		return
	}
	c.answer.Recorded = &bucket.DeductAnswer{RequestID: c.ID, Amount: r.Amount, State: stateOf(r),
		Bucket: c.Route.Key, Receipt: bucket.Receipt(c.Bucket, r.Epoch), Replayed: true,
		RemainingUnknown: !c.Budget.Unlimited, Unlimited: c.Budget.Unlimited}
}

// judgeCovers reads I3's sums, sets the figures of the answers, and refuses what the budget does
// not cover. Budgets with a bucket that is short are synced first, because their units may have
// been used just now.
func (s *Service) judgeCovers(ctx context.Context, all []*prediction) {
	began := s.clock.Now()
	synced := map[int64]bool{}
	var ids []int64
	recorded := map[int64]int64{}
	for _, c := range all {
		c.answer.Unlimited = c.Budget.Unlimited
		if c.state == nil || c.Budget.Unlimited {
			continue
		}
		if _, seen := recorded[c.Budget.ID]; !seen {
			ids = append(ids, c.Budget.ID)
			recorded[c.Budget.ID] = c.state.recorded.Load()
		}
		if c.answer.Err == nil && c.lacks() && !synced[c.Budget.ID] {
			recorded[c.Budget.ID] = c.state.Spent.Load()
			s.syncBudget(ctx, ctx, c.Budget, began)
			synced[c.Budget.ID] = true
		}
	}
	if len(ids) == 0 {
		return
	}
	covers, err := s.covers.Covers(ctx, ids, true)
	s.failed("sql", err)
	now := s.sqlNow()
	for _, c := range all {
		if c.state == nil || c.Budget.Unlimited {
			continue
		}
		cover, known := covers[c.Budget.ID]
		switch {
		case err != nil:
			c.answer.Err = orFirst(c.answer.Err, err)
			continue
		case !known:
			c.answer.Err = budget.Refuse(budget.BudgetNotFound, "deduct", "budget %s no longer exists",
				c.Budget.Name)
			continue
		case c.answer.Err == nil && c.lacks() && cover.Sum() < c.Request.Amount:
			c.answer.Err = c.Budget.Exhausted(cover, c.Request.Amount, now)
		}
		c.figures(cover, recorded[c.Budget.ID])
	}
}

// lacks reports whether the bucket has too little for a new id.
func (c *prediction) lacks() bool {
	return c.outcome != nil && c.outcome.Verdict == bucket.Short
}

// figures sets what the budget, and the open period of a daily one, still cover.
func (c *prediction) figures(cover ledger.Cover, recorded int64) {
	units := max(cover.Sum()-max(c.state.Spent.Load()-recorded, 0), 0)
	all := min(units, budget.MaxAmount-cover.Later) + cover.Later
	ofPeriod := &units
	if c.Budget.Type != budget.Daily {
		ofPeriod = nil
	}
	c.answer.BudgetRemaining, c.answer.PeriodRemaining = all, ofPeriod
	if a := c.answer.Recorded; a != nil {
		a.BudgetRemaining, a.PeriodRemaining = all, ofPeriod
	}
}

// fingerprint identifies the payload of a request.
func fingerprint(r *bucket.DeductRequest) string {
	return ledger.RequestFingerprint(r.Amount, r.Key, ledger.Request{Reference: r.Reference,
		Dimensions: ledger.Dimensions(r.Dimensions), Counts: ledger.Counts(r.Counts)})
}
