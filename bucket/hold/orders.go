package hold

import "github.com/budgetd/budgetd/ledger"

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
	Renew    = ledger.OrderRenew
)
