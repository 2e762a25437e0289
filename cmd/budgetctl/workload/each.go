package workload

import (
	"context"
	"sync"

	"golang.org/x/sync/errgroup"
)

// atOnce is how many calls Each makes concurrently.
const atOnce = 16

// Each calls do n times, with bounded concurrency, until one call fails, and returns that error. It
// calls progress, unless that is nil, with the number of completed calls, from one goroutine at a
// time.
func Each(
	ctx context.Context, n int, progress func(done int), do func(ctx context.Context, at int) error,
) error {
	g, working := errgroup.WithContext(ctx) // working ends with the first error
	g.SetLimit(atOnce)
	var mu sync.Mutex
	done := 0
	for at := range n {
		if working.Err() != nil {
			break
		}
		g.Go(func() error {
			if err := do(working, at); err != nil {
				return err
			}
			mu.Lock()
			defer mu.Unlock()
			if done++; progress != nil {
				progress(done)
			}
			return nil
		})
	}
	if err := g.Wait(); err != nil {
		return err
	}
	return ctx.Err()
}
