package audit

import (
	"context"
	"time"
)

// Loop is a loop for the daemon, which calls RunOnce at the interval Every, with jitter, and never
// concurrently.
type Loop struct {
	Name  string
	Every time.Duration
	// RunOnce does a bounded amount of work. Its error is logged; the next run tries again.
	RunOnce func(ctx context.Context) error
}

// Settings say how often and how fast the snapshots are checked.
type Settings struct {
	// Interval is how often the loop runs; 500 ms when 0. Rows is how many rows it counts per second;
	// 5,000 when 0.
	Interval time.Duration
	Rows     int
	// Shown is how many budgets the metrics show.
	Shown int
}

// Loops returns the loop of a service. visitors also process the snapshots of all budgets.
func (s *Service) Loops(set Settings, visitors ...Visitor) []Loop {
	if set.Interval <= 0 {
		set.Interval = 500 * time.Millisecond
	}
	if set.Rows <= 0 {
		set.Rows = 5000
	}
	recount := &Recount{Service: s, Rows: set.Rows}
	snapshots := &Snapshots{Service: s, Interval: set.Interval, Shown: set.Shown,
		Visitors: append([]Visitor{recount}, visitors...)}
	return []Loop{{"audit", set.Interval, func(ctx context.Context) error {
		if err := snapshots.RunOnce(ctx); err != nil {
			return err
		}
		return recount.RunOnce(ctx)
	}}}
}
