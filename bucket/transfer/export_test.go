package transfer

import (
	"context"

	"github.com/budgetd/budgetd/internal/proof/fixture"
)

// Distribute divides U between the buckets, as bringing one of them online does.
func (l *Ledger) Distribute(ctx context.Context, budgetID int64) (out Moved, err error) {
	out.Units, out.Buckets, err = fixture.Distribute(ctx, l.db, budgetID)
	return out, err
}
