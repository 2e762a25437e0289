package workload

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
)

func TestEach(t *testing.T) {
	var sum, last atomic.Int64
	err := Each(t.Context(), 100, func(done int) { last.Store(int64(done)) }, func(_ context.Context, at int) error {
		sum.Add(int64(at))
		return nil
	})
	if err != nil || sum.Load() != 4950 || last.Load() != 100 {
		t.Errorf("sum %d, progress %d: %v", sum.Load(), last.Load(), err)
	}
	// The first error stops it.
	why := errors.New("why")
	var done atomic.Int64
	err = Each(t.Context(), 1_000_000, func(int) {}, func(ctx context.Context, at int) error {
		if done.Add(1); at == 10 {
			return why
		}
		return nil
	})
	if !errors.Is(err, why) || done.Load() == 1_000_000 {
		t.Errorf("%d done: %v", done.Load(), err)
	}
	// So does the end of the context.
	ctx, cancel := context.WithCancel(t.Context())
	err = Each(ctx, 1_000_000, func(int) {}, func(_ context.Context, at int) error {
		if at == 10 {
			cancel()
		}
		return nil
	})
	if !errors.Is(err, context.Canceled) {
		t.Errorf("error %v", err)
	}
}
