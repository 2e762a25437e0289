package memstore

import (
	"context"

	"github.com/budgetd/budgetd/bucket"
	"github.com/budgetd/budgetd/budget"
)

// content is the filter's content for a bucket.
type content struct{ fill, balance int64 }

// Bounds of valid fills.
const (
	maxFill = 1 << 52
	farFill = 1 << 32 // above SQL's fill
)

// plausible reports whether a content can belong to a bucket with that fill in SQL.
func (c content) plausible(fill int64) bool {
	return c.fill >= 0 && c.fill <= maxFill && c.fill <= fill+farFill && c.balance >= 0 &&
		c.balance <= budget.MaxAmount
}

// Set implements bucket.Filter.
func (s *Store) Set(_ context.Context, of bucket.Partition, levels []bucket.Level) error {
	_, err := faulty(s, "set", func() (struct{}, error) {
		s.mu.Lock()
		defer s.mu.Unlock()
		l, err := s.at("set", of)
		if err != nil {
			return struct{}{}, err
		}
		for _, x := range levels {
			c, known := l.contents[x.Bucket]
			switch {
			case !known || !c.plausible(x.Fill) || c.fill < x.Fill-1:
				c = content{x.Fill, x.Outstanding}
			case c.fill == x.Fill-1:
				if c = (content{x.Fill, c.balance + x.Added}); c.balance > budget.MaxAmount {
					c.balance = x.Outstanding
				}
			}
			l.contents[x.Bucket] = c
		}
		return struct{}{}, nil
	})
	return err
}

// Take implements bucket.Filter.
func (s *Store) Take(_ context.Context, of bucket.Partition,
	takes []bucket.Take) ([]bucket.Taken, error) {
	do := func() ([]bucket.Taken, error) {
		s.mu.Lock()
		defer s.mu.Unlock()
		l, err := s.at("take", of)
		if err != nil {
			return nil, err
		}
		out := make([]bucket.Taken, len(takes))
		for i, t := range takes {
			out[i] = l.take(t)
		}
		return out, nil
	}
	s.faults.mu.Lock()
	decide := s.faults.decide
	s.faults.mu.Unlock()
	if decide == nil {
		return do()
	}
	fault := s.faults.next("take", func() { _, _ = do() })
	switch fault {
	case Invent:
		return s.invented(takes), nil
	case HoldBack, LoseRequest, LoseReply:
		if fault == LoseReply {
			_, _ = do()
		}
		return nil, budget.Refuse(budget.OutcomeUnknown, "take", "the filter did not answer")
	case Repeat:
		_, _ = do()
	}
	return do()
}

// take executes one take.
func (l *partition) take(t bucket.Take) bucket.Taken {
	out := bucket.Taken{Fits: make([]bool, len(t.Amounts))}
	c, known := l.contents[t.Bucket]
	if known && !c.plausible(t.Fill) {
		delete(l.contents, t.Bucket)
		known = false
	}
	if !known || c.fill < t.Fill {
		out.Stale = true
		return out
	}
	c.balance = min(c.balance+t.Back, budget.MaxAmount)
	for j, amount := range t.Amounts {
		if out.Fits[j] = amount <= c.balance; out.Fits[j] {
			c.balance -= amount
		}
	}
	l.contents[t.Bucket] = c
	out.Fill, out.Balance = c.fill, c.balance
	return out
}
