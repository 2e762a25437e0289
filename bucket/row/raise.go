package row

import (
	"time"

	"github.com/budgetd/budgetd/bucket"
)

// raise asks for a filter's content to be compared with SQL.
type raise struct {
	partition *partition
	bucket    int64
	fill      int64 // fill of the content
	wrong     bool  // SQL had a different O
}

// mostRaiseWait bounds the back-off between two raises of one bucket's fill, in multiples of
// RaiseEvery.
const mostRaiseWait = 64

// raise replaces the content of a bucket's filter if it is wrong, and compares it if its fill is
// above the one this node knows. It does so at most once per RaiseEvery, and less often for a
// bucket whose content keeps being wrong.
func (s *Service) raise(bk *bucket.Bucket, fill int64, wrong bool) {
	l := s.partitionOf(bk.Partition)
	if l == nil {
		return
	}
	now := s.clock.Now()
	l.mu.Lock()
	c := l.content(bk.ID, bk.Epoch.Fill)
	due := c.mayRaise(now, s.set.RaiseEvery)
	if wrong {
		c.wrong.Store(!due) // the next take after it is due raises it
	}
	l.mu.Unlock()
	if due {
		s.raises.Add(raise{partition: l, bucket: bk.ID, fill: fill, wrong: wrong})
	}
}

// mayRaise reports whether the fill may be raised now. If so, it starts the next back-off.
func (c *content) mayRaise(now time.Time, every time.Duration) bool {
	if now.Before(c.raiseAt) {
		return false
	}
	const calm = 4 // waits without a raise reset the back-off
	if c.raiseWait == 0 || now.Sub(c.raiseAt) > calm*c.raiseWait {
		c.raiseWait = every
	} else {
		c.raiseWait = min(2*c.raiseWait, mostRaiseWait*every)
	}
	c.raiseAt = now.Add(c.raiseWait)
	return true
}

// raiseAll compares contents with SQL and raises the fills of wrong ones.
func (s *Service) raiseAll(all []raise) {
	ctx, cancel := s.bounded()
	defer cancel()
	buckets := make([]int64, len(all))
	for i, r := range all {
		buckets[i] = r.bucket
	}
	levels, err := s.lookup.Standings(ctx, buckets)
	if err != nil {
		s.failed("sql", err)
		return
	}
	var told []bucket.Level
	for _, r := range all {
		level, known := levels[r.bucket]
		if known && r.fill >= level.Fill && (r.wrong || r.fill > level.Fill) {
			level.Fill = r.fill
			if level, err = s.lookup.RaiseFill(ctx, level); err != nil {
				s.failed("sql", err)
				continue
			}
		}
		if known {
			told = append(told, level)
		}
	}
	s.setFilters(told)
}
