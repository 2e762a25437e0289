package auditor

import (
	"context"
	"database/sql"
	"fmt"
)

// unfinished has a query for every kind of unfinished work that counts it.
var unfinished = map[string]string{
	"epochs opening or closing": `SELECT COUNT(*) FROM bucket_epoch
		WHERE status IN ('opening', 'closing')`,
	"halted epochs": `SELECT COUNT(*) FROM bucket_epoch
		WHERE LENGTH(halted) > 0 AND status IN ('opening', 'open', 'closing')`,
	"buckets without an epoch": `SELECT COUNT(*) FROM sharding_budget_management_bucket b
		JOIN bucket_epoch e ON e.bucket_id = b.id AND e.epoch = b.epoch
		JOIN budget_management_bucket t ON t.id = b.budget_id
		AND t.durability = 'ledger' -- in store mode an epoch begins with a request
		WHERE b.status = 'online' AND e.status IN ('closed', 'lost')`,
	"pending grants": `SELECT COUNT(*) FROM grant_log g
		JOIN bucket_epoch e ON e.bucket_id = g.bucket_id AND e.epoch = g.epoch
		WHERE g.status = 'pending' AND e.status IN ('opening', 'open', 'closing')`,
	"pending shrinks": `SELECT COUNT(*) FROM adjustment WHERE status = 'pending'`,
	"units of shrinks": `SELECT COALESCE(SUM(pending_shrink_quantity), 0)
		FROM budget_management_bucket`,
	"returning units": `SELECT COALESCE(SUM(returning_quantity), 0) FROM bucket_epoch`,
	"units of ended epochs": `SELECT COALESCE(SUM(outstanding_quantity), 0) FROM bucket_epoch
		WHERE status IN ('closed', 'lost')`,
	"epochs of an older incarnation": `SELECT COUNT(*) FROM bucket_epoch e
		JOIN sharding_budget_management_bucket b ON b.id = e.bucket_id
		JOIN store_partition l ON l.instance = b.instance AND l.partition_number = b.partition_number
		JOIN budget_management_bucket t ON t.id = b.budget_id AND t.durability = 'store'
		WHERE e.status IN ('opening', 'open', 'closing') AND e.incarnation > 0
		AND e.incarnation < l.since_incarnation`,
	"buckets on partitions that are drained": `SELECT COUNT(*) FROM sharding_budget_management_bucket b
		JOIN store_partition l ON l.instance = b.instance AND l.partition_number = b.partition_number
		WHERE l.is_draining = 1`,
	"budgets with units and all buckets retired": `SELECT COUNT(*) FROM budget_management_bucket t
		WHERE t.undistributed_quantity > 0
		AND EXISTS (SELECT 1 FROM sharding_budget_management_bucket b
			WHERE b.budget_id = t.id AND b.status = 'offline' AND b.offline_by = 'service')
		AND NOT EXISTS (SELECT 1 FROM sharding_budget_management_bucket b
			WHERE b.budget_id = t.id AND b.status = 'online')`,
}

// HalfDone lists unfinished work of every kind. An installation in which everything works finishes
// it soon.
func HalfDone(ctx context.Context, db *sql.DB) (found []string, err error) {
	for what, query := range unfinished {
		var n int64
		if err := db.QueryRowContext(ctx, query).Scan(&n); err != nil {
			return nil, fmt.Errorf("%s: %w", what, err)
		}
		if n != 0 {
			found = append(found, fmt.Sprintf("%d %s", n, what))
		}
	}
	return found, nil
}
