package hold

import (
	"context"
	"time"

	"github.com/budgetd/budgetd/bucket"
	"github.com/budgetd/budgetd/ledger"
)

// Kind says what an order does with one deduction.
type Kind uint8

// The kinds of orders.
const (
	// Rollback gives units of a deduction back.
	Rollback Kind = iota + 1
	// Cancel gives back what is left, or writes a tombstone if there is no deduction.
	Cancel
	// Confirm uses held units.
	Confirm
	// Extend moves the end of a hold.
	Extend
)

// Order changes one deduction.
type Order struct {
	Kind      Kind
	Budget    int64
	RequestID string
	// RollbackID names a rollback within its deduction. If it is empty, the whole deduction is rolled
	// back.
	RollbackID string
	// Amount is in minor units. 0 means all that is left.
	Amount int64
	// TTL is how long an extended hold lasts from SQL's current time.
	TTL time.Duration
	// OnlyBy, unless it is empty, refuses an order on a deduction of another principal.
	OnlyBy string
}

// GroupOrder changes every hold of a group. Kind is Confirm, Extend or Rollback.
type GroupOrder struct {
	Kind   Kind
	Budget int64
	Group  string
	TTL    time.Duration
	// OnlyBy is as in Order, for every member.
	OnlyBy string
}

// Result is the result of an order, or of one member of a group.
type Result struct {
	Deduction ledger.Deduction
	// Replayed says that an earlier call did the same, and that this one changed nothing.
	Replayed bool
	// Err is the refusal of the order. It does not affect the other orders of its transaction.
	Err error
}

// Expired is the result of one step of the expiry.
type Expired struct {
	// Found is how many holds were due at the beginning of the step. Other nodes may have ended some
	// of them.
	Found int
	// Holds is how many holds this step ended.
	Holds int
	// Units is how many units were given back, in minor units.
	Units int64
}

// Ledger changes deductions in the database. Each method is one transaction, by SQL's clock.
// Returned units go into O of the deduction's epoch while that is open, and into R otherwise (I5).
// Limits are lowered in the windows in which the deduction was counted. Errors, besides those in
// Result: Unavailable (nothing was changed), OutcomeUnknown, Internal. Implementations are safe for
// concurrent use.
type Ledger interface {
	// Execute carries out orders on single deductions, in the order given. A refused order changes
	// nothing. Refusals are those of the decisions of package ledger, BudgetNotFound and
	// DeductionNotFound.
	Execute(ctx context.Context, orders []Order) ([]Result, error)
	// ExecuteGroup carries out an order on a whole group or not at all. It returns one element per
	// member, by request id. Refusals are returned as errors.
	ExecuteGroup(ctx context.Context, order GroupOrder) ([]Result, error)
	// Recorded returns the deductions of request ids. Ids without a row are omitted.
	Recorded(ctx context.Context, ids []bucket.ID) (map[bucket.ID]ledger.Deduction, error)
	// HoldsOf returns the open holds of a budget, at most limit, by expiry.
	HoldsOf(ctx context.Context, budgetID int64, limit int) ([]bucket.OpenHold, error)
}

// DueHolds is the part of the ledger that the expiry uses. Errors are those of Ledger.
type DueHolds interface {
	// ExpireHolds ends at most limit holds of all budgets whose time is up: the oldest first, but
	// without the skip oldest ones. Any number of nodes may call it at the same time.
	ExpireHolds(ctx context.Context, limit, skip int) (Expired, error)
	// OpenHolds counts the open holds of all budgets, up to limit.
	OpenHolds(ctx context.Context, limit int) (int, error)
}
