package audit

import (
	"sync"
	"time"

	"github.com/budgetd/budgetd/ledger"
)

const (
	// findingStays is how long a discrepancy is shown after it was last seen: longer than anybody
	// who reads the metrics leaves between two looks.
	findingStays = 10 * time.Minute
	// maxFindings bounds what is remembered; more than that is one disaster and no list.
	maxFindings = 10_000
)

// findings are the discrepancies that this node has seen of late. Safe for concurrent use.
type findings struct {
	mu  sync.Mutex
	all map[findingKey]finding
}

// findingKey names a discrepancy; bucket is "" for one of the budget itself.
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

// note remembers a discrepancy. fresh says that it was not known.
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

// Known returns how many discrepancies are known, and by how many units they differ.
func (s *Service) Known() (discrepancies int, gap int64) { return s.findings.sums(s.clock.Now()) }

// sums forgets what has not been seen for long, and returns how many there are and by how many
// units they differ: of each bucket its largest, and of a budget itself what its buckets do not
// explain.
func (f *findings) sums(now time.Time) (n int, gap int64) {
	f.mu.Lock()
	defer f.mu.Unlock()
	type place struct {
		budget int64
		bucket string
	}
	largest, explained := map[place]int64{}, map[int64]int64{}
	for key, found := range f.all {
		if now.Sub(found.at) > findingStays {
			delete(f.all, key)
			continue
		}
		at := place{key.budget, key.bucket}
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
