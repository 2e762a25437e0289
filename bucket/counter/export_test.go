package counter

import (
	"context"
	"slices"
	"sync/atomic"

	"github.com/budgetd/budgetd/bucket"
	"github.com/budgetd/budgetd/bucket/store"
	"github.com/budgetd/budgetd/budget"
)

// flaky fails to record sums while failures is above 0. Each call lowers it. Each failure calls
// meanwhile.
type flaky struct {
	recorder
	failures  *atomic.Int32
	meanwhile func()
}

func (f flaky) Record(ctx context.Context, m bucket.Memory, sums []bucket.Sum) (
	store.Recorded, error) {
	if f.failures.Add(-1) >= 0 {
		f.meanwhile()
		return store.Recorded{}, budget.Refuse(budget.Unavailable, "record", "planned")
	}
	return f.recorder.Record(ctx, m, sums)
}

// FailRecords makes SQL fail to record sums while failures is above 0. Each failure calls meanwhile.
func (s *Service) FailRecords(failures *atomic.Int32, meanwhile func()) {
	s.recorder = flaky{s.recorder, failures, meanwhile}
}

// Refused counts the buckets of a budget whose refill got nothing.
func (s *Service) Refused(b *bucket.Budget) (n int) {
	for i := range b.Buckets {
		if s.useOf(b.Buckets[i].ID).after.Load() != 0 {
			n++
		}
	}
	return n
}

// Refilling reports whether a refill of a bucket of a budget waits or is under way.
func (s *Service) Refilling(b *bucket.Budget) bool {
	return slices.ContainsFunc(b.Buckets, func(bk bucket.Bucket) bool {
		return s.useOf(bk.ID).pending.Load()
	})
}
