package counter

import (
	"context"

	"github.com/budgetd/budgetd/bucket"
)

// Quarantines knows the units whose stores lost their memory. Errors: BudgetNotFound, Unavailable,
// OutcomeUnknown.
type Quarantines interface {
	// Quarantined lists a budget's quarantines, by bucket and epoch.
	Quarantined(ctx context.Context, budgetID int64, limit int) ([]bucket.Quarantine, error)
	// Release takes units out of quarantine, once per request id: to the total, or to what is used.
	// Errors: RequestConflict; AmountExceedsRemaining with what is in quarantine.
	Release(ctx context.Context, budgetID int64, r bucket.ReleaseRequest) (bucket.ReleaseAnswer, error)
}

// mostQuarantines bounds a list of quarantines.
const mostQuarantines = 1000

// Quarantines lists a budget's quarantines, at most 1,000. Errors: BudgetNotFound, Unavailable.
func (s *Service) Quarantines(ctx context.Context, ref bucket.BudgetRef) ([]bucket.Quarantine, error) {
	b, err := s.budgets.Find(ctx, ref)
	if err != nil {
		return nil, err
	}
	return s.ledger.Quarantines.Quarantined(ctx, b.ID, mostQuarantines)
}

// Release carries out an operator's decision on quarantined units, once per request id. Errors:
// BudgetNotFound; RequestConflict; AmountExceedsRemaining; Unavailable; OutcomeUnknown.
func (s *Service) Release(ctx context.Context, r bucket.ReleaseRequest) (bucket.ReleaseAnswer, error) {
	b, err := s.budgets.Find(ctx, r.Budget)
	if err != nil {
		return bucket.ReleaseAnswer{}, err
	}
	out, err := s.ledger.Quarantines.Release(ctx, b.ID, r)
	if err == nil && !out.Replayed {
		s.observer.Moved("release", out.Released)
	}
	return out, err
}
