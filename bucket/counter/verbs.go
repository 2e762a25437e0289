package counter

import (
	"context"
	"crypto/rand"
	"errors"

	"github.com/budgetd/budgetd/bucket"
	"github.com/budgetd/budgetd/bucket/store"
	"github.com/budgetd/budgetd/budget"
	"github.com/budgetd/budgetd/ledger"
)

// Move assigns a bucket to another partition without loss. It closes the epoch and copies records,
// counters and late sums; a bucket that is online begins its next epoch on the new partition.
// Meanwhile the bucket's requests are unavailable. A bucket that begins an epoch on its old
// partition in between stays there. Move may be interrupted and repeated at any time. Errors:
// BucketNotFound; Unavailable if a store is down, if the bucket began another epoch or if nothing
// can be copied; OutcomeUnknown.
func (s *Service) Move(ctx context.Context, budgetID, bucketID int64, to bucket.Partition) error {
	b, err := s.budgets.Reload(ctx, budgetID)
	if err != nil {
		return err
	}
	bk := b.Bucket(bucketID)
	if bk == nil || !b.InStoreMode() {
		return budget.Refuse(budget.BucketNotFound, "move", "budget %s has no bucket %d in a store",
			b.Name, bucketID)
	}
	if bk.Partition == to {
		return nil
	}
	source, target := s.partitionOf(bk.Partition), s.partitionOf(to)
	if source == nil {
		return notConfigured(bk.Partition)
	}
	if target == nil {
		return notConfigured(to)
	}
	if err := s.ledger.Close(ctx, budgetID, bucketID); err != nil {
		return err
	}
	m := &moving{s: s, source: source, target: target, ref: bk.Ref()}
	row, err := s.ledger.Partition(ctx, bk.Partition)
	if err != nil {
		return err
	}
	leave := m.leave
	if row.GivenUp() {
		leave = source.endLost
	}
	if err := leave(ctx); err != nil {
		return err
	}
	if b, err = s.budgets.Reload(ctx, budgetID); err != nil {
		return err
	}
	if bk = b.Bucket(bucketID); bk == nil || bk.Epoch.Number != m.ref.Epoch || bk.Epoch.Status.Live() {
		return newerEpoch(m.ref)
	}
	if bk.Epoch.Status == ledger.Lost || row.GivenUp() {
		err = m.doubt(ctx, s.sqlNow().UnixMilli())
	} else {
		err = m.copy(ctx)
	}
	if err != nil {
		return err
	}
	moved, err := s.ledger.Move(ctx, budgetID, m.ref, source.name, target.name)
	if err == nil && !moved {
		err = newerEpoch(m.ref)
	}
	if err != nil {
		return err
	}
	s.failed("store", s.push(ctx, []int64{bucketID}, -1)) // any node can finish it
	_, err = s.budgets.Reload(ctx, budgetID)
	return err
}

func newerEpoch(ref bucket.Ref) error {
	return budget.Refuse(budget.Unavailable, "move",
		"bucket %d has a newer epoch than %d; repeat the move", ref.Bucket, ref.Epoch)
}

// moving is a move of one bucket between partitions.
type moving struct {
	s              *Service
	source, target *partition
	ref            bucket.Ref
}

// leave closes the epoch in the source, so that it refuses every call, and ends it in SQL. The
// target records the late sums in SQL.
func (m *moving) leave(ctx context.Context) error {
	known, err := m.source.memory(ctx)
	if err != nil {
		return err
	}
	if m.ref.Incarnation < known.since {
		return m.source.endLost(ctx)
	}
	p := &pushing{l: m.source, m: known}
	entries, err := m.source.store.Close(ctx, known.Memory, []bucket.Ref{m.ref}, true)
	if err != nil {
		return p.failed(err)
	}
	if entries[0].Verdict != bucket.Accepted {
		return p.failed(p.handleLost(ctx, m.ref, entries[0].Verdict))
	}
	p.closed = []store.Closing{{Ref: m.ref, Entry: entries[0]}}
	_, other, err := m.s.settle(ctx, []*pushing{p}, -1)
	return orFirst(other[m.source.name], p.failed(err))
}

// copy copies the bucket's records, counters and late sums from the source.
func (m *moving) copy(ctx context.Context) error {
	const mostSteps = 1000
	if m.source.store.Copies == nil || m.target.store.Copies == nil {
		return budget.Refuse(budget.Unavailable, "move", "the stores cannot copy buckets")
	}
	from, err := m.source.memory(ctx)
	if err != nil {
		return err
	}
	to, err := m.target.memory(ctx)
	if err != nil {
		return err
	}
	marker, err := m.source.store.Marker(ctx, m.source.name, from.Identity, false)
	if err != nil {
		return m.broken(m.source, from, err)
	}
	if err := m.doubt(ctx, marker.SinceMS); err != nil {
		return err
	}
	attempt := rand.Text()[:16]
	verdict := bucket.Moving
	for step := 0; verdict == bucket.Moving && step < mostSteps; step++ {
		verdict, err = m.target.store.Copies.BeginCopy(ctx, to.Memory, m.ref, attempt)
		if err != nil {
			return m.broken(m.target, to, err)
		}
	}
	for cursor := ""; verdict == bucket.Accepted; {
		part, next, err := m.source.store.Copies.ReadCopy(ctx, from.Memory, m.ref, cursor)
		if err != nil {
			return m.broken(m.source, from, err)
		}
		verdict, err = m.target.store.Copies.AddCopy(ctx, to.Memory, m.ref, attempt, part)
		if err != nil {
			return m.broken(m.target, to, err)
		}
		if cursor = next; cursor == "" {
			break
		}
	}
	if verdict == bucket.Accepted {
		verdict, err = m.target.store.Copies.EndCopy(ctx, to.Memory, m.ref, attempt)
	}
	if err != nil {
		return m.broken(m.target, to, err)
	}
	if verdict != bucket.Accepted {
		return budget.Refuse(budget.Unavailable, "move", "another copy of bucket %d has begun",
			m.ref.Bucket)
	}
	return nil
}

// doubt tells the target that records of the bucket from before an instant may be missing, so that
// a missing one is no proof (I4).
func (m *moving) doubt(ctx context.Context, sinceMS int64) error {
	to, err := m.target.memory(ctx)
	if err != nil {
		return err
	}
	if err := m.target.store.Doubt(ctx, to.Memory, sinceMS); err != nil {
		return m.broken(m.target, to, err)
	}
	return nil
}

// broken is the error of a copy that another attempt must begin from the start.
func (m *moving) broken(l *partition, known *remembered, err error) error {
	_ = l.failed(known, err)
	if errors.Is(err, bucket.ErrOtherMemory) || budget.CodeOf(err).Kind() == budget.MayBeDone {
		return storeDown(l.name, err)
	}
	return err
}

// mostQuarantines bounds a list of quarantines.
const mostQuarantines = 1000

// Quarantines lists at most 1,000 quarantines of a budget. Errors: BudgetNotFound, Unavailable.
func (s *Service) Quarantines(ctx context.Context, ref bucket.BudgetRef) (
	[]bucket.Quarantine, error) {
	b, err := s.budgets.Find(ctx, ref)
	if err != nil {
		return nil, err
	}
	return s.ledger.Quarantined(ctx, b.ID, mostQuarantines)
}

// Release carries out an operator's decision on quarantined units, once per request id. Errors:
// BudgetNotFound; RequestConflict; AmountExceedsRemaining; Unavailable; OutcomeUnknown.
func (s *Service) Release(ctx context.Context, r bucket.ReleaseRequest) (
	bucket.ReleaseAnswer, error) {
	b, err := s.budgets.Find(ctx, r.Budget)
	if err != nil {
		return bucket.ReleaseAnswer{}, err
	}
	out, err := s.ledger.Release(ctx, b.ID, r)
	if err == nil && !out.Replayed {
		s.observer.Moved("release", out.Released)
	}
	return out, err
}
