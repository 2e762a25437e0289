package audit

import (
	"context"

	"github.com/budgetd/budgetd/bucket"
	"github.com/budgetd/budgetd/internal/sql/engine"
	"github.com/budgetd/budgetd/internal/sql/rows"
)

const selectIDs = `SELECT id FROM budget_management_bucket /*by PRIMARY*/ WHERE id > ?
	ORDER BY id LIMIT ?`

// selectSnapshots sums the columns of a range of budgets in one statement, hence in one snapshot.
var selectSnapshots = `SELECT ` + rows.FigureColumns + `, u.tenant, u.name, u.durability, u.type,
	u.unit, u.start_ms, u.end_ms, u.is_paused, u.is_archived, COALESCE(s.halted, 0) AS halted,
	COALESCE(s.halted_units, 0) AS halted_units, COALESCE(s.entries, 0) AS entries,
	COALESCE(b.online, 0) AS online_buckets, COALESCE(b.offline, 0) AS offline_buckets,
	COALESCE(a.adjusted, 0) AS adjusted, COALESCE(a.shrinks, 0) AS shrinks
	FROM budget_management_bucket u
	LEFT JOIN (SELECT e.budget_id, ` + rows.EpochSums + `,
		SUM(CASE WHEN LENGTH(e.halted) > 0 THEN 1 ELSE 0 END) AS halted,
		SUM(CASE WHEN LENGTH(e.halted) > 0 THEN e.outstanding_quantity ELSE 0 END) AS halted_units,
		SUM(e.next_entry + e.next_grant + e.epoch) AS entries
		FROM bucket_epoch e /*by bucket_epoch_units*/
		WHERE e.budget_id >= ? AND e.budget_id <= ? GROUP BY e.budget_id) s ON s.budget_id = u.id
	LEFT JOIN (SELECT c.budget_id,
		SUM(CASE WHEN c.status = 'online' THEN 1 ELSE 0 END) AS online,
		SUM(CASE WHEN c.status <> 'online' AND c.offline_by <> 'resize' THEN 1 ELSE 0 END) AS offline
		FROM sharding_budget_management_bucket c
		WHERE c.budget_id >= ? AND c.budget_id <= ? GROUP BY c.budget_id) b ON b.budget_id = u.id
	LEFT JOIN (SELECT j.budget_id,
		SUM(CASE WHEN j.status = 'done' THEN j.quantity ELSE 0 END) AS adjusted,
		SUM(CASE WHEN j.status = 'pending' THEN -j.quantity ELSE 0 END) AS shrinks
		FROM adjustment j /*by PRIMARY*/
		WHERE j.budget_id >= ? AND j.budget_id <= ? GROUP BY j.budget_id) a ON a.budget_id = u.id
	WHERE u.id >= ? AND u.id <= ? ORDER BY u.id`

type snapshotRow struct {
	rows.Figures
	Halted      int   `db:"halted"`
	HaltedUnits int64 `db:"halted_units"`
	Entries     int64 `db:"entries"`
	Adjusted    int64 `db:"adjusted"`
	Shrinks     int64 `db:"shrinks"`
}

// snapshot converts the row. The buckets of an unlimited budget hold no part of a total.
func (r *snapshotRow) snapshot() bucket.Snapshot {
	if r.Unlimited == 1 {
		r.HaltedUnits = 0
	}
	return bucket.Snapshot{Definition: r.Definition(), Adjusted: r.Adjusted, Shrinks: r.Shrinks,
		Halted: r.Halted, HaltedUnits: r.HaltedUnits, Entries: r.Entries, Figures: r.Figures.Ledger()}
}

// Snapshots reads the columns of at most limit budgets after an id, in id order and in one
// snapshot. It takes no locks. It returns Unavailable if the database cannot be read.
func (s *Service) Snapshots(ctx context.Context, after int64, limit int) (
	out []bucket.Snapshot, err error) {
	err = s.db.Read(ctx, "snapshots", func(r *engine.Reader) error {
		out = nil
		var ids []int64
		if err := r.List(&ids, selectIDs, after, limit); err != nil || len(ids) == 0 {
			return err
		}
		var found []snapshotRow
		a, z := ids[0], ids[len(ids)-1]
		if err := r.List(&found, selectSnapshots, a, z, a, z, a, z, a, z); err != nil {
			return err
		}
		for i := range found {
			out = append(out, found[i].snapshot())
		}
		return nil
	})
	return out, err
}

// The bounded counts of unfinished work.
const (
	countEpochs = `SELECT COUNT(*) FROM (SELECT 1 AS one
		FROM bucket_epoch e /*by bucket_epoch_unfinished*/ WHERE e.is_unfinished = 1 LIMIT ?) x`
	countGrants = `SELECT COUNT(*) FROM (SELECT 1 AS one FROM grant_log g /*by grant_log_status*/
		WHERE g.status = 'pending' LIMIT ?) x`
	countShrinks = `SELECT COUNT(*) FROM (SELECT 1 AS one FROM adjustment a /*by adjustment_status*/
		WHERE a.status = 'pending' LIMIT ?) x`
	countReturning = `SELECT COUNT(*) FROM (SELECT 1 AS one
		FROM bucket_epoch e /*by bucket_epoch_returns*/ WHERE e.has_returns = 1 LIMIT ?) x`
	selectPartitionUnits = `SELECT COALESCE(SUM(e.outstanding_quantity), 0)
		FROM sharding_budget_management_bucket b /*by sharding_budget_management_bucket_partition*/
		/*in order*/ JOIN bucket_epoch e /*by PRIMARY*/ ON e.bucket_id = b.id AND e.epoch = b.epoch
		/*in order*/ JOIN budget_management_bucket u /*by PRIMARY*/ ON u.id = b.budget_id
		WHERE b.instance = ? AND b.partition_number = ? AND u.durability = 'store' AND u.unlimited = 0
		AND LENGTH(e.halted) = 0`
)

// unfinished counts, by kind, what is incomplete.
type unfinished struct {
	Epochs, Grants, Shrinks, Returning int
	// OnPartitions is what epochs of budgets in store mode hold on the requested partitions, in minor
	// units.
	OnPartitions int64
}

// unfinished counts unfinished work, each kind up to a bound, and sums what epochs of store-mode
// budgets hold on partitions. It takes no locks. Error: Unavailable.
func (s *Service) unfinished(ctx context.Context, partitions []bucket.Partition) (
	out unfinished, err error) {
	const most = 10_000
	err = s.db.Read(ctx, "unfinished", func(r *engine.Reader) error {
		out = unfinished{}
		for _, count := range []struct {
			query string
			to    *int
		}{{countEpochs, &out.Epochs}, {countGrants, &out.Grants}, {countShrinks, &out.Shrinks},
			{countReturning, &out.Returning}} {
			if _, err := r.Get(count.to, count.query, most); err != nil {
				return err
			}
		}
		for _, partition := range partitions {
			var units int64
			if _, err := r.Get(&units, selectPartitionUnits, []byte(partition.Instance),
				partition.Index); err != nil {
				return err
			}
			out.OnPartitions += units
		}
		return nil
	})
	return out, err
}
