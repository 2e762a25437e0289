package store

import (
	"cmp"
	"context"
	"slices"

	"github.com/budgetd/budgetd/bucket"
	"github.com/budgetd/budgetd/budget"
	"github.com/budgetd/budgetd/internal/sql/bookkeeper"
	"github.com/budgetd/budgetd/ledger"
	"github.com/budgetd/budgetd/ledger/books"
)

// Apply moves units from U to a bucket, as books.ApplyInStore does. A bucket without a live epoch
// begins its next one. Errors: Unavailable, with ReasonOffline if an operator took the bucket
// offline; BudgetExpired if no period is open; BucketNotFound.
func (l *Ledger) Apply(ctx context.Context, budgetID, bucketID int64, want books.Refill) (
	out books.Refilled, err error) {
	var tried struct{ epoch, grant, units int64 } // what an earlier attempt wrote, committed or not
	load := append(bookkeeper.WholeBudget(budgetID), bookkeeper.Applied(budgetID))
	rolled, err := bookkeeper.Whole(ctx, l.db, "apply", budgetID, load,
		func(b *books.Books, u *books.Budget) error {
			out = books.Refilled{}
			row := b.Buckets.Get(bucketID)
			switch {
			case row == nil:
				return budget.Refuse(budget.BucketNotFound, "apply", "budget %s has no bucket %d", u.Name,
					bucketID)
			case u.Durability != books.Word(budget.Store):
				return nil
			}
			e := b.Newest(row)
			if b.Unsure && tried.units > 0 && e.Number == tried.epoch && e.NextGrant == tried.grant {
				out.Units = tried.units
				return nil
			}
			out, err = b.ApplyInStore(u, row, want)
			tried.epoch, tried.grant, tried.units = row.Epoch, b.Newest(row).NextGrant, out.Units
			return err
		}, nil)
	if err != nil {
		return books.Refilled{}, err
	}
	out.Closing = out.Closing || len(rolled.Closing) > 0
	return out, nil
}

// Supply grants the buckets of a budget what operations wait for, or closes the epochs of others
// that have it, as books.Supply does. tasks are what the stores of these buckets must be told, as
// Tasks would read them after the commit. A repetition grants nothing more. Error: BudgetExpired if
// no period is open.
func (l *Ledger) Supply(ctx context.Context, budgetID int64, round books.Round) (
	out books.Supplied, tasks []Task, err error) {
	var waiting []int64
	for _, ask := range round.Asks {
		waiting = append(waiting, ask.Bucket)
	}
	slices.Sort(waiting)
	load := append(bookkeeper.WholeBudget(budgetID), bookkeeper.Applied(budgetID),
		bookkeeper.PendingOfBuckets(slices.Compact(waiting)))
	rolled, err := bookkeeper.Whole(ctx, l.db, "supply", budgetID, load,
		func(b *books.Books, u *books.Budget) (err error) {
			out, err = b.Supply(u, round)
			tasks = tasksIn(b, out.Push)
			return err
		}, nil)
	switch {
	case err != nil:
		return books.Supplied{}, nil, err
	case len(rolled.Closing) > 0:
		out, tasks = books.Supplied{Given: make([]bool, len(round.Asks)), Waits: true, Keep: -1}, nil
	}
	if others := slices.Concat(rolled.Closing, rolled.Granted); len(others) > 0 {
		tasks, err = l.Tasks(ctx, append(out.Push, others...))
	}
	return out, tasks, err
}

// tasksIn returns what stores must be told of buckets whose pending grants are loaded, unless their
// epochs are closing.
func tasksIn(b *books.Books, buckets []int64) (out []Task) {
	grants := map[books.Position][]bucket.StoreGrant{}
	for _, g := range b.Grants.All() {
		if g.Status == books.Pending {
			at := books.Position{Bucket: g.Bucket, Epoch: g.Epoch}
			grants[at] = append(grants[at], bucket.StoreGrant{Number: g.Number, Amount: g.Amount})
		}
	}
	for _, id := range buckets {
		row := b.Buckets.Get(id)
		e := b.Newest(row)
		pending := grants[e.Position()]
		slices.SortFunc(pending, func(x, y bucket.StoreGrant) int {
			return cmp.Compare(x.Number, y.Number)
		})
		out = append(out, taskOf(&taskRow{Bucket: id, Epoch: e.Number, Incarnation: e.Incarnation,
			Budget: e.Budget, Status: ledger.Status(e.Status), Halted: e.Halted,
			Instance: row.Instance, Partition: int(row.Partition), CopiedEpoch: row.CopiedEpoch},
			pending))
	}
	return out
}

// Collect sets at most 16 epochs of a budget to closing, those with the most units first, until
// they, U and F cover the need. It returns their buckets.
func (l *Ledger) Collect(ctx context.Context, budgetID, need int64) (donors []int64, err error) {
	err = l.inStore(ctx, "collect", budgetID, bookkeeper.WholeBudget(budgetID),
		func(b *books.Books, u *books.Budget) { donors = b.CloseDonors(u, need) })
	return donors, err
}
