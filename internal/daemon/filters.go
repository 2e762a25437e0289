package daemon

import (
	"context"
	"time"

	"github.com/budgetd/budgetd/bucket"
	"github.com/budgetd/budgetd/internal/metrics"
)

// filters passes each call to the store of its partition. A partition of an instance with driver
// sql has no store: a Set does nothing, and every Take is stale.
type filters map[string]store

// Set tells a partition's store the contents of buckets.
func (f filters) Set(ctx context.Context, partition bucket.Partition, levels []bucket.Level) error {
	if store := f[partition.Instance]; store != nil {
		return store.Set(ctx, partition, levels)
	}
	return nil
}

// Take takes units from a partition's store.
func (f filters) Take(ctx context.Context, partition bucket.Partition, takes []bucket.Take) (
	[]bucket.Taken, error) {
	if store := f[partition.Instance]; store != nil {
		return store.Take(ctx, partition, takes)
	}
	return make([]bucket.Taken, len(takes)), nil
}

// Ping returns nil if a partition's store answers, or the partition has none.
func (f filters) Ping(ctx context.Context, partition bucket.Partition) error {
	store := f[partition.Instance]
	if store == nil {
		return nil
	}
	_, err := store.Time(ctx, partition)
	return err
}

// scriptsEvery is the interval at which the scripts of stores are counted.
const scriptsEvery = 30 * time.Second

// countScripts returns the work of a loop that sets the metrics of how many scripts the stores of
// partitions keep. It skips a store that does not answer, because the outage shows elsewhere.
func (f filters) countScripts(partitions []bucket.Partition,
	m *metrics.Metrics) func(context.Context) error {
	return func(ctx context.Context) error {
		for _, partition := range partitions {
			if n, err := f[partition.Instance].Scripts(ctx, partition); err == nil {
				m.Scripts(partition, n)
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
