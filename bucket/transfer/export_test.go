package transfer

import (
	"context"

	"github.com/budgetd/budgetd/internal/proof/fixture"
)

// HandOut spreads U over the buckets, as bringing one of them online does.
func (l *Ledger) HandOut(ctx context.Context, budgetID int64) (out Moved, err error) {
	out.Units, out.Buckets, err = fixture.HandOut(ctx, l.db, budgetID)
	return out, err
}
