package store

import (
	"context"
	"fmt"

	"github.com/budgetd/budgetd/bucket"
	"github.com/budgetd/budgetd/internal/sql/bookkeeper"
	"github.com/budgetd/budgetd/internal/sql/engine"
	"github.com/budgetd/budgetd/ledger/books"
)

const selectLost = `SELECT e.bucket_id, e.epoch FROM store_partition l
	/*in order*/ JOIN sharding_budget_management_bucket b
		/*by sharding_budget_management_bucket_partition*/
		ON b.instance = l.instance AND b.partition_number = l.partition_number
	JOIN budget_management_bucket u ON u.id = b.budget_id
	JOIN bucket_epoch e ON e.bucket_id = b.id AND e.epoch = b.epoch
	WHERE l.instance = ? AND l.partition_number = ? AND u.durability = 'store'
	AND e.status IN ('opening', 'open', 'closing') AND e.incarnation < l.since_incarnation
	ORDER BY e.budget_id, e.bucket_id LIMIT ?`

type lostRow struct {
	Bucket int64 `db:"bucket_id"`
	Epoch  int64 `db:"epoch"`
	Budget int64 `db:"budget_id"`
}

// EndLost ends at most MaxEpochs epochs of memories of a partition that were given up, in one
// transaction, as books.Lose does. Their O goes to Q. It goes to the total under on_loss:
// assume_unused, and for epochs that were only opening. Keeps I2.
func (l *Ledger) EndLost(ctx context.Context, partition bucket.Partition) (
	out LostEpochs, err error) {
	var list []books.Position
	err = l.db.Read(ctx, "end lost epochs", func(r *engine.Reader) error {
		var found []lostRow
		err := r.List(&found, selectLost, []byte(partition.Instance), partition.Index,
			MaxEpochs)
		list = nil
		for _, f := range found {
			list = append(list, books.Position{Bucket: f.Bucket, Epoch: f.Epoch})
		}
		return err
	})
	if err != nil || len(list) == 0 {
		return out, err
	}
	ended, err := l.lose(ctx, partition, list, lostWith(partition), nil)
	return LostEpochs{Buckets: ended.Buckets, More: len(list) == MaxEpochs,
		Quarantined: ended.Quarantined, Returned: ended.Returned}, err
}

// lostWith judges epochs whose memory was given up.
func lostWith(partition bucket.Partition) func(*books.Partition, *books.Epoch) string {
	return func(known *books.Partition, e *books.Epoch) string {
		if e.Incarnation >= known.Since {
			return ""
		}
		return fmt.Sprintf("the memory of incarnation %d of %s was lost", e.Incarnation, partition)
	}
}

// Lost ends one epoch whose entry is missing, as EndLost does.
func (l *Ledger) Lost(ctx context.Context, m bucket.Memory, ref bucket.Ref, cause string) error {
	_, err := l.lose(ctx, m.Partition, []books.Position{at(ref)},
		func(known *books.Partition, e *books.Epoch) string {
			if e.Incarnation < known.Since {
				return ""
			}
			return cause
		}, &m)
	return err
}

// lose ends epochs of a partition for which judge returns a cause. If the caller names a memory, it
// must be the partition's.
func (l *Ledger) lose(ctx context.Context, of bucket.Partition, list []books.Position,
	judge func(*books.Partition, *books.Epoch) string, m *bucket.Memory) (out books.Lost, err error) {
	err = bookkeeper.Do(ctx, l.db, "end lost epochs", ending(of, list),
		func(b *books.Books) ([]bookkeeper.Query, error) {
			out = books.Lost{}
			known := b.Partitions.Get(key(of))
			if m != nil {
				if _, err := current(b, *m); err != nil {
					return nil, err
				}
			}
			if known != nil {
				out = b.Lose(known, list, func(e *books.Epoch) string {
					cause := judge(known, e)
					if cause != "" && l.Node != "" {
						cause += "; noticed by node " + l.Node
					}
					return cause
				})
			}
			return nil, nil
		})
	if err != nil {
		return books.Lost{}, err
	}
	return out, nil
}

// Halt stops a bucket until an operator decides.
func (l *Ledger) Halt(ctx context.Context, ref bucket.Ref, why string) error {
	return bookkeeper.Do(ctx, l.db, "halt", []bookkeeper.Query{
		bookkeeper.EpochsAt([]books.Position{at(ref)})},
		func(b *books.Books) ([]bookkeeper.Query, error) {
			if e := b.Epochs.Get(at(ref)); e != nil {
				e.Halt(why)
			}
			return nil, nil
		})
}

// ending locks the budgets of epochs, the epochs, and a partition, and loads what their ends need.
func ending(of bucket.Partition, list []books.Position) []bookkeeper.Query {
	list = sorted(list)
	return append(bookkeeper.BudgetsOf(bookkeeper.BucketsIn(list)), bookkeeper.EpochsAt(list),
		bookkeeper.Partitions(key(of)), bookkeeper.PendingOf(list), bookkeeper.PeriodsAt(list))
}
