package counter

import (
	"context"
	"slices"

	"github.com/budgetd/budgetd/bucket"
	"github.com/budgetd/budgetd/ledger"
)

// Compare is audit 3: it compares the entries of a budget's open epochs with SQL. Within the store grants
// and what was given back must be balance and what was taken, in one atomic read each; SQL's sums must not
// be above the store's. found was seen twice. unchecked are the keys of buckets whose store could not be
// read just now. Error: Unavailable.
func (s *Service) Compare(ctx context.Context, b *bucket.Budget) (found []ledger.Discrepancy,
	unchecked []string, err error) {
	for again := range 2 {
		// SQL is read before the stores: what is counted in between only makes theirs larger.
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

// compare looks once.
func (s *Service) compare(ctx context.Context, b *bucket.Budget) (found []ledger.Discrepancy,
	unchecked []string, err error) {
	byLane := map[bucket.Lane][]*bucket.Bucket{}
	for i := range b.Buckets {
		if bk := &b.Buckets[i]; bk.Epoch.Status == ledger.Open {
			byLane[bk.Lane] = append(byLane[bk.Lane], bk)
		}
	}
	for name, list := range byLane {
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
		granted, err := s.ledger.Moves.Granted(ctx, refs, upTo)
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

// entries reads what a lane has of buckets; away: it cannot be read now.
func (s *Service) entries(ctx context.Context, name bucket.Lane, list []*bucket.Bucket) (
	entries []bucket.Entry, away bool) {
	l := s.laneOf(name)
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
		l.failed(m, err)
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
	case bucket.Closed, bucket.Moving: // SQL was read before it ended
		return nil
	default:
		add("entry in the store", bk.Epoch.Outstanding, 0)
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
