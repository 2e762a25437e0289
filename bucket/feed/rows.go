package feed

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/budgetd/budgetd/bucket"
	"github.com/budgetd/budgetd/internal/sql/engine"
	"github.com/budgetd/budgetd/ledger"
)

// span is a range of entries of one bucket: those from After + 1 to UpTo. From is the number of the
// first entry of the row that holds After + 1, if known; After + 1 if a row begins with it.
type span struct{ Bucket, From, After, UpTo int64 }

// row is a feed row: entries of one bucket with consecutive numbers from First on.
type row struct {
	Bucket int64 `db:"bucket_id"`
	First  int64 `db:"first_entry"`
	// Count is the number of its entries.
	Count int64 `db:"entries"`
	// CreatedMS is SQL's time of the commit.
	CreatedMS int64  `db:"created_at"`
	Body      []byte `db:"body"`
	// Entries are empty if only the extent of the row was requested. They lack what details add.
	Entries []ledger.FeedEntry `db:"-"`
}

func (f *row) at() time.Time { return engine.FromMS(f.CreatedMS) }

const (
	selectRows = `SELECT f.bucket_id, f.first_entry, f.entries, f.body, f.created_at
		FROM feed f /*by PRIMARY*/ WHERE `
	ofSpan       = `(f.bucket_id = ? AND f.first_entry >= ? AND f.first_entry <= ?)`
	inEntryOrder = ` ORDER BY f.bucket_id, f.first_entry`
	// spanChunk is the most spans in one statement.
	spanChunk = 64
)

// readRows returns the rows of spans of different buckets that begin within From … UpTo, in the
// order of the spans, each by number.
func readRows(ctx context.Context, db *engine.DB, spans []span) (out []row, err error) {
	turns := make(map[int64]int, len(spans))
	for i, span := range spans {
		turns[span.Bucket] = i
	}
	err = db.Read(ctx, "feed", func(r *engine.Reader) error {
		out = nil
		for chunk := range slices.Chunk(spans, spanChunk) {
			s := r.Statement()
			s.SQL(selectRows)
			for i, span := range chunk {
				if i > 0 {
					s.SQL(" OR ")
				}
				numbers := [...]int64{span.Bucket, span.From, span.UpTo}
				s.Fill(ofSpan, func(at int) { s.Number(numbers[at]) })
			}
			s.SQL(inEntryOrder)
			var found []row
			if err := r.RowsOf(&found, s); err != nil {
				return err
			}
			for i := range found {
				if err := found[i].read(); err != nil {
					return err
				}
			}
			out = append(out, found...)
		}
		return nil
	})
	slices.SortStableFunc(out, func(a, b row) int { return turns[a.Bucket] - turns[b.Bucket] })
	return out, err
}

// read decodes the entries.
func (f *row) read() (err error) {
	f.Entries, err = ledger.ReadFeed(string(f.Body))
	if err == nil && int64(len(f.Entries)) != f.Count {
		err = fmt.Errorf("%d entries instead of %d", len(f.Entries), f.Count)
	}
	if err != nil {
		return engine.Defect("entry %d of bucket %d: %w", f.First, f.Bucket, err)
	}
	return nil
}

// detail is the part of an entry that comes from its deduction.
type detail struct {
	Epoch                 int64
	Reference, Dimensions string
}

const selectDetails = `SELECT d.budget_id, d.request_id, d.epoch, d.note
	FROM deduction d /*by PRIMARY*/ WHERE `

// readDetails returns the deductions' part of entries. An entry without a deduction row is missing.
func readDetails(ctx context.Context, db *engine.DB, ids []bucket.ID) (
	out map[bucket.ID]detail, err error) {
	err = db.Read(ctx, "feed", func(r *engine.Reader) error {
		out = make(map[bucket.ID]detail, len(ids))
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
				out[bucket.ID{Budget: f.Budget, RequestID: f.RequestID}] = detail{Epoch: f.Epoch,
					Reference: note.Reference, Dimensions: note.Dimensions}
			}
		}
		return nil
	})
	return out, err
}
