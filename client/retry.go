package client

import (
	"context"
	"errors"
	"math/rand/v2"
	"time"

	"github.com/budgetd/budgetd/budget"
)

// Bounds of waiting for the service.
const (
	defaultWithin = 10 * time.Second
	defaultBase   = 50 * time.Millisecond
	defaultMax    = time.Second
	// unboundedAttempts bounds the attempts if only time bounds them otherwise.
	unboundedAttempts     = 1000
	defaultAttemptTimeout = 10 * time.Second
	// maxRetryAfter is the longest Retry-After that the client waits for. A longer one ends the
	// call, so that the caller can decide.
	maxRetryAfter = 30 * time.Second
)

// Retry bounds the repeats of calls that are safe to repeat. Zero fields take the defaults. Before
// attempt n+1 the client waits for the service's Retry-After and a random time between 0 and
// min(Max, Base·2^(n-1)) ("full jitter", which spreads callers that failed together).
//
// The defaults bridge a restart of the server: they repeat for 10 s, but no longer than the
// caller's context lasts.
//
// For example, Base 50 ms, Max 1 s and Rand 1 would wait 50, 100, 200, 400, 800 ms, and then 1 s
// each.
type Retry struct {
	// Attempts is the most attempts, including the first; 1 never repeats. The default is as many
	// as begin Within.
	Attempts int
	// Within is how long after the first attempt another one may begin. The default is 10 s if
	// Attempts is 0, else no bound.
	Within time.Duration
	// Base is the longest wait before the second attempt. The default is 50 ms.
	Base time.Duration
	// Max is the longest wait before any attempt, in addition to Retry-After. The default is 1 s.
	Max time.Duration
	// AttemptTimeout bounds one attempt, from dialling to the last byte of the answer. The default
	// is 10 s: the service itself waits up to 2 s for units before it answers.
	AttemptTimeout time.Duration
	// Rand returns a number in [0, 1). The default is math/rand/v2.
	Rand func() float64
	// Sleep waits, or returns the context's error if that ends first. The default uses a timer.
	Sleep func(ctx context.Context, wait time.Duration) error
}

func (r Retry) withDefaults() Retry {
	if r.Attempts <= 0 {
		r.Attempts = unboundedAttempts
		if r.Within <= 0 {
			r.Within = defaultWithin
		}
	}
	if r.Base <= 0 {
		r.Base = defaultBase
	}
	if r.Max <= 0 {
		r.Max = defaultMax
	}
	if r.AttemptTimeout <= 0 {
		r.AttemptTimeout = defaultAttemptTimeout
	}
	if r.Rand == nil {
		r.Rand = rand.Float64
	}
	if r.Sleep == nil {
		r.Sleep = sleep
	}
	return r
}

// pause waits before the attempt that follows attempt number n, and reports whether to make it. It
// returns false after the last attempt, if the wait would pass the end of the context or of Within
// since `began`, and if the service asked for more than maxRetryAfter.
func (r Retry) pause(ctx context.Context, n int, began time.Time, cause error) bool {
	if n >= r.Attempts {
		return false
	}
	after := retryAfter(cause)
	if after > maxRetryAfter {
		return false
	}
	wait := after + time.Duration(r.Rand()*float64(r.ceiling(n)))
	if r.Within > 0 && time.Since(began)+wait >= r.Within {
		return false
	}
	if deadline, ok := ctx.Deadline(); ok && time.Until(deadline) <= wait {
		return false
	}
	return r.Sleep(ctx, wait) == nil
}

// ceiling returns min(Max, Base·2^(n-1)) without overflow.
func (r Retry) ceiling(n int) time.Duration {
	ceiling := r.Base
	for range n - 1 {
		if ceiling >= r.Max/2 {
			return r.Max
		}
		ceiling *= 2
	}
	return min(ceiling, r.Max)
}

func sleep(ctx context.Context, wait time.Duration) error {
	timer := time.NewTimer(wait)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-timer.C:
		return nil
	}
}

func retryAfter(err error) time.Duration {
	var p *Problem
	if errors.As(err, &p) {
		return p.RetryAfter
	}
	return 0
}

// undecided reports whether another attempt of the same call can help: the service did not execute
// it, or the outcome is unknown. A request that can never be accepted is final.
func undecided(err error) bool {
	var p *Problem
	if errors.As(err, &p) && p.Never {
		return false
	}
	kind := KindOf(err)
	return kind == budget.NotDone || kind == budget.MayBeDone
}
