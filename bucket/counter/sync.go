package counter

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/budgetd/budgetd/bucket"
	"github.com/budgetd/budgetd/bucket/store"
	"github.com/budgetd/budgetd/budget"
	"github.com/budgetd/budgetd/ledger"
)

// SyncEvery is the interval of SyncLoop, with jitter. A figure in an answer is at most that old,
// plus the age of its own read: at most 1 s together. If more than manyChanged buckets of a
// partition changed, a row of SQL each, the next run begins syncWithMany after the last one, so
// that SQL works for each of them once a second.
const (
	SyncEvery    = 500 * time.Millisecond
	syncWithMany = 900 * time.Millisecond
	manyChanged  = 1000
)

// sync records in SQL what the partition counted since the last sync, unless a successful sync
// began after since. It first compares the identity of the store, because a resync from another
// master keeps connections. Errors: Unavailable, OutcomeUnknown; the next sync records what is
// missing.
func (l *partition) sync(ctx context.Context, since time.Time) error {
	l.syncing.Lock()
	defer l.syncing.Unlock()
	if l.syncedAt.After(since) {
		return nil
	}
	began := l.s.clock.Now()
	m, err := l.memory(ctx)
	if err != nil {
		return err
	}
	asked := l.s.clock.Now()
	identity, err := l.store.Identity(ctx, l.name)
	if err != nil {
		return storeDown(l.name, err)
	}
	l.measured(l.s.clock.Now().Sub(asked))
	if identity != m.Identity {
		l.forget(m)
		if m, err = l.memory(ctx); err != nil {
			return err
		}
	}
	if err := l.readAll(ctx, m); err != nil {
		_ = l.failed(m, err)
		if errors.Is(err, bucket.ErrOtherMemory) {
			l.forget(m)
			return storeDown(l.name, err)
		}
		return err
	}
	l.syncedAt = began
	return nil
}

// measured notes the time of a round trip to the store, of which a busy machine shows too much: the
// least of the last ones, which a longer one replaces slowly.
func (l *partition) measured(took time.Duration) {
	const slowly = 16
	known := time.Duration(l.away.Load())
	if known > 0 && took > known {
		took = known + (took-known)/slowly
	}
	l.away.Store(int64(took))
}

// readAll is read, and also ends the epochs whose ends must precede late sums.
func (l *partition) readAll(ctx context.Context, m *remembered) error {
	early, err := l.read(ctx, m)
	if err != nil || len(early) == 0 {
		return err
	}
	if err := l.s.push(ctx, early, -1); err != nil {
		return err
	}
	if early, err = l.read(ctx, m); err == nil && len(early) > 0 {
		err = budget.Refuse(budget.Unavailable, "sync", "the epoch of bucket %d has not ended yet; "+
			"units that were given back wait for that", early[0])
	}
	return err
}

// read records the changes of the partition in SQL, except those of early buckets: see Recorded.
func (l *partition) read(ctx context.Context, m *remembered) (early []int64, err error) {
	l.changed = 0
	for cursor := ""; ; {
		sums, next, err := l.store.Changed(ctx, m.Memory, cursor)
		if err != nil {
			return nil, err
		}
		l.changed += len(sums)
		if len(sums) > 0 {
			done, err := l.record(ctx, m, sums)
			if err != nil {
				return nil, err
			}
			early = append(early, done.Early...)
		}
		if next == "" {
			return early, nil
		}
		cursor = next
	}
}

// record writes sums to SQL and removes those that SQL has from the store's list of changes.
func (l *partition) record(ctx context.Context, m *remembered, sums []bucket.Sum) (
	done store.Recorded, err error) {
	if done, err = l.s.recorder.Record(ctx, m.Memory, sums); err != nil {
		return done, err
	}
	l.measure(sums)
	if err := l.store.Acknowledge(ctx, m.Memory, done.Known); err != nil {
		return done, err
	}
	for _, ref := range done.Lost {
		err := l.s.ledger.Lost(ctx, m.Memory, ref, "its entry in the store is missing")
		if err != nil {
			return done, err
		}
	}
	for _, ref := range done.Behind {
		if err := l.compare(ctx, m, ref); err != nil {
			return done, err
		}
	}
	return done, nil
}

// compare reads SQL's counters of an epoch and then the store's. If the store's are lower, its
// memory is an older one and is given up.
func (l *partition) compare(ctx context.Context, m *remembered, ref bucket.Ref) error {
	live, err := l.s.ledger.Live(ctx, l.name, ref.Bucket-1, 1)
	if err != nil || len(live) == 0 || live[0].Bucket != ref.Bucket ||
		live[0].Number != ref.Epoch ||
		live[0].Incarnation < m.since {
		return err
	}
	entries, err := l.store.Read(ctx, m.Memory, []bucket.Ref{ref})
	if err != nil {
		return err
	}
	e := entries[0]
	if (e.Verdict == bucket.Accepted || e.Verdict == bucket.Closed) &&
		(e.Taken < live[0].Taken || e.GivenBack < live[0].GivenBack) {
		l.giveUp(m, fmt.Sprintf("bucket %d took %d, SQL knows of %d", ref.Bucket, e.Taken, live[0].Taken))
		return bucket.ErrOtherMemory
	}
	return nil
}

// syncBudget syncs the partitions of a budget whose last sync began before since. It returns the
// errors of those that cannot be synced before patience ends: SQL's O is an upper bound for them.
func (s *Service) syncBudget(ctx, patience context.Context, b *bucket.Budget,
	since time.Time) map[bucket.Partition]error {
	seen := map[bucket.Partition]bool{}
	for i := range b.Buckets {
		seen[b.Buckets[i].Partition] = true
	}
	return s.sideBySide(ctx, patience, slices.Collect(maps.Keys(seen)),
		func(ctx context.Context, name bucket.Partition) error {
			l := s.partitionOf(name)
			if l == nil {
				return notConfigured(name)
			}
			err := l.sync(ctx, since)
			s.failed("store", err)
			return err
		})
}

// SyncLoop keeps SQL at most a second behind the partitions.
type SyncLoop struct {
	s          *Service
	partitions []bucket.Partition
	began      time.Time // of the last run
	many       bool      // it found more than manyChanged buckets of a partition
}

// RunOnce syncs every partition, tells its store what Push could not tell it, ends lost epochs and
// removes expired records. It returns the first error, after it has handled the other partitions.
func (y *SyncLoop) RunOnce(ctx context.Context) error {
	const atOnce, sweepSteps = 8, 4
	began := y.s.clock.Now()
	if age := began.Sub(y.began); y.many && age >= 0 && age < syncWithMany {
		return nil
	}
	y.began, y.many = began, false
	for _, st := range y.s.states.All() {
		st.Marked.Store(st.Spent.Load())
	}
	var all errgroup.Group
	all.SetLimit(atOnce)
	for _, name := range y.partitions {
		l := y.s.partitionOf(name)
		if l == nil {
			continue
		}
		all.Go(func() error {
			err := l.sync(ctx, began)
			y.s.observer.Lag(name, l.lag())
			if err != nil {
				return err
			}
			if err := y.s.raise(ctx, name); err != nil {
				return err
			}
			m, err := l.memory(ctx)
			if err == nil {
				err = l.endNewlyLost(ctx, m)
			}
			for more := true; err == nil && more; {
				for range sweepSteps {
					if more, err = l.store.Sweep(ctx, m.Memory); err != nil || !more {
						return err
					}
				}
				more = false
			}
			return err
		})
	}
	err := all.Wait()
	y.s.asked.Store(true)
	for _, name := range y.partitions {
		y.many = y.many || y.s.partitionOf(name).changedMany()
	}
	if err != nil {
		return err // SQL may not have what was deducted
	}
	for _, st := range y.s.states.All() {
		st.InSQL.Store(st.Marked.Load())
	}
	return nil
}

// changedMany reports whether the last sync found more than manyChanged buckets.
func (l *partition) changedMany() bool {
	if l == nil {
		return false
	}
	l.syncing.Lock()
	defer l.syncing.Unlock()
	return l.changed > manyChanged
}

// lag returns how long ago the last successful sync began.
func (l *partition) lag() time.Duration {
	l.syncing.Lock()
	defer l.syncing.Unlock()
	if l.syncedAt.IsZero() {
		return 0
	}
	return l.s.clock.Now().Sub(l.syncedAt)
}

// Compare is audit 3. It syncs a budget, so that SQL has every deduction that was answered before
// the call, except on partitions that cannot be reached. Then it compares the entries of the open
// epochs. In the store, grants plus given back must equal balance plus taken, in one atomic read;
// SQL's sums must not be above the store's. found lists discrepancies that were seen twice.
// unchecked lists the keys of buckets whose store could not be read. Error: Unavailable.
func (s *Service) Compare(ctx context.Context, b *bucket.Budget) (found []ledger.Discrepancy,
	unchecked []string, err error) {
	s.syncBudget(ctx, ctx, b, s.clock.Now())
	for again := range 2 {
		// SQL is read before the stores: deductions in between only make the stores' sums larger.
		fresh, err := s.budgets.Reload(ctx, b.ID)
		if err != nil {
			return nil, nil, err
		}
		now, away, err := s.compare(ctx, fresh)
		if err != nil {
			return nil, nil, err
		}
		unchecked = away
		if again == 0 {
			if found = now; len(found) == 0 {
				break
			}
			continue
		}
		found = slices.DeleteFunc(now, func(d ledger.Discrepancy) bool {
			return !slices.ContainsFunc(found, d.SameFigure)
		})
	}
	return found, unchecked, nil
}

// compare makes one comparison.
func (s *Service) compare(ctx context.Context, b *bucket.Budget) (found []ledger.Discrepancy,
	unchecked []string, err error) {
	byPartition := map[bucket.Partition][]*bucket.Bucket{}
	for i := range b.Buckets {
		if bk := &b.Buckets[i]; bk.Epoch.Status == ledger.Open {
			byPartition[bk.Partition] = append(byPartition[bk.Partition], bk)
		}
	}
	for name, list := range byPartition {
		entries, away := s.entries(ctx, name, list)
		if away {
			for _, bk := range list {
				unchecked = append(unchecked, bk.Key)
			}
			continue
		}
		refs, upTo := make([]bucket.Ref, len(list)), make([]int64, len(list))
		for i, bk := range list {
			refs[i], upTo[i] = bk.Ref(), entries[i].LastGrant
		}
		granted, err := s.ledger.Granted(ctx, refs, upTo)
		if err != nil {
			return nil, nil, err
		}
		for i, bk := range list {
			found = append(found, differ(bk, &entries[i], granted[i])...)
		}
	}
	slices.Sort(unchecked)
	return found, unchecked, nil
}

// entries reads a partition's entries of buckets. away reports that the partition cannot be read
// now.
func (s *Service) entries(ctx context.Context, name bucket.Partition, list []*bucket.Bucket) (
	entries []bucket.Entry, away bool) {
	l := s.partitionOf(name)
	if l == nil {
		return nil, true
	}
	m, err := l.memory(ctx)
	if err != nil {
		return nil, true
	}
	refs := make([]bucket.Ref, len(list))
	for i, bk := range list {
		refs[i] = bk.Ref()
	}
	entries, err = l.store.Read(ctx, m.Memory, refs)
	if err != nil || len(entries) != len(list) {
		_ = l.failed(m, err)
		return nil, true
	}
	return entries, false
}

// differ compares the entry of an epoch that is open in SQL.
func differ(bk *bucket.Bucket, e *bucket.Entry, granted int64) (found []ledger.Discrepancy) {
	add := func(what string, recorded, counted int64) {
		found = append(found, ledger.Discrepancy{Bucket: bk.Key, Epoch: bk.Epoch.Number, What: what,
			Recorded: recorded, Counted: counted})
	}
	switch e.Verdict {
	case bucket.Accepted:
	case bucket.Closed, bucket.Moving: // it ended after SQL was read
		return nil
	default:
		add(ledger.EntryInStore, bk.Epoch.Outstanding, 0)
		return found
	}
	if granted+e.GivenBack != e.Balance+e.Taken {
		add("grants and given back, balance and taken", granted+e.GivenBack, e.Balance+e.Taken)
	}
	if bk.Epoch.Taken > e.Taken {
		add("taken", bk.Epoch.Taken, e.Taken)
	}
	if bk.Epoch.GivenBack > e.GivenBack {
		add("given back", bk.Epoch.GivenBack, e.GivenBack)
	}
	return found
}
