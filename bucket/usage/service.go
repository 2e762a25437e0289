// Package usage predicts the answer of a deduct, sums the deductions of dimension values, and lists
// the values nearest a limit's maximum, in ledger mode. It changes nothing and takes no locks.
package usage

import (
	"context"
	"time"

	"github.com/budgetd/budgetd/bucket"
	"github.com/budgetd/budgetd/budget"
	"github.com/budgetd/budgetd/internal/sql/engine"
	"github.com/budgetd/budgetd/ledger"
)

// Lookup reads the ledger. Each method may return Unavailable. Implementations are safe for
// concurrent use.
type Lookup interface {
	// Recorded returns the deductions of ids. Ids without a row are omitted.
	Recorded(ctx context.Context, ids []bucket.ID) (map[bucket.ID]ledger.Deduction, error)
	// Covers returns I3's sum of each budget. With exact it sees every commit that was acknowledged
	// before it began. Budgets that do not exist are omitted.
	Covers(ctx context.Context, budgets []int64, exact bool) (map[int64]ledger.Cover, error)
	// Standings returns O of the newest epochs of buckets, in minor units, and the sums of budgets.
	// What does not exist is omitted.
	Standings(ctx context.Context, buckets, budgets []int64) (
		map[int64]int64, map[int64]ledger.Cover, error)
}

// defaultDeadline bounds one call.
const defaultDeadline = 5 * time.Second

// Config configures a Service.
type Config struct {
	DB      *engine.DB
	Budgets *bucket.Budgets
	Lookup  Lookup
	// RollOver rolls a budget over if that is due by SQL's clock; otherwise it does nothing. Error:
	// Unavailable. If it is nil, requests are evaluated against the period that is open.
	RollOver func(ctx context.Context, budgetID int64) error
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

// failed reports an SQL error to the observer and returns it.
func (s *Service) failed(err error) error {
	if err != nil && s.Observer != nil && budget.CodeOf(err).Kind() == budget.NotDone {
		s.Observer.Failed("sql", budget.CodeOf(err))
	}
	return err
}
