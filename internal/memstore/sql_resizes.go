package memstore

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/budgetd/budgetd/bucket"
	"github.com/budgetd/budgetd/budget"
	"github.com/budgetd/budgetd/internal/safeguard"
	"github.com/budgetd/budgetd/ledger"
)

// halted reports whether no epoch of the budget may begin: in store mode all of them end before it gets
// another number of buckets.
func (b *sqlBudget) halted() bool {
	return b.resize > 0 && b.definition.Durability == budget.Store && !safeguard.Off(safeguard.ResizeEndsAll)
}

// Resize goes on with a change of the number of buckets. See bucket.Resizes.
func (s *SQL) Resize(ctx context.Context, budgetID int64, lanes []bucket.Lane) (bucket.Resizing, error) {
	return transact(ctx, s, "Resize", func(now time.Time) (out bucket.Resizing, err error) {
		b, err := s.find(budgetID)
		if err != nil || b.resize == 0 {
			return out, err
		}
		if out.Target = b.resize; len(lanes) != b.resize {
			return out, nil
		}
		for _, lane := range lanes[min(len(b.buckets), len(lanes)):] {
			if err := s.fit("resize", lane); err != nil {
				return bucket.Resizing{}, err
			}
		}
		for _, shard := range b.buckets {
			if e := shard.newest(); e.Status.Live() && (b.halted() || shard.Ordinal >= b.resize) {
				if e.Status == ledger.Opening {
					e.end(ledger.Lost)
					continue
				}
				if e.Status == ledger.Open {
					e.Status = ledger.Closing
					b.listVersion++
				}
				out.Ending = append(out.Ending, e.of())
			}
		}
		if !b.halted() || len(out.Ending) == 0 {
			out.Target = 0
			out.Opened = s.resized(b, lanes, now)
		}
		s.verify(b)
		return out, nil
	})
}

// resized gives a budget its new number of buckets, and every online one whose epoch has ended another.
func (s *SQL) resized(b *sqlBudget, lanes []bucket.Lane, now time.Time) (opened []bucket.Bucket) {
	for _, shard := range b.buckets {
		switch {
		case shard.Ordinal >= b.resize && shard.OfflineBy != bucket.ByResize:
			shard.Online, shard.OfflineBy, shard.UpdatedAt = false, bucket.ByResize, now
		case shard.Ordinal < b.resize && shard.OfflineBy == bucket.ByResize:
			shard.Online, shard.OfflineBy, shard.UpdatedAt = true, "", now
		}
	}
	if b.definition.StatusAt(now) == budget.Effective && len(b.buckets) >= b.resize &&
		!slices.ContainsFunc(b.buckets[:b.resize], func(s *sqlBucket) bool { return s.OfflineBy != bucket.ByOperator }) {
		first := b.buckets[0] // those that retire may be all that were left
		first.Online, first.OfflineBy, first.UpdatedAt = true, "", now
	}
	for _, shard := range b.buckets { // values are routed to other buckets from now on
		shard.CountersFrom = shard.newest().Number + 1
	}
	for i := len(b.buckets); i < b.resize; i++ {
		shard := &sqlBucket{budget: b, Bucket: bucket.Bucket{
			ID: int64(len(s.buckets)) + 1, Ordinal: i, Lane: lanes[i], UpdatedAt: now,
			Key: fmt.Sprintf("%s:bucket-%d", b.definition.Name, i),
		}}
		s.buckets, b.buckets = append(s.buckets, shard), append(b.buckets, shard)
		// Its first epoch has ended before it began: see sqlstore.
		first := s.begin(shard, now)
		first.Status, first.Activation = ledger.Lost, 1
		first.DrainedChain, first.EndAt = ledger.OpenChain(shard.ID, 1, 1), time.Time{}
		shard.CountersFrom = 2
	}
	b.definition.BucketQuantity, b.resize = b.resize, 0
	for _, shard := range b.buckets {
		if b.period.Over && shard.Online {
			shard.Online, shard.OfflineBy, shard.UpdatedAt = false, bucket.ByService, now
		}
		if shard.idle() && s.mayBegin(shard) {
			s.begin(shard, now)
			opened = append(opened, shard.view())
		}
	}
	b.definition.Version++
	b.definition.UpdatedAt = now
	b.listVersion++
	return opened
}
