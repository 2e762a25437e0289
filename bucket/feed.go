package bucket

import (
	"cmp"
	"context"
	"slices"
	"time"

	"github.com/budgetd/budgetd/budget"
	"github.com/budgetd/budgetd/internal/safeguard"
	"github.com/budgetd/budgetd/ledger"
)

// Bounds of reading the feed.
const (
	// DefaultFeedLimit and MaxFeedLimit bound the entries of a page.
	DefaultFeedLimit, MaxFeedLimit = 100, 1000
	// MaxFeedWait is the longest that a reader can wait for news.
	MaxFeedWait = 30 * time.Second
	// feedPoll is how often the bounds are read while a reader waits.
	feedPoll = 200 * time.Millisecond
	// feedBytes bounds the texts of a page: a page is cut where they exceed it, and has one entry at
	// least.
	feedBytes = 4 << 20
)

// FeedRequest asks for a page of a budget's feed.
type FeedRequest struct {
	Budget BudgetRef
	// After is the Next of the page before; "" begins with the oldest entries that are kept.
	After string
	// Limit is the most entries, 1 … MaxFeedLimit; 0 means DefaultFeedLimit.
	Limit int
	// Wait is how long to wait for an entry while there is none, at most MaxFeedWait.
	Wait time.Duration
	// Until ends the wait when it is closed; nil: nothing does.
	Until <-chan struct{}
}

// FeedEntry is an entry with the key of its bucket.
type FeedEntry struct {
	ledger.FeedEntry
	BucketKey string
}

// FeedPage is a part of the feed.
type FeedPage struct {
	Entries []FeedEntry
	// Next is the cursor behind these entries; it resumes also when there were none.
	Next string
}

// Feed reads what happened to the deductions of a budget, as a change feed: whoever passes each
// page's Next as the After of the next call gets every entry exactly once (I7), also the ones that
// are committed late.
//
// The entries of one bucket come in the order of their commits, so a deduction before everything
// that is done to it. Entries of different buckets have no order beyond their page, where they are
// sorted by time; a page takes as many from every bucket that has some, and buckets that had no
// place come first in the next one.
//
// Nothing is skipped, because a number is taken under the lock of the bucket's newest epoch row and
// its row is written in the same transaction: when that lock is given back, both are visible. The
// page is read in two steps: first the last numbers, which makes sure that the transactions that
// took them have ended, then, by a later statement, exactly the rows up to them. One statement
// would not do: MariaDB's read views are not made at one instant, and one may show a commit without
// the one before it. A number without a row is therefore a defect, and an error, never a gap.
//
// Errors: BudgetNotFound; Invalid (field after) for a cursor that is not one, is another budget's or
// is ahead of the ledger (a restored backup); CursorExpired when entries behind it are archived, of
// any bucket; Unavailable. Safe for concurrent use; changes nothing.
func (s *Service) Feed(ctx context.Context, r FeedRequest) (FeedPage, error) {
	if r.Limit == 0 {
		r.Limit = DefaultFeedLimit
	}
	r.Limit = max(1, min(r.Limit, MaxFeedLimit))
	entry, err := s.budgets.find(ctx, r.Budget)
	if err != nil {
		return FeedPage{}, err
	}
	began := s.now()
	for {
		page, err := s.feedPage(ctx, entry, r)
		if err != nil || len(page.Entries) > 0 {
			return page, err
		}
		if waited := s.now() - began; waited < 0 || waited+feedPoll > min(r.Wait, MaxFeedWait) {
			return page, nil
		}
		select {
		case <-r.Until:
			return page, nil
		default:
		}
		if s.clock.Sleep(ctx, feedPoll) != nil {
			return page, nil // the caller is gone, or its time is over
		}
	}
}

// feedPage reads a page without waiting.
func (s *Service) feedPage(ctx context.Context, entry *cached, r FeedRequest) (FeedPage, error) {
	bounds, err := s.sql.FeedBounds(ctx, entry.id)
	if err != nil {
		return FeedPage{}, s.sqlFailed(err)
	}
	cursor, err := startFeed(r.After, entry.id, entry.value.Load().CreatedAt, bounds)
	if err != nil {
		return FeedPage{}, err
	}
	spans, turn := cursor.spans(bounds, r.Limit)
	if len(spans) == 0 {
		return FeedPage{Next: cursor.text()}, nil
	}
	rows, err := s.sql.FeedEntries(ctx, spans)
	if err != nil {
		return FeedPage{}, s.sqlFailed(err)
	}
	if missing, found := firstMissing(spans, rows); found {
		return FeedPage{}, s.feedGap(ctx, entry.id, cursor, missing)
	}
	cursor.turn = turn
	page := FeedPage{Entries: interleave(spans, rows)}
	page.Entries = page.Entries[:fittingFeed(page.Entries)]
	for i := range page.Entries {
		e := &page.Entries[i]
		ordinal := slices.IndexFunc(bounds, func(b FeedBound) bool { return b.Bucket == e.Bucket })
		e.BucketKey = bounds[ordinal].Key
		cursor.read[ordinal] = e.Entry
	}
	if safeguard.Off(safeguard.FeedCursor) {
		cursor.read = slices.Repeat([]int64{slices.Max(cursor.read)}, len(cursor.read))
	}
	page.Next = cursor.text()
	return page, nil
}

// feedGap says why a number that was taken has no row: it was archived meanwhile, or there is a
// defect.
func (s *Service) feedGap(ctx context.Context, budgetID int64, cursor feedCursor, missing FeedSpan) error {
	bounds, err := s.sql.FeedBounds(ctx, budgetID)
	if err != nil {
		return s.sqlFailed(err)
	}
	if err := cursor.check(bounds); err != nil {
		return err
	}
	s.log.Error("feed has a gap", "budget", budgetID, "bucket", missing.Bucket, "entry", missing.UpTo)
	return budget.Refuse(budget.Internal, "feed", "entry %d of bucket %d has no row", missing.UpTo,
		missing.Bucket)
}

// firstMissing finds the first number of the spans that has no row. rows are in the order of the
// spans, each by number.
func firstMissing(spans []FeedSpan, rows []ledger.FeedEntry) (FeedSpan, bool) {
	i := 0
	for _, span := range spans {
		for n := span.After + 1; n <= span.UpTo; n++ {
			if i == len(rows) || rows[i].Bucket != span.Bucket || rows[i].Entry != n {
				return FeedSpan{Bucket: span.Bucket, After: n - 1, UpTo: n}, true
			}
			i++
		}
	}
	return FeedSpan{}, false
}

// feedShares gives each bucket its part of a page: waiting is how many entries each has, by ordinal.
// The places are given out evenly; the last ones, where there are fewer than buckets that wait, from
// the ordinal turn on. next is whose turn it is in the page that follows.
//
// Worked: waiting 5, 0, 1, 9 and limit 8 gives 4, 0, 1, 3 where turn is 0.
func feedShares(waiting []int64, limit, turn int) (shares []int64, next int) {
	shares = make([]int64, len(waiting))
	left := int64(limit)
	for left > 0 {
		open := int64(0)
		for i := range waiting {
			if waiting[i] > shares[i] {
				open++
			}
		}
		if open == 0 {
			return shares, turn
		}
		each := left / open
		if each == 0 {
			break
		}
		for i := range waiting {
			units := min(each, waiting[i]-shares[i])
			shares[i] += units
			left -= units
		}
	}
	for k := 0; left > 0; k++ {
		i := (turn + k) % len(waiting)
		if waiting[i] > shares[i] {
			shares[i]++
			left--
			next = (i + 1) % len(waiting)
		}
	}
	return shares, next
}

// interleave sorts the entries by time, those of one bucket in the order of their numbers: the clocks
// of nodes differ, so their times alone could turn them round.
func interleave(spans []FeedSpan, rows []ledger.FeedEntry) []FeedEntry {
	type timed struct {
		FeedEntry
		sortedAt time.Time
	}
	turns := make(map[int64]int, len(spans))
	for i, span := range spans {
		turns[span.Bucket] = i
	}
	list := make([]timed, len(rows))
	for i, row := range rows {
		list[i] = timed{FeedEntry{FeedEntry: row}, row.At}
		if i > 0 && rows[i-1].Bucket == row.Bucket && list[i-1].sortedAt.After(row.At) {
			list[i].sortedAt = list[i-1].sortedAt
		}
	}
	slices.SortFunc(list, func(a, b timed) int {
		return cmp.Or(a.sortedAt.Compare(b.sortedAt), cmp.Compare(turns[a.Bucket], turns[b.Bucket]),
			cmp.Compare(a.Entry, b.Entry))
	})
	out := make([]FeedEntry, len(list))
	for i := range list {
		out[i] = list[i].FeedEntry
	}
	return out
}

// fittingFeed returns how many of the first entries fit feedBytes, at least one.
func fittingFeed(entries []FeedEntry) int {
	bytes := 0
	for i := range entries {
		e := &entries[i]
		bytes += len(e.RequestID) + len(e.RollbackID) + len(e.Reference) + len(e.Dimensions)
		if bytes > feedBytes && i > 0 {
			return i
		}
	}
	return len(entries)
}
