package sqlstore

import (
	"cmp"
	"context"
	"slices"

	"github.com/budgetd/budgetd/bucket"
	"github.com/budgetd/budgetd/budget"
	"github.com/budgetd/budgetd/ledger"
)

// selectFeedBounds reads how far the feed of each bucket reaches: its newest epoch's row has the
// number of the next entry.
const selectFeedBounds = `SELECT b.id, b.sharding_bucket_key AS bucket_key, b.archived_entry,
	e.next_entry - 1 AS last_entry FROM sharding_budget_management_bucket b /*by budget_id*/
	JOIN bucket_epoch e ON e.bucket_id = b.id AND e.epoch = b.epoch
	WHERE b.budget_id = ? ORDER BY b.ordinal`

// FeedBounds reads the bounds of a budget's buckets. See bucket.Feed.
func (db *DB) FeedBounds(ctx context.Context, budgetID int64) ([]bucket.FeedBound, error) {
	var out []bucket.FeedBound
	err := db.read(ctx, "feed", func(r *reader) error {
		var rows []struct {
			Bucket   int64  `db:"id"`
			Key      string `db:"bucket_key"`
			Archived int64  `db:"archived_entry"`
			Last     int64  `db:"last_entry"`
		}
		if err := r.list(&rows, selectFeedBounds, budgetID); err != nil {
			return err
		}
		if len(rows) == 0 {
			return budget.Refuse(budget.BudgetNotFound, "feed", "there is no budget %d", budgetID)
		}
		out = make([]bucket.FeedBound, len(rows))
		for i, row := range rows {
			out[i] = bucket.FeedBound{Bucket: row.Bucket, Key: row.Key, Archived: row.Archived, Last: row.Last}
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	return out, nil
}

const (
	selectFeedDeductions = `SELECT 'deduct' AS kind, d.bucket_id, d.entry, d.epoch, d.request_id,
		'' AS rollback_id, d.amount, d.hold_until_ms > 0 AS is_hold, d.reference, d.dimensions, d.counted_at AS at_ms FROM deduction d /*by deduction_entry*/ WHERE `
	deductionSpan = `(d.bucket_id = ? AND d.entry > ? AND d.entry <= ?)`

	selectFeedRollbacks = `SELECT 'rollback' AS kind, r.bucket_id, r.entry, r.epoch, r.request_id,
		r.rollback_id, r.amount, 0 AS is_hold, d.reference, d.dimensions, r.created_at AS at_ms
		FROM rollback_log r /*by rollback_log_entry*/ /*in order*/ JOIN deduction d /*by PRIMARY*/
		ON d.budget_id = r.budget_id AND d.request_id = r.request_id WHERE `
	rollbackSpan = `(r.bucket_id = ? AND r.entry > ? AND r.entry <= ?)`

	selectFeedHolds = `SELECT h.kind, h.bucket_id, h.entry, h.epoch, h.request_id, '' AS rollback_id, h.amount,
		0 AS is_hold, d.reference, d.dimensions, h.created_at AS at_ms
		FROM hold_log h /*by hold_log_entry*/ /*in order*/ JOIN deduction d /*by PRIMARY*/
		ON d.budget_id = h.budget_id AND d.request_id = h.request_id WHERE `
	holdSpan = `(h.bucket_id = ? AND h.entry > ? AND h.entry <= ?)`

	// spanChunk is the most spans in one statement.
	spanChunk = 128
)

type feedRow struct {
	Kind       string `db:"kind"`
	IsHold     int64  `db:"is_hold"`
	Bucket     int64  `db:"bucket_id"`
	Entry      int64  `db:"entry"`
	Epoch      int64  `db:"epoch"`
	RequestID  string `db:"request_id"`
	RollbackID string `db:"rollback_id"`
	Amount     int64  `db:"amount"`
	Reference  []byte `db:"reference"`
	Dimensions []byte `db:"dimensions"`
	AtMS       int64  `db:"at_ms"`
}

func (r *feedRow) entry() ledger.FeedEntry {
	return ledger.FeedEntry{
		Kind: ledger.FeedKind(r.Kind), Held: r.IsHold == 1, Bucket: r.Bucket, Entry: r.Entry, Epoch: r.Epoch, RequestID: r.RequestID,
		RollbackID: r.RollbackID, Amount: r.Amount, Reference: string(r.Reference),
		Dimensions: string(r.Dimensions), At: fromMS(r.AtMS),
	}
}

// FeedEntries reads the entries of spans. See bucket.Feed. It reads without locks: whoever knows the
// bounds from an earlier statement misses nothing, see bucket.Service.Feed.
func (db *DB) FeedEntries(ctx context.Context, spans []bucket.FeedSpan) ([]ledger.FeedEntry, error) {
	var out []ledger.FeedEntry
	err := db.read(ctx, "feed", func(r *reader) error {
		out = nil
		for chunk := range slices.Chunk(spans, spanChunk) {
			for _, source := range []struct{ query, where string }{
				{selectFeedDeductions, deductionSpan},
				{selectFeedRollbacks, rollbackSpan},
				{selectFeedHolds, holdSpan},
			} {
				list := padded(r.conn.dialect, chunk)
				args := make([]any, 0, 3*len(list))
				for _, s := range list {
					args = append(args, s.Bucket, s.After, s.UpTo)
				}
				var rows []feedRow
				query := source.query + repeat(source.where, " OR ", len(list))
				if err := r.list(&rows, query, args...); err != nil {
					return err
				}
				for i := range rows {
					out = append(out, rows[i].entry())
				}
			}
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	turns := make(map[int64]int, len(spans))
	for i, s := range spans {
		turns[s.Bucket] = i
	}
	slices.SortFunc(out, func(a, b ledger.FeedEntry) int {
		return cmp.Or(cmp.Compare(turns[a.Bucket], turns[b.Bucket]), cmp.Compare(a.Entry, b.Entry))
	})
	return out, nil
}
