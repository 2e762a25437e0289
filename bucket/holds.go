package bucket

import (
	"context"
	"time"
)

// OpenHold is a hold that is neither confirmed, rolled back nor expired.
type OpenHold struct {
	RequestID, Group string
	// Amount is in minor units.
	Amount    int64
	BucketKey string
	// At is when it was made, Until when it expires.
	At, Until time.Time
}

// HoldsOf lists the open holds of a budget. It works in ledger mode only.
func (s *Service) HoldsOf(ctx context.Context, ref BudgetRef, limit int) ([]OpenHold, error) {
	if err := s.needsRows(ctx, ref, "holds", insteadOfHold); err != nil {
		return nil, err
	}
	return s.Holds.HoldsOf(ctx, ref, limit)
}
