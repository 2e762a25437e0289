package bucket

import (
	"context"
	"time"
)

// Clock is the source of time: every wait and every instant goes through it.
type Clock interface {
	Now() time.Time
	// Sleep waits for d or until ctx ends, and returns ctx's error.
	Sleep(ctx context.Context, d time.Duration) error
}

// SystemClock is the system clock.
type SystemClock struct{}

// Now returns the current time.
func (SystemClock) Now() time.Time { return time.Now() }

// Sleep waits for d or until ctx ends.
func (SystemClock) Sleep(ctx context.Context, d time.Duration) error {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}
