package counter

import (
	"context"
	"time"

	"github.com/budgetd/budgetd/bucket"
)

// Loop is a loop for the daemon to run: every Every, with jitter, one RunOnce at a time.
type Loop struct {
	Name  string
	Every time.Duration
	// RunOnce does a bounded amount of work. Its error is for the log; the next run tries again.
	RunOnce func(ctx context.Context) error
}

// Loops returns the loops of a service. Every lane of the stores is synced by every node.
func (s *Service) Loops(lanes []bucket.Lane) []Loop {
	const often = 500 * time.Millisecond
	return []Loop{
		{"store sync", SyncEvery, (&SyncLoop{s, lanes}).RunOnce},
		{"store epochs", often, (&PushLoop{s}).RunOnce},
		{"store rollover", often, (&RolloverLoop{s}).RunOnce},
		{"store shrinks", often, (&ShrinkLoop{s}).RunOnce},
	}
}
