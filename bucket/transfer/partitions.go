package transfer

import (
	"cmp"
	"context"
	"slices"
	"strings"

	"github.com/budgetd/budgetd/bucket"
	"github.com/budgetd/budgetd/internal/sql/engine"
)

const (
	selectPartitions = `SELECT instance, partition_number, incarnation, is_draining, identity,
		began_at, cause FROM store_partition ORDER BY instance, partition_number`
	selectAtRisk = `SELECT b.instance, b.partition_number, SUM(e.outstanding_quantity) AS units
		FROM budget_management_bucket u
		/*in order*/ JOIN sharding_budget_management_bucket b ON b.budget_id = u.id
		/*in order*/ JOIN bucket_epoch e /*by PRIMARY*/ ON e.bucket_id = b.id AND e.epoch = b.epoch
		WHERE u.durability = 'store' AND u.unlimited = 0 GROUP BY b.instance, b.partition_number`
	countOnPartitions = `SELECT instance, partition_number, COUNT(*) AS buckets
		FROM sharding_budget_management_bucket /*by sharding_budget_management_bucket_partition*/
		WHERE instance <> x'' GROUP BY instance, partition_number`
	selectPartition = `SELECT instance, partition_number, incarnation, is_draining FROM store_partition
		WHERE instance = ? AND partition_number = ?`
	setDraining = `UPDATE store_partition SET is_draining = ?
		WHERE instance = ? AND partition_number = ? AND is_draining <> ?`
	// insertDraining inserts the row of a partition that was never reached.
	insertDraining = `INSERT INTO store_partition (instance, partition_number, identity, incarnation,
		since_incarnation, is_draining, began_at) VALUES (?, ?, ?, 1, 1, 1, ?)`
)

// partitionRow is a row of store_partition, or of the buckets counted by partition.
type partitionRow struct {
	Instance    string `db:"instance"`
	Index       int    `db:"partition_number"`
	Incarnation int64  `db:"incarnation"`
	Draining    int64  `db:"is_draining"`
	Buckets     int    `db:"buckets"`
	Units       int64  `db:"units"`
	Identity    string `db:"identity"`
	BeganAt     int64  `db:"began_at"`
	Cause       string `db:"cause"`
}

// Partition returns the row's partition.
func (r *partitionRow) Partition() bucket.Partition {
	return bucket.Partition{Instance: r.Instance, Index: r.Index}
}

func comparePartitions(a, b bucket.Partition) int {
	return cmp.Or(cmp.Compare(a.Instance, b.Instance), cmp.Compare(a.Index, b.Index))
}

// PartitionRows reads the partitions that SQL knows and those of buckets, by instance and index.
func (l *Ledger) PartitionRows(ctx context.Context) (out []PartitionRow, err error) {
	err = l.db.Read(ctx, "partitions", func(r *engine.Reader) error {
		var known, loads []partitionRow
		if err := r.List(&known, selectPartitions); err != nil {
			return err
		}
		if err := r.List(&loads, countOnPartitions); err != nil {
			return err
		}
		found := map[bucket.Partition]PartitionRow{}
		for i := range known {
			k := &known[i]
			row := PartitionRow{Partition: k.Partition(), Incarnation: k.Incarnation,
				Draining: k.Draining == 1}
			if words := strings.Fields(k.Identity); len(words) > 2 { // run id, replication id, role
				row.Role, row.Cause = words[2], k.Cause
				row.BeganAt = engine.FromMS(k.BeganAt)
			}
			found[k.Partition()] = row
		}
		for i := range loads {
			row := found[loads[i].Partition()]
			row.Partition, row.Buckets = loads[i].Partition(), loads[i].Buckets
			found[row.Partition] = row
		}
		out = make([]PartitionRow, 0, len(found))
		for _, row := range found {
			out = append(out, row)
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	slices.SortFunc(out, func(a, b PartitionRow) int {
		return comparePartitions(a.Partition,
			b.Partition)
	})
	return out, nil
}

// AtRisk sums what epochs of budgets in store mode hold, by partition, in minor units.
func (l *Ledger) AtRisk(ctx context.Context) (out map[bucket.Partition]int64, err error) {
	err = l.db.Read(ctx, "at risk", func(r *engine.Reader) error {
		var found []partitionRow
		if err := r.List(&found, selectAtRisk); err != nil {
			return err
		}
		out = make(map[bucket.Partition]int64, len(found))
		for i := range found {
			out[found[i].Partition()] = found[i].Units
		}
		return nil
	})
	return out, err
}

// SetDraining sets whether buckets are to leave partitions. It inserts missing rows of partitions.
// It is idempotent.
func (l *Ledger) SetDraining(ctx context.Context, partitions []bucket.Partition, on bool) error {
	partitions = slices.Clone(partitions)
	slices.SortFunc(partitions, comparePartitions)
	partitions = slices.Compact(partitions)
	is := 0
	if on {
		is = 1
	}
	return l.db.Write(ctx, "drain", func(t *engine.Tx) error {
		for _, partition := range partitions {
			instance := []byte(partition.Instance)
			var row partitionRow
			found, err := t.Get(&row, selectPartition+" /*locked*/", instance, partition.Index)
			switch {
			case err != nil:
				return err
			case found && row.Draining != int64(is):
				err = t.Hit(1, setDraining, is, instance, partition.Index, is)
			case !found && on:
				err = t.Hit(1, insertDraining, instance, partition.Index, []byte{}, engine.ToMS(t.Now))
			}
			if err != nil {
				return err
			}
		}
		return nil
	})
}

const (
	selectPlaced = `SELECT b.budget_id, b.id, b.ordinal, b.instance, b.partition_number, u.tenant,
		u.name
		FROM sharding_budget_management_bucket b
		JOIN budget_management_bucket u ON u.id = b.budget_id WHERE b.budget_id IN (`
	selectAfter = `SELECT id FROM budget_management_bucket
		WHERE id > ? AND durability = 'store' ORDER BY id LIMIT ?`
	selectOn = `SELECT DISTINCT budget_id
		FROM sharding_budget_management_bucket /*by sharding_budget_management_bucket_partition*/
		WHERE budget_id > ? AND (`
)

// PlacedAfter reads budgets in store mode with ids above after, with the partitions of their
// buckets, by id: those with a bucket on one of the partitions, or all if partitions is empty.
func (l *Ledger) PlacedAfter(ctx context.Context, partitions []bucket.Partition, after int64,
	limit int) (out []Placed, err error) {
	err = l.db.Read(ctx, "placement", func(r *engine.Reader) error {
		out = nil
		ids, err := budgetsOn(r, partitions, after, limit)
		if err != nil || len(ids) == 0 {
			return err
		}
		var rows []placedRow
		s := r.Statement()
		s.SQL(selectPlaced)
		for i, id := range ids {
			if i > 0 {
				s.SQL(",")
			}
			s.Number(id)
		}
		s.SQL(`) ORDER BY b.budget_id, b.ordinal`)
		if err := r.RowsOf(&rows, s); err != nil {
			return err
		}
		for i := range rows {
			row := &rows[i]
			if len(out) == 0 || out[len(out)-1].Budget != row.Budget {
				out = append(out, Placed{Budget: row.Budget, Tenant: row.Tenant,
					Name: row.Name})
			}
			last := &out[len(out)-1]
			last.Buckets = append(last.Buckets, PlacedBucket{ID: row.ID,
				Ordinal:   row.Ordinal,
				Partition: bucket.Partition{Instance: row.Instance, Index: row.Partition}})
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	return out, nil
}

// placedRow is a bucket with its partition and its budget's name.
type placedRow struct {
	Budget    int64  `db:"budget_id"`
	ID        int64  `db:"id"`
	Ordinal   int    `db:"ordinal"`
	Instance  string `db:"instance"`
	Partition int    `db:"partition_number"`
	Tenant    string `db:"tenant"`
	Name      string `db:"name"`
}

// budgetsOn reads ids of budgets in store mode: those with a bucket on one of the partitions, or
// all.
func budgetsOn(r *engine.Reader, partitions []bucket.Partition, after int64, limit int) (
	ids []int64, err error) {
	if len(partitions) == 0 {
		err = r.List(&ids, selectAfter, after, limit)
		return ids, err
	}
	args := []any{after}
	for _, partition := range partitions {
		args = append(args, []byte(partition.Instance), partition.Index)
	}
	query := selectOn + engine.Repeat("instance = ? AND partition_number = ?", " OR ",
		len(partitions)) +
		`) ORDER BY budget_id LIMIT ?`
	err = r.List(&ids, query, append(args, limit)...)
	return ids, err
}
