package moves

import (
	"cmp"
	"slices"
	"strings"

	"github.com/budgetd/budgetd/bucket"
	"github.com/budgetd/budgetd/budget"
	"github.com/budgetd/budgetd/internal/sqlstore/engine"
	"github.com/budgetd/budgetd/internal/sqlstore/rows"
	"github.com/budgetd/budgetd/ledger"
)

const (
	insertEpochs = `INSERT INTO bucket_epoch (bucket_id, epoch, budget_id, status, period,
		period_end_ms, definition_version, outstanding_quantity, held_quantity, used_quantity,
		returning_quantity, closed_quantity, swept_quantity, next_grant, next_entry, incarnation,
		halted, created_at)`
	epochWidth  = 18
	bringOnline = `UPDATE sharding_budget_management_bucket /*by PRIMARY*/ SET status = 'online',
		offline_by = '', epoch = epoch + 1, updated_at = ? WHERE `
	changeList = `UPDATE budget_management_bucket SET list_version = list_version + ?
		WHERE id = ?`
)

// InsertEpochs writes new epoch rows.
func InsertEpochs(t *engine.Tx, epochs ...*rows.Epoch) error {
	values := make([]any, 0, len(epochs)*epochWidth)
	for _, e := range epochs {
		values = append(values, e.Bucket, e.Number, e.Budget, e.Status, e.Period, e.PeriodEndMS,
			e.DefinitionVersion, e.Outstanding, 0, 0, 0, e.Closed, 0, e.NextGrant, e.NextEntry,
			e.Incarnation, []byte{}, engine.ToMS(t.Now))
	}
	return t.Insert(insertEpochs, epochWidth, values)
}

// FirstStatus returns the first status of an epoch: open in ledger mode; in store mode opening,
// until its store has it.
func FirstStatus(durability budget.Durability) ledger.Status {
	if durability == budget.Store {
		return ledger.Opening
	}
	return ledger.Open
}

// Begin begins the next epochs of buckets whose newest epochs are locked and have ended, without
// units and in the open period. The budget is locked. It brings the buckets online and replaces the
// epochs in the rows. In store mode it returns Unavailable if a partition is drained or was never
// reached.
func Begin(t *engine.Tx, op string, b *rows.Budget, buckets ...*rows.Bucket) error {
	if len(buckets) == 0 {
		return nil
	}
	partitions := make([]bucket.Partition, len(buckets))
	for i, row := range buckets {
		partitions[i] = row.Partition()
	}
	durability := budget.Durability(b.Durability)
	incarnations, err := Incarnations(t, op, durability, partitions)
	if err != nil {
		return err
	}
	now := engine.ToMS(t.Now)
	epochs, keys := make([]*rows.Epoch, len(buckets)), []any(nil)
	for i, row := range buckets {
		keys = append(keys, row.Epoch.Bucket, row.Number)
		row.Epoch = rows.Epoch{
			Bucket: row.Epoch.Bucket, Number: row.Number + 1, Budget: b.ID,
			Status: string(FirstStatus(durability)), Incarnation: incarnations[partitions[i]],
			NextGrant: 1, NextEntry: row.NextEntry,
			DefinitionVersion: b.Version, Period: b.Period, PeriodEndMS: b.PeriodEndMS,
		}
		row.ListStatus, row.OfflineBy, row.UpdatedAt = rows.Online, "", now
		epochs[i] = &row.Epoch
	}
	if err := InsertEpochs(t, epochs...); err != nil {
		return err
	}
	if err := t.HitAll(bringOnline, []any{now}, `(id = ? AND epoch = ?)`, keys); err != nil {
		return err
	}
	b.ListVersion += int64(len(buckets))
	return ListChanged(t, b.ID, len(buckets))
}

// ListChanged records changes of a locked budget's bucket list or epochs, so that nodes read them
// again.
func ListChanged(t *engine.Tx, budgetID int64, changes int) error {
	return t.Hit(1, changeList, changes, budgetID)
}

const (
	putOnline = `UPDATE sharding_budget_management_bucket /*by PRIMARY*/ SET status = 'online',
		offline_by = '', updated_at = ? WHERE `
)

// PutOnline adds buckets of a locked budget to the bucket list, with their present epochs: see
// Begin.
func PutOnline(t *engine.Tx, b *rows.Budget, buckets ...*rows.Bucket) error {
	if len(buckets) == 0 {
		return nil
	}
	now, ids := engine.ToMS(t.Now), []any(nil)
	for _, row := range buckets {
		ids = append(ids, row.Epoch.Bucket)
		row.ListStatus, row.OfflineBy, row.UpdatedAt = rows.Online, "", now
	}
	if err := t.HitAll(putOnline, []any{now}, `id = ?`, ids); err != nil {
		return err
	}
	b.ListVersion += int64(len(buckets))
	return ListChanged(t, b.ID, len(buckets))
}

const (
	selectPartitions = `SELECT instance, partition_number, incarnation, is_draining FROM
		store_partition /*by PRIMARY*/ WHERE `
	sharedPartitions = ` ORDER BY instance, partition_number /*shared*/`
	partitionsAtOnce = 64
)

func comparePartitions(a, b bucket.Partition) int {
	return cmp.Or(cmp.Compare(a.Instance, b.Instance), cmp.Compare(a.Index, b.Index))
}

// Incarnations returns the present incarnations of the partitions of buckets in store mode. In
// ledger mode buckets have no partition, and it returns nil. It returns Unavailable if a partition
// is drained or was never reached.
func Incarnations(t *engine.Tx, op string, durability budget.Durability,
	partitions []bucket.Partition) (map[bucket.Partition]int64, error) {
	if durability != budget.Store {
		return nil, nil
	}
	partitions = slices.Clone(partitions)
	slices.SortFunc(partitions, comparePartitions)
	partitions = slices.Compact(partitions)
	out := map[bucket.Partition]int64{}
	var read []struct {
		Instance    string `db:"instance"`
		Partition   int    `db:"partition_number"`
		Incarnation int64  `db:"incarnation"`
		IsDraining  int64  `db:"is_draining"`
	}
	for chunk := range slices.Chunk(partitions, partitionsAtOnce) {
		keys := make([][]any, len(chunk))
		for i, l := range chunk {
			keys[i] = []any{[]byte(l.Instance), l.Index}
		}
		some := read[:0:0]
		s := t.Statement()
		s.SQL(selectPartitions)
		s.Tuples([]string{"instance", "partition_number"}, keys)
		s.SQL(sharedPartitions)
		if err := t.RowsOf(&some, s); err != nil {
			return nil, err
		}
		read = append(read, some...)
	}
	for _, row := range read {
		partition := bucket.Partition{Instance: row.Instance, Index: row.Partition}
		if row.IsDraining == 1 {
			return nil, budget.Refuse(budget.Unavailable, op, "instance %s is being drained",
				strings.ToValidUTF8(row.Instance, ""))
		}
		out[partition] = row.Incarnation
	}
	for _, l := range partitions {
		if out[l] == 0 {
			return nil, budget.Refuse(budget.Unavailable, op,
				"instance %s has never been reached", l.Instance)
		}
	}
	return out, nil
}
