package usage

import (
	"context"
	"time"

	"github.com/budgetd/budgetd/bucket"
	"github.com/budgetd/budgetd/budget"
	"github.com/budgetd/budgetd/ledger"
	"github.com/budgetd/budgetd/limit"
)

// defaultDeadline bounds one call.
const defaultDeadline = 5 * time.Second

// Config configures a Service.
type Config struct {
	Budgets Budgets
	Lookup  Lookup
	Limits  Limits
	// Rollover opens the current period of a budget. If it is nil, requests are evaluated against the
	// period that is open.
	Rollover Rollover
	// Now returns SQL's time as this node knows it.
	Now func() time.Time
	// Observer receives failed SQL calls. It may be nil.
	Observer bucket.Calls
	// Deadline bounds one call; 5 s when 0.
	Deadline time.Duration
}

// Service answers checks, dry runs and usage of budgets in ledger mode. It is safe for concurrent
// use.
type Service struct{ Config }

// New returns a service. It does not contact the database.
func New(c Config) *Service {
	if c.Deadline <= 0 {
		c.Deadline = defaultDeadline
	}
	return &Service{c}
}

// Check predicts, for each request in order, whether a deduct would be accepted now. It changes
// nothing, except that it rolls over a period that is over. One statement reads the sums of all
// requests, and one their limit counters. Each request is evaluated alone: two that fit separately
// may not fit together. The prediction is valid only at the instant of the read.
//
// Each answer contains its own error. The errors are those of Deduct, without those of request ids
// and without OutcomeUnknown. An answer names every limit that would be exceeded.
func (s *Service) Check(ctx context.Context, requests []bucket.CheckRequest) []bucket.CheckAnswer {
	ctx, cancel := context.WithTimeout(ctx, s.Deadline)
	defer cancel()
	cases := make([]*prediction, len(requests))
	refs := make([]bucket.BudgetRef, len(requests))
	for i := range requests {
		refs[i] = requests[i].Budget
	}
	found, errs := s.Budgets.FindAll(ctx, refs)
	for i := range requests {
		cases[i] = &prediction{request: requests[i], b: found[i], err: errs[i]}
		cases[i].answer.Amount = requests[i].Amount
	}
	s.predict(ctx, cases)
	answers := make([]bucket.CheckAnswer, len(cases))
	for i, c := range cases {
		answers[i] = c.result()
	}
	return answers
}

// DryRun predicts the answer of Deduct for the same request. It changes nothing, except that it
// rolls over a period that is over. For a recorded id, Recorded has the answer of a repeat.
//
// Errors: BudgetNotFound, Unavailable. What Deduct would refuse, RequestConflict and RequestVoid
// included, is in the answer's Err.
func (s *Service) DryRun(ctx context.Context, r bucket.DeductRequest) (bucket.CheckAnswer, error) {
	ctx, cancel := context.WithTimeout(ctx, s.Deadline)
	defer cancel()
	b, err := s.Budgets.Find(ctx, r.Budget)
	if err != nil {
		return bucket.CheckAnswer{}, err
	}
	if fault := faultOfHold(&r); fault != nil {
		return bucket.CheckAnswer{Amount: r.Amount, Err: fault}, nil
	}
	id := bucket.ID{Budget: b.ID, RequestID: r.RequestID}
	recorded, err := s.Lookup.Recorded(ctx, []bucket.ID{id})
	if err != nil {
		return bucket.CheckAnswer{}, s.failed(err)
	}
	if d, ok := recorded[id]; ok && d.Decides(r.By) {
		return s.repeated(ctx, b, &r, &d)
	}
	c := &prediction{b: b, request: bucket.CheckRequest{Budget: r.Budget, Amount: r.Amount,
		Dimensions: r.Dimensions, Counts: r.Counts}}
	c.answer.Amount = r.Amount
	s.predict(ctx, []*prediction{c})
	return c.result(), nil
}

// faultOfHold returns why a request cannot be a hold, or nil.
func faultOfHold(r *bucket.DeductRequest) error {
	if r.HoldTTL == 0 && r.Group == "" || budget.ValidHoldTTL(r.HoldTTL) {
		return nil
	}
	return &budget.Error{Code: budget.Invalid, Op: "deduct", Fields: []budget.FieldError{{
		Field: "hold_ttl", Message: "must be whole milliseconds within its bounds; a group needs it"}}}
}

// repeated sets the answer for an id that has a row.
func (s *Service) repeated(ctx context.Context, b *bucket.Budget, r *bucket.DeductRequest,
	d *ledger.Deduction) (bucket.CheckAnswer, error) {
	answer := bucket.CheckAnswer{Amount: r.Amount}
	request := ledger.Request{ID: r.RequestID, Amount: r.Amount, Reference: r.Reference,
		Dimensions: ledger.Dimensions(r.Dimensions), Counts: ledger.Counts(r.Counts),
		HoldTTL: r.HoldTTL.Milliseconds(), Group: r.Group}
	switch {
	case d.IsVoidFor(r.By):
		answer.Err = budget.Refuse(budget.RequestVoid, "deduct",
			"request %q was cancelled and will never have an effect; use a new id", r.RequestID)
		return answer, nil
	case d.Fingerprint != ledger.RequestFingerprint(r.Amount, r.Key, request):
		answer.Err = budget.Refuse(budget.RequestConflict, "deduct", "request %q was accepted with "+
			"another amount, key, dimension or reference; use a new id", r.RequestID)
		return answer, nil
	case d.Left() == 0:
		answer.Err = ledger.Gone("deduct", d.RequestID, d.State)
		return answer, nil
	}
	a := &bucket.DeductAnswer{RequestID: d.RequestID, Amount: d.Amount, State: d.State,
		HoldUntil: d.HoldUntil, Receipt: bucket.Receipt(d.Bucket, d.Epoch), Replayed: true,
		Unlimited: b.Unlimited}
	if bk := b.Bucket(d.Bucket); bk != nil {
		a.Bucket = bk.Key
	}
	answer.Recorded = a
	if b.Unlimited {
		return answer, nil
	}
	outstanding, covers, err := s.Lookup.Standings(ctx, []int64{d.Bucket}, []int64{b.ID})
	if err != nil {
		return bucket.CheckAnswer{}, s.failed(err)
	}
	a.BucketRemaining = outstanding[d.Bucket]
	a.BudgetRemaining, a.PeriodRemaining = remaining(b, covers[b.ID])
	return answer, nil
}

// Usage sums the deductions that carry all of the dimensions' values and were counted in a span,
// with the rows' current amounts. Errors: BudgetNotFound; Invalid without a dimension;
// LedgerModeOnly; Unavailable.
func (s *Service) Usage(ctx context.Context, r bucket.UsageRequest) (bucket.Usage, error) {
	ctx, cancel := context.WithTimeout(ctx, s.Deadline)
	defer cancel()
	if len(r.Dimensions) == 0 {
		return bucket.Usage{}, &budget.Error{Code: budget.Invalid, Op: "usage",
			Message: "at least one dimension must be given", Fields: []budget.FieldError{{
				Field: "dimensions", Message: "must not be empty"}}}
	}
	b, err := s.Budgets.Find(ctx, r.Budget)
	if err != nil {
		return bucket.Usage{}, err
	}
	if b.InStoreMode() {
		return bucket.Usage{}, budget.Refuse(budget.LedgerModeOnly, "usage",
			"budget %s is in store mode, which has no rows of deductions", b.Name)
	}
	got, err := s.Limits.Usage(ctx, b.ID, r.Dimensions, r.From, r.To)
	return got, s.failed(err)
}

// nearestReads is how many values one call of Nearest reads at most.
const nearestReads = 10_000

// Nearest lists the values that have used the largest shares of their maximums of a limit, in the
// present window. It reads the counters of at most 10,000 values. Errors: BudgetNotFound; Invalid
// without such a limit; LedgerModeOnly; Unavailable.
func (s *Service) Nearest(ctx context.Context, r bucket.NearestRequest) (bucket.Nearest, error) {
	ctx, cancel := context.WithTimeout(ctx, s.Deadline)
	defer cancel()
	b, err := s.Budgets.Find(ctx, r.Budget)
	if err != nil {
		return bucket.Nearest{}, err
	}
	if b.InStoreMode() {
		return bucket.Nearest{}, budget.Refuse(budget.LedgerModeOnly, "nearest",
			"budget %s is in store mode, whose counts are in the stores", b.Name)
	}
	if err := b.UnknownZone(); err != nil {
		return bucket.Nearest{}, err
	}
	var l *limit.Limit
	if set := b.LimitSet(); set != nil {
		l = set.Limit(r.Limit)
	}
	if l == nil {
		return bucket.Nearest{}, &budget.Error{Code: budget.Invalid, Op: "nearest",
			Message: "the budget has no such limit", Fields: []budget.FieldError{{
				Field: "name", Message: "must be the name of a limit of the budget"}}}
	}
	got, err := s.Limits.Nearest(ctx, b.ID, l, nearestReads, r.Most)
	return got, s.failed(err)
}

// failed reports an SQL error to the observer and returns it.
func (s *Service) failed(err error) error {
	if err != nil && s.Observer != nil && budget.CodeOf(err).Kind() == budget.NotDone {
		s.Observer.Failed("sql", budget.CodeOf(err))
	}
	return err
}
