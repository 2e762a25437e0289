// Package feed reads the rows of the change feed.
package feed

import (
	"cmp"
	"context"
	"slices"

	"github.com/budgetd/budgetd/bucket"
	"github.com/budgetd/budgetd/bucket/feed"
	"github.com/budgetd/budgetd/internal/sqlstore/bookkeeper"
	"github.com/budgetd/budgetd/internal/sqlstore/engine"
	"github.com/budgetd/budgetd/ledger"
)

// Part reads feed rows from a database. It is safe for concurrent use.
type Part struct{ db *engine.DB }

var _ feed.Ledger = (*Part)(nil)

// New returns the part of a database.
func New(db *engine.DB) *Part { return &Part{db: db} }

// The row of a bucket's newest epoch holds the number of the next entry.
const (
	selectBounds = `SELECT b.id, b.sharding_bucket_key, e.next_entry
		FROM sharding_budget_management_bucket b /*by budget_id*/
		/*in order*/ JOIN bucket_epoch e /*by PRIMARY*/ ON e.bucket_id = b.id AND e.epoch = b.epoch
		WHERE b.budget_id = ? ORDER BY b.ordinal`
	selectHeads = `SELECT b.budget_id, SUM(e.next_entry) AS head
		FROM sharding_budget_management_bucket b /*by budget_id*/
		/*in order*/ JOIN bucket_epoch e /*by PRIMARY*/ ON e.bucket_id = b.id AND e.epoch = b.epoch
		WHERE `
	perBudget  = ` GROUP BY b.budget_id`
	selectRows = `SELECT f.bucket_id, f.first_entry, f.entries, f.body, f.created_at
		FROM feed f /*by PRIMARY*/ WHERE `
	ofSpan       = `(f.bucket_id = ? AND f.first_entry >= ? AND f.first_entry <= ?)`
	inEntryOrder = ` ORDER BY f.bucket_id, f.first_entry`
	selectBefore = `SELECT bucket_id, first_entry, entries, created_at FROM (SELECT f.bucket_id,
		f.first_entry, f.entries, f.created_at FROM feed f /*by PRIMARY*/
		WHERE f.bucket_id = ? AND f.first_entry <= ? ORDER BY f.first_entry DESC LIMIT ?) t`
	selectDetails = `SELECT d.budget_id, d.request_id, d.epoch, d.note
		FROM deduction d /*by PRIMARY*/ WHERE `
)

const (
	// spanChunk is the most spans in one statement, beforeChunk the most SELECTs.
	spanChunk, beforeChunk = 64, 32
)

// Bounds returns the extents of feeds: see feed.Ledger.
func (p *Part) Bounds(ctx context.Context, budgetID int64) (out []feed.Bound, err error) {
	err = p.db.Read(ctx, "feed", func(r *engine.Reader) error {
		var found []struct {
			Bucket    int64  `db:"id"`
			Key       string `db:"sharding_bucket_key"`
			NextEntry int64  `db:"next_entry"`
		}
		if err := r.List(&found, selectBounds, budgetID); err != nil {
			return err
		}
		if len(found) == 0 {
			_, _, err := bookkeeper.ReadBudget(r, "feed", budgetID)
			return err
		}
		out = make([]feed.Bound, len(found))
		for i, f := range found {
			out[i] = feed.Bound{Bucket: f.Bucket, Key: f.Key, Last: f.NextEntry - 1}
		}
		return nil
	})
	return out, err
}

// Heads returns sums that change with each entry: see feed.Ledger.
func (p *Part) Heads(ctx context.Context, budgets []int64) (out map[int64]int64, err error) {
	budgets = slices.Compact(slices.Sorted(slices.Values(budgets)))
	err = p.db.Read(ctx, "feed", func(r *engine.Reader) error {
		out = make(map[int64]int64, len(budgets))
		for chunk := range slices.Chunk(budgets, engine.ListChunk) {
			keys := make([][]any, len(chunk))
			for i, id := range chunk {
				keys[i] = []any{id}
			}
			s := r.Statement()
			s.SQL(selectHeads)
			s.Tuples([]string{"b.budget_id"}, keys)
			s.SQL(perBudget)
			var found []struct {
				Budget int64 `db:"budget_id"`
				Head   int64 `db:"head"`
			}
			if err := r.RowsOf(&found, s); err != nil {
				return err
			}
			for _, f := range found {
				out[f.Budget] = f.Head
			}
		}
		return nil
	})
	return out, err
}

// row is a feed row as read.
type row struct {
	Bucket    int64  `db:"bucket_id"`
	First     int64  `db:"first_entry"`
	Count     int64  `db:"entries"`
	Body      []byte `db:"body"`
	CreatedAt int64  `db:"created_at"`
}

// Rows returns the rows of spans: see feed.Ledger.
func (p *Part) Rows(ctx context.Context, spans []feed.Span) (out []feed.Row, err error) {
	turns := make(map[int64]int, len(spans))
	for i, span := range spans {
		turns[span.Bucket] = i
	}
	err = p.db.Read(ctx, "feed", func(r *engine.Reader) error {
		out = nil
		for chunk := range slices.Chunk(spans, spanChunk) {
			s := r.Statement()
			s.SQL(selectRows)
			for i, span := range chunk {
				if i > 0 {
					s.SQL(" OR ")
				}
				numbers := [...]int64{span.Bucket, span.From, span.UpTo}
				s.Fill(ofSpan, func(place int) { s.Number(numbers[place]) })
			}
			s.SQL(inEntryOrder)
			var found []row
			if err := r.RowsOf(&found, s); err != nil {
				return err
			}
			for i := range found {
				read, err := found[i].read()
				if err != nil {
					return err
				}
				out = append(out, read)
			}
		}
		return nil
	})
	slices.SortStableFunc(out, func(a, b feed.Row) int { return turns[a.Bucket] - turns[b.Bucket] })
	return out, err
}

func (f *row) read() (feed.Row, error) {
	out := feed.Row{Bucket: f.Bucket, First: f.First, Count: f.Count, At: engine.FromMS(f.CreatedAt)}
	var err error
	out.Entries, err = ledger.ReadFeed(string(f.Body))
	if err != nil {
		return out, engine.Defect("entry %d of bucket %d: %w", f.First, f.Bucket, err)
	}
	if int64(len(out.Entries)) != f.Count {
		return out, engine.Defect("entry %d of bucket %d: %d entries instead of %d", f.First, f.Bucket,
			len(out.Entries), f.Count)
	}
	return out, nil
}

// Before returns the extents of the last rows at or before places: see feed.Ledger.
func (p *Part) Before(ctx context.Context, places []feed.Place, limit int) (
	out []feed.Row, err error) {
	err = p.db.Read(ctx, "feed", func(r *engine.Reader) error {
		out = nil
		for chunk := range slices.Chunk(places, beforeChunk) {
			s := r.Statement()
			for i, place := range chunk {
				if i > 0 {
					s.SQL(" UNION ALL ")
				}
				numbers := [...]int64{place.Bucket, place.Entry, int64(limit)}
				s.Fill(selectBefore, func(at int) { s.Number(numbers[at]) })
			}
			var found []row
			if err := r.RowsOf(&found, s); err != nil {
				return err
			}
			for _, f := range found {
				out = append(out, feed.Row{Bucket: f.Bucket, First: f.First, Count: f.Count,
					At: engine.FromMS(f.CreatedAt)})
			}
		}
		return nil
	})
	slices.SortFunc(out, func(a, b feed.Row) int { // a UNION has no order
		return cmp.Or(cmp.Compare(a.Bucket, b.Bucket), cmp.Compare(b.First, a.First))
	})
	return out, err
}

// Details returns the deductions of entries: see feed.Ledger.
func (p *Part) Details(ctx context.Context, ids []bucket.ID) (
	out map[bucket.ID]feed.Detail, err error) {
	err = p.db.Read(ctx, "feed", func(r *engine.Reader) error {
		out = make(map[bucket.ID]feed.Detail, len(ids))
		for chunk := range slices.Chunk(ids, engine.ListChunk) {
			keys := make([][]any, len(chunk))
			for i, id := range chunk {
				keys[i] = []any{id.Budget, []byte(id.RequestID)}
			}
			s := r.Statement()
			s.SQL(selectDetails)
			s.Tuples([]string{"d.budget_id", "d.request_id"}, keys)
			var found []struct {
				Budget    int64  `db:"budget_id"`
				RequestID string `db:"request_id"`
				Epoch     int64  `db:"epoch"`
				Note      []byte `db:"note"`
			}
			if err := r.RowsOf(&found, s); err != nil {
				return err
			}
			for _, f := range found {
				note, ok := ledger.ReadNote(string(f.Note))
				if !ok {
					return engine.Defect("the note of request %q of budget %d cannot be read", f.RequestID,
						f.Budget)
				}
				out[bucket.ID{Budget: f.Budget, RequestID: f.RequestID}] = feed.Detail{Epoch: f.Epoch,
					Reference: note.Reference, Dimensions: note.Dimensions}
			}
		}
		return nil
	})
	return out, err
}
