// Package audit proves the accounts of budgets (I1, I7) on live traffic: when asked, and in the
// background at a bounded cost. A bucket's epoch whose columns do not agree with their rows is
// fenced; everything else serves on.
package audit

import (
	"context"

	"github.com/budgetd/budgetd/bucket"
	"github.com/budgetd/budgetd/budget"
	"github.com/budgetd/budgetd/ledger"
)

// Epoch is an epoch's columns with the sums of its rows.
type Epoch struct {
	ledger.EpochFigures
	// IsNewest says that it is its bucket's newest epoch.
	IsNewest bool
	// ReleasedUsed is what of Released was released as used.
	ReleasedUsed int64
}

// Accounts are a budget's columns and the sums of all of its rows in one snapshot. Of Book, only
// Figures, Adjusted, Shrinks and the budget's identity are set.
type Accounts struct {
	bucket.Book
	// Epochs are all of the budget's, by bucket and number.
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
		f.Remaining += row.Outstanding
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

// Unfinished is how much of each kind is half done, up to a bound.
type Unfinished struct {
	Epochs, Grants, Shrinks, Returning int
	// OnLanes is what epochs of budgets in store mode hold on the lanes asked for, in minor units.
	OnLanes int64
}

// Ledger reads accounts, without locks. Error of each: Unavailable. Safe for concurrent use.
type Ledger interface {
	// Accounts reads the columns of a budget and all of its rows in one snapshot. Error:
	// BudgetNotFound.
	Accounts(ctx context.Context, budgetID int64) (Accounts, error)
	// Books reads the columns of at most limit budgets after an id, by id, in one snapshot.
	Books(ctx context.Context, after int64, limit int) ([]bucket.Book, error)
	// Counters compares the present windows of at most most limit counters of a budget with the
	// deductions that they count, in one snapshot. Error: BudgetNotFound.
	Counters(ctx context.Context, budgetID int64, most int) ([]ledger.Discrepancy, error)
	// Unfinished counts what is half done, and sums what is on lanes.
	Unfinished(ctx context.Context, lanes []bucket.Lane) (Unfinished, error)
	// Fence stops an epoch; fenced says that it was not fenced before. Error: OutcomeUnknown, too;
	// a repetition is harmless.
	Fence(ctx context.Context, ref bucket.Ref, why string) (fenced bool, err error)
	// Unfence lets all epochs of a bucket go on. Errors as of Fence.
	Unfence(ctx context.Context, bucketID int64) error
}

// Budgets finds definitions that are at most a second old: bucket.Budgets.
type Budgets interface {
	Find(ctx context.Context, ref bucket.BudgetRef) (*bucket.Budget, error)
	Reload(ctx context.Context, id int64) (*bucket.Budget, error)
}

// StoreCheck compares the stores of budgets in store mode with SQL.
type StoreCheck interface {
	// Compare compares the entries of a budget's live epochs with SQL: grants and given back
	// against balance and taken, in one atomic read each, and SQL's sums against the store's. found
	// names buckets and epochs as ledger.Discrepancy does; it was seen twice. unchecked are the
	// keys of the buckets whose store could not be read just now.
	Compare(ctx context.Context, b *bucket.Budget) (found []ledger.Discrepancy, unchecked []string,
		err error)
}
