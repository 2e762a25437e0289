package transfer

import (
	"context"

	"github.com/budgetd/budgetd/bucket/transfer"
	"github.com/budgetd/budgetd/internal/sqlstore/fixture"
)

// HandOut spreads U over the buckets, as bringing one of them online does.
func (p *Part) HandOut(ctx context.Context, budgetID int64) (out transfer.Moved, err error) {
	out.Units, out.Buckets, err = fixture.HandOut(ctx, p.db, budgetID)
	return out, err
}
