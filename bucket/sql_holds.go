package bucket

import (
	"context"
	"time"

	"github.com/budgetd/budgetd/ledger"
)

// HoldOrder names what a confirm, an extension or a rollback is about: a hold, or all holds of a group.
type HoldOrder struct {
	Budget int64
	// Exactly one of them is set.
	RequestID, Group string
}

// Held is a deduction as a step about its hold left it.
type Held struct {
	Deduction ledger.Deduction
	// Replayed says that the same had been done before.
	Replayed bool
}

// Expired is what one look at the holds that are due has ended.
type Expired struct {
	// Found is how many were due when it began to look; others may have ended them meanwhile.
	Found int
	Holds int
	// Units is what they gave back, in minor units.
	Units int64
	// Budgets are those that got them, by id.
	Budgets []int64
}

// Holds ends holds and makes them last longer, each method in one transaction, by SQL's clock. A group is
// done as a whole or not at all; its members are answered by request id. What a hold gives back lowers the
// limits that it counted in. Errors as Ledger, and BudgetNotFound, DeductionNotFound and those of the
// decisions of package ledger.
type Holds interface {
	// Confirm moves what is confirmed H -> S and the rest H -> R, on the deductions' own epoch rows (I5).
	// amount 0 is all that is held; always 0 for a group, which is closed by it. One confirm per hold:
	// repeating it changes nothing.
	Confirm(ctx context.Context, order HoldOrder, amount int64) ([]Held, error)
	// Extend makes holds end ttl after now, which is above 0. It may be repeated.
	Extend(ctx context.Context, order HoldOrder, ttl time.Duration) ([]Held, error)
	// RollbackGroup gives back all that is left of a group's members, and closes it. Repeating it changes
	// nothing.
	RollbackGroup(ctx context.Context, budgetID int64, group string) ([]Held, error)
	// ExpireHolds ends at most limit holds whose time is up, of all budgets, the oldest first but for the skip
	// oldest: H -> R. Any number of nodes may do so at the same time.
	ExpireHolds(ctx context.Context, limit, skip int) (Expired, error)
	// OpenHolds counts what is held, of all budgets, up to limit.
	OpenHolds(ctx context.Context, limit int) (int, error)
}
