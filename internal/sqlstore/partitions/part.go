// Package partitions is the database's part of store mode: package bucket/counter.
//
// Movements that act on a store's answer lock the partition's row for reading and compare its
// incarnation, so that an answer from a memory that was given up changes nothing. What they decide
// is in ledger/books/memories.go.
package partitions

import (
	"context"
	"slices"

	"github.com/budgetd/budgetd/bucket"
	"github.com/budgetd/budgetd/bucket/counter"
	"github.com/budgetd/budgetd/budget"
	"github.com/budgetd/budgetd/internal/sqlstore/bookkeeper"
	"github.com/budgetd/budgetd/internal/sqlstore/engine"
	"github.com/budgetd/budgetd/ledger/books"
)

var (
	_ counter.Partitions = (*Part)(nil)
	_ counter.Epochs     = (*Part)(nil)
	_ counter.Supply     = (*Part)(nil)
	_ counter.Periods    = (*Part)(nil)
	_ counter.Moves      = (*Part)(nil)
)

// Part stores the memories of partitions and the epochs of store mode. It is safe for concurrent
// use.
type Part struct {
	db *engine.DB
	// Node is the name of this node, for the causes of quarantines; set it before use.
	Node string
}

// New returns the part of a database.
func New(db *engine.DB) *Part { return &Part{db: db} }

// Partition reads the row of a partition. See counter.Partitions.
func (p *Part) Partition(ctx context.Context, partition bucket.Partition) (out counter.PartitionRow,
	err error) {
	load := []bookkeeper.Query{bookkeeper.ReadPartitions(key(partition))}
	err = bookkeeper.LookAt(ctx, p.db, "read a partition", load, func(b *books.Books) error {
		out = counter.PartitionRow{Partition: partition}
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

// BeginIncarnation begins an incarnation of a partition. See counter.Partitions.
func (p *Part) BeginIncarnation(ctx context.Context, was int64, next counter.PartitionRow,
	cause string) (made bool, err error) {
	id := key(next.Partition)
	err = bookkeeper.Do(ctx, p.db, "begin an incarnation",
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
