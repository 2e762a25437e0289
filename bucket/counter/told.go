package counter

import (
	"context"
	"slices"
	"sync"

	"github.com/budgetd/budgetd/bucket"
	"github.com/budgetd/budgetd/bucket/store"
)

// round collects what the stores of one round answered, to be recorded in SQL together. A partition
// that answers after the end records its own.
type round struct {
	mu    sync.Mutex
	parts []*pushing
	ended bool
}

// add adds a partition, unless the round has ended.
func (r *round) add(p *pushing) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	if !r.ended {
		r.parts = append(r.parts, p)
	}
	return !r.ended
}

func (r *round) end() []*pushing {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.ended = true
	return r.parts
}

// settle records in SQL what stores have done. other has the errors of partitions that have another
// memory now.
func (s *Service) settle(ctx context.Context, parts []*pushing, need int64) (begun []int64,
	other map[bucket.Partition]error, err error) {
	if len(parts) == 0 {
		return nil, nil, nil
	}
	told := make([]store.Told, len(parts))
	for i, p := range parts {
		told[i] = store.Told{Memory: p.m.Memory, Closings: p.closed}
		for _, d := range p.done {
			told[i].Done = append(told[i].Done, *d)
		}
	}
	settled, err := s.ledger.Settle(ctx, told, need)
	other = map[bucket.Partition]error{}
	for _, p := range parts {
		if slices.Contains(settled.Other, p.l.name) {
			other[p.l.name] = p.failed(bucket.ErrOtherMemory)
		}
	}
	return settled.Begun, other, err
}
