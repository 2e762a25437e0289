package bucket

import (
	"context"
	"maps"

	"github.com/budgetd/budgetd/internal/safeguard"
)

// A request id that was cancelled before it had an effect is void for ever, and in store mode "accepted"
// is said before the ledger, which knows that, is asked (I4, I7). Whoever cancels leaves a void record in
// every epoch that there is, and it stays as long as the epoch. What was cancelled before an epoch began
// does not change any more: every node reads it once, and asks the ledger about the ids that are among
// it. Neither needs a clock, and an id that nobody cancelled costs no call of SQL.

// voids are the ids of a budget that were cancelled before they had an effect, as one node knows them.
// They are not changed once they are made.
type voids struct {
	// covers is, by bucket, the newest epoch of which everything that was cancelled before it is here.
	covers map[int64]int64
	ids    map[string]struct{}
	last   int64 // the number of the last one read: see Quarantines.Voids
	// tooMany: they are more than mostVoids, so ids is empty and any id may be one of them.
	tooMany bool
}

// mostVoids is how many cancelled ids of one budget a node remembers; voidsPage how many it reads at
// once.
const mostVoids, voidsPage = 100_000, 5_000

// maybeVoid reports whether an id may have been cancelled before a bucket's epoch began: the ledger knows.
// b is a definition with that epoch. Unavailable when that cannot be read.
func (s *Service) maybeVoid(ctx context.Context, entry *cached, b *Budget, bk *Bucket, id string) (bool, error) {
	if safeguard.Off(safeguard.OlderVoids) {
		return false, nil
	}
	v := entry.voids.Load()
	if v == nil || v.covers[bk.ID] < bk.Epoch.Number {
		var err error
		if v, err = s.readVoids(ctx, entry, b, bk); err != nil {
			return false, err
		}
	}
	_, found := v.ids[id]
	return found || v.tooMany, nil
}

// readVoids reads what was cancelled since it was last read. What it has read when an error ends it is
// kept.
func (s *Service) readVoids(ctx context.Context, entry *cached, b *Budget, bk *Bucket) (*voids, error) {
	leave, err := s.enterFor(ctx, reading{"voids", entry.id})
	if err != nil {
		return nil, err
	}
	defer leave()
	old := entry.voids.Load()
	switch {
	case old == nil:
		old = &voids{}
	case old.covers[bk.ID] >= bk.Epoch.Number:
		return old, nil
	}
	next := old.copy()
	for full := true; full; {
		page, err := s.sql.Voids(ctx, entry.id, next.last, voidsPage)
		if err != nil {
			entry.voids.Store(next)
			return nil, s.sqlFailed(err)
		}
		next.add(page)
		full = len(page) == voidsPage
	}
	for i := range b.Buckets {
		at := &b.Buckets[i]
		next.covers[at.ID] = max(next.covers[at.ID], at.Epoch.Number)
	}
	entry.voids.Store(next)
	return next, nil
}

func (v *voids) copy() *voids {
	next := &voids{covers: map[int64]int64{}, ids: map[string]struct{}{}, last: v.last, tooMany: v.tooMany}
	maps.Copy(next.covers, v.covers)
	maps.Copy(next.ids, v.ids)
	return next
}

// add takes the next ids, as listed.
func (v *voids) add(page []string) {
	v.last += int64(len(page))
	if v.tooMany = v.tooMany || v.last > mostVoids; v.tooMany {
		clear(v.ids)
		return
	}
	for _, id := range page {
		v.ids[id] = struct{}{}
	}
}
