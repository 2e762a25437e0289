package counter

import (
	"context"
	"encoding/hex"
	"errors"

	"github.com/budgetd/budgetd/bucket"
	"github.com/budgetd/budgetd/budget"
	"github.com/budgetd/budgetd/ledger"
)

// Move gives a bucket another lane and loses nothing: its epoch is closed, records, counters and late sums
// are copied, and its next epoch begins there when units are asked for. Meanwhile its requests are
// unavailable. A bucket that goes on at its old place in between stays there. It may be interrupted and
// repeated at any time. Errors: BucketNotFound; Unavailable where a store is down, where the bucket has
// gone on, or where nothing can be copied; OutcomeUnknown.
func (s *Service) Move(ctx context.Context, budgetID, bucketID int64, to bucket.Lane) error {
	b, err := s.budgets.Reload(ctx, budgetID)
	if err != nil {
		return err
	}
	bk := b.Bucket(bucketID)
	if bk == nil || !b.InStoreMode() {
		return budget.Refuse(budget.BucketNotFound, "move", "budget %s has no bucket %d in a store", b.Name,
			bucketID)
	}
	if bk.Lane == to {
		return nil
	}
	source, target := s.laneOf(bk.Lane), s.laneOf(to)
	if source == nil {
		return notConfigured(bk.Lane)
	}
	if target == nil {
		return notConfigured(to)
	}
	if err := s.ledger.Moves.Close(ctx, budgetID, bucketID); err != nil {
		return err
	}
	m := &moving{s: s, source: source, target: target, ref: bk.Ref()}
	if err := m.leave(ctx); err != nil {
		return err
	}
	if b, err = s.budgets.Reload(ctx, budgetID); err != nil {
		return err
	}
	if bk = b.Bucket(bucketID); bk == nil || bk.Epoch.Number != m.ref.Epoch || bk.Epoch.Status.Live() {
		return wentOn(m.ref)
	}
	if bk.Epoch.Status != ledger.Lost {
		if err := m.copy(ctx); err != nil {
			return err
		}
	}
	moved, err := s.ledger.Moves.Move(ctx, budgetID, m.ref, source.name, target.name)
	if err == nil && !moved {
		err = wentOn(m.ref)
	}
	if err != nil {
		return err
	}
	if bk.Online {
		// The new place answers nothing before it is open, not even repeats. Where no period is open, the
		// next one opens it.
		_, err := s.ledger.Supply.Apply(ctx, budgetID, Want{Bucket: bucketID, Need: 1, Operator: true})
		s.failed("sql", err)
		s.failed("store", s.push(ctx, []int64{bucketID}, -1))
	}
	_, err = s.budgets.Reload(ctx, budgetID)
	return err
}

func wentOn(ref bucket.Ref) error {
	return budget.Refuse(budget.Unavailable, "move", "bucket %d went on after epoch %d; repeat it",
		ref.Bucket, ref.Epoch)
}

// moving is one bucket on its way between lanes.
type moving struct {
	s              *Service
	source, target *lane
	ref            bucket.Ref
}

// leave closes the epoch in the source so that it refuses every verb, and ends it in SQL. The late sums are
// taken to SQL by the target.
func (m *moving) leave(ctx context.Context) error {
	known, err := m.source.memory(ctx)
	if err != nil {
		return err
	}
	if m.ref.Activation < known.since {
		return m.source.settleLost(ctx)
	}
	p := &pushing{l: m.source, m: known}
	entries, err := m.source.store.Close(ctx, known.Memory, []bucket.Ref{m.ref}, true)
	if err != nil {
		return p.failed(err)
	}
	if entries[0].Verdict != bucket.Accepted {
		return p.failed(p.odd(ctx, m.ref, entries[0].Verdict))
	}
	closed := []Closing{{m.ref, entries[0]}}
	_, err = m.s.ledger.Epochs.Closed(ctx, known.Memory, closed, -1)
	return p.failed(err)
}

// copy copies what the source has of the bucket.
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
	random := make([]byte, nonceBytes)
	m.s.rand(random)
	attempt := hex.EncodeToString(random)
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
		return budget.Refuse(budget.Unavailable, "move", "another copy of bucket %d was begun", m.ref.Bucket)
	}
	return nil
}

// broken is the error of a copy that another attempt has to begin from the start.
func (m *moving) broken(l *lane, known *remembered, err error) error {
	l.failed(known, err)
	if errors.Is(err, bucket.ErrOtherMemory) || budget.CodeOf(err).Kind() == budget.MayBeDone {
		return storeDown(l.name, err)
	}
	return err
}
