package manage

import (
	"context"
	"time"

	"github.com/budgetd/budgetd/bucket"
)

// Created is the result of Create.
type Created struct {
	Budget bucket.Budget
	// New is false if the same definition was created before.
	New bool
	// View is a new budget with its figures.
	View bucket.View
}

// Changed is the result of Change.
type Changed struct {
	// Budget and View are the budget afterwards.
	Budget bucket.Budget
	View   bucket.View
	// IsDue says that the open period is over under the new definition, so that a rollover must
	// follow.
	IsDue bool
}

// Adjustment is an append, or a shrink by a negative quantity.
type Adjustment struct {
	Budget    int64
	RequestID string
	// Nonce identifies the call: a row with the same nonce is not a replay.
	Nonce string
	// Quantity is in minor units, not 0.
	Quantity int64
	// Deadline is when a waiting shrink is refused (store mode). Zero means never.
	Deadline time.Time
	// Continue continues a recorded shrink and begins none (store mode).
	Continue bool
}

// Adjusted is the state of an adjustment.
type Adjusted struct {
	// State is done. In store mode a shrink may be pending.
	State bucket.AdjustmentState
	// Replayed says that an earlier call made the adjustment.
	Replayed bool
	// View is the budget afterwards.
	View bucket.View
}

// Budgets finds definitions, at most 1 s old.
type Budgets interface {
	// Find returns a budget with its buckets. Errors: BudgetNotFound, Unavailable.
	Find(ctx context.Context, ref bucket.BudgetRef) (*bucket.Budget, error)
	// Fresh is Find without waiting: nil if the budget must be read.
	Fresh(ref bucket.BudgetRef) *bucket.Budget
	// Learn makes this node decide by the budget that a movement returns. Error: that of the movement.
	Learn(move func() (bucket.Budget, error)) (*bucket.Budget, error)
	// Forget removes a budget that was deleted.
	Forget(id int64)
}

// Periods ends a budget's period if it is over.
type Periods interface {
	// RollOver ends the period of a budget if it is over, and opens the next one.
	RollOver(ctx context.Context, budgetID int64) error
}

// Stores is the part of store mode. It is required for budgets in store mode. counter.Service
// implements it.
type Stores interface {
	// Push opens the opening epochs of a budget in their stores, and sends its pending grants. A loop
	// does what it cannot do now.
	Push(ctx context.Context, budgetID int64) error
	// Recall closes epochs of a budget until that many units have returned to U, or all epochs that it
	// can reach are closed.
	Recall(ctx context.Context, budgetID, units int64) error
}
