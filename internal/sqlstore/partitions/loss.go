package partitions

import (
	"context"
	"fmt"

	"github.com/budgetd/budgetd/bucket"
	"github.com/budgetd/budgetd/bucket/counter"
	"github.com/budgetd/budgetd/internal/sqlstore/bookkeeper"
	"github.com/budgetd/budgetd/internal/sqlstore/engine"
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

// EndLost ends epochs of memories that were given up, in one transaction. See counter.Partitions
// and books.Lose. Keeps I1, I2.
func (p *Part) EndLost(ctx context.Context, partition bucket.Partition) (
	out counter.LostEpochs, err error) {
	var list []books.Position
	err = p.db.Read(ctx, "end lost epochs", func(r *engine.Reader) error {
		var found []lostRow
		err := r.List(&found, selectLost, []byte(partition.Instance), partition.Index,
			counter.MaxEpochs)
		list = nil
		for _, f := range found {
			list = append(list, books.Position{Bucket: f.Bucket, Epoch: f.Epoch})
		}
		return err
	})
	if err != nil || len(list) == 0 {
		return out, err
	}
	ended, err := p.lose(ctx, partition, list, lostWith(partition), nil)
	return counter.LostEpochs{Buckets: ended.Buckets, More: len(list) == counter.MaxEpochs,
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

// Lost ends one epoch whose entry is missing. See counter.Epochs. Keeps I1, I2.
func (p *Part) Lost(ctx context.Context, m bucket.Memory, ref bucket.Ref, cause string) error {
	_, err := p.lose(ctx, m.Partition, []books.Position{at(ref)},
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
func (p *Part) lose(ctx context.Context, of bucket.Partition, list []books.Position,
	judge func(*books.Partition, *books.Epoch) string, m *bucket.Memory) (out books.Lost, err error) {
	err = bookkeeper.Do(ctx, p.db, "end lost epochs", ending(of, list),
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
					if cause != "" && p.Node != "" {
						cause += "; noticed by node " + p.Node
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

// Halt stops an epoch. See counter.Epochs.
func (p *Part) Halt(ctx context.Context, ref bucket.Ref, why string) error {
	return bookkeeper.Do(ctx, p.db, "halt", []bookkeeper.Query{
		bookkeeper.EpochsAt([]books.Position{at(ref)})},
		func(b *books.Books) ([]bookkeeper.Query, error) {
			if e := b.Epochs.Get(at(ref)); e != nil {
				e.Halt(why)
			}
			return nil, nil
		})
}
