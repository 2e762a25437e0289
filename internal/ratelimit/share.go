package ratelimit

import "sync"

// Share divides a bounded quantity among holders, so that one of them cannot use it up. It is safe
// for concurrent use. The zero value is ready; it applies per process.
type Share struct {
	mu    sync.Mutex
	taken map[string]int64
}

// Bound is the most that a holder may have at a time. The holder "" stands for all together.
type Bound struct {
	Holder string
	Most   int64
}

// Take takes n for each of the bounds' holders, and reports whether all of them may have it. If
// one may not, it takes nothing.
func (s *Share) Take(n int64, bounds ...Bound) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, b := range bounds {
		if s.taken[b.Holder]+n > b.Most {
			return false
		}
	}
	if s.taken == nil {
		s.taken = map[string]int64{}
	}
	for _, b := range bounds {
		s.taken[b.Holder] += n
	}
	return true
}

// Taken returns what a holder has.
func (s *Share) Taken(holder string) int64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.taken[holder]
}

// Return returns what Take has taken, at once or in parts.
func (s *Share) Return(n int64, bounds ...Bound) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, b := range bounds {
		if s.taken[b.Holder] -= n; s.taken[b.Holder] <= 0 {
			delete(s.taken, b.Holder)
		}
	}
}
