package audit

import (
	"context"
	"hash/maphash"
	"time"

	"github.com/budgetd/budgetd/bucket"
)

const (
	// leastCost is added to the rows of a budget as the cost of its dozen statements, which take a
	// database several milliseconds.
	leastCost = 200
	// mostKnown bounds the remembered budgets. The queues hold at most twice as many ids.
	mostKnown = 1 << 17
	// recountAfter is when a budget without visible changes is counted again.
	recountAfter = time.Hour
)

// Recount compares the columns of budgets with all of their rows in the background. It counts
// budgets in which something has changed, including the end of an epoch, and every other budget
// from time to time. On average it reads Rows rows per second. It learns of changes from the
// snapshots of a pass. Only one goroutine may use it.
type Recount struct {
	*Service
	// Rows is how many rows are read per second, on average.
	Rows int

	known map[int64]counted
	// waiting has the budgets to be counted. Those in urgent come before those in queue. An id that is
	// in a queue but not in waiting is skipped.
	waiting       map[int64]counted
	urgent, queue []int64
	credit        int64
	last          time.Time
}

// counted is the state of a budget when it was last counted.
type counted struct {
	mark uint64
	at   time.Time
}

// Begin does nothing.
func (r *Recount) Begin() {}

// End does nothing.
func (r *Recount) End() {}

// Page queues the budgets that have changed since they were last counted. Budgets that this node
// has seen change come before those that it has not counted yet.
func (r *Recount) Page(_ context.Context, snapshots []bucket.Snapshot) error {
	now := r.clock.Now()
	if r.waiting == nil {
		r.waiting, r.known = map[int64]counted{}, map[int64]counted{}
	}
	for i := range snapshots {
		id, mark := snapshots[i].ID, markOf(&snapshots[i])
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
			continue // the next pass queues it
		case live:
			r.urgent = append(r.urgent, id)
		case !waits:
			r.queue = append(r.queue, id)
		}
		r.waiting[id] = counted{mark, now}
	}
	return nil
}

// next removes and returns the next waiting budget.
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

// seed is the seed of the hashes in markOf.
var seed = maphash.MakeSeed()

// markOf returns a hash that changes when something was deducted, returned or moved.
func markOf(b *bucket.Snapshot) uint64 {
	f := &b.Figures
	return maphash.Comparable(seed, [...]int64{b.Entries, f.Total, f.Unfunded, f.Undistributed,
		f.Quarantined, f.Forfeited, f.InBuckets, f.Unsettled, f.Held, f.Used, f.Returning, f.Allocated})
}

// RunOnce counts as many waiting budgets as the rate allows. A budget with very many rows is
// counted at once, in one snapshot, and followed by a longer pause. Error: Unavailable.
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
