package daemon

import (
	"context"
	"time"

	"github.com/budgetd/budgetd/bucket"
	"github.com/budgetd/budgetd/internal/metrics"
	"github.com/budgetd/budgetd/internal/redisstore"
)

// filters sends each call to the store of its lane. A lane of an instance without a store (driver
// sql) has no filter: nothing is set there, and every take is stale.
type filters map[string]*redisstore.Store

// Set tells the lane's store what buckets hold.
func (f filters) Set(ctx context.Context, lane bucket.Lane, levels []bucket.Level) error {
	if store := f[lane.Instance]; store != nil {
		return store.Set(ctx, lane, levels)
	}
	return nil
}

// Take takes from the lane's store.
func (f filters) Take(ctx context.Context, lane bucket.Lane, takes []bucket.Take) (
	[]bucket.Taken, error) {
	if store := f[lane.Instance]; store != nil {
		return store.Take(ctx, lane, takes)
	}
	return make([]bucket.Taken, len(takes)), nil
}

// Ping returns nil when the lane's store answers; a lane without a store is the database's.
func (f filters) Ping(ctx context.Context, lane bucket.Lane) error {
	store := f[lane.Instance]
	if store == nil {
		return nil
	}
	_, err := store.Time(ctx, lane)
	return err
}

// scriptsEvery is how often the scripts of stores are counted.
const scriptsEvery = 30 * time.Second

// countScripts tells the metrics how many scripts the stores of lanes keep. It leaves out a store
// that does not answer, because its outage shows elsewhere.
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
