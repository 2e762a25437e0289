package transfer

import (
	"context"

	"github.com/budgetd/budgetd/bucket"
	"github.com/budgetd/budgetd/budget"
	"github.com/budgetd/budgetd/internal/sql/bookkeeper"
	"github.com/budgetd/budgetd/internal/sql/engine"
	"github.com/budgetd/budgetd/internal/sql/rows"
	"github.com/budgetd/budgetd/ledger/books"
)

// all returns the queries of a whole budget.
func all(id int64) []bookkeeper.Query {
	return append(bookkeeper.WholeBudget(id), bookkeeper.Applied(id))
}

// whole is bookkeeper.Whole.
func (l *Ledger) whole(ctx context.Context, op string, id int64, load []bookkeeper.Query,
	do bookkeeper.Movement, look engine.Looks) (RolledOver, error) {
	done, err := bookkeeper.Whole(ctx, l.db, op, id, load, do, look)
	return rolledOver(done), err
}

func rolledOver(done books.RolledOver) RolledOver {
	out := RolledOver{Done: done.Done, Period: done.Period,
		Moved: Moved{Buckets: done.Buckets, Units: done.Units}}
	out.Period.Funded, out.Period.Carried, out.Period.Before = 0, 0, 0
	return out
}

// onBucket is the decision of a movement of one bucket.
type onBucket func(b *books.Books, u *books.Budget, row *books.Bucket) (books.Refilled, error)

// one runs a movement of one bucket, for which load is enough, or of the whole budget if a rollover
// is due. look may read what it has left; nil reads nothing. Errors: BucketNotFound, also for a
// bucket that was removed from the ring; those of whole.
func (l *Ledger) one(ctx context.Context, op string, budgetID, bucketID int64,
	load []bookkeeper.Query, do onBucket, look engine.Looks) (out Changed, err error) {
	find := func(b *books.Books, u *books.Budget) error {
		row := b.Buckets.Get(bucketID)
		if row == nil || row.OfflineBy == books.Word(bucket.ByResize) {
			return budget.Refuse(budget.BucketNotFound, op, "budget %s has no bucket %d", u.Name, bucketID)
		}
		done, err := do(b, u, row)
		out = Changed{Units: done.Units, Waits: done.Closing}
		if u.Durability == books.Word(budget.Store) {
			out.Tell = append(b.Granted(), row.ID)
		}
		return err
	}
	due := false
	err = bookkeeper.DoAndLook(ctx, l.db, op, load, func(b *books.Books) ([]bookkeeper.Query, error) {
		u := b.Budgets.Get(budgetID)
		if u == nil {
			return nil, bookkeeper.NoBudget(op, budgetID)
		}
		if due = b.Due(u); due {
			return nil, nil
		}
		return nil, find(b, u)
	}, look)
	if err == nil && due {
		var rolled books.RolledOver
		rolled, err = bookkeeper.Whole(ctx, l.db, op, budgetID, all(budgetID), find, look)
		if len(rolled.Closing) > 0 {
			out = Changed{Waits: true, Tell: rolled.Closing}
		}
	}
	if err != nil {
		return Changed{}, err
	}
	return out, nil
}

// on is one, and reads the budget afterwards.
func (l *Ledger) on(ctx context.Context, op string, budgetID, bucketID int64,
	load []bookkeeper.Query, do onBucket) (Changed, error) {
	read := reading(budgetID)
	out, err := l.one(ctx, op, budgetID, bucketID, load, do, read.Queries)
	if err == nil {
		out.After, err = read.Budget(op)
	}
	return out, err
}

// reading reads a budget behind a COMMIT.
func reading(budgetID int64) rows.Reading {
	return rows.Reading{Ref: bucket.BudgetRef{ID: budgetID}}
}
