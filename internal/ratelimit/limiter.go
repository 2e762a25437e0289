package ratelimit

import (
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/time/rate"
)

// maxCallers bounds the callers of which a Limiter keeps a token bucket.
const maxCallers = 100_000

// Limiter has a token bucket for each caller. It is safe for concurrent use. The limit applies per
// process: n nodes together allow n times as much.
type Limiter struct {
	perSecond rate.Limit
	burst     int
	most      int64                    // maxCallers, except in tests
	callers   atomic.Pointer[sync.Map] // by key id or principal: *rate.Limiter
	known     atomic.Int64
}

// NewLimiter returns a limiter that allows every caller perSecond requests a second, with bursts of
// burst. With perSecond 0 it returns nil, which allows everything.
func NewLimiter(perSecond, burst int) *Limiter {
	if perSecond <= 0 {
		return nil
	}
	l := &Limiter{perSecond: rate.Limit(perSecond), burst: max(burst, 1), most: maxCallers}
	l.callers.Store(new(sync.Map))
	return l
}

// Allow takes one token from a caller's bucket. If the bucket is empty, ok is false and wait is the
// time until the next token.
func (l *Limiter) Allow(caller string, now time.Time) (wait time.Duration, ok bool) {
	if l == nil {
		return 0, true
	}
	reservation := l.bucket(caller).ReserveN(now, 1)
	wait = reservation.DelayFrom(now)
	if wait == 0 {
		return 0, true
	}
	reservation.CancelAt(now)
	return wait, false
}

func (l *Limiter) bucket(caller string) *rate.Limiter {
	callers := l.callers.Load()
	if found, known := callers.Load(caller); known {
		return found.(*rate.Limiter)
	}
	if l.known.Add(1) > l.most {
		// Forget all buckets, which fills them: memory stays bounded, and no caller is refused
		// for it.
		l.callers.Store(new(sync.Map))
		l.known.Store(1)
		callers = l.callers.Load()
	}
	found, _ := callers.LoadOrStore(caller, rate.NewLimiter(l.perSecond, l.burst))
	return found.(*rate.Limiter)
}
