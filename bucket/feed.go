package bucket

import (
	"time"

	"github.com/budgetd/budgetd/ledger"
)

// Bounds of reading the feed.
const (
	// DefaultFeedLimit and MaxFeedLimit bound the entries of a page.
	DefaultFeedLimit, MaxFeedLimit = 100, 1000
	// MaxFeedWait bounds how long a reader can wait for new entries.
	MaxFeedWait = 30 * time.Second
)

// FeedRequest asks for a page of a budget's feed.
type FeedRequest struct {
	Budget BudgetRef
	// After is the Next of the previous page. If it is empty, the page begins with the oldest
	// entries that are kept.
	After string
	// Tail, unless it is 0, begins with the last Tail entries, 1 … MaxFeedLimit. Since, unless it
	// is zero, begins with the first entries committed at that instant or later. At most one of
	// After, Tail and Since may be set.
	Tail  int
	Since time.Time
	// Limit bounds the entries, 1 … MaxFeedLimit; 0 means DefaultFeedLimit.
	Limit int
	// Wait is how long to wait for a first entry, at most MaxFeedWait.
	Wait time.Duration
	// Until ends the wait when it is closed. It may be nil.
	Until <-chan struct{}
}

// FeedPage is a part of the feed.
type FeedPage struct {
	Entries []FeedEntry
	// Next is the cursor after these entries. It can be resumed from even if Entries is empty.
	Next string
}

// FeedEntry is an entry with the key of its bucket.
type FeedEntry struct {
	ledger.FeedEntry
	BucketKey string
}
