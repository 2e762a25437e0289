package bucket

import (
	"context"
	"sync"
	"time"

	"github.com/budgetd/budgetd/ledger"
)

// findingStays is how long a discrepancy is shown after it was last seen: longer than anybody who
// reads the metrics leaves between two looks.
const findingStays = 10 * time.Minute

// maxFindings bounds what is remembered; more than that is one disaster and no list.
const maxFindings = 10_000

// findings are the discrepancies that this node has seen of late. Safe for concurrent use.
type findings struct {
	mu  sync.Mutex
	all map[findingKey]finding
}

// findingKey names a discrepancy; bucket is 0 for one of the budget itself, budget is 0 where it is
// not known.
type findingKey struct {
	budget, bucket, epoch int64
	what                  string
}

type finding struct {
	gap int64
	at  time.Duration
}

// note remembers a discrepancy. fresh says that it was not known.
func (f *findings) note(key findingKey, gap int64, now time.Duration) (fresh bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.all == nil {
		f.all = map[findingKey]finding{}
	}
	_, known := f.all[key]
	if known || len(f.all) < maxFindings {
		f.all[key] = finding{gap, now}
	}
	return !known
}

// of reports whether a discrepancy of a bucket is known.
func (f *findings) of(bucket int64) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	for key := range f.all {
		if key.bucket == bucket {
			return true
		}
	}
	return false
}

// sums forgets what has not been seen for long, and returns how many there are and by how many units
// they differ: of each bucket its largest, and of a budget itself what its buckets do not explain.
func (f *findings) sums(now time.Duration) (n int, gap int64) {
	f.mu.Lock()
	defer f.mu.Unlock()
	type place struct{ budget, bucket int64 }
	largest, explained := map[place]int64{}, map[int64]int64{}
	for key, found := range f.all {
		if now-found.at > findingStays {
			delete(f.all, key)
			continue
		}
		at := place{key.budget, key.bucket}
		largest[at] = max(largest[at], found.gap)
	}
	for at, units := range largest {
		if at.bucket != 0 {
			gap += units
			explained[at.budget] += units
		}
	}
	for at, units := range largest {
		if at.bucket == 0 {
			gap += max(units-explained[at.budget], 0)
		}
	}
	return len(f.all), gap
}

// discovered acts on discrepancies of one bucket that were found twice: they are counted and logged,
// and the bucket is fenced, whichever of its epochs they are in. The others serve on.
func (s *Service) discovered(ctx context.Context, budgetID, bucketID int64, found []ledger.Discrepancy) {
	b, err := s.sql.Budget(ctx, BudgetRef{ID: budgetID})
	if err != nil {
		s.failed("sql", err)
		return
	}
	for i := range b.Buckets {
		bk := &b.Buckets[i]
		if bk.ID != bucketID {
			continue
		}
		for j := range found {
			found[j].Bucket = bk.Key
		}
		s.report(&b, bk.ID, found)
		if bk.Epoch.Status.Live() && bk.Epoch.Fenced == "" {
			s.fence(ctx, bk.Ref(), "audit: "+found[0].String())
		}
	}
}

// report counts and logs discrepancies that were not known; bucketID is 0 for those of the budget.
func (s *Service) report(b *Budget, bucketID int64, found []ledger.Discrepancy) {
	fresh := 0
	for _, d := range found {
		if s.findings.note(findingKey{b.ID, bucketID, d.Epoch, d.What}, d.Gap(), s.now()) {
			fresh++
			s.log.Error("audit found a discrepancy", "budget", b.Name, "discrepancy", d.String())
		}
	}
	if fresh > 0 {
		s.observer.Discrepancies(fresh)
	}
	s.observer.Books(s.findings.sums(s.now()))
}

// noteFence counts a bucket that is fenced although no figure of it was found wrong: its log or keys
// are not what they must be.
func (s *Service) noteFence(ref Ref, why string) {
	if s.findings.of(ref.Bucket) {
		return
	}
	if s.findings.note(findingKey{bucket: ref.Bucket, epoch: ref.Epoch, what: why}, 1, s.now()) {
		s.observer.Discrepancies(1)
	}
	s.observer.Books(s.findings.sums(s.now()))
}
