package sqlstore

import (
	"context"
	"slices"

	"github.com/budgetd/budgetd/bucket"
	"github.com/budgetd/budgetd/budget"
	"github.com/budgetd/budgetd/ledger"
)

// Sums over an epoch's rows. Each is a part of a larger statement, which is one moment.
const (
	sumOf       = `(SELECT COALESCE(SUM(amount), 0) FROM `
	ofWhole     = ` WHERE bucket_id = ? AND epoch = ?`
	bySeq       = ofWhole + ` AND seq > ? AND seq <= ?)`
	afterSeq    = ofWhole + ` AND seq > ?)`
	byNumber    = ofWhole + ` AND number > ? AND number <= ?)`
	afterNumber = ofWhole + ` AND number > ?)`

	selectSpan = `SELECT ` + epochColumns + `,
		` + sumOf + `grant_log` + byNumber + ` AS granted,
		` + sumOf + `grant_log` + afterNumber + ` AS granted_after,
		` + sumOf + `deduction` + bySeq + ` + ` + sumOf + `duplicate` + bySeq + ` AS deducted,
		` + sumOf + `deduction` + afterSeq + ` + ` + sumOf + `duplicate` + afterSeq + ` AS deducted_after
		FROM bucket_epoch e /*by PRIMARY*/ WHERE ` + onePosition
)

// epochChunk is how many epochs one statement of Spans reads.
const epochChunk = 32

type spanRow struct {
	epochRow
	Granted       int64 `db:"granted"`
	GrantedAfter  int64 `db:"granted_after"`
	Deducted      int64 `db:"deducted"`
	DeductedAfter int64 `db:"deducted_after"`
}

// Spans reads epochs beside what their rows add up to. See bucket.Audits.
func (db *DB) Spans(ctx context.Context, spans []bucket.Span) (map[bucket.Ref]ledger.SpanFigures, error) {
	out := make(map[bucket.Ref]ledger.SpanFigures, len(spans))
	if len(spans) == 0 {
		return out, nil
	}
	refs := make(map[position]bucket.Ref, len(spans))
	for _, span := range spans {
		refs[at(span.Ref)] = span.Ref
	}
	err := db.read(ctx, "spans", func(r *reader) error {
		for chunk := range slices.Chunk(spans, epochChunk) {
			chunk = padded(r.conn.dialect, chunk)
			var args []any
			for _, s := range chunk {
				b, e := s.Ref.Bucket, s.Ref.Epoch
				args = append(args, b, e, s.FromGrant, s.GrantSeq, b, e, s.GrantSeq, b, e, s.From, s.Seq,
					b, e, s.From, s.Seq, b, e, s.Seq, b, e, s.Seq, b, e)
			}
			var rows []spanRow
			if err := r.list(&rows, repeat(selectSpan, " UNION ALL ", len(chunk)), args...); err != nil {
				return err
			}
			for i := range rows {
				row := &rows[i]
				out[refs[row.position()]] = ledger.SpanFigures{Row: row.epoch(), Closed: row.Closed,
					Swept: row.Swept, Granted: row.Granted, GrantedAfter: row.GrantedAfter,
					Deducted: row.Deducted, DeductedAfter: row.DeductedAfter}
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
	// sumPart adds up a stretch of ledger rows, and what the rollbacks and the ends of the holds of its
	// deductions gave back, by their own keys.
	sumPart = `s.deducted, s.noted, (SELECT COALESCE(SUM(amount), 0) FROM duplicate WHERE bucket_id = ? AND epoch = ?
			AND seq > ? AND seq <= ?) AS duplicates,
		s.returned`
	ofPart = ` FROM (SELECT COALESCE(SUM(amount), 0) AS deducted, COALESCE(SUM(rolled_back), 0) AS noted,
			COALESCE(SUM(COALESCE((SELECT SUM(r.amount) FROM rollback_log r
				WHERE r.budget_id = d.budget_id AND r.request_id = d.request_id), 0) +
			COALESCE((SELECT SUM(h.returned) FROM hold_log h
				WHERE h.budget_id = d.budget_id AND h.request_id = d.request_id), 0)), 0) AS returned
			FROM deduction d WHERE d.bucket_id = ? AND d.epoch = ? AND d.seq > ? AND d.seq <= ?) s,
		bucket_epoch e /*by PRIMARY*/ WHERE ` + onePosition
	selectPart = `SELECT ` + sumPart + ofPart
	selectEnd  = `SELECT ` + epochColumns + `,
		(SELECT COALESCE(SUM(amount), 0) FROM grant_log WHERE bucket_id = ? AND epoch = ?) AS granted,
		(SELECT COALESCE(SUM(amount), 0) FROM rollback_log /*by rollback_log_epoch*/
			WHERE bucket_id = ? AND epoch = ?) +
		(SELECT COALESCE(SUM(returned), 0) FROM hold_log /*by hold_log_epoch*/
			WHERE bucket_id = ? AND epoch = ?) AS rolled_back,
		(SELECT COALESCE(SUM(o.amount - o.rolled_back), 0) FROM open_hold h /*by open_hold_epoch*/
			/*in order*/ JOIN deduction o /*by PRIMARY*/ ON o.budget_id = h.budget_id
			AND o.request_id = h.request_id AND o.state = 'held'
			WHERE h.bucket_id = ? AND h.epoch = ?) AS held,
		` + sumPart + ofPart
)

type partRow struct {
	epochRow
	Granted    int64 `db:"granted"`
	RolledBack int64 `db:"rolled_back"`
	Held       int64 `db:"held"`
	Deducted   int64 `db:"deducted"`
	Duplicates int64 `db:"duplicates"`
	Noted      int64 `db:"noted"`
	Returned   int64 `db:"returned"`
}

// Recount adds up the rows of a part. See bucket.Audits.
func (db *DB) Recount(ctx context.Context, part bucket.Part) (
	out bucket.Recounted, found bool, err error) {
	b, e, from, upTo := part.Ref.Bucket, part.Ref.Epoch, part.From, part.UpTo
	args := []any{b, e, from, upTo, b, e, from, upTo, b, e}
	query := selectPart
	if part.End {
		query = selectEnd
		args = append([]any{b, e, b, e, b, e, b, e}, args...)
	}
	var row partRow
	err = db.read(ctx, "recount", func(r *reader) error {
		found, err = r.get(&row, query, args...)
		return err
	})
	if err != nil || !found {
		return bucket.Recounted{}, false, err
	}
	out = bucket.Recounted{Returned: row.Returned, Figures: ledger.EpochFigures{
		Deducted: row.Deducted, Duplicates: row.Duplicates, Noted: row.Noted,
	}}
	if part.End {
		f := &out.Figures
		f.Row, f.Closed = row.epoch(), row.Closed
		f.Granted, f.RolledBack, f.Held = row.Granted, row.RolledBack, row.Held
	}
	return out, true, nil
}

const selectEpochsAfter = `SELECT ` + laneEpochColumns + ` FROM bucket_epoch e /*by PRIMARY*/
	JOIN sharding_budget_management_bucket b ON b.id = e.bucket_id
	WHERE e.bucket_id >= ? AND (e.bucket_id > ? OR e.epoch > ?)` + inKeyOrder + ` LIMIT ?`

// EpochsAfter lists epochs of all budgets, those that have ended too. See bucket.Audits.
func (db *DB) EpochsAfter(ctx context.Context, after bucket.Ref, limit int) ([]bucket.EpochOf, error) {
	return db.listEpochs(ctx, "epochs", selectEpochsAfter, after.Bucket, after.Bucket, after.Epoch, limit)
}

const (
	selectBudgetIDs = `SELECT id FROM budget_management_bucket /*by PRIMARY*/ WHERE id > ? ORDER BY id LIMIT ?`
	selectBooks     = `SELECT u.id, u.tenant, u.name, u.durability, u.unlimited, u.total_quantity, u.undistributed_quantity,
	u.quarantined_quantity, u.forfeited_quantity, u.pending_shrink_quantity, u.unfunded_quantity,
	u.period, u.period_start_ms, u.period_end_ms, u.is_over,
	(SELECT COALESCE(SUM(p.funded_quantity + p.carried_quantity), 0) FROM budget_period p
		WHERE p.budget_id = u.id AND p.number = u.period) AS period_units,
	COALESCE(s.period_used, 0) AS period_used,
	COALESCE(s.remaining, 0) AS remaining, COALESCE(s.unsettled, 0) AS unsettled,
	COALESCE(s.held, 0) AS held, COALESCE(s.used, 0) AS used, COALESCE(s.returned, 0) AS returned,
	(SELECT COUNT(*) FROM sharding_budget_management_bucket b
		WHERE b.budget_id = u.id AND b.status = 'online') AS online_buckets,
	(SELECT COUNT(*) FROM sharding_budget_management_bucket b
		WHERE b.budget_id = u.id AND b.status <> 'online' AND b.offline_by <> 'resize') AS offline_buckets,
	(SELECT COALESCE(SUM(a.quantity), 0) FROM adjustment a
		WHERE a.budget_id = u.id AND a.status = 'done') AS adjusted,
	(SELECT COALESCE(-SUM(a.quantity), 0) FROM adjustment a
		WHERE a.budget_id = u.id AND a.status = 'pending') AS shrinks
	FROM budget_management_bucket u LEFT JOIN (SELECT e.budget_id,
			SUM(CASE WHEN e.status = 'open' THEN e.outstanding_quantity ELSE 0 END) AS remaining,
			SUM(CASE WHEN e.status = 'open' THEN 0 ELSE e.outstanding_quantity END) AS unsettled,
			SUM(CASE WHEN e.period = (SELECT n.period FROM budget_management_bucket n WHERE n.id = e.budget_id)
				THEN e.used_quantity ELSE 0 END) AS period_used,
			SUM(e.held_quantity) AS held, SUM(e.used_quantity) AS used, SUM(e.returning_quantity) AS returned
		FROM bucket_epoch e /*by bucket_epoch_units*/
		WHERE e.budget_id >= ? AND e.budget_id <= ? GROUP BY e.budget_id) s ON s.budget_id = u.id
	WHERE u.id >= ? AND u.id <= ? ORDER BY u.id`
)

// Books reads budgets in the order of their ids, in one statement. See bucket.Audits.
func (db *DB) Books(ctx context.Context, after int64, limit int) (out []bucket.Book, err error) {
	err = db.read(ctx, "books", func(r *reader) error {
		out = nil
		var ids []int64
		if err := r.list(&ids, selectBudgetIDs, after, limit); err != nil || len(ids) == 0 {
			return err
		}
		var rows []struct {
			ID        int64  `db:"id"`
			Tenant    string `db:"tenant"`
			Name      string `db:"name"`
			Mode      string `db:"durability"`
			Unlimited int64  `db:"unlimited"`
			figuresRow
			Adjusted int64 `db:"adjusted"`
			Shrinks  int64 `db:"shrinks"`
		}
		first, last := ids[0], ids[len(ids)-1]
		if err := r.list(&rows, selectBooks, first, last, first, last); err != nil {
			return err
		}
		for i := range rows {
			row := &rows[i]
			out = append(out, bucket.Book{Budget: row.ID, Tenant: row.Tenant, Name: row.Name,
				Durability: budget.Durability(row.Mode), Unlimited: row.Unlimited == 1, Figures: row.figures(),
				Adjusted: row.Adjusted, Shrinks: row.Shrinks})
		}
		return nil
	})
	return out, err
}

const (
	selectFencedUnits = `SELECT COALESCE(SUM(e.outstanding_quantity), 0)
		FROM bucket_epoch e /*by bucket_epoch_unfinished*/
		JOIN sharding_budget_management_bucket b ON b.id = e.bucket_id
		/*in order*/ JOIN budget_management_bucket u /*by PRIMARY*/ ON u.id = e.budget_id
		WHERE u.unlimited = 0 AND e.is_unfinished = 1 AND LENGTH(e.fenced) > 0`
	selectLaneUnits = `SELECT COALESCE(SUM(e.outstanding_quantity), 0)
		FROM sharding_budget_management_bucket b /*by sharding_budget_management_bucket_lane*/
		/*in order*/ JOIN bucket_epoch e ON e.bucket_id = b.id AND e.epoch = b.epoch
		/*in order*/ JOIN budget_management_bucket u /*by PRIMARY*/ ON u.id = b.budget_id
		WHERE b.instance = ? AND b.lane = ? AND u.unlimited = 0`
)

// Stranded sums what cannot be reached. See bucket.Audits.
func (db *DB) Stranded(ctx context.Context, lanes []bucket.Lane) (units int64, err error) {
	others, args := notOn(lanes)
	err = db.read(ctx, "stranded", func(r *reader) error {
		if _, err := r.get(&units, selectFencedUnits+others, args...); err != nil {
			return err
		}
		for _, lane := range lanes {
			var onLane int64
			if _, err := r.get(&onLane, selectLaneUnits, []byte(lane.Instance), lane.Index); err != nil {
				return err
			}
			units += onLane
		}
		return nil
	})
	return units, err
}
