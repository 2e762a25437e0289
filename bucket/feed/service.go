package feed

import (
	"context"
	"time"

	"github.com/budgetd/budgetd/bucket"
	"github.com/budgetd/budgetd/budget"
	"github.com/budgetd/budgetd/internal/sql/bookkeeper"
	"github.com/budgetd/budgetd/internal/sql/engine"
)

// Config configures a Service.
type Config struct {
	DB      *engine.DB
	Budgets *bucket.Budgets
	// Clock measures waits; nil means the system clock.
	Clock bucket.Clock
	// Observer receives failed SQL calls. It may be nil.
	Observer bucket.Calls
}

// Service reads feeds. It has no goroutine while no reader waits. It is safe for concurrent use.
type Service struct {
	db       *engine.DB
	budgets  *bucket.Budgets
	observer bucket.Calls
	poller   *poller
}

// New returns a service. It does not contact the database.
func New(c Config) *Service {
	if c.Clock == nil {
		c.Clock = bucket.SystemClock{}
	}
	return &Service{db: c.DB, budgets: c.Budgets, observer: c.Observer,
		poller: &poller{db: c.DB, clock: c.Clock}}
}

// Feed returns a page of the entries of a budget's deductions. A reader that passes each page's
// Next as the After of the next call gets every entry exactly once (I7), even one that is committed
// late.
//
// The entries of one bucket are in commit order, so a deduction precedes everything that is done to
// it. Entries of different buckets are sorted by time within a page and otherwise unordered. A page
// takes equally many from every bucket with entries; a bucket that got no place is first in the
// next page. With Tail the page has the last entries, and Next continues after them. With Since it
// begins with the first entries at that instant. If there are no entries, Feed waits as long as the
// request says.
//
// Errors: BudgetNotFound; LedgerModeOnly; Invalid, for a cursor that is damaged, another budget's
// or ahead of the ledger (a restored backup), and if more than one of After, Tail and Since is
// given; Unavailable. It changes nothing.
func (s *Service) Feed(ctx context.Context, r bucket.FeedRequest) (bucket.FeedPage, error) {
	if r.Limit == 0 {
		r.Limit = bucket.DefaultFeedLimit
	}
	r.Limit = max(1, min(r.Limit, bucket.MaxFeedLimit))
	b, err := s.find(ctx, &r)
	if err != nil {
		return bucket.FeedPage{}, err
	}
	deadline := s.poller.clock.Now().Add(min(r.Wait, bucket.MaxFeedWait))
	for {
		page, head, err := s.page(ctx, b, &r)
		if err != nil {
			return page, s.failed(err)
		}
		if len(page.Entries) > 0 || r.Wait <= 0 || !s.poller.wait(ctx, b.ID, head, deadline, r.Until) {
			return page, nil
		}
		r.After, r.Tail, r.Since = page.Next, 0, time.Time{}
	}
}

// find returns the budget of a request and refuses contradictory requests.
func (s *Service) find(ctx context.Context, r *bucket.FeedRequest) (*bucket.Budget, error) {
	b, err := s.budgets.Find(ctx, r.Budget)
	if err != nil {
		return nil, err
	}
	if err := b.NeedsRows("ledger", "read the figures of the budget, or its series"); err != nil {
		return nil, err
	}
	given := 0
	for _, is := range []bool{r.After != "", r.Tail != 0, !r.Since.IsZero()} {
		if is {
			given++
		}
	}
	switch {
	case r.Tail < 0 || r.Tail > bucket.MaxFeedLimit:
		return nil, invalid("tail", "must be 1 to 1000")
	case given > 1:
		return nil, invalid("after", "cannot stand beside tail and since, nor these beside each other")
	}
	return b, nil
}

// page reads a page without waiting. head is the result of readHeads as long as nothing follows.
func (s *Service) page(ctx context.Context, b *bucket.Budget, r *bucket.FeedRequest) (
	out bucket.FeedPage, head int64, err error) {
	bounds, err := readBounds(ctx, s.db, b.ID)
	if err != nil {
		return out, 0, err
	}
	p := &page{db: s.db, bounds: bounds, ordinals: make(map[int64]int, len(bounds))}
	for i, bound := range bounds {
		p.ordinals[bound.Bucket] = i
		head += bound.Last + 1
	}
	if p.cursor, err = start(r.After, b.ID, b.CreatedAt.UnixMilli(), bounds); err != nil {
		return out, 0, err
	}
	limit := r.Limit
	switch {
	case r.Tail > 0:
		limit, err = p.toTail(ctx, r.Tail)
	case !r.Since.IsZero():
		err = p.toInstant(ctx, r.Since)
	}
	if err == nil {
		out.Entries, err = p.read(ctx, limit)
	}
	if err != nil {
		return bucket.FeedPage{}, 0, err
	}
	out.Next = p.cursor.text()
	return out, head, nil
}

// failed reports an SQL error to the observer and returns it.
func (s *Service) failed(err error) error {
	if s.observer != nil && budget.CodeOf(err).Kind() == budget.NotDone {
		s.observer.Failed("sql", budget.CodeOf(err))
	}
	return err
}

// bound is the extent of one bucket's feed.
type bound struct {
	Bucket int64 `db:"id"`
	// Key is the bucket's public name.
	Key string `db:"sharding_bucket_key"`
	// Last is the number of its newest entry; 0 for none.
	Last int64 `db:"last_entry"`
}

// The row of a bucket's newest epoch holds the number of the next entry.
const selectBounds = `SELECT b.id, b.sharding_bucket_key, e.next_entry - 1 AS last_entry
	FROM sharding_budget_management_bucket b /*by budget_id*/
	/*in order*/ JOIN bucket_epoch e /*by PRIMARY*/ ON e.bucket_id = b.id AND e.epoch = b.epoch
	WHERE b.budget_id = ? ORDER BY b.ordinal`

// readBounds returns the extents of the feeds of a budget's buckets, by ordinal, without locks.
// Every entry up to Last is committed, and a statement that begins later sees it. Errors:
// BudgetNotFound, Unavailable.
func readBounds(ctx context.Context, db *engine.DB, budgetID int64) (out []bound, err error) {
	err = db.Read(ctx, "feed", func(r *engine.Reader) error {
		out = nil
		if err := r.List(&out, selectBounds, budgetID); err != nil || len(out) > 0 {
			return err
		}
		_, _, err := bookkeeper.ReadBudget(r, "feed", budgetID)
		return err
	})
	return out, err
}
