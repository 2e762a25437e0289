package memstore

import (
	"context"

	"github.com/budgetd/budgetd/bucket"
	"github.com/budgetd/budgetd/budget"
)

// state is the state of an entry.
type state int

const (
	absent state = iota
	opened
	closed
	moving
	copying
	copied
)

// entry is a bucket's figures in one epoch.
type entry struct {
	epoch                         int64
	state                         state
	balance, taken, given, grants int64
	attempt                       string // of the copy
}

// put stores an entry and updates the bucket's newest epoch.
func (l *partition) put(bucketID int64, e entry) {
	l.entries[bucketID] = e
	l.newest[bucketID] = max(l.newest[bucketID], e.epoch)
}

// Open implements bucket.Entries.
func (s *Store) Open(_ context.Context, m bucket.Memory,
	openings []bucket.Opening) ([]bucket.Entry, error) {
	return with(s, "open", m, func(l *partition) ([]bucket.Entry, error) {
		return figures(openings, func(o bucket.Opening) (bucket.Verdict, entry) {
			e := l.entries[o.Bucket]
			switch {
			case l.newest[o.Bucket] > o.Epoch:
				return bucket.Closed, e
			case e.epoch == o.Epoch && e.state == moving:
				return bucket.Moving, e
			case e.epoch == o.Epoch && e.state != opened:
				return bucket.Closed, e
			case e.epoch == o.Epoch:
				return bucket.Accepted, e
			case l.newest[o.Bucket] == o.Epoch:
				return bucket.Lost, e
			case e.state == copying, o.CopyOf > 0 && (e.epoch != o.CopyOf || e.state != copied):
				return bucket.Moving, e
			}
			e = entry{epoch: o.Epoch, state: opened}
			l.put(o.Bucket, e)
			return bucket.Accepted, e
		}), nil
	})
}

// Grant implements bucket.Entries.
func (s *Store) Grant(_ context.Context, m bucket.Memory,
	grants []bucket.StoreGrant) ([]bucket.Entry, error) {
	return with(s, "grant", m, func(l *partition) ([]bucket.Entry, error) {
		return figures(grants, func(g bucket.StoreGrant) (bucket.Verdict, entry) {
			e := l.entries[g.Bucket]
			switch {
			case e.epoch > g.Epoch,
				e.epoch < g.Epoch && l.newest[g.Bucket] > g.Epoch,
				e.epoch == g.Epoch && e.state == closed:
				return bucket.Closed, e
			case e.epoch < g.Epoch:
				return bucket.Lost, e
			case e.state != opened:
				return bucket.Moving, e
			case g.Number > e.grants+1:
				return bucket.Gap, e
			case g.Number <= e.grants:
				return bucket.Accepted, e
			case e.balance+g.Amount > budget.MaxAmount:
				return bucket.Broken, e
			}
			e.balance, e.grants = e.balance+g.Amount, g.Number
			l.put(g.Bucket, e)
			return bucket.Accepted, e
		}), nil
	})
}

// Close implements bucket.Entries.
func (s *Store) Close(_ context.Context, m bucket.Memory, refs []bucket.Ref,
	moves bool) ([]bucket.Entry, error) {
	return with(s, "close", m, func(l *partition) ([]bucket.Entry, error) {
		return figures(refs, func(r bucket.Ref) (bucket.Verdict, entry) {
			e, to := l.entries[r.Bucket], closed
			if moves {
				to = moving
			}
			switch {
			case l.newest[r.Bucket] > r.Epoch,
				e.epoch == r.Epoch && (e.state == copying || e.state == copied):
				return bucket.Closed, e
			case e.epoch == r.Epoch && e.state != moving && (e.state == opened || moves):
				e.state = to
			case e.epoch != r.Epoch && l.newest[r.Bucket] == r.Epoch:
				return bucket.Lost, e
			case e.epoch != r.Epoch:
				e = entry{epoch: r.Epoch, state: to}
			}
			l.put(r.Bucket, e)
			return bucket.Accepted, e
		}), nil
	})
}

// Read implements bucket.Entries.
func (s *Store) Read(_ context.Context, m bucket.Memory,
	refs []bucket.Ref) ([]bucket.Entry, error) {
	return with(s, "read", m, func(l *partition) ([]bucket.Entry, error) {
		out := figures(refs, func(r bucket.Ref) (bucket.Verdict, entry) {
			e := l.entries[r.Bucket]
			switch {
			case e.state == absent && l.newest[r.Bucket] == r.Epoch:
				return bucket.Lost, e
			case e.epoch != r.Epoch:
				return bucket.NotFound, e
			}
			return standingOf(e), e
		})
		for i, r := range refs {
			out[i].Late = l.late[epochName{r.Bucket, r.Epoch}].units
		}
		return out, nil
	})
}

// standingOf returns the verdict on an existing entry.
func standingOf(e entry) bucket.Verdict {
	switch e.state {
	case opened:
		return bucket.Accepted
	case closed:
		return bucket.Closed
	case moving, copying, copied:
		return bucket.Moving
	}
	return bucket.Lost
}

// figures returns the verdict of each element, with its figures if it has any.
func figures[T any](all []T, each func(T) (bucket.Verdict, entry)) []bucket.Entry {
	out := make([]bucket.Entry, len(all))
	for i, x := range all {
		verdict, e := each(x)
		out[i].Verdict = verdict
		if verdict != bucket.Lost && verdict != bucket.Broken && verdict != bucket.NotFound {
			out[i] = bucket.Entry{Verdict: verdict, Epoch: e.epoch, Balance: e.balance, Taken: e.taken,
				GivenBack: e.given, LastGrant: e.grants}
		}
	}
	return out
}
