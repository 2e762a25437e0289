package transfer

import (
	"context"

	"github.com/budgetd/budgetd/bucket"
	"github.com/budgetd/budgetd/bucket/transfer"
	"github.com/budgetd/budgetd/budget"
	"github.com/budgetd/budgetd/internal/sqlstore/bookkeeper"
	"github.com/budgetd/budgetd/ledger/books"
)

// Apply moves units from U to a bucket's open epoch. See transfer.Supply and books.Apply. It
// recognises an attempt with an unknown commit by its grant number, so the units move once. A
// bucket that is gone gets nothing.
func (p *Part) Apply(ctx context.Context, budgetID int64, want transfer.Want) (
	units int64, err error) {
	load := append(bookkeeper.OneBucket(budgetID, want.Bucket), bookkeeper.Applied(budgetID))
	err = p.one(ctx, "apply", budgetID, want.Bucket, load, applying(want, &units, false), nil)
	if budget.Is(err, budget.BucketNotFound) {
		return 0, nil
	}
	if err != nil {
		return 0, err
	}
	return units, nil
}

// ApplyTo sweeps the budget, and applies for a bucket. See transfer.Supply.
func (p *Part) ApplyTo(ctx context.Context, budgetID int64, want transfer.Want) (
	out bucket.Budget, units int64, err error) {
	out, err = p.on(ctx, "apply", budgetID, want.Bucket, all(budgetID),
		applying(want, &units, true))
	if err != nil {
		return bucket.Budget{}, 0, err
	}
	return out, units, nil
}

// applying returns the decision of an apply, for an operator or for the service.
func applying(want transfer.Want, units *int64, operator bool) func(*books.Books, *books.Budget,
	*books.Bucket) error {
	var tried struct{ epoch, grant, units int64 } // what an earlier attempt wrote, committed or not
	return func(b *books.Books, u *books.Budget, row *books.Bucket) (err error) {
		e := b.Epochs.Get(books.Position{Bucket: row.ID, Epoch: row.Epoch})
		if b.Unsure && tried.units > 0 && e.Number == tried.epoch && e.NextGrant > tried.grant {
			*units = tried.units
			return nil
		}
		grant, w := e.NextGrant, books.Want{Units: want.Units, Need: want.Need, Of: int64(want.Of)}
		if operator {
			*units, err = b.ApplyTo(u, row, w)
		} else {
			*units = b.Apply(u, row, w)
		}
		tried.epoch, tried.grant, tried.units = e.Number, grant, *units
		return err
	}
}

// Offline ends a bucket's epoch and removes the bucket from the list. See transfer.Supply.
func (p *Part) Offline(ctx context.Context, budgetID, bucketID int64, by bucket.OfflineBy) (
	bucket.Budget, error) {
	load := append(bookkeeper.OneBucket(budgetID, bucketID), bookkeeper.Buckets(budgetID))
	return p.on(ctx, "offline", budgetID, bucketID, load,
		func(b *books.Books, u *books.Budget, row *books.Bucket) error {
			return b.Offline(u, row, books.Word(by))
		})
}

// Online begins a bucket's next epoch and hands out U. See transfer.Supply.
func (p *Part) Online(ctx context.Context, budgetID, bucketID int64) (
	out bucket.Budget, units int64, err error) {
	out, err = p.on(ctx, "online", budgetID, bucketID, all(budgetID),
		func(b *books.Books, u *books.Budget, row *books.Bucket) error {
			units, err = b.Online(u, row)
			return err
		})
	if err != nil {
		return bucket.Budget{}, 0, err
	}
	return out, units, nil
}
