package memstore

import (
	"context"
	"maps"

	"github.com/budgetd/budgetd/bucket"
	"github.com/budgetd/budgetd/budget"
	"github.com/budgetd/budgetd/internal/safeguard"
)

var _ bucket.Counters = (*Store)(nil)

// counters are what a bucket's lane counts against limits, since an epoch (bucket.Counting.From).
type counters struct {
	// mark is the last mark that an unloading gave.
	mark   int64
	limits map[string]known
	counts map[counterKey]counter
}

// known is what is known of a limit: the version with which it last counted something else, and since when
// all of its counts are here.
type known struct{ changed, since int64 }

type counterKey struct {
	limit   string
	changed int64
	value   string
	// begin is that of a calendar window; 0 for the others.
	begin int64
}

// counter is what is counted for a value. mark is not 0 where it has to be loaded.
type counter struct {
	mark, used int64
	// began is of a first_hit window; slots of a sliding one, by when they began.
	began int64
	slots map[int64]int64
}

func (c *counters) copy() *counters {
	out := &counters{mark: c.mark, limits: maps.Clone(c.limits),
		counts: make(map[counterKey]counter, len(c.counts))}
	for key, n := range c.counts {
		n.slots = maps.Clone(n.slots)
		out.counts[key] = n
	}
	return out
}

func (b *shard) countersOf(from int64) *counters {
	c := b.counters[from]
	if c == nil {
		c = &counters{limits: map[string]known{}, counts: map[counterKey]counter{}}
		if b.counters == nil {
			b.counters = map[int64]*counters{}
		}
		b.counters[from] = c
	}
	return c
}

// counting is the judgement of one operation: what it would leave.
type counting struct {
	counters *counters
	limits   map[string]known
	counts   map[counterKey]counter
}

// judge looks at an operation's limits at an instant of the lane's clock, in ms. verdict is 0 when they allow
// it; then keep counts it.
func (b *shard) judge(o *bucket.Counting, laneNow int64) (verdict bucket.Verdict, told *bucket.Counted, c *counting) {
	now := laneNow - o.Ahead
	told = &bucket.Counted{Now: now, Over: -1}
	c = &counting{counters: b.countersOf(o.From), limits: map[string]known{},
		counts: map[counterKey]counter{}}
	marks, unloaded := make([]int64, len(o.Counts)), false
	for i := range o.Counts {
		n := &o.Counts[i]
		w := n.Window
		limit, heard := c.counters.limits[n.Limit]
		outside := w.Kind == budget.WindowCalendar && (now < w.Begin || now >= w.End)
		if outside || heard && n.Changed < limit.changed {
			return bucket.Outdated, told, c
		}
		if !heard || n.Changed > limit.changed {
			limit = known{changed: n.Changed, since: now + 1} // before may have been in this very ms
			if n.New {
				limit.since = 0
			}
		}
		c.limits[n.Limit] = limit
		at, found := c.counters.counts[keyOf(n)]
		marks[i] = -1
		if mark := at.missing(found, w, now, limit.since); mark >= 0 && !safeguard.Off(safeguard.LoadedCounters) {
			if n.Loaded == nil || n.Loaded.Mark != mark {
				marks[i], unloaded = mark, true
				continue
			}
			at = loaded(n.Loaded)
		}
		c.counts[keyOf(n)] = at.within(w, now)
	}
	if unloaded {
		told.Marks = marks
		return bucket.Unloaded, told, c
	}
	for i := range o.Counts {
		n := &o.Counts[i]
		at := c.counts[keyOf(n)]
		if told.Over < 0 && n.Max != bucket.NoMax && at.used > n.Max-n.Add && !safeguard.Off(safeguard.LimitInStore) {
			told.Over = i
		}
		told.Limits = append(told.Limits, bucket.CountState{Used: at.used, Reset: at.reset(n.Window, told.Now)})
	}
	if told.Over >= 0 {
		return bucket.OverLimit, told, c
	}
	return 0, told, c
}

// hear notes which limits there are, and since when.
func (c *counting) hear() {
	maps.Copy(c.counters.limits, c.limits)
}

// keep counts an operation that was admitted.
func (c *counting) keep(o *bucket.Counting, told *bucket.Counted) {
	c.hear()
	for i := range o.Counts {
		n := &o.Counts[i]
		at := c.counts[keyOf(n)].plus(n.Add, n.Window, told.Now)
		c.counts[keyOf(n)] = at
		c.counters.counts[keyOf(n)] = at
		told.Limits[i] = bucket.CountState{Used: at.used, Reset: at.reset(n.Window, told.Now)}
	}
}

// missing returns the mark that a counter has to be loaded for; -1 when it need not be. since is from when
// on all that is counted is here.
func (n counter) missing(found bool, w bucket.CountWindow, now, since int64) int64 {
	if found {
		if n.mark != 0 {
			return n.mark
		}
		return -1
	}
	begin := w.Begin
	switch w.Kind {
	case budget.WindowSliding:
		begin = now - w.Length - w.Slot // no later than its first slot
	case budget.WindowFirstHit:
		begin = now - w.Length
	}
	if begin < since {
		return 0
	}
	return -1
}

func loaded(from *bucket.Loaded) counter {
	n := counter{used: from.Used, began: from.Began, slots: map[int64]int64{}}
	for _, slot := range from.Slots {
		n.slots[slot.Begin] += slot.Used
	}
	return n
}

// within drops what no longer counts at an instant.
func (n counter) within(w bucket.CountWindow, now int64) counter {
	switch w.Kind {
	case budget.WindowFirstHit:
		if n.began == 0 || now >= n.began+w.Length {
			return counter{began: now}
		}
		n.began = min(n.began, now)
	case budget.WindowSliding:
		slots := map[int64]int64{}
		n.used = 0
		for begin, used := range n.slots {
			if used > 0 && begin+w.Slot > now-w.Length+1 {
				slots[begin] = used
				n.used = capped(n.used, used)
			}
		}
		n.slots = slots
	}
	return n
}

func (n counter) plus(amount int64, w bucket.CountWindow, now int64) counter {
	if w.Kind == budget.WindowSliding {
		slot := now - now%w.Slot
		slots := maps.Clone(n.slots)
		slots[slot] = capped(slots[slot], amount)
		n.slots = slots
	}
	n.used = capped(n.used, amount)
	return n
}

// reset is when the window is over, or, sliding, when the oldest slot leaves it; 0: never.
func (n counter) reset(w bucket.CountWindow, now int64) int64 {
	switch w.Kind {
	case budget.WindowCalendar:
		return w.End
	case budget.WindowFirstHit:
		return n.began + w.Length
	case budget.WindowSliding:
		first := now - now%w.Slot
		for begin := range n.slots {
			first = min(first, begin)
		}
		return first + w.Slot - 1 + w.Length
	}
	return 0
}

// capped is a sum that stops at the largest amount.
func capped(a, b int64) int64 { return min(a+b, budget.MaxAmount) }

func keyOf(n *bucket.Count) counterKey {
	return counterKey{limit: n.Limit, changed: n.Changed, value: n.Value, begin: n.Window.Begin}
}

// unload makes a bucket forget counters.
func (b *shard) unload(o bucket.Unloading) struct{} {
	c := b.countersOf(o.Counting.From)
	for i := range o.Counting.Counts {
		n := &o.Counting.Counts[i]
		if c.limits[n.Limit].changed != n.Changed {
			continue // nothing of it is here
		}
		c.mark++
		c.counts[keyOf(n)] = counter{mark: c.mark}
	}
	return struct{}{}
}

// Unload forgets counters. See bucket.Counters.
func (s *Store) Unload(ctx context.Context, at bucket.Lane, orders []bucket.Unloading) error {
	_, err := answer(ctx, s, "unload", at, orders,
		func(o bucket.Unloading) error { return o.Check() },
		func(o bucket.Unloading) bucket.Ref { return o.Ref },
		func(b *shard, o bucket.Unloading, _ int64) struct{} { return b.unload(o) })
	return err
}
