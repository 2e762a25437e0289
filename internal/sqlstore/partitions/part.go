// Package partitions is the database's part of store mode: package bucket/counter.
//
// Transactions that act on a store's answer lock the partition's row for reading and compare its
// incarnation, so that an answer from a memory that was given up changes nothing. The partition's
// row comes after the rows in the lock order of package rows.
package partitions

import (
	"context"
	"slices"

	"github.com/budgetd/budgetd/bucket"
	"github.com/budgetd/budgetd/bucket/counter"
	"github.com/budgetd/budgetd/budget"
	"github.com/budgetd/budgetd/internal/sqlstore/engine"
	"github.com/budgetd/budgetd/internal/sqlstore/rows"
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

const (
	selectPartition = `SELECT instance, partition_number, identity, incarnation, since_incarnation,
		began_at
		FROM store_partition WHERE instance = ? AND partition_number = ?`
	insertPartition = `INSERT INTO store_partition (instance, partition_number, identity, incarnation,
		since_incarnation,
		began_at, cause)`
	partitionWidth  = 7
	changePartition = `UPDATE store_partition SET identity = ?, incarnation = ?, since_incarnation = ?,
		began_at = ?, cause = ? WHERE instance = ? AND partition_number = ? AND incarnation = ?`
	shared = ` /*shared*/`
	// mostCause bounds a cause, in bytes.
	mostCause = 512
)

type partitionRow struct {
	Instance    string `db:"instance"`
	Index       int    `db:"partition_number"`
	Identity    string `db:"identity"`
	Incarnation int64  `db:"incarnation"`
	Since       int64  `db:"since_incarnation"`
	BeganAt     int64  `db:"began_at"`
}

// readPartition reads the row of a partition; one that is missing has incarnation 0.
func readPartition(r *engine.Reader, partition bucket.Partition, suffix string) (partitionRow,
	error) {
	var row partitionRow
	_, err := r.Get(&row, selectPartition+suffix, []byte(partition.Instance), partition.Index)
	return row, err
}

// Partition reads the row of a partition. See counter.Partitions.
func (p *Part) Partition(ctx context.Context, partition bucket.Partition) (out counter.PartitionRow,
	err error) {
	err = p.db.Read(ctx, "read a partition", func(r *engine.Reader) error {
		row, err := readPartition(r, partition, "")
		out = counter.PartitionRow{Partition: partition, Incarnation: row.Incarnation, Since: row.Since,
			Identity: row.Identity, BeganAt: engine.FromMS(row.BeganAt)}
		return err
	})
	return out, err
}

// BeginIncarnation begins an incarnation of a partition. See counter.Partitions.
func (p *Part) BeginIncarnation(ctx context.Context, was int64, next counter.PartitionRow,
	cause string) (made bool, err error) {
	instance, why := []byte(next.Partition.Instance), []byte(cause[:min(len(cause), mostCause)])
	err = p.db.Write(ctx, "begin an incarnation", func(t *engine.Tx) error {
		made = false
		row, err := readPartition(&t.Reader, next.Partition, rows.Locked)
		if err != nil || row.Incarnation != was {
			return err
		}
		made = true
		now := engine.ToMS(t.Now)
		if row.Instance == "" {
			return t.Insert(insertPartition, partitionWidth, []any{instance, next.Partition.Index,
				[]byte(next.Identity), next.Incarnation, next.Since, now, why})
		}
		return t.Hit(1, changePartition, []byte(next.Identity), next.Incarnation, next.Since, now, why,
			instance, next.Partition.Index, was)
	})
	return made && err == nil, err
}

// current locks the partition's row for reading and compares it with a memory. since is the first
// incarnation whose epochs the memory has. It returns bucket.ErrOtherMemory, wrapped, if the memory
// was given up.
func current(t *engine.Tx, m bucket.Memory) (since int64, err error) {
	row, err := readPartition(&t.Reader, m.Partition, shared)
	if err == nil && row.Incarnation != m.Incarnation {
		err = &budget.Error{Code: budget.Unavailable, Op: "compare a memory",
			Message: "the partition has another incarnation by now", Err: bucket.ErrOtherMemory}
	}
	return row.Since, err
}

// homes returns the partitions of epochs' buckets, and whether each epoch is its bucket's newest.
func homes(t *engine.Tx, positions []rows.Position) (map[rows.Position]home, error) {
	out := make(map[rows.Position]home, len(positions))
	for chunk := range slices.Chunk(positions, engine.ListChunk) {
		ids := make([]int64, len(chunk))
		for i, p := range chunk {
			ids[i] = p.Bucket
		}
		var found []home
		s := t.Statement()
		s.SQL(selectHomes)
		s.Numbers("b.id", ids)
		if err := t.RowsOf(&found, s); err != nil {
			return nil, err
		}
		byID := make(map[int64]home, len(found))
		for _, h := range found {
			byID[h.Bucket] = h
		}
		for _, p := range chunk {
			out[p] = byID[p.Bucket]
		}
	}
	return out, nil
}

const selectHomes = `SELECT b.id, b.instance, b.partition_number, b.epoch
	FROM sharding_budget_management_bucket b /*by PRIMARY*/ WHERE `

type home struct {
	Bucket   int64  `db:"id"`
	Instance string `db:"instance"`
	Index    int    `db:"partition_number"`
	Epoch    int64  `db:"epoch"`
}

func (h *home) partition() bucket.Partition {
	return bucket.Partition{Instance: h.Instance,
		Index: h.Index}
}
