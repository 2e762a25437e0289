package partitions

import (
	"context"

	"github.com/budgetd/budgetd/bucket"
	"github.com/budgetd/budgetd/bucket/counter"
	"github.com/budgetd/budgetd/internal/sqlstore/bookkeeper"
	"github.com/budgetd/budgetd/ledger/books"
)

// Closed ends closing epochs with their final figures. See counter.Epochs and books.EndClosed.
// Keeps I1.
func (p *Part) Closed(ctx context.Context, m bucket.Memory, closings []counter.Closing,
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
	err = bookkeeper.Do(ctx, p.db, "close", ending(m.Partition, list),
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
