package store

import (
	"context"
	"slices"

	"github.com/budgetd/budgetd/bucket"
	"github.com/budgetd/budgetd/budget"
	"github.com/budgetd/budgetd/internal/sql/bookkeeper"
	"github.com/budgetd/budgetd/internal/sql/engine"
	"github.com/budgetd/budgetd/ledger/books"
)

const (
	selectShrinking = `SELECT u.id AS budget_id, u.pending_shrink_quantity AS units
		FROM budget_management_bucket u
		WHERE u.id IN (SELECT a.budget_id FROM adjustment a /*by adjustment_status*/
			WHERE a.status = 'pending')
		AND u.pending_shrink_quantity > u.unfunded_quantity + u.undistributed_quantity LIMIT 100`
	selectGranted = `SELECT COALESCE(SUM(amount), 0) FROM grant_log
		WHERE bucket_id = ? AND epoch = ? AND number <= ? AND status <> 'void'`
)

// Close sets the epoch of a bucket to closing, unless it has ended.
func (l *Ledger) Close(ctx context.Context, budgetID, bucketID int64) error {
	return l.one(ctx, "close", budgetID, bucketID, bookkeeper.OneBucket(budgetID, bucketID),
		func(b *books.Books, u *books.Budget, row *books.Bucket) error {
			b.Close(u, row)
			return nil
		})
}

// one runs a movement of one bucket of a budget in store mode.
func (l *Ledger) one(ctx context.Context, op string, budgetID, bucketID int64,
	load []bookkeeper.Query, do func(b *books.Books, u *books.Budget, row *books.Bucket) error) error {
	return bookkeeper.Do(ctx, l.db, op, load, func(b *books.Books) ([]bookkeeper.Query, error) {
		u, row := b.Budgets.Get(budgetID), b.Buckets.Get(bucketID)
		switch {
		case u == nil:
			return nil, bookkeeper.NoBudget(op, budgetID)
		case row == nil || u.Durability != books.Word(budget.Store):
			return nil, budget.Refuse(budget.BucketNotFound, op,
				"budget %s has no bucket %d in a store", u.Name, bucketID)
		}
		return nil, do(b, u, row)
	})
}

// Move assigns a bucket to another partition. The newest epoch must be ref and must have ended, so
// no units move. Its copy must be complete on the target, or it must be lost. A bucket that is
// online begins its next epoch there, if a period is open. moved is false if the bucket has a newer
// epoch.
func (l *Ledger) Move(ctx context.Context, budgetID int64, ref bucket.Ref, from,
	to bucket.Partition) (moved bool, err error) {
	both := slices.SortedFunc(slices.Values([]books.PartitionID{key(from), key(to)}),
		books.PartitionID.Compare)
	load := append(bookkeeper.OneBucket(budgetID, ref.Bucket), bookkeeper.Partitions(both...))
	err = l.one(ctx, "move", budgetID, ref.Bucket, load,
		func(b *books.Books, u *books.Budget, row *books.Bucket) error {
			moved = b.Place(u, row, ref.Epoch, key(from), key(to))
			return nil
		})
	return moved && err == nil, err
}

// inStore runs a movement of a budget, and does nothing to one in ledger mode.
func (l *Ledger) inStore(ctx context.Context, op string, budgetID int64, load []bookkeeper.Query,
	do func(b *books.Books, u *books.Budget)) error {
	return bookkeeper.Do(ctx, l.db, op, load, func(b *books.Books) ([]bookkeeper.Query, error) {
		u := b.Budgets.Get(budgetID)
		if u == nil {
			return nil, bookkeeper.NoBudget(op, budgetID)
		}
		if u.Durability == books.Word(budget.Store) {
			do(b, u)
		}
		return nil, nil
	})
}

// Shrinking lists at most 100 budgets whose pending shrinks are above F and U.
func (l *Ledger) Shrinking(ctx context.Context) (out []Shrink, err error) {
	err = l.db.Read(ctx, "shrinks", func(r *engine.Reader) error {
		var found []struct {
			Budget int64 `db:"budget_id"`
			Units  int64 `db:"units"`
		}
		if err := r.List(&found, selectShrinking); err != nil {
			return err
		}
		out = nil
		for _, f := range found {
			out = append(out, Shrink{Budget: f.Budget, Units: f.Units})
		}
		return nil
	})
	return out, err
}

// Granted returns the sums of the grants of epochs, each up to a number, in the order of the refs.
func (l *Ledger) Granted(ctx context.Context, refs []bucket.Ref, upTo []int64) (
	out []int64, err error) {
	err = l.db.Read(ctx, "audit", func(r *engine.Reader) error {
		out = make([]int64, len(refs))
		for i, ref := range refs {
			if _, err := r.Get(&out[i], selectGranted, ref.Bucket, ref.Epoch, upTo[i]); err != nil {
				return err
			}
		}
		return nil
	})
	return out, err
}
