package ledger

import "time"

// OrderKind says what an order does with deductions. Errors name it as their operation.
type OrderKind string

// The kinds of orders.
const (
	// OrderRollback gives units of a deduction back.
	OrderRollback OrderKind = "rollback"
	// OrderCancel gives back what is left, or writes a tombstone if there is no deduction.
	OrderCancel OrderKind = "cancel"
	// OrderConfirm uses held units.
	OrderConfirm OrderKind = "confirm"
	// OrderExtend moves the end of a hold.
	OrderExtend OrderKind = "extend"
	// OrderRenew makes units of a hold used, and changes how many are held from now on.
	OrderRenew OrderKind = "renew"
	// OrderExpire gives a hold back if its time is over, and otherwise changes nothing.
	OrderExpire OrderKind = "expire"
)

// Order changes one deduction.
type Order struct {
	Kind      OrderKind
	Budget    int64
	RequestID string
	// RollbackID names a rollback within its deduction. If it is empty, the whole deduction is rolled
	// back.
	RollbackID string
	// Amount is in minor units. 0 means all that is left.
	Amount int64
	// Amounts are the parts of the legs of a set, by budget. A rollback leaves legs that it does not
	// name as they are; a confirm confirms all that they hold. nil means all that is left.
	Amounts map[int64]int64
	// Step is the number of a renewal, from 1. Used is what became used since the one before, Hold
	// what is to be held from now on, both in minor units.
	Step, Used, Hold int64
	// TTL is how long an extended or renewed hold lasts from SQL's current time.
	TTL time.Duration
	// ExpiresAs is what an extended hold expires as; "" leaves it as it is.
	ExpiresAs ExpiresAs
	// OnlyBy, unless it is empty, refuses an order on a deduction of another principal.
	OnlyBy string
}

// GroupOrder changes every hold of a group. Kind is OrderConfirm, OrderExtend or OrderRollback.
type GroupOrder struct {
	Kind   OrderKind
	Budget int64
	Group  string
	TTL    time.Duration
	// ExpiresAs is as in Order.
	ExpiresAs ExpiresAs
	// OnlyBy is as in Order, for every member.
	OnlyBy string
}

// Result is the result of an order, or of one member of a group.
type Result struct {
	Deduction Deduction
	// Legs are those of a set, in the order in which they were deducted; Deduction is then the row of
	// the set's owner.
	Legs []Deduction
	// Replayed says that an earlier call did the same, and that this one changed nothing.
	Replayed bool
	// Err is the refusal of the order. It does not affect the other orders of its transaction.
	Err error
}
