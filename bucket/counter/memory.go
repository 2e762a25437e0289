package counter

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/budgetd/budgetd/bucket"
	"github.com/budgetd/budgetd/bucket/store"
	"github.com/budgetd/budgetd/budget"
)

// remembered is a memory that was verified.
type remembered struct {
	bucket.Memory
	// since is the first incarnation whose epochs the memory has.
	since int64
}

// memory returns the partition's memory, and verifies it first if necessary. For VerifyEvery after
// a failure it returns the same error. Error: Unavailable with ReasonStoreDown.
func (l *partition) memory(ctx context.Context) (*remembered, error) {
	if m := l.known.Load(); m != nil {
		return m, nil
	}
	l.verifying.Lock()
	defer l.verifying.Unlock()
	if m := l.known.Load(); m != nil {
		return m, nil
	}
	now := l.s.clock.Now()
	if l.err != nil && now.Before(l.again) {
		return nil, l.err
	}
	m, err := l.verify(ctx)
	if err != nil {
		l.s.failed("store", err)
		l.err, l.again = storeDown(l.name, err), l.s.clock.Now().Add(l.s.set.VerifyEvery)
		return nil, l.err
	}
	l.err = nil
	l.known.Store(m)
	return m, nil
}

// forget makes the next call verify the memory, unless another one is known already.
func (l *partition) forget(m *remembered) { l.known.CompareAndSwap(m, nil) }

// giveUp makes the next call begin another incarnation although marker and identity are right.
func (l *partition) giveUp(m *remembered, why string) {
	l.verifying.Lock()
	l.suspect, l.suspected = why, m.Incarnation
	l.verifying.Unlock()
	l.forget(m)
}

// storeDown is the error for a partition that cannot be used now. Nothing was done.
func storeDown(partition bucket.Partition, cause error) *budget.Error {
	e := &budget.Error{Code: budget.Unavailable, Op: "reach a store", Err: cause,
		RetryAfter: time.Second,
		Reason:     budget.ReasonStoreDown,
		Message: "the store of the budget's bucket (partition " + partition.String() +
			") cannot be used now: repeat later; `budgetctl instances` says why"}
	var known *budget.Error
	if errors.As(cause, &known) && known.Reason != "" {
		e.Reason = known.Reason
	}
	return e
}

// verify compares the store with SQL's row of the partition, and begins the next incarnation if the
// memory is not the one that SQL verified.
func (l *partition) verify(ctx context.Context) (*remembered, error) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), l.s.set.StepTime)
	defer cancel()
	identity, err := l.store.Identity(ctx, l.name)
	if err != nil {
		return nil, err
	}
	if err := l.checkClock(ctx); err != nil {
		return nil, err
	}
	row, err := l.s.ledger.Partition(ctx, l.name)
	if err != nil {
		return nil, err
	}
	marker, err := l.store.Marker(ctx, l.name, identity, true)
	if err != nil {
		return nil, err
	}
	if row.Incarnation != l.suspected {
		l.suspect = "" // it was given up already
	}
	if row.Incarnation > 0 && row.Identity == identity && marker.Incarnation == row.Incarnation &&
		l.suspect == "" {
		return &remembered{row.Memory(), row.Since}, nil
	}
	if row.Identity == identity && marker.Incarnation < row.Incarnation &&
		l.s.sqlNow().Sub(row.BeganAt) < l.s.set.MarkGrace {
		return nil, budget.Refuse(budget.Unavailable, "verify a partition",
			"incarnation %d was begun just now and has no marker yet", row.Incarnation)
	}
	return l.beginIncarnation(ctx, row, identity, marker)
}

// checkClock refuses a partition whose clock differs from SQL's by more than ClockSkew.
func (l *partition) checkClock(ctx context.Context) error {
	began := l.s.sqlNow()
	at, err := l.store.Time(ctx, l.name)
	if err != nil {
		return err
	}
	ended, most := l.s.sqlNow(), l.s.set.ClockSkew
	if at.Before(began.Add(-most)) || at.After(ended.Add(most)) {
		return budget.Refuse(budget.Unavailable, "verify a partition", "its clock shows %s, SQL's %s",
			at.UTC().Format(time.RFC3339Nano), ended.UTC().Format(time.RFC3339Nano))
	}
	return nil
}

// beginIncarnation begins the next incarnation. From the commit on, every epoch that the memory
// does not have is lost. The node whose commit began the incarnation writes the marker, once. If
// that fails, another incarnation follows.
func (l *partition) beginIncarnation(ctx context.Context, row store.PartitionRow, identity string,
	marker bucket.Marker) (*remembered, error) {
	next := store.PartitionRow{Partition: l.name, Identity: identity, Incarnation: max(row.Incarnation,
		marker.Incarnation) + 1}
	next.Since = next.Incarnation
	kept, err := l.keeps(ctx, row, identity, marker)
	if err != nil {
		return nil, err
	}
	if kept {
		next.Since = row.Since
	}
	made, err := l.s.ledger.BeginIncarnation(ctx, row.Incarnation, next, cause(row,
		identity, marker, l.suspect))
	if err != nil {
		return nil, err
	}
	if !made {
		return nil, budget.Refuse(budget.Unavailable, "verify a partition",
			"another node is verifying it")
	}
	if err := l.store.Mark(ctx, next.Memory(), next.Since); err != nil {
		return nil, err
	}
	l.suspect = ""
	return &remembered{next.Memory(), next.Since}, nil
}

// cause says why an incarnation begins.
func cause(row store.PartitionRow, identity string, marker bucket.Marker, suspect string) string {
	switch {
	case row.Incarnation == 0 || row.Identity == "":
		return "first contact"
	case suspect != "":
		return suspect
	case row.Identity != identity:
		return fmt.Sprintf("another memory: %s, it was %s", identity, row.Identity)
	case marker.Incarnation == 0:
		return "the marker is missing"
	}
	return fmt.Sprintf("the marker is of incarnation %d", marker.Incarnation)
}

// keeps reports whether a durable store came back with the memory that SQL knows: with its marker,
// and with counters at or above SQL's.
func (l *partition) keeps(ctx context.Context, row store.PartitionRow, identity string,
	marker bucket.Marker) (bool, error) {
	if !l.store.Durable || row.Incarnation == 0 || marker.Incarnation == 0 || l.suspect != "" ||
		marker.Incarnation > row.Incarnation || marker.Incarnation < row.Since {
		return false, nil
	}
	m := bucket.Memory{Partition: l.name, Incarnation: marker.Incarnation, Identity: identity}
	for after := int64(0); ; {
		live, err := l.s.ledger.Live(ctx, l.name, after, store.MaxEpochs)
		if err != nil || len(live) == 0 {
			return err == nil, err
		}
		refs := make([]bucket.Ref, len(live))
		for i, e := range live {
			refs[i] = bucket.Ref{Bucket: e.Bucket, Epoch: e.Number, Incarnation: e.Incarnation}
		}
		entries, err := l.store.Read(ctx, m, refs)
		if err != nil {
			return false, err
		}
		for i, e := range live {
			absent := entries[i].Verdict != bucket.Accepted && entries[i].Verdict != bucket.Closed
			if e.Incarnation < row.Since || absent && e.Taken+e.GivenBack == 0 {
				continue
			}
			if absent || entries[i].Taken < e.Taken || entries[i].GivenBack < e.GivenBack {
				return false, nil
			}
		}
		after = live[len(live)-1].Bucket
	}
}

// GiveUp gives up the memories of partitions whose store does not come back. Their incarnations end
// in SQL, and their live epochs are lost. The units of these epochs go to quarantine, or to the
// total if the budget says on_loss: assume_unused. Move can then assign the buckets to other
// partitions, where earlier ids are unknown. The partitions must be drained, so that no epoch
// begins there. A store that comes back later starts with the next incarnation. Repeating GiveUp
// gives up what is left. Errors: Unavailable; OutcomeUnknown.
func (s *Service) GiveUp(ctx context.Context, partitions []bucket.Partition) (
	out bucket.GivenUp, err error) {
	for _, name := range partitions {
		row, err := s.ledger.Partition(ctx, name)
		if err != nil {
			return out, err
		}
		if row.Incarnation == 0 {
			continue // it never held anything
		}
		next := store.PartitionRow{Partition: name, Incarnation: row.Incarnation + 1,
			Since: row.Incarnation + 1}
		_, err = s.ledger.BeginIncarnation(ctx, row.Incarnation, next,
			"an operator gave it up")
		if err != nil {
			return out, err
		}
		if l := s.partitionOf(name); l != nil {
			l.known.Store(nil)
		}
		if err := s.endAllLost(ctx, name, &out); err != nil {
			return out, err
		}
	}
	return out, nil
}

// endAllLost ends the lost epochs of a partition.
func (s *Service) endAllLost(ctx context.Context, name bucket.Partition,
	out *bucket.GivenUp) error {
	for more := true; more; {
		done, err := s.ledger.EndLost(ctx, name)
		if err != nil {
			return err
		}
		out.Quarantined += done.Quarantined
		out.Returned += done.Returned
		s.observer.Moved("lose", done.Quarantined+done.Returned)
		more = done.More
	}
	return nil
}

// noteRaise notes a version of the limits of a bucket's budget, which the store has to know.
func (l *partition) noteRaise(bucketID, version int64) {
	l.raising.Lock()
	defer l.raising.Unlock()
	if l.raises == nil {
		l.raises = map[int64]int64{}
	}
	l.raises[bucketID] = max(l.raises[bucketID], version)
}

// raise tells a partition's store the versions that it has not confirmed. Errors: Unavailable with
// ReasonStoreDown; then they stay noted.
func (s *Service) raise(ctx context.Context, name bucket.Partition) error {
	l := s.partitionOf(name)
	l.raising.Lock()
	all := make([]bucket.LimitsVersion, 0, len(l.raises))
	for id, version := range l.raises {
		all = append(all, bucket.LimitsVersion{Bucket: id, Version: version})
	}
	l.raising.Unlock()
	if len(all) == 0 {
		return nil
	}
	m, err := l.memory(ctx)
	if err != nil {
		return err
	}
	if err := l.store.Raise(ctx, m.Memory, all); err != nil {
		_ = l.failed(m, err)
		return storeDown(l.name, err)
	}
	l.raising.Lock()
	defer l.raising.Unlock()
	for _, told := range all {
		if l.raises[told.Bucket] == told.Version {
			delete(l.raises, told.Bucket)
		}
	}
	return nil
}
