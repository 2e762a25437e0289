package daemon

import (
	"context"
	"time"

	"github.com/budgetd/budgetd/bucket"
	"github.com/budgetd/budgetd/internal/metrics"
)

// filters passes each call to the store of its lane. A lane of an instance with driver sql has no
// store: a Set does nothing, and every Take is stale.
type filters map[string]store

// Set tells a lane's store the contents of buckets.
func (f filters) Set(ctx context.Context, lane bucket.Lane, levels []bucket.Level) error {
	if store := f[lane.Instance]; store != nil {
		return store.Set(ctx, lane, levels)
	}
	return nil
}

// Take takes units from a lane's store.
func (f filters) Take(ctx context.Context, lane bucket.Lane, takes []bucket.Take) (
	[]bucket.Taken, error) {
	if store := f[lane.Instance]; store != nil {
		return store.Take(ctx, lane, takes)
	}
	return make([]bucket.Taken, len(takes)), nil
}

// Ping returns nil if a lane's store answers, or the lane has none.
func (f filters) Ping(ctx context.Context, lane bucket.Lane) error {
	store := f[lane.Instance]
	if store == nil {
		return nil
	}
	_, err := store.Time(ctx, lane)
	return err
}

// scriptsEvery is the interval at which the scripts of stores are counted.
const scriptsEvery = 30 * time.Second

// countScripts returns the work of a loop that sets the metrics of how many scripts the stores of
// lanes keep. It skips a store that does not answer, because the outage shows elsewhere.
func (f filters) countScripts(lanes []bucket.Lane, m *metrics.Metrics) func(context.Context) error {
	return func(ctx context.Context) error {
		for _, lane := range lanes {
			if n, err := f[lane.Instance].Scripts(ctx, lane); err == nil {
				m.Scripts(lane, n)
			}
		}
		return nil
	}
}

// byInstance returns the filters by the name of their instance.
func (f filters) byInstance() map[string]bucket.Filter {
	out := make(map[string]bucket.Filter, len(f))
	for name, store := range f {
		out[name] = store
	}
	return out
}
