package daemon

import (
	"context"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"runtime/debug"
	"sync"
	"time"
)

// loop is periodic work of the node. Its runs do not overlap.
type loop struct {
	name  string
	every time.Duration
	// once does a bounded amount of work. An error is logged, and the next run tries again.
	once func(ctx context.Context) error
}

// loops are the running loops.
type loops struct {
	cancel  context.CancelFunc
	running sync.WaitGroup
	log     *slog.Logger
}

// startLoops starts every loop. A panic ends only its run and is logged.
func startLoops(ctx context.Context, log *slog.Logger, all []loop) *loops {
	ctx, cancel := context.WithCancel(context.WithoutCancel(ctx))
	l := &loops{cancel: cancel, log: log}
	for _, one := range all {
		l.running.Go(func() { l.run(ctx, one) })
	}
	return l
}

func (l *loops) run(ctx context.Context, one loop) {
	known := ""
	for {
		timer := time.NewTimer(one.every/2 + rand.N(one.every)) //nolint:gosec // spreads load
		select {
		case <-ctx.Done():
			timer.Stop()
			return
		case <-timer.C:
		}
		err := guarded(ctx, one.once)
		switch {
		case ctx.Err() != nil:
			return
		case err == nil:
			if known != "" {
				l.log.Info("background work goes on", "loop", one.name)
			}
			known = ""
		case err.Error() != known: // log an error once while it repeats
			known = err.Error()
			l.log.Warn("background work waits", "loop", one.name, "error", err)
		}
	}
}

// guarded calls once and returns a panic as an error.
func guarded(ctx context.Context, once func(context.Context) error) (err error) {
	defer func() {
		if why := recover(); why != nil {
			err = fmt.Errorf("panic: %v\n%s", why, debug.Stack())
		}
	}()
	return once(ctx)
}

// stop waits for the current runs, and cancels them when ctx ends.
func (l *loops) stop(ctx context.Context) error {
	l.cancel()
	return await(ctx, l.running.Wait)
}

// await calls wait and returns when it does, or with the error of ctx when that ends first.
func await(ctx context.Context, wait func()) error {
	done := make(chan struct{})
	go func() { wait(); close(done) }()
	select {
	case <-done:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}
