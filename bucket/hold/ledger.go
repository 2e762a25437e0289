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
	// Cancel gives back what is left, or leaves a tombstone where there is no deduction.
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
	// RollbackID names a rollback within its deduction; "" stands for the whole rollback.
	RollbackID string
	// Amount is in minor units; 0 stands for all that is left.
	Amount int64
	// TTL is how long an extended hold lasts from SQL's present instant.
	TTL time.Duration
	// OnlyBy refuses a rollback or a cancel of what another principal deducted; "": it may be
	// anybody's.
	OnlyBy string
}

// GroupOrder changes every hold of a group: Kind is Confirm, Extend or Rollback.
type GroupOrder struct {
	Kind   Kind
	Budget int64
	Group  string
	TTL    time.Duration
	// OnlyBy is as in Order, for every member.
	OnlyBy string
}

// Settled is what became of an order, or of one member of a group.
type Settled struct {
	Deduction ledger.Deduction
	// Replayed says that an earlier call did the same, and that this one changed nothing.
	Replayed bool
	// Err is the refusal of the order; the other orders of its transaction are not affected.
	Err error
}

// Expired is what one step of the expiry has ended.
type Expired struct {
	// Found is how many holds were due at the beginning of the step; other nodes may have ended some.
	Found int
	// Holds were ended by this step.
	Holds int
	// Units were given back, in minor units.
	Units int64
}

// Ledger changes deductions that are rows. Each method is one transaction, by SQL's clock. Units
// that come back go into O of the deduction's epoch while that is open, and into R otherwise
// (I5); limits are lowered in the windows in which the deduction was counted. The levels are of
// the buckets whose O has grown. Errors, beside those in Settled: Unavailable (nothing was
// changed), OutcomeUnknown, Internal. Safe for concurrent use.
type Ledger interface {
	// Settle carries out orders on single deductions, in the order given. A refused order changes
	// nothing. Refusals are those of the decisions of package ledger, BudgetNotFound and
	// DeductionNotFound.
	Settle(ctx context.Context, orders []Order) ([]Settled, []bucket.Level, error)
	// SettleGroup carries out an order on a group as a whole or not at all. It returns one element
	// per member, by request id. Refusals are errors.
	SettleGroup(ctx context.Context, order GroupOrder) ([]Settled, []bucket.Level, error)
	// Recorded reads what became of request ids. An id without a row is missing.
	Recorded(ctx context.Context, ids []bucket.ID) (map[bucket.ID]ledger.Deduction, error)
	// HoldsOf reads the open holds of a budget, at most limit, those first that expire first.
	HoldsOf(ctx context.Context, budgetID int64, limit int) ([]bucket.OpenHold, error)
}

// DueHolds is what the expiry needs of the ledger. Errors as Ledger.
type DueHolds interface {
	// ExpireHolds ends at most limit holds of all budgets whose time is up, the oldest first except
	// for the skip oldest. Any number of nodes may call it at the same time.
	ExpireHolds(ctx context.Context, limit, skip int) (Expired, []bucket.Level, error)
	// OpenHolds counts the open holds of all budgets, up to limit.
	OpenHolds(ctx context.Context, limit int) (int, error)
}
