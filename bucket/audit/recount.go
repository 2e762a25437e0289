package audit

import (
	"context"
	"hash/maphash"
	"time"

	"github.com/budgetd/budgetd/bucket"
)

const (
	// leastCost is what a budget costs of the rate, however few rows it has.
	leastCost = 20
	// mostKnown bounds the budgets that are remembered, and those that wait.
	mostKnown = 1 << 17
	// recountAfter is when a budget is counted again in which nothing seems to have changed.
	recountAfter = time.Hour
)

// Recount compares the columns of budgets with all of their rows in the background: those in which
// something has happened, an epoch's end included, and each now and then. On average it reads Rows rows a
// second. It gets the books of a pass, and counts what they say has changed. Use it from one goroutine.
type Recount struct {
	*Service
	// Rows is how many rows are read a second, on average.
	Rows int

	known   map[int64]counted
	waiting map[int64]counted
	queue   []int64
	credit  int64
	last    time.Time
}

// counted is what a budget's books were when it was last counted.
type counted struct {
	mark uint64
	at   time.Time
}

// Begin and End do nothing: every page counts for itself.
func (r *Recount) Begin() {}

// End does nothing.
func (r *Recount) End() {}

// Page notes the budgets that have changed since they were counted.
func (r *Recount) Page(_ context.Context, books []bucket.Book) error {
	now := r.clock.Now()
	for i := range books {
		b := &books[i]
		mark := markOf(b)
		old, known := r.known[b.Budget]
		if known && old.mark == mark && now.Sub(old.at) < recountAfter {
			continue
		}
		_, waits := r.waiting[b.Budget]
		if !waits && len(r.queue) >= mostKnown {
			continue // the next pass
		}
		if r.waiting == nil {
			r.waiting = map[int64]counted{}
		}
		r.waiting[b.Budget] = counted{mark, now}
		if !waits {
			r.queue = append(r.queue, b.Budget)
		}
	}
	return nil
}

// seed is of the marks.
var seed = maphash.MakeSeed()

// markOf is another number once something was deducted, returned or moved.
func markOf(b *bucket.Book) uint64 {
	f := &b.Figures
	return maphash.Comparable(seed, [...]int64{b.Entries, f.Total, f.Unfunded, f.Undistributed,
		f.Quarantined, f.Forfeited, f.Remaining, f.Unsettled, f.Held, f.Used, f.Returning})
}

// RunOnce counts budgets that wait, as many as the rate allows. A budget with very many rows is counted
// at once, in one snapshot, and paid for by a rest. Error: Unavailable.
func (r *Recount) RunOnce(ctx context.Context) error {
	now := r.clock.Now()
	if !r.last.IsZero() {
		grown := int64(float64(r.Rows) * max(now.Sub(r.last), 0).Seconds())
		r.credit = min(r.credit+grown, int64(r.Rows))
	} else {
		r.credit = int64(r.Rows)
	}
	r.last = now
	for r.credit > 0 && len(r.queue) > 0 && ctx.Err() == nil {
		id := r.queue[0]
		a, found, err := r.look(ctx, id)
		if err != nil {
			r.credit -= leastCost
			return r.failed(err)
		}
		if len(found) > 0 {
			r.act(ctx, &a, found)
		}
		r.credit -= a.Rows + leastCost
		if r.known == nil || len(r.known) >= mostKnown {
			r.known = map[int64]counted{}
		}
		r.known[id] = r.waiting[id]
		delete(r.waiting, id)
		r.queue = r.queue[1:]
	}
	return nil
}
