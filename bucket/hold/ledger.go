package hold

import (
	"context"

	"github.com/budgetd/budgetd/bucket"
	"github.com/budgetd/budgetd/ledger"
)

type (
	// Kind says what an order does.
	Kind = ledger.OrderKind
	// Order changes one deduction.
	Order = ledger.Order
	// GroupOrder changes every hold of a group.
	GroupOrder = ledger.GroupOrder
	// Result is the result of an order, or of one member of a group.
	Result = ledger.Result
)

// The kinds of orders.
const (
	Rollback = ledger.OrderRollback
	Cancel   = ledger.OrderCancel
	Confirm  = ledger.OrderConfirm
	Extend   = ledger.OrderExtend
)

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
