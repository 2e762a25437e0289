package bucket

import (
	"context"

	"github.com/budgetd/budgetd/ledger"
)

// FeedBound is how far one bucket's part of the feed reaches.
type FeedBound struct {
	Bucket int64
	Key    string
	// Archived is the last entry that is no longer in the feed, 0: none; Last the newest one.
	Archived, Last int64
}

// FeedSpan names entries of one bucket: those after one number, up to another, inclusive.
type FeedSpan struct{ Bucket, After, UpTo int64 }

// Feed reads the ledger in the order of its commits (I7). Errors: Unavailable. Safe for concurrent
// use.
type Feed interface {
	// FeedBounds reads the bounds of a budget's buckets, by ordinal. Every entry up to Last is committed:
	// a read that begins later sees it. Error: BudgetNotFound.
	FeedBounds(ctx context.Context, budgetID int64) ([]FeedBound, error)
	// FeedEntries reads the entries of spans of different buckets, in the order of the spans, each by
	// number. Numbers without a row are missing: they are archived, or beyond the bucket's Last.
	FeedEntries(ctx context.Context, spans []FeedSpan) ([]ledger.FeedEntry, error)
}

// ArchiveBound says of a bucket what of its part of the feed can be archived.
type ArchiveBound struct {
	Budget       int64
	Tenant, Name string // of the budget
	Bucket       int64
	Ordinal      int
	// Archived is the last entry that is archived, Last the newest one. Archiving is above Archived
	// where somebody has begun to archive up to it.
	Archived, Archiving, Last int64
	// Ended is the newest epoch of which nothing can be committed any more; 0: none.
	Ended int64
}

// Archive takes old entries out of the feed. What it leaves of a deduction still replays, and can
// still be rolled back. Errors as Ledger. Safe for concurrent use, by any number of nodes.
type Archive interface {
	// ArchiveBounds lists at most limit buckets of all budgets after an id, in that order.
	ArchiveBounds(ctx context.Context, after int64, limit int) ([]ArchiveBound, error)
	// BeginArchive notes that a bucket's entries after archived up to upTo are being archived, unless
	// others are, and returns up to which; 0: archived is no longer the last archived entry. Whoever
	// comes later does the same entries, so that what is written of them is the same, too.
	BeginArchive(ctx context.Context, bucketID, archived, upTo int64) (int64, error)
	// EndArchive turns deductions of a span that was begun into tombstones: they lose nonce, reference,
	// dimensions and entry, rollbacks their entry. It moves no unit. false when it was done before.
	EndArchive(ctx context.Context, span FeedSpan) (bool, error)
}
