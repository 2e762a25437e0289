package counter

import (
	"context"

	"github.com/budgetd/budgetd/ledger"
)

// Availability reads I3's sums. Error: Unavailable.
type Availability interface {
	// Availability is one statement for many budgets. If exact is set, it locks what it reads.
	Availability(ctx context.Context, budgets []int64, exact bool) (
		map[int64]ledger.Availability, error)
}
