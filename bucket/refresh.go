package bucket

import (
	"cmp"
	"context"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/budgetd/budgetd/budget"
)

// check is a caller that waits until a cached budget is fresh.
type check struct {
	entry *cached
	done  chan error
}

// freshen waits until the versions of a budget were compared with the database, or until Fresh
// serves it without. Callers share statements.
func (c *Budgets) freshen(ctx context.Context, entry *cached, ref BudgetRef) (*Budget, error) {
	const patience = 100 * time.Millisecond
	one := &check{entry: entry, done: make(chan error, 1)}
	c.checks.Add(one)
	again := time.NewTicker(patience)
	defer again.Stop()
	for {
		select {
		case err := <-one.done:
			if b := c.Fresh(ref); b != nil {
				return b, nil
			}
			if err != nil {
				return nil, err
			}
			return c.load(ctx, ref)
		case <-again.C:
			if b := c.Fresh(ref); b != nil {
				return b, nil
			}
		case <-ctx.Done():
			return nil, &budget.Error{Code: budget.Unavailable, Op: "find", Err: ctx.Err(),
				Message: "the definition could not be read in time", Reason: budget.ReasonDatabaseDown}
		}
	}
}

// runChecks compares the budgets that callers wait for, together.
func (c *Budgets) runChecks(checks []*check) {
	entries := make([]*cached, len(checks))
	for i, one := range checks {
		entries[i] = one.entry
	}
	err := c.compare(entries)
	for _, one := range checks {
		one.done <- err
	}
}

// refresh compares all budgets that were used recently. After a failure no other refresh begins for
// a while.
func (c *Budgets) refresh() {
	const calm = 200 * time.Millisecond
	defer c.refreshing.Store(false)
	now := c.now()
	c.refreshes++
	var used []*cached
	for _, entry := range slices.Concat(c.byID.Values(), c.byName.Values()) {
		if entry.refresh != c.refreshes && now-entry.usedAt.Load() < int64(idleAfter) {
			entry.refresh = c.refreshes
			used = append(used, entry)
		}
	}
	for chunk := range slices.Chunk(used, versionsChunk) {
		if err := c.compare(chunk); err != nil {
			c.failed(err)
			c.calmUntil.Store(c.now() + int64(calm))
			return
		}
	}
}

// compare reads the sum of the versions of budgets in one statement. If it is another than that of
// the entries, it reads the versions in another statement, and each budget that has changed. An
// entry whose budget cannot be read keeps its age.
func (c *Budgets) compare(entries []*cached) error {
	ctx, cancel := context.WithTimeout(context.Background(), readTime)
	defer cancel()
	at := c.now()
	ids, known, sound := summed(entries)
	if len(ids) > 1 && sound {
		c.silence.asked(at)
		exist, sum, err := c.definitions.VersionSum(ctx, ids)
		if c.silence.heard(c.now(), err); err != nil {
			return err
		}
		if exist == len(ids) && sum == known {
			for _, entry := range entries {
				entry.noteCheck(at)
			}
			return nil
		}
	}
	c.silence.asked(c.now())
	versions, err := c.definitions.Versions(ctx, ids)
	if c.silence.heard(c.now(), err); err != nil {
		return err
	}
	for _, entry := range entries {
		v, exists := versions[entry.id]
		b := entry.value.Load()
		switch {
		case !exists:
			c.forget(entry)
			entry.checkedAt.Store(0)
		case v.Definition == b.Version && v.List == b.ListVersion:
			entry.noteCheck(at)
		case entry.checkedAt.Load() < at:
			entry.changed.Store(true)
			if _, err := c.reload(ctx, entry); err != nil {
				c.failed(err)
			}
		}
	}
	return nil
}

// silence tells whether the database answers the statements of comparisons. Instants are
// nanoseconds since Budgets.base. The zero value says that it does.
type silence struct {
	// since is when the first one began that was not answered, if none was answered since, and
	// otherwise 0.
	since atomic.Int64

	mu       sync.Mutex
	inTheAir int
	failedAt int64 // when the last one that failed ended
}

// asked notes that a statement begins. What failed more than a second ago says nothing about now.
func (s *silence) asked(at int64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.since.Load() == 0 || s.inTheAir == 0 && at-s.failedAt >= int64(freshness) {
		s.since.Store(at)
	}
	s.inTheAir++
}

// heard notes that a statement ended.
func (s *silence) heard(at int64, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.inTheAir--
	if err == nil {
		s.since.Store(0)
	} else {
		s.failedAt = at
	}
}

// lasts reports whether the database does not answer now.
func (s *silence) lasts(now int64) bool {
	if s.since.Load() == 0 {
		return false
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	since := s.since.Load()
	return since != 0 && (s.failedAt >= since && now-s.failedAt < int64(freshness) ||
		s.inTheAir > 0 && now-since >= int64(freshness))
}

// summed sorts entries, and returns their ids and the sums of their versions. It reports whether
// entries of the same budget have the same version.
func summed(entries []*cached) (ids []int64, sum Version, sound bool) {
	slices.SortFunc(entries, func(a, b *cached) int { return cmp.Compare(a.id, b.id) })
	ids, sound = make([]int64, 0, len(entries)), true
	var last Version
	for _, entry := range entries {
		b := entry.value.Load()
		v := Version{b.Version, b.ListVersion}
		if n := len(ids); n > 0 && ids[n-1] == entry.id {
			sound = sound && v == last
			continue
		}
		ids, last = append(ids, entry.id), v
		sum.Definition += v.Definition
		sum.List += v.List
	}
	return ids, sum, sound
}

// noteCheck records that a comparison that began at an instant found no change.
func (e *cached) noteCheck(at int64) {
	for {
		old := e.checkedAt.Load()
		if old >= at || e.checkedAt.CompareAndSwap(old, at) {
			return
		}
	}
}
