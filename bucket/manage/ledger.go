package manage

import (
	"context"
	"time"

	"github.com/budgetd/budgetd/bucket"
	"github.com/budgetd/budgetd/budget"
)

// Ledger keeps definitions in the database. Each write is one transaction; its levels are for the
// filters (ledger mode). Errors of every method: Unavailable, nothing was changed; OutcomeUnknown
// of a write: repeat it.
type Ledger interface {
	// Create stores a budget with one bucket per lane and hands out what its first period gets.
	// Errors: NameTaken.
	Create(ctx context.Context, d budget.Definition, lanes []bucket.Lane) (Created, error)
	// View reads a budget with its figures. Error: BudgetNotFound.
	View(ctx context.Context, ref bucket.BudgetRef) (bucket.View, error)
	// Budgets reads a page of budgets with their figures, by id. Error: Invalid.
	Budgets(ctx context.Context, page bucket.Page) ([]bucket.View, error)
	// Change changes a definition; lanes has a lane for each bucket where their number changes.
	// Errors: BudgetNotFound, VersionConflict, Invalid, LedgerModeOnly.
	Change(ctx context.Context, id int64, change bucket.Change, lanes []bucket.Lane) (Changed, error)
	// Adjust appends or shrinks, once per request id. Errors: BudgetNotFound, RequestConflict,
	// Invalid, AmountExceedsRemaining.
	Adjust(ctx context.Context, order Adjustment) (Adjusted, error)
	// Shrinks lists shrinks that are pending, for Adjust (store mode).
	Shrinks(ctx context.Context, limit int) ([]Adjustment, error)
}

// Created is what Create made or found.
type Created struct {
	Budget bucket.Budget
	// New is false when the same definition had been created before.
	New bool
	// Levels are for the filters, of a new budget in ledger mode.
	Levels []bucket.Level
}

// Changed is what Change did.
type Changed struct {
	Definition budget.Definition
	// IsDue says that the open period is over under the new definition: a rollover follows.
	IsDue bool
	// Levels are for the filters.
	Levels []bucket.Level
}

// Adjustment is an append, or a shrink by a negative quantity.
type Adjustment struct {
	Budget    int64
	RequestID string
	// Nonce is of the call: the same one again is no replay.
	Nonce string
	// Quantity is in minor units, not 0.
	Quantity int64
	// Deadline is when a shrink that waits is refused (store mode); zero: never.
	Deadline time.Time
	// Continue goes on with a shrink that is recorded, and begins none (store mode).
	Continue bool
}

// Adjusted is where an adjustment stands.
type Adjusted struct {
	// State is done; in store mode a shrink may be pending.
	State bucket.AdjustmentState
	// Replayed says that an earlier call did it.
	Replayed bool
	// Levels are for the filters.
	Levels []bucket.Level
}

// Budgets finds definitions, at most 1 s old.
type Budgets interface {
	// Find returns a budget with its buckets. Errors: BudgetNotFound, Unavailable.
	Find(ctx context.Context, ref bucket.BudgetRef) (*bucket.Budget, error)
	// Reload reads a budget, unless it was read after the call began. Errors: as Find.
	Reload(ctx context.Context, id int64) (*bucket.Budget, error)
}

// Periods ends a budget's period when it is over.
type Periods interface {
	// RollOver ends the period of a budget if that is over, and opens the next one.
	RollOver(ctx context.Context, budgetID int64) error
}

// Stores is what store mode adds; it is required for budgets in store mode.
type Stores interface {
	// Fit returns why a budget in store mode may not have buckets on lanes. Errors: Invalid.
	Fit(ctx context.Context, lanes []bucket.Lane) error
	// Open opens the opening epochs of a budget in their stores, and sends its pending grants.
	// What it cannot do now is done in the background.
	Open(ctx context.Context, budgetID int64) error
	// Recall closes epochs of a budget until so many units have come back to U, or all that it can
	// reach are closed.
	Recall(ctx context.Context, budgetID, units int64) error
}
