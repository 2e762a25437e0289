package row

import (
	"context"
	"sync"
	"sync/atomic"
	"time"

	"github.com/budgetd/budgetd/bucket"
	"github.com/budgetd/budgetd/bucket/batch"
	"github.com/budgetd/budgetd/bucket/span"
	"github.com/budgetd/budgetd/budget"
)

// Bounds of what a node caches about a partition.
const (
	maxContents = 200_000 // buckets; if there are more, the cache is cleared
	maxSets     = 10_000  // levels that wait to be sent
)

// partition is what a node knows about one partition of an instance with a filter. It may be wrong
// in any way without changing an outcome (I9).
type partition struct {
	s      *Service
	id     bucket.Partition
	filter bucket.Filter
	queue  *batch.Queue[*op]

	down    atomic.Bool
	probeAt atomic.Int64 // unix nanoseconds; when it may be probed again

	mu       sync.Mutex
	contents map[int64]*content
	sets     []bucket.Level

	call     call
	forwards [][]*op // by slot, the operations that go there next
}

// content is what a node knows about the filter's content for one bucket. The partition's mu guards
// it.
type content struct {
	partition *partition
	bucket    int64
	fill      int64 // SQL's, as last read
	shown     int64 // fill of the content that answered last
	back      int64 // units taken from that content and not committed
	// When the fill may be raised or compared again, and the last back-off.
	raiseAt   time.Time
	raiseWait time.Duration
	// wrong says that the content was found wrong while its fill could not be raised yet.
	wrong atomic.Bool
}

// giveBack records units that were taken from a content and not committed. The next take returns
// them.
func (c *content) giveBack(fill, amount int64) {
	c.partition.mu.Lock()
	defer c.partition.mu.Unlock()
	if c.shown == fill && c.back <= budget.MaxAmount-amount {
		c.back += amount
	}
}

// partitionOf returns a partition, or nil if its instance has no filter.
func (s *Service) partitionOf(id bucket.Partition) *partition {
	partitions := s.partitions.Load()
	if partitions != nil {
		if l, known := (*partitions)[id]; known {
			return l
		}
	}
	return s.addPartition(id)
}

func (s *Service) addPartition(id bucket.Partition) *partition {
	s.partitionsMu.Lock()
	defer s.partitionsMu.Unlock()
	all := map[bucket.Partition]*partition{}
	if partitions := s.partitions.Load(); partitions != nil {
		if l, known := (*partitions)[id]; known {
			return l
		}
		for k, v := range *partitions {
			all[k] = v
		}
	}
	var l *partition
	if filter := s.filters[id.Instance]; filter != nil {
		l = &partition{s: s, id: id, filter: filter, contents: map[int64]*content{}}
		l.queue = batch.New(batch.Config[*op]{Run: l.run, Refuse: (*op).Overload, Owner: (*op).Owner,
			Size: s.set.PartitionOperations, Bound: s.set.Queue})
		l.call.index, l.forwards = map[int64]int32{}, make([][]*op, len(s.slots))
	}
	all[id] = l
	s.partitions.Store(&all)
	return l
}

// usable reports whether to ask the partition. A partition that is down is probed at intervals,
// without making a request wait.
func (l *partition) usable(at time.Time) bool {
	if l == nil {
		return false
	}
	if !l.down.Load() {
		return true
	}
	now := at.UnixNano()
	if due := l.probeAt.Load(); now >= due &&
		l.probeAt.CompareAndSwap(due, now+int64(l.s.set.ProbeEvery)) {
		l.queue.Kick()
	}
	return false
}

// setFilters sends levels to the filters of their buckets. Losing one is harmless.
func (s *Service) setFilters(levels []bucket.Level) {
	for _, level := range levels {
		l := s.partitionOf(level.Partition)
		if l == nil || l.down.Load() || !level.Open {
			continue
		}
		l.mu.Lock()
		l.content(level.Bucket, level.Fill).fill = level.Fill
		if len(l.sets) < maxSets {
			l.sets = append(l.sets, level)
		}
		l.mu.Unlock()
		l.queue.Kick()
	}
}

// content returns what is known about a bucket. A new entry starts with a fill of SQL's. The caller
// holds mu.
func (l *partition) content(bucketID, fill int64) *content {
	c := l.contents[bucketID]
	if c == nil {
		if len(l.contents) >= maxContents {
			clear(l.contents)
		}
		c = &content{partition: l, bucket: bucketID, fill: fill, shown: fill}
		l.contents[bucketID] = c
	}
	return c
}

// call holds the parts of one filter call. The next call reuses them.
type call struct {
	ops      []*op
	of       []int32 // index of each operation's take
	takes    []bucket.Take
	contents []*content
	next     []int32 // for each take, the first amount without an answer
	amounts  []int64
	index    map[int64]int32 // of takes, by bucket
}

// run makes one filter call: first Set with the pending levels, then Take. Operations that get
// units continue to their flights.
func (l *partition) run(ops []*op) {
	l.mu.Lock()
	sets := l.sets
	l.sets = nil
	l.mu.Unlock()
	if l.down.Load() {
		l.probe()
		l.bypass(ops)
		return
	}
	if len(sets) > 0 {
		l.set(sets)
	}
	l.prepare(ops)
	if len(l.call.ops) == 0 {
		return
	}
	ctx, end := span.Flight(context.Background(), l.s.tracer, "filter", l.call.ops)
	taken, err := l.take(ctx, l.call.takes, len(l.call.ops))
	end(err)
	if err != nil {
		l.bypass(l.call.ops)
	} else {
		l.handleTaken(taken)
	}
	clear(l.call.ops)
	clear(l.call.contents)
}

// set sends levels to the filter.
func (l *partition) set(levels []bucket.Level) {
	ctx, cancel := context.WithTimeout(context.Background(), l.s.set.FilterTime)
	defer cancel()
	if err := l.filter.Set(ctx, l.id, levels); err != nil {
		l.markDown(err)
	}
}

// take calls the filter. It returns an error if the answer does not fit the question.
func (l *partition) take(ctx context.Context, takes []bucket.Take, operations int) (
	[]bucket.Taken, error) {
	ctx, cancel := context.WithTimeout(ctx, l.s.set.FilterTime)
	defer cancel()
	began := l.s.clock.Now()
	taken, err := l.filter.Take(ctx, l.id, takes)
	l.s.observer.PartitionCall(ctx, l.id, operations, l.s.clock.Now().Sub(began))
	if err == nil && !answered(takes, taken) {
		err = budget.Refuse(budget.Internal, "take", "the filter's answer does not fit the call")
	}
	if err != nil {
		l.markDown(err)
	}
	return taken, err
}

func answered(takes []bucket.Take, taken []bucket.Taken) bool {
	if len(taken) != len(takes) {
		return false
	}
	for i := range taken {
		if !taken[i].Stale && len(taken[i].Fits) != len(takes[i].Amounts) {
			return false
		}
	}
	return true
}

// markDown excludes the partition until it answers a probe.
func (l *partition) markDown(err error) {
	l.s.failed("store", err)
	l.probeAt.Store(l.s.clock.Now().UnixNano() + int64(l.s.set.ProbeEvery))
	l.down.Store(true)
}

// probe calls a partition that is down with a take of nothing.
func (l *partition) probe() {
	l.mu.Lock()
	takes := []bucket.Take{{Bucket: 1, Fill: 1}}
	for _, c := range l.contents {
		takes[0].Bucket, takes[0].Fill = c.bucket, c.fill
		break
	}
	l.mu.Unlock()
	if _, err := l.take(context.Background(), takes, 0); err == nil {
		l.down.Store(false)
	}
}

// bypass forwards operations to their flights without asking the filter.
func (l *partition) bypass(ops []*op) {
	for _, o := range ops {
		o.skip = true
		l.forward(o)
	}
	l.send()
	if len(ops) > 0 {
		l.s.observer.Skipped(len(ops))
	}
}

// forward collects an operation for its flight.
func (l *partition) forward(o *op) {
	i := l.s.slotIndex(o.row.Bucket)
	l.forwards[i] = append(l.forwards[i], o)
}

// send hands the collected operations to their slots.
func (l *partition) send() {
	for i, ops := range l.forwards {
		if len(ops) > 0 {
			l.s.slots[i].queue.AddAll(ops)
			clear(ops)
			l.forwards[i] = ops[:0]
		}
	}
}

// prepare builds the takes of a call, one per bucket.
func (l *partition) prepare(ops []*op) {
	c := &l.call
	c.ops, c.of, c.takes, c.contents = c.ops[:0], c.of[:0], c.takes[:0], c.contents[:0]
	c.next, c.amounts = c.next[:0], c.amounts[:0]
	clear(c.index)
	l.mu.Lock()
	for _, o := range ops {
		if o.Withdrawn() {
			continue
		}
		at, known := c.index[o.row.Bucket]
		if !known {
			at = int32(len(c.takes)) //nolint:gosec // at most PartitionOperations
			c.index[o.row.Bucket] = at
			known := l.content(o.row.Bucket, o.Route.Epoch.Fill)
			c.takes = append(c.takes,
				bucket.Take{Bucket: known.bucket, Fill: known.fill, Back: known.back})
			known.back = 0
			c.contents, c.next = append(c.contents, known), append(c.next, 0)
		}
		c.ops, c.of = append(c.ops, o), append(c.of, at)
		c.next[at]++
	}
	l.mu.Unlock()
	c.arrange()
}

// arrange lays out the amounts contiguously, bucket by bucket, in the order of the operations.
func (c *call) arrange() {
	first := int32(0)
	for i, n := range c.next {
		c.next[i] = first
		first += n
	}
	c.amounts = append(c.amounts, make([]int64, len(c.ops))...)
	for i, o := range c.ops {
		at := c.of[i]
		c.amounts[c.next[at]] = o.Request.Amount
		c.next[at]++
	}
	first = 0
	for i := range c.takes {
		c.takes[i].Amounts = c.amounts[first:c.next[i]:c.next[i]]
		first, c.next[i] = c.next[i], 0
	}
}

// handleTaken forwards the operations that got units and returns the others to their waves.
func (l *partition) handleTaken(taken []bucket.Taken) {
	c := &l.call
	l.mu.Lock()
	for i, known := range c.contents {
		if t := &taken[i]; !t.Stale && t.Fill != known.shown {
			known.shown, known.back = t.Fill, 0
		}
	}
	l.mu.Unlock()
	for i, o := range c.ops {
		t, place := &taken[c.of[i]], c.next[c.of[i]]
		c.next[c.of[i]]++
		wrong := c.contents[c.of[i]].wrong.Load()
		if place == 0 && !t.Stale && (wrong || t.Fill > c.takes[c.of[i]].Fill) {
			l.s.raise(o.Route, t.Fill, wrong)
		}
		switch {
		case t.Stale:
			o.Step, o.Err = stepStale, nil
			o.Back(true)
		case !t.Fits[place]:
			o.Step, o.Err, o.distrust = stepRefused, nil, t.Fill
			o.Back(true)
		default:
			o.took = take{c.contents[c.of[i]], t.Fill}
			l.forward(o)
		}
	}
	l.send()
}
