package bucket

import (
	"context"
	"time"
)

// UsageRequest asks what was counted for values of dimensions.
type UsageRequest struct {
	Budget BudgetRef
	// Dimensions are the values that a deduction must carry, at least one.
	Dimensions map[string]string
	// From is the first instant that counts, To the first one that does not; zero: no bound.
	From, To time.Time
}

// Usage adds up the deductions that carry all of the dimensions' values and were counted in a span, as the
// ledger has them: in store mode it is behind by up to the window. It changes nothing.
// Errors: BudgetNotFound, Invalid without a dimension, Unavailable. Safe for concurrent use.
func (s *Service) Usage(ctx context.Context, r UsageRequest) (Usage, error) {
	entry, err := s.budgets.find(ctx, r.Budget)
	if err != nil {
		return Usage{}, err
	}
	step, cancel := s.bounded(ctx)
	defer cancel()
	got, err := s.sql.Usage(step, entry.id, r.Dimensions, r.From, r.To)
	return got, s.sqlFailed(err)
}
