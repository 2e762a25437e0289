package counter

import (
	"context"

	"github.com/budgetd/budgetd/ledger"
)

// Covers reads I3's sums. Error: Unavailable.
type Covers interface {
	// Covers is one statement for many budgets. If exact is set, it locks what it reads.
	Covers(ctx context.Context, budgets []int64, exact bool) (map[int64]ledger.Cover, error)
}
