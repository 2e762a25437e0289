// Package audit proves the accounts of budgets (I1, I7) on live traffic: on request, and in the
// background at a bounded cost. If the columns of a bucket's epoch disagree with their rows, the
// epoch is halted; all others continue.
package audit

import (
	"context"

	"github.com/budgetd/budgetd/bucket"
	"github.com/budgetd/budgetd/budget"
	"github.com/budgetd/budgetd/ledger"
)

// Epoch has an epoch's columns and the sums of its rows.
type Epoch struct {
	ledger.EpochFigures
	// IsNewest says that it is its bucket's newest epoch.
	IsNewest bool
	// ReleasedUsed is the part of Released that was released as used.
	ReleasedUsed int64
}

// Accounts has a budget's columns and the sums of all of its rows in one snapshot. Of Book, only
// Figures, Adjusted, Shrinks and the budget's identity are set.
type Accounts struct {
	bucket.Book
	// Epochs are all epochs of the budget, by bucket and number.
	Epochs  []Epoch
	Periods []ledger.PeriodFigures
	// Feed is the sum of the units of each bucket's feed.
	Feed map[int64]int64
	// Rows is how many rows were read.
	Rows int64
}

// Add adds the columns of an epoch to the figures.
func (a *Accounts) Add(e *Epoch) {
	f, row := &a.Figures, &e.Row
	if row.Status == ledger.Open {
		f.InBuckets += row.Outstanding
	} else {
		f.Unsettled += row.Outstanding
	}
	f.Returning += row.Returning
	if !a.Unlimited {
		f.Held += row.Held
		f.Used += row.Used
		if row.Period == f.Period.Number {
			f.PeriodUsed += row.Used
		}
		return
	}
	f.Held = min(f.Held+row.Held, budget.MaxAmount)
	f.Used = min(f.Used+row.Used, budget.MaxAmount)
	f.PeriodUsed = f.Used
}

// Unfinished counts, by kind, what is incomplete, up to a bound.
type Unfinished struct {
	Epochs, Grants, Shrinks, Returning int
	// OnPartitions is what epochs of budgets in store mode hold on the requested partitions, in minor
	// units.
	OnPartitions int64
}

// Ledger reads accounts without locks. Each method may return Unavailable. Implementations are safe
// for concurrent use.
type Ledger interface {
	// Accounts reads the columns of a budget and all of its rows in one snapshot. Error:
	// BudgetNotFound.
	Accounts(ctx context.Context, budgetID int64) (Accounts, error)
	// Books reads the columns of at most limit budgets with ids above after, by id, in one snapshot.
	Books(ctx context.Context, after int64, limit int) ([]bucket.Book, error)
	// Counters compares the current windows of limit counters of a budget, at most `most` of them,
	// with the deductions that they count, in one snapshot. Error: BudgetNotFound.
	Counters(ctx context.Context, budgetID int64, most int) ([]ledger.Discrepancy, error)
	// Unfinished counts what is incomplete, and sums what is on partitions.
	Unfinished(ctx context.Context, partitions []bucket.Partition) (Unfinished, error)
	// Halt stops an epoch. halted says that it was not halted before. It may also return
	// OutcomeUnknown. Repeating it is harmless.
	Halt(ctx context.Context, ref bucket.Ref, why string) (halted bool, err error)
	// Resume resumes all epochs of a bucket. Errors are those of Halt.
	Resume(ctx context.Context, bucketID int64) error
}

// Budgets finds definitions that are at most a second old. bucket.Budgets implements it.
type Budgets interface {
	Find(ctx context.Context, ref bucket.BudgetRef) (*bucket.Budget, error)
	Reload(ctx context.Context, id int64) (*bucket.Budget, error)
}

// StoreCheck compares the stores of budgets in store mode with SQL.
type StoreCheck interface {
	// Compare compares the entries of a budget's live epochs with SQL. Grants plus given back must
	// equal balance plus taken, in one atomic read each, and SQL's sums must not be above the store's.
	// found lists discrepancies that were seen twice; they name buckets and epochs. unchecked lists
	// the keys of buckets whose store could not be read.
	Compare(ctx context.Context, b *bucket.Budget) (found []ledger.Discrepancy, unchecked []string,
		err error)
}
