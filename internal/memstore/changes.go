package memstore

import (
	"cmp"
	"context"
	"slices"
	"strconv"
	"time"

	"github.com/budgetd/budgetd/bucket"
)

// mostChanges is the most sums that one call returns.
const mostChanges = 500

// Changed implements bucket.Changes. The cursor is a position in the order of buckets.
func (s *Store) Changed(_ context.Context, m bucket.Memory,
	cursor string) (sums []bucket.Sum, next string, err error) {
	sums, err = with(s, "changed", m, func(l *partition) ([]bucket.Sum, error) {
		var names []epochName
		for name := range l.changed {
			names = append(names, name)
		}
		slices.SortFunc(names, func(a, b epochName) int {
			return cmp.Or(cmp.Compare(a.bucket, b.bucket), cmp.Compare(a.epoch, b.epoch))
		})
		from, _ := strconv.ParseInt(cursor, 10, 64) // the last bucket returned, or 0
		var out []bucket.Sum
		for i, name := range names {
			if name.bucket <= from {
				continue
			}
			out = append(out, l.sum(name))
			if len(out) >= mostChanges && i+1 < len(names) && names[i+1].bucket > name.bucket {
				next = strconv.FormatInt(name.bucket, 10)
				break
			}
		}
		return out, nil
	})
	return sums, next, err
}

// sum returns the changed sum of an entry or of an ended epoch.
func (l *partition) sum(name epochName) bucket.Sum {
	if name.epoch != 0 {
		late, known := l.late[name]
		out := bucket.Sum{
			Bucket:  name.bucket,
			Epoch:   name.epoch,
			Late:    true,
			LateSum: late.units,
			Verdict: bucket.Accepted,
		}
		if !known {
			out.Verdict = bucket.Lost
		}
		return out
	}
	e := l.entries[name.bucket]
	if e.state == absent {
		return bucket.Sum{Bucket: name.bucket, Epoch: l.newest[name.bucket], Verdict: bucket.Lost}
	}
	return bucket.Sum{
		Bucket:    name.bucket,
		Epoch:     e.epoch,
		Taken:     e.taken,
		GivenBack: e.given,
		Verdict:   standingOf(e),
	}
}

// Acknowledge implements bucket.Changes.
func (s *Store) Acknowledge(_ context.Context, m bucket.Memory, sums []bucket.Sum) error {
	_, err := with(s, "acknowledge", m, func(l *partition) (struct{}, error) {
		for _, x := range sums {
			name := epochName{bucket: x.Bucket}
			if x.Late {
				name.epoch = x.Epoch
			}
			now := l.sum(name)
			if now.Verdict != bucket.Lost && now.Epoch == x.Epoch && now.Taken == x.Taken &&
				now.GivenBack == x.GivenBack &&
				now.LateSum == x.LateSum {
				delete(l.changed, name)
			}
		}
		return struct{}{}, nil
	})
	return err
}

// Sweep implements bucket.Changes in one step.
func (s *Store) Sweep(_ context.Context, m bucket.Memory) (more bool, err error) {
	return with(s, "sweep", m, func(l *partition) (bool, error) {
		nowMS := s.nowMS()
		switch {
		case l.sliceMS > nowMS:
			l.sliceMS = nowMS
		case nowMS-l.sliceMS >= s.config.Window.Milliseconds():
			l.slice, l.sliceMS = l.slice+1, nowMS
			delete(l.records, l.slice-2)
		}
		for name, c := range l.counters {
			if c.expiresMS > 0 && c.expiresMS < nowMS-time.Minute.Milliseconds() {
				delete(l.counters, name)
			}
		}
		for name, late := range l.late {
			if late.slice+2 <= l.slice && !l.changed[name] {
				delete(l.late, name)
			}
		}
		return false, nil
	})
}

// Identity implements bucket.Memories.
func (s *Store) Identity(_ context.Context, of bucket.Partition) (string, error) {
	return faulty(s, "identity", func() (string, error) {
		s.mu.Lock()
		defer s.mu.Unlock()
		l, err := s.at("identify", of)
		if err != nil {
			return "", err
		}
		return l.identity, nil
	})
}

// Marker implements bucket.Memories.
func (s *Store) Marker(_ context.Context, of bucket.Partition, identity string, _ bool) (
	bucket.Marker, error) {
	return faulty(s, "marker", func() (bucket.Marker, error) {
		s.mu.Lock()
		defer s.mu.Unlock()
		l, err := s.at("read a marker", of)
		switch {
		case err != nil:
			return bucket.Marker{}, err
		case l.identity != identity:
			return bucket.Marker{}, bucket.ErrOtherMemory
		}
		return l.marker, nil
	})
}

// Mark implements bucket.Memories.
func (s *Store) Mark(_ context.Context, m bucket.Memory, since int64) error {
	_, err := faulty(s, "mark", func() (struct{}, error) {
		s.mu.Lock()
		defer s.mu.Unlock()
		l, err := s.at("mark", m.Partition)
		if err != nil {
			return struct{}{}, err
		}
		was := l.marker
		switch {
		case l.identity != m.Identity, was.Incarnation > m.Incarnation,
			since < m.Incarnation && (was.Incarnation == 0 || was.Since > since):
			return struct{}{}, bucket.ErrOtherMemory
		case was.Incarnation == m.Incarnation:
			return struct{}{}, nil
		}
		nowMS := s.nowMS()
		if was.Incarnation == 0 {
			l.slice, l.sliceMS = nowMS/1000, nowMS
		}
		l.marker = bucket.Marker{
			Installation: s.config.Installation,
			Incarnation:  m.Incarnation,
			Since:        was.Since,
			SinceMS:      was.SinceMS,
		}
		if since == m.Incarnation {
			l.marker.Since, l.marker.SinceMS = since, nowMS
			if since == 1 {
				l.marker.SinceMS = 0 // no record was lost before the first
			}
		}
		return struct{}{}, nil
	})
	return err
}

// Doubt implements bucket.Memories.
func (s *Store) Doubt(_ context.Context, m bucket.Memory, sinceMS int64) error {
	_, err := with(s, "doubt", m, func(l *partition) (struct{}, error) {
		l.marker.SinceMS = max(l.marker.SinceMS, sinceMS)
		return struct{}{}, nil
	})
	return err
}

// Time implements bucket.Memories.
func (s *Store) Time(_ context.Context, of bucket.Partition) (time.Time, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	_, err := s.at("read the time", of)
	return s.config.Now(), err
}
