package bucket

import (
	"time"

	"github.com/budgetd/budgetd/ledger"
)

// Bounds of reading the feed.
const (
	// DefaultFeedLimit and MaxFeedLimit bound the entries of a page.
	DefaultFeedLimit, MaxFeedLimit = 100, 1000
	// MaxFeedWait is the longest that a reader can wait for news.
	MaxFeedWait = 30 * time.Second
)

// FeedRequest asks for a page of a budget's feed.
type FeedRequest struct {
	Budget BudgetRef
	// After is the Next of the page before; "" begins with the oldest entries that are kept.
	After string
	// Tail begins with the last so many entries, 1 … MaxFeedLimit; 0: it does not. Since begins
	// with the first entries that were committed at that instant or later; zero: it does not. At
	// most one of After, Tail and Since is given.
	Tail  int
	Since time.Time
	// Limit is the most entries, 1 … MaxFeedLimit; 0 means DefaultFeedLimit.
	Limit int
	// Wait is how long to wait for an entry while there is none, at most MaxFeedWait.
	Wait time.Duration
	// Until ends the wait when it is closed; nil: nothing does.
	Until <-chan struct{}
}

// FeedPage is a part of the feed.
type FeedPage struct {
	Entries []FeedEntry
	// Next is the cursor behind these entries; it resumes also when there were none.
	Next string
}

// FeedEntry is an entry with the key of its bucket.
type FeedEntry struct {
	ledger.FeedEntry
	BucketKey string
}
