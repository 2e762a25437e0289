package bucket

import (
	"context"
	"time"

	"github.com/budgetd/budgetd/budget"
)

// Observer receives events for metrics. Implementations are safe for concurrent use, and every
// method returns at once.
type Observer interface {
	Calls
	Movements
	Gauges
}

// Calls reports calls of stores and of the database. The contexts are those of the calls.
type Calls interface {
	// PartitionCall reports one call of a partition with its number of operations.
	PartitionCall(ctx context.Context, partition Partition, operations int, took time.Duration)
	// Commit reports one flight with the number of ledger rows it wrote.
	Commit(ctx context.Context, rows int, took time.Duration)
	// Failed reports a failed call of a store ("store") or of SQL ("sql").
	Failed(where string, code budget.Code)
}

// Movements reports units and buckets that moved.
type Movements interface {
	// Moved reports units moved by a step: apply, distribute, recycle, sweep, expire, lose,
	// release.
	Moved(step string, units int64)
	// HoldsExpired reports how many holds this node expired.
	HoldsExpired(n int)
	// Halted reports that a bucket was halted.
	Halted()
}

// Gauges reports figures from background loops.
type Gauges interface {
	// Discrepancies reports the known discrepancies and the units by which they differ. Both must stay
	// 0.
	Discrepancies(discrepancies int, gap int64)
	// Budgets reports the figures of the budgets with the largest totals, and the sums over all. The
	// caller does not change the list later.
	Budgets(largest []BudgetFigures, all BudgetFigures)
	// Stranded reports units by kind. unreachable are in buckets that this node cannot reach or that
	// are halted. recyclable are the stranded units of budgets that this node sold from. atRisk would
	// be quarantined if every store were lost.
	Stranded(unreachable, recyclable, atRisk int64)
	// HoldsOpen reports how many holds are open, up to a bound.
	HoldsOpen(n int)
	// Unfinished reports how many operations of a kind were found incomplete.
	Unfinished(kind string, n int)
	// Lag reports how long ago a partition was last synced (store mode).
	Lag(partition Partition, age time.Duration)
}
