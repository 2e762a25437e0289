package sqlstore

import (
	"cmp"
	"context"
	"slices"

	"github.com/budgetd/budgetd/bucket"
	"github.com/budgetd/budgetd/ledger"
)

const selectArchiveBounds = `SELECT b.id, b.budget_id, u.tenant, u.name, b.ordinal, b.archived_entry,
	b.archiving_entry, e.next_entry - 1 AS last_entry, e.epoch, e.status
	FROM sharding_budget_management_bucket b /*by PRIMARY*/
	JOIN bucket_epoch e ON e.bucket_id = b.id AND e.epoch = b.epoch
	JOIN budget_management_bucket u ON u.id = b.budget_id
	WHERE b.id > ? ORDER BY b.id LIMIT ?`

// ArchiveBounds lists buckets. See bucket.Archive.
func (db *DB) ArchiveBounds(ctx context.Context, after int64, limit int) (
	out []bucket.ArchiveBound, err error) {
	err = db.read(ctx, "archive", func(r *reader) error {
		var rows []struct {
			Bucket    int64  `db:"id"`
			Budget    int64  `db:"budget_id"`
			Tenant    string `db:"tenant"`
			Name      string `db:"name"`
			Ordinal   int    `db:"ordinal"`
			Archived  int64  `db:"archived_entry"`
			Archiving int64  `db:"archiving_entry"`
			Last      int64  `db:"last_entry"`
			Epoch     int64  `db:"epoch"`
			Status    string `db:"status"`
		}
		if err := r.list(&rows, selectArchiveBounds, after, limit); err != nil {
			return err
		}
		out = make([]bucket.ArchiveBound, len(rows))
		for i, row := range rows {
			out[i] = bucket.ArchiveBound{Budget: row.Budget, Tenant: row.Tenant, Name: row.Name,
				Bucket: row.Bucket, Ordinal: row.Ordinal, Archived: row.Archived, Archiving: row.Archiving,
				Last: row.Last, Ended: row.Epoch}
			if ledger.Status(row.Status).Live() {
				out[i].Ended--
			}
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	return out, nil
}

const (
	beginArchive = `UPDATE sharding_budget_management_bucket SET archiving_entry = ?
		WHERE id = ? AND archived_entry = ? AND archiving_entry <= archived_entry`
	selectArchiving = `SELECT archiving_entry FROM sharding_budget_management_bucket
		WHERE id = ? AND archived_entry = ? AND archiving_entry > archived_entry`
)

// BeginArchive notes what is being archived. See bucket.Archive.
func (db *DB) BeginArchive(ctx context.Context, bucketID, archived, upTo int64) (noted int64, err error) {
	err = db.write(ctx, "archive", func(t *tx) error {
		noted = 0
		if _, err := t.exec(beginArchive, upTo, bucketID, archived); err != nil {
			return err
		}
		_, err := t.get(&noted, selectArchiving, bucketID, archived)
		return err
	})
	return noted, err
}

const (
	endArchive = `UPDATE sharding_budget_management_bucket SET archived_entry = ?
		WHERE id = ? AND archived_entry = ? AND archiving_entry = ?`
	selectOldDeductions = `SELECT d.budget_id, d.request_id, '' AS rollback_id
		FROM deduction d /*by deduction_entry*/ WHERE ` + deductionSpan
	selectOldRollbacks = `SELECT r.budget_id, r.request_id, r.rollback_id
		FROM rollback_log r /*by rollback_log_entry*/ WHERE ` + rollbackSpan
	selectOldHolds = `SELECT h.budget_id, h.request_id, '' AS rollback_id
		FROM hold_log h /*by hold_log_entry*/ WHERE ` + holdSpan
	leaveHolds     = `UPDATE hold_log /*by PRIMARY*/ SET entry = NULL WHERE `
	makeTombstones = `UPDATE deduction /*by PRIMARY*/ SET nonce = ?, reference = NULL,
		dimensions = NULL, entry = NULL WHERE `
	// keepDimensions is makeTombstones for a budget with limits: what comes back later lowers them.
	keepDimensions = `UPDATE deduction /*by PRIMARY*/ SET nonce = ?, reference = NULL, entry = NULL WHERE `
	countLimits    = `SELECT COUNT(*) FROM sharding_budget_management_bucket b
		JOIN budget_limit l ON l.budget_id = b.budget_id WHERE b.id = ?`
	ofRequest      = `(budget_id = ? AND request_id = ?)`
	leaveRollbacks = `UPDATE rollback_log /*by PRIMARY*/ SET entry = NULL WHERE `
	ofRollback     = `(budget_id = ? AND request_id = ? AND rollback_id = ?)`
)

// EndArchive makes tombstones. See bucket.Archive. It locks the bucket's row, which nobody holds who
// waits for a deduction, then deductions and rollbacks by key. No epoch is locked: a rollback that
// runs beside it changes other columns, and takes its number from the newest epoch as always. Keeps
// I1, I4, I5.
func (db *DB) EndArchive(ctx context.Context, span bucket.FeedSpan) (done bool, err error) {
	tried := false // an earlier attempt wrote it, committed or not
	err = db.write(ctx, "archive", func(t *tx) error {
		n, err := t.exec(endArchive, span.UpTo, span.Bucket, span.After, span.UpTo)
		if err != nil {
			return err
		}
		if done = n == 1; !done {
			done = t.unsure && tried
			return nil
		}
		tried = true
		deductions, err := t.oldRows(selectOldDeductions, span)
		if err != nil {
			return err
		}
		rollbacks, err := t.oldRows(selectOldRollbacks, span)
		if err != nil {
			return err
		}
		holds, err := t.oldRows(selectOldHolds, span)
		if err != nil {
			return err
		}
		if found := int64(len(deductions) + len(rollbacks) + len(holds)); found != span.UpTo-span.After {
			return defect("%d rows for entries %d to %d of bucket %d", found, span.After+1, span.UpTo, span.Bucket)
		}
		tombstones, limits := makeTombstones, 0
		if _, err := t.get(&limits, countLimits, span.Bucket); err != nil {
			return err
		}
		if limits > 0 {
			tombstones = keepDimensions
		}
		var keys []any
		for _, row := range deductions {
			keys = append(keys, row.Budget, []byte(row.RequestID))
		}
		if err := t.hitAll(tombstones, []any{[]byte{}}, ofRequest, keys); err != nil {
			return err
		}
		keys = nil
		for _, row := range rollbacks {
			keys = append(keys, row.Budget, []byte(row.RequestID), []byte(row.RollbackID))
		}
		if err := t.hitAll(leaveRollbacks, nil, ofRollback, keys); err != nil {
			return err
		}
		keys = nil
		for _, row := range holds {
			keys = append(keys, row.Budget, []byte(row.RequestID))
		}
		return t.hitAll(leaveHolds, nil, ofRequest, keys)
	})
	return done && err == nil, err
}

// ledgerKey names a deduction, one of its rollbacks, or the end of its hold.
type ledgerKey struct {
	Budget     int64  `db:"budget_id"`
	RequestID  string `db:"request_id"`
	RollbackID string `db:"rollback_id"`
}

// oldRows reads the keys of a span's rows, sorted: all of them are of one budget.
func (t *tx) oldRows(query string, span bucket.FeedSpan) ([]ledgerKey, error) {
	var rows []ledgerKey
	if err := t.list(&rows, query, span.Bucket, span.After, span.UpTo); err != nil {
		return nil, err
	}
	slices.SortFunc(rows, func(a, b ledgerKey) int {
		return cmp.Or(cmp.Compare(a.RequestID, b.RequestID), cmp.Compare(a.RollbackID, b.RollbackID))
	})
	return rows, nil
}
