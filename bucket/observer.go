package bucket

import (
	"context"
	"time"

	"github.com/budgetd/budgetd/budget"
	"github.com/budgetd/budgetd/ledger"
)

// Observer is told what happened, for metrics. Safe for concurrent use; every method returns at
// once.
type Observer interface {
	Calls
	Movements
	Looks
}

// Calls are calls of stores and of the database. The contexts are those of the calls.
type Calls interface {
	// LaneCall reports one call of a lane that carried so many operations.
	LaneCall(ctx context.Context, lane Lane, operations int, took time.Duration)
	// Commit reports one flight that wrote so many ledger rows.
	Commit(ctx context.Context, rows int, took time.Duration)
	// Failed reports a store ("store") or SQL ("sql") call that failed with this code.
	Failed(where string, code budget.Code)
	// Skipped reports operations that went to SQL without asking the filter.
	Skipped(operations int)
}

// Movements are units and buckets that moved.
type Movements interface {
	// Moved reports units moved by a step: apply, handout, recycle, sweep, expire, lose,
	// release.
	Moved(step string, units int64)
	// HoldsExpired reports that this node expired so many holds.
	HoldsExpired(n int)
	// Fenced reports that a bucket was fenced.
	Fenced()
}

// Looks are figures that a background look found.
type Looks interface {
	// Books reports the known discrepancies and the units by which they differ (both must stay 0).
	Books(discrepancies int, gap int64)
	// Budgets reports the figures of the budgets with the largest totals, and the sums over all.
	// The list is not changed later.
	Budgets(largest []BudgetFigures, all ledger.Figures)
	// Stranded reports units in buckets out of this node's reach or fenced; Recyclable the stranded
	// units of budgets that this node sold from; AtRisk what a loss of every store would
	// quarantine.
	Stranded(unreachable, recyclable, atRisk int64)
	// HoldsOpen reports how many holds are open, counted up to a bound.
	HoldsOpen(n int)
	// Unfinished reports how much of a kind was found half done.
	Unfinished(kind string, n int)
	// Lag reports how long ago a lane was last synced (store mode).
	Lag(lane Lane, age time.Duration)
}
