package commit

import (
	"context"

	"github.com/budgetd/budgetd/bucket"
)

// Gather finds units for waiting deductions of one budget and commits them, in one transaction.
func (p *Part) Gather(ctx context.Context, budgetID, bucketID int64, ops []bucket.Operation) (
	[]bucket.Outcome, []bucket.Level, error) {
	return nil, nil, errGuessed
}
