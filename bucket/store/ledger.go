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

// Ledger keeps in the database what it knows of stores: the memories of partitions, the epochs of
// their buckets, what they counted, and quarantines. Errors of every method: Unavailable (nothing
// was changed); of those that write also OutcomeUnknown, after which the same call may be repeated;
// of those on one budget also BudgetNotFound. Those with a bucket.Memory return
// bucket.ErrOtherMemory, and change nothing, if the partition has another incarnation now. Each
// keeps I1. It is safe for concurrent use.
type Ledger struct {
	db *engine.DB
	// Node is the name of this node, for the causes of quarantines; set it before use.
	Node string
}

// New returns the ledger of a database.
func New(db *engine.DB) *Ledger { return &Ledger{db: db} }

// Partition reads the row of a partition.
func (l *Ledger) Partition(ctx context.Context, partition bucket.Partition) (out PartitionRow,
	err error) {
	load := []bookkeeper.Query{bookkeeper.ReadPartitions(key(partition))}
	err = bookkeeper.LookAt(ctx, l.db, "read a partition", load, func(b *books.Books) error {
		out = PartitionRow{Partition: partition}
		if row := b.Partitions.Get(key(partition)); row != nil {
			out.Incarnation, out.Since, out.Identity = row.Incarnation, row.Since, row.Identity
			out.BeganAt = engine.FromMS(row.BeganAt)
		}
		return nil
	})
	return out, err
}

// mostCause bounds a cause, in bytes.
const mostCause = 512

// BeginIncarnation replaces the row of a partition with next if its incarnation is still was. From
// the commit on, every epoch of an incarnation before next.Since is lost. made is false if the row
// has changed, and if that cannot be told: then another incarnation must follow.
func (l *Ledger) BeginIncarnation(ctx context.Context, was int64, next PartitionRow,
	cause string) (made bool, err error) {
	id := key(next.Partition)
	err = bookkeeper.Do(ctx, l.db, "begin an incarnation",
		[]bookkeeper.Query{bookkeeper.LockPartitions(id)},
		func(b *books.Books) ([]bookkeeper.Query, error) {
			row := b.Partitions.Get(id)
			made = row == nil && was == 0 || row != nil && row.Incarnation == was
			if !made {
				return nil, nil
			}
			if row == nil {
				row = b.Partitions.Add(books.Partition{Instance: id.Instance, Number: id.Number})
			}
			row.Identity, row.Incarnation, row.Since = next.Identity, next.Incarnation, next.Since
			row.BeganAt, row.Cause = b.NowMS, cause[:min(len(cause), mostCause)]
			return nil, nil
		})
	return made && err == nil, err
}

// current returns the partition of a memory, whose Since is the first incarnation whose epochs the
// memory has. It returns bucket.ErrOtherMemory, wrapped, if the memory was given up.
func current(b *books.Books, m bucket.Memory) (*books.Partition, error) {
	row := b.Partitions.Get(key(m.Partition))
	if row == nil || row.Incarnation != m.Incarnation {
		return nil, &budget.Error{Code: budget.Unavailable, Op: "compare a memory",
			Message: "the partition has another incarnation by now", Err: bucket.ErrOtherMemory}
	}
	return row, nil
}

// key returns the key of a partition's row.
func key(p bucket.Partition) books.PartitionID {
	return books.PartitionID{Instance: p.Instance, Number: int64(p.Index)}
}

// at returns the position of an epoch.
func at(ref bucket.Ref) books.Position {
	return books.Position{Bucket: ref.Bucket, Epoch: ref.Epoch}
}

// sorted returns positions in lock order, without duplicates.
func sorted(list []books.Position) []books.Position {
	list = slices.SortedFunc(slices.Values(list), books.Position.Compare)
	return slices.Compact(list)
}
