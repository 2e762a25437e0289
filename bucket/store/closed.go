package store

import (
	"context"

	"github.com/budgetd/budgetd/bucket"
	"github.com/budgetd/budgetd/internal/sql/bookkeeper"
	"github.com/budgetd/budgetd/ledger/books"
)

// Closed ends closing epochs with their final figures, as books.EndClosed does. Their balances and
// undelivered grants return to U of their budgets. Donors that are in the bucket list begin their
// next epochs with up to half of what they returned, if their budget has units beyond need; with
// need < 0 none does. begun are the buckets with new epochs.
func (l *Ledger) Closed(ctx context.Context, m bucket.Memory, closings []Closing,
	need int64) (begun []int64, err error) {
	if len(closings) == 0 {
		return nil, nil
	}
	finals := make([]books.Final, len(closings))
	list := make([]books.Position, len(closings))
	for i, c := range closings {
		list[i] = at(c.Ref)
		finals[i] = books.Final{Position: list[i], Balance: c.Balance, Taken: c.Taken,
			GivenBack: c.GivenBack, LastGrant: c.LastGrant}
	}
	err = bookkeeper.Do(ctx, l.db, "close", ending(m.Partition, list),
		func(b *books.Books) ([]bookkeeper.Query, error) {
			known, err := current(b, m)
			if err == nil {
				begun = b.EndClosed(known, finals, need)
			}
			return nil, err
		})
	return begun, err
}

// ending locks the budgets of epochs, the epochs, and a partition, and loads what their ends need.
func ending(of bucket.Partition, list []books.Position) []bookkeeper.Query {
	list = sorted(list)
	return append(bookkeeper.BudgetsOf(bookkeeper.BucketsIn(list)), bookkeeper.EpochsAt(list),
		bookkeeper.Partitions(key(of)), bookkeeper.PendingOf(list), bookkeeper.PeriodsAt(list))
}
