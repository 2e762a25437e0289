package audit

import (
	"sync"
	"time"

	"github.com/budgetd/budgetd/ledger"
)

const (
	// findingStays is how long a discrepancy is reported after it was last seen: longer than the
	// interval at which people look at the metrics.
	findingStays = 10 * time.Minute
	// maxFindings bounds the remembered discrepancies.
	maxFindings = 10_000
)

// findings are the discrepancies that this node has seen recently. It is safe for concurrent use.
type findings struct {
	mu  sync.Mutex
	all map[findingKey]finding
}

// findingKey names a discrepancy. bucket is empty for one of the budget itself.
type findingKey struct {
	budget int64
	bucket string
	epoch  int64
	what   string
}

type finding struct {
	gap int64
	at  time.Time
}

// note records a discrepancy. fresh says that it was not known.
func (f *findings) note(budgetID int64, d ledger.Discrepancy, now time.Time) (fresh bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.all == nil {
		f.all = map[findingKey]finding{}
	}
	key := findingKey{budgetID, d.Bucket, d.Epoch, d.What}
	old, known := f.all[key]
	if known || len(f.all) < maxFindings {
		f.all[key] = finding{d.Gap(), now}
	}
	return !known || now.Sub(old.at) > findingStays
}

// Known returns the number of known discrepancies, and of the units by which they differ.
func (s *Service) Known() (discrepancies int, gap int64) { return s.findings.sums(s.clock.Now()) }

// sums removes expired discrepancies and returns the number of the others and of the units by which
// they differ. For each bucket it counts the largest difference, and for a budget itself what its
// buckets do not explain.
func (f *findings) sums(now time.Time) (n int, gap int64) {
	f.mu.Lock()
	defer f.mu.Unlock()
	type account struct {
		budget int64
		bucket string
	}
	largest, explained := map[account]int64{}, map[int64]int64{}
	for key, found := range f.all {
		if now.Sub(found.at) > findingStays {
			delete(f.all, key)
			continue
		}
		at := account{key.budget, key.bucket}
		largest[at] = max(largest[at], found.gap)
	}
	for at, units := range largest {
		if at.bucket != "" {
			gap += units
			explained[at.budget] += units
		}
	}
	for at, units := range largest {
		if at.bucket == "" {
			gap += max(units-explained[at.budget], 0)
		}
	}
	return len(f.all), gap
}
