package transfer

import (
	"context"

	"github.com/budgetd/budgetd/bucket"
	"github.com/budgetd/budgetd/bucket/transfer"
	"github.com/budgetd/budgetd/budget"
	"github.com/budgetd/budgetd/internal/sqlstore/bookkeeper"
	"github.com/budgetd/budgetd/ledger/books"
)

// Apply moves units from U to a bucket's open epoch. See transfer.Supply and books.Apply. A bucket
// that is gone gets nothing.
func (p *Part) Apply(ctx context.Context, budgetID, bucketID int64, want books.Refill) (
	int64, error) {
	load := append(bookkeeper.OneBucket(budgetID, bucketID), bookkeeper.Applied(budgetID))
	out, err := p.one(ctx, "apply", budgetID, bucketID, load, once(
		func(b *books.Books, u *books.Budget, row *books.Bucket) (books.Refilled, error) {
			return books.Refilled{Units: b.Apply(u, row, want)}, nil
		}), nil)
	if budget.Is(err, budget.BucketNotFound) {
		return 0, nil
	}
	return out.Units, err
}

// ApplyTo applies for a bucket for an operator. See transfer.Supply and books.ApplyTo.
func (p *Part) ApplyTo(ctx context.Context, budgetID, bucketID int64) (transfer.Changed, error) {
	return p.on(ctx, "apply", budgetID, bucketID, all(budgetID), once((*books.Books).ApplyTo))
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

// Offline ends a bucket's epoch and removes the bucket from the list. See transfer.Supply.
func (p *Part) Offline(ctx context.Context, budgetID, bucketID int64, by bucket.OfflineBy) (
	transfer.Changed, error) {
	load := append(bookkeeper.OneBucket(budgetID, bucketID), bookkeeper.Buckets(budgetID))
	return p.on(ctx, "offline", budgetID, bucketID, load,
		func(b *books.Books, u *books.Budget, row *books.Bucket) (books.Refilled, error) {
			return books.Refilled{}, b.Offline(u, row, books.Word(by))
		})
}

// Online begins a bucket's next epoch and hands out U. See transfer.Supply.
func (p *Part) Online(ctx context.Context, budgetID, bucketID int64) (transfer.Changed, error) {
	return p.on(ctx, "online", budgetID, bucketID, all(budgetID), (*books.Books).Online)
}
