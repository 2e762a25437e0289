package audit

import (
	"context"
	"hash/maphash"
	"time"

	"github.com/budgetd/budgetd/bucket"
)

const (
	// leastCost is what a budget costs of the rate beside its rows: a dozen statements, which take
	// a database several milliseconds.
	leastCost = 200
	// mostKnown bounds the budgets that are remembered, and those that wait.
	mostKnown = 1 << 17
	// recountAfter is when a budget is counted again in which nothing seems to have changed.
	recountAfter = time.Hour
)

// Recount compares the columns of budgets with all of their rows in the background: those in which
// something has happened, an epoch's end included, and each now and then. On average it reads Rows
// rows a second. It gets the books of a pass, and counts what they say has changed. Use it from one
// goroutine.
type Recount struct {
	*Service
	// Rows is how many rows are read a second, on average.
	Rows int

	known map[int64]counted
	// waiting has the budgets that are to be counted. Those in urgent go before those in queue; a
	// budget that does not wait any more is passed over in both.
	waiting       map[int64]counted
	urgent, queue []int64
	credit        int64
	last          time.Time
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

// Page notes the budgets that have changed since they were counted. Those that change while this
// node looks go before those that it has not looked at yet.
func (r *Recount) Page(_ context.Context, books []bucket.Book) error {
	now := r.clock.Now()
	if r.waiting == nil {
		r.waiting, r.known = map[int64]counted{}, map[int64]counted{}
	}
	for i := range books {
		id, mark := books[i].Budget, markOf(&books[i])
		old, seen := r.waiting[id]
		if !seen {
			old, seen = r.known[id]
		}
		live := seen && old.mark != mark
		if seen && !live && now.Sub(old.at) < recountAfter {
			continue
		}
		_, waits := r.waiting[id]
		switch {
		case len(r.urgent)+len(r.queue) >= 2*mostKnown:
			continue // the next pass
		case live:
			r.urgent = append(r.urgent, id)
		case !waits:
			r.queue = append(r.queue, id)
		}
		r.waiting[id] = counted{mark, now}
	}
	return nil
}

// next takes a budget that waits.
func (r *Recount) next() (id int64, ok bool) {
	for _, from := range []*[]int64{&r.urgent, &r.queue} {
		for len(*from) > 0 {
			id, *from = (*from)[0], (*from)[1:]
			if _, waits := r.waiting[id]; waits {
				return id, true
			}
		}
	}
	return 0, false
}

// seed is of the marks.
var seed = maphash.MakeSeed()

// markOf is another number once something was deducted, returned or moved.
func markOf(b *bucket.Book) uint64 {
	f := &b.Figures
	return maphash.Comparable(seed, [...]int64{b.Entries, f.Total, f.Unfunded, f.Undistributed,
		f.Quarantined, f.Forfeited, f.Remaining, f.Unsettled, f.Held, f.Used, f.Returning})
}

// RunOnce counts budgets that wait, as many as the rate allows. A budget with very many rows is
// counted at once, in one snapshot, and paid for by a rest. Error: Unavailable.
func (r *Recount) RunOnce(ctx context.Context) error {
	now := r.clock.Now()
	if !r.last.IsZero() {
		grown := int64(float64(r.Rows) * max(now.Sub(r.last), 0).Seconds())
		r.credit = min(r.credit+grown, int64(r.Rows))
	} else {
		r.credit = int64(r.Rows)
	}
	r.last = now
	for r.credit > 0 && ctx.Err() == nil {
		id, ok := r.next()
		if !ok {
			break
		}
		if err := r.count(ctx, id); err != nil {
			return err
		}
	}
	return nil
}

// count compares the columns of a budget with all of its rows.
func (r *Recount) count(ctx context.Context, id int64) error {
	a, found, err := r.look(ctx, id)
	r.credit -= a.Rows + leastCost
	if err != nil {
		r.queue = append(r.queue, id)
		return r.failed(err)
	}
	if len(found) > 0 {
		r.act(ctx, &a, found)
	}
	if len(r.known) >= mostKnown {
		clear(r.known)
	}
	r.known[id] = r.waiting[id]
	delete(r.waiting, id)
	return nil
}
