package transfer

import (
	"context"

	"github.com/budgetd/budgetd/bucket"
	"github.com/budgetd/budgetd/budget"
	"github.com/budgetd/budgetd/internal/sql/bookkeeper"
	"github.com/budgetd/budgetd/ledger/books"
)

// Apply moves units from U to a bucket's open epoch, as books.Apply does, and returns them. want.Of
// is not 0. A bucket that is gone gets nothing.
func (l *Ledger) Apply(ctx context.Context, budgetID, bucketID int64, want books.Refill) (
	int64, error) {
	load := append(bookkeeper.OneBucket(budgetID, bucketID), bookkeeper.Applied(budgetID))
	out, err := l.one(ctx, "apply", budgetID, bucketID, load, once(
		func(b *books.Books, u *books.Budget, row *books.Bucket) (books.Refilled, error) {
			return books.Refilled{Units: b.Apply(u, row, want)}, nil
		}), nil)
	if budget.Is(err, budget.BucketNotFound) {
		return 0, nil
	}
	return out.Units, err
}

// ApplyTo moves R to where it belongs, then applies for an operator: see books.ApplyTo. Errors:
// BucketNotFound; BudgetExpired if no period is open; BucketOffline; in store mode Unavailable,
// with ReasonOffline if an operator took the bucket offline.
func (l *Ledger) ApplyTo(ctx context.Context, budgetID, bucketID int64) (Changed, error) {
	return l.on(ctx, "apply", budgetID, bucketID, all(budgetID), once((*books.Books).ApplyTo))
}

// once recognises an attempt of an apply with an unknown commit by its grant numbers, so the units
// move once.
func once(apply onBucket) onBucket {
	var tried struct{ epoch, grant, units int64 } // what an earlier attempt wrote, committed or not
	return func(b *books.Books, u *books.Budget, row *books.Bucket) (books.Refilled, error) {
		e := b.Newest(row)
		if b.Unsure && tried.units > 0 && e.Number == tried.epoch && e.NextGrant >= tried.grant {
			return books.Refilled{Units: tried.units}, nil
		}
		out, err := apply(b, u, row)
		tried.epoch, tried.grant, tried.units = row.Epoch, b.Newest(row).NextGrant, out.Units
		return out, err
	}
}

// Offline ends a bucket's epoch, returns its units to the total and removes the bucket from the
// list: see books.Offline. Errors: BucketNotFound; LastBucket.
func (l *Ledger) Offline(ctx context.Context, budgetID, bucketID int64, by bucket.OfflineBy) (
	Changed, error) {
	load := append(bookkeeper.OneBucket(budgetID, bucketID), bookkeeper.Buckets(budgetID))
	return l.on(ctx, "offline", budgetID, bucketID, load,
		func(b *books.Books, u *books.Budget, row *books.Bucket) (books.Refilled, error) {
			return books.Refilled{}, b.Offline(u, row, books.Word(by))
		})
}

// Online begins a bucket's next epoch and spreads U: see books.Online. It changes nothing if the
// bucket is online. Errors: BucketNotFound; BudgetExpired if the budget has no open period;
// Unavailable for a bucket that is halted, or cannot begin an epoch where it is.
func (l *Ledger) Online(ctx context.Context, budgetID, bucketID int64) (Changed, error) {
	return l.on(ctx, "online", budgetID, bucketID, all(budgetID), (*books.Books).Online)
}
