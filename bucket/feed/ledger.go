package feed

import (
	"context"
	"time"

	"github.com/budgetd/budgetd/bucket"
	"github.com/budgetd/budgetd/ledger"
)

// Bound is how far one bucket's feed reaches.
type Bound struct {
	Bucket int64
	// Key is the bucket's public name.
	Key string
	// Last is the number of its newest entry; 0: it has none.
	Last int64
}

// Span names entries of one bucket: those from After + 1 to UpTo. From is the number of the
// first entry of the row that holds After + 1, as far as that is known; After + 1 where a row
// begins with it.
type Span struct{ Bucket, From, After, UpTo int64 }

// Row is a feed row: entries of one bucket with consecutive numbers from First on.
type Row struct {
	Bucket, First int64
	// Count is the number of its entries.
	Count int64
	// At is SQL's time of the commit.
	At time.Time
	// Entries are empty where only the extent of the row was asked for. They lack what Details adds.
	Entries []ledger.FeedEntry
}

// Place names an entry of a bucket.
type Place struct{ Bucket, Entry int64 }

// Detail is what an entry shows of its deduction.
type Detail struct {
	Epoch                 int64
	Reference, Dimensions string
}

// Ledger reads feed rows, without locks. Error: Unavailable. Safe for concurrent use.
type Ledger interface {
	// Bounds reads how far the feeds of a budget's buckets reach, by ordinal. Every entry up to
	// Last is committed: a statement that begins later sees it. Error: BudgetNotFound.
	Bounds(ctx context.Context, budgetID int64) ([]Bound, error)
	// Heads reads Σ(Last + 1) over the buckets of each budget: it changes with each entry. A budget
	// that does not exist is missing.
	Heads(ctx context.Context, budgets []int64) (map[int64]int64, error)
	// Rows reads the rows of spans of different buckets that begin within From … UpTo, in the order of
	// the spans, each by number.
	Rows(ctx context.Context, spans []Span) ([]Row, error)
	// Before reads, for each place, the extents of the last rows that begin at or before it, at most
	// limit of each bucket, the newest first.
	Before(ctx context.Context, places []Place, limit int) ([]Row, error)
	// Details reads what entries show of their deductions. One that has no row is missing.
	Details(ctx context.Context, ids []bucket.ID) (map[bucket.ID]Detail, error)
}
