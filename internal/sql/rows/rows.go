// Package rows reads and locks the rows that all parts of the database share: budgets, buckets and
// their epochs.
//
// All transactions take locks in one order: budget, deductions, group, limit rows, epochs by
// (bucket, epoch), feed. Rows of buckets are written only under their budget's lock.
package rows

import (
	"github.com/budgetd/budgetd/allocation"
	"github.com/budgetd/budgetd/bucket"
	"github.com/budgetd/budgetd/budget"
	"github.com/budgetd/budgetd/internal/sql/engine"
	"github.com/budgetd/budgetd/ledger/books"
)

// BudgetColumns are the columns of a books.Budget that its definition and its periods need.
const BudgetColumns = `id, tenant, name, gl_code, unit, durability, type, total_quantity,
	undistributed_quantity, quarantined_quantity, forfeited_quantity, pending_shrink_quantity,
	sharding_quantity, bucket_quantity, adjust_cnt, is_paused, is_archived, start_ms, end_ms,
	created_as, version, list_version, created_at, updated_at, type_rule, timezone,
	late_refund, on_loss, unfunded_quantity,
	period, period_start_ms, period_end_ms, is_over, roll_over_ms, unlimited, routing_dimension,
		limits_version, overrides_version, parent_id, ancestors, also_charges`

// SayRule returns the canonical text of a rule, nil for none.
func SayRule(rule *budget.Rule) []byte {
	if rule == nil {
		return nil
	}
	return []byte(allocation.Canonical(*rule))
}

// EpochColumns are the columns of a books.Epoch that ledger.Epoch has, of bucket_epoch e.
const EpochColumns = `e.bucket_id, e.epoch, e.budget_id, e.status, e.incarnation,
	e.outstanding_quantity, e.held_quantity, e.used_quantity, e.returning_quantity, e.closed_quantity,
	e.swept_quantity, e.next_grant, e.next_entry, e.definition_version, e.period_end_ms,
	e.halted, e.period, e.late_quantity, e.taken_quantity, e.given_back_quantity, e.late_sum_quantity`

// BucketColumns are the columns of a Bucket, of sharding_budget_management_bucket b and its newest
// bucket_epoch e.
const BucketColumns = EpochColumns + `, b.instance, b.partition_number, b.ordinal,
	b.sharding_bucket_key AS bucket_key,
	b.out_quantity, b.out_cnt, b.collect_cnt, b.status AS list_status, b.offline_by,
		b.copied_epoch, b.updated_at`

// Bucket is a bucket with its newest epoch.
type Bucket struct {
	books.Epoch
	Instance       string `db:"instance"`
	PartitionIndex int    `db:"partition_number"`
	Ordinal        int    `db:"ordinal"`
	Key            string `db:"bucket_key"`
	OutQuantity    int64  `db:"out_quantity"`
	OutCnt         int    `db:"out_cnt"`
	CollectCnt     int    `db:"collect_cnt"`
	ListStatus     string `db:"list_status"`
	OfflineBy      string `db:"offline_by"`
	CopiedEpoch    int64  `db:"copied_epoch"`
	UpdatedAt      int64  `db:"updated_at"`
}

// The values of sharding_budget_management_bucket.status.
const Online, Offline = "online", "offline"

// Partition returns the bucket's partition.
func (r *Bucket) Partition() bucket.Partition {
	return bucket.Partition{Instance: r.Instance, Index: r.PartitionIndex}
}

// View converts the row.
func (r *Bucket) View() bucket.Bucket {
	return bucket.Bucket{
		ID: r.Epoch.Bucket, Ordinal: r.Ordinal, Key: r.Key, Partition: r.Partition(),
		Online:      r.ListStatus == Online,
		OfflineBy:   bucket.OfflineBy(r.OfflineBy),
		OutQuantity: min(r.OutQuantity, budget.MaxAmount), OutCnt: r.OutCnt,
		CollectCnt: r.CollectCnt, Epoch: r.Ledger(), UpdatedAt: engine.FromMS(r.UpdatedAt),
	}
}

// Locked ends a SELECT whose rows stay locked until the end of the transaction.
const Locked = ` /*locked*/`

// SelectBuckets reads buckets b with their newest epochs; a condition and InOrdinalOrder follow.
const (
	SelectBuckets = `SELECT ` + BucketColumns + ` FROM sharding_budget_management_bucket b
		JOIN bucket_epoch e ON e.bucket_id = b.id AND e.epoch = b.epoch WHERE `
	InOrdinalOrder = ` ORDER BY b.ordinal`
)
