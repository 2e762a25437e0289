package feed

import (
	"context"
	"time"

	"github.com/budgetd/budgetd/bucket"
	"github.com/budgetd/budgetd/ledger"
)

// Bound is the extent of one bucket's feed.
type Bound struct {
	Bucket int64
	// Key is the bucket's public name.
	Key string
	// Last is the number of its newest entry; 0 for none.
	Last int64
}

// Span is a range of entries of one bucket: those from After + 1 to UpTo. From is the number of the
// first entry of the row that holds After + 1, if known; After + 1 if a row begins with it.
type Span struct{ Bucket, From, After, UpTo int64 }

// Row is a feed row: entries of one bucket with consecutive numbers from First on.
type Row struct {
	Bucket, First int64
	// Count is the number of its entries.
	Count int64
	// At is SQL's time of the commit.
	At time.Time
	// Entries are empty if only the extent of the row was requested. They lack what Details adds.
	Entries []ledger.FeedEntry
}

// Place identifies an entry of a bucket.
type Place struct{ Bucket, Entry int64 }

// Detail is the part of an entry that comes from its deduction.
type Detail struct {
	Epoch                 int64
	Reference, Dimensions string
}

// Ledger reads feed rows without locks. It returns Unavailable if the database cannot be read. It
// is safe for concurrent use.
type Ledger interface {
	// Bounds returns the extents of the feeds of a budget's buckets, by ordinal. Every entry up to
	// Last is committed, and a statement that begins later sees it. It returns BudgetNotFound if
	// there is no budget.
	Bounds(ctx context.Context, budgetID int64) ([]Bound, error)
	// Heads returns Σ(Last + 1) over the buckets of each budget, which changes with each entry.
	// Budgets that do not exist are omitted.
	Heads(ctx context.Context, budgets []int64) (map[int64]int64, error)
	// Rows returns the rows of spans of different buckets that begin within From … UpTo, in the
	// order of the spans, each by number.
	Rows(ctx context.Context, spans []Span) ([]Row, error)
	// Before returns, for each place, the extents of the last rows that begin at or before it, at
	// most limit per bucket, newest first.
	Before(ctx context.Context, places []Place, limit int) ([]Row, error)
	// Details returns the deductions' part of entries. Entries without a deduction row are omitted.
	Details(ctx context.Context, ids []bucket.ID) (map[bucket.ID]Detail, error)
}
