package counter

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/budgetd/budgetd/bucket"
	"github.com/budgetd/budgetd/budget"
)

// remembered is a memory that was verified.
type remembered struct {
	bucket.Memory
	// since is the first activation whose epochs the memory has.
	since int64
}

// memory returns the lane's memory, and verifies it first if necessary. For VerifyEvery after a
// failure it returns the same error. Error: Unavailable with ReasonStoreDown.
func (l *lane) memory(ctx context.Context) (*remembered, error) {
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
func (l *lane) forget(m *remembered) { l.known.CompareAndSwap(m, nil) }

// giveUp makes the next call begin another activation although marker and identity are right.
func (l *lane) giveUp(m *remembered, why string) {
	l.verifying.Lock()
	l.suspect, l.suspected = why, m.Activation
	l.verifying.Unlock()
	l.forget(m)
}

// storeDown is the error for a lane that cannot be used now. Nothing was done.
func storeDown(lane bucket.Lane, cause error) *budget.Error {
	e := &budget.Error{Code: budget.Unavailable, Op: "reach a store", Err: cause,
		RetryAfter: time.Second,
		Reason:     budget.ReasonStoreDown,
		Message: "the store of the budget's bucket (lane " + lane.String() +
			") cannot be used now: repeat later; `budgetctl instances` says why"}
	var known *budget.Error
	if errors.As(cause, &known) && known.Reason != "" {
		e.Reason = known.Reason
	}
	return e
}

// verify compares the store with SQL's row of the lane, and begins the next activation if the
// memory is not the one that SQL verified.
func (l *lane) verify(ctx context.Context) (*remembered, error) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), l.s.set.StepTime)
	defer cancel()
	identity, err := l.store.Identity(ctx, l.name)
	if err != nil {
		return nil, err
	}
	if err := l.checkClock(ctx); err != nil {
		return nil, err
	}
	row, err := l.s.ledger.Lanes.Lane(ctx, l.name)
	if err != nil {
		return nil, err
	}
	marker, err := l.store.Marker(ctx, l.name, identity, true)
	if err != nil {
		return nil, err
	}
	if row.Activation != l.suspected {
		l.suspect = "" // it was given up already
	}
	if row.Activation > 0 && row.Identity == identity && marker.Activation == row.Activation &&
		l.suspect == "" {
		return &remembered{row.Memory(), row.Since}, nil
	}
	if row.Identity == identity && marker.Activation < row.Activation &&
		l.s.sqlNow().Sub(row.ActivatedAt) < l.s.set.MarkGrace {
		return nil, budget.Refuse(budget.Unavailable, "verify a lane",
			"activation %d was begun just now and has no marker yet", row.Activation)
	}
	return l.activate(ctx, row, identity, marker)
}

// checkClock refuses a lane whose clock differs from SQL's by more than ClockSkew.
func (l *lane) checkClock(ctx context.Context) error {
	began := l.s.sqlNow()
	at, err := l.store.Time(ctx, l.name)
	if err != nil {
		return err
	}
	ended, most := l.s.sqlNow(), l.s.set.ClockSkew
	if at.Before(began.Add(-most)) || at.After(ended.Add(most)) {
		return budget.Refuse(budget.Unavailable, "verify a lane", "its clock shows %s, SQL's %s",
			at.UTC().Format(time.RFC3339Nano), ended.UTC().Format(time.RFC3339Nano))
	}
	return nil
}

// activate begins the next activation. From the commit on, every epoch that the memory does not
// have is lost. The node whose commit began the activation writes the marker, once. If that fails,
// another activation follows.
func (l *lane) activate(ctx context.Context, row LaneRow, identity string, marker bucket.Marker) (
	*remembered, error) {
	next := LaneRow{Lane: l.name, Identity: identity, Activation: max(row.Activation,
		marker.Activation) + 1}
	next.Since = next.Activation
	kept, err := l.keeps(ctx, row, identity, marker)
	if err != nil {
		return nil, err
	}
	if kept {
		next.Since = row.Since
	}
	made, err := l.s.ledger.Lanes.Activate(ctx, row.Activation, next, cause(row, identity, marker,
		l.suspect))
	if err != nil {
		return nil, err
	}
	if !made {
		return nil, budget.Refuse(budget.Unavailable, "verify a lane", "another node is verifying it")
	}
	if err := l.store.Mark(ctx, next.Memory(), next.Since); err != nil {
		return nil, err
	}
	l.suspect = ""
	return &remembered{next.Memory(), next.Since}, nil
}

// cause says why an activation begins.
func cause(row LaneRow, identity string, marker bucket.Marker, suspect string) string {
	switch {
	case row.Activation == 0 || row.Identity == "":
		return "first contact"
	case suspect != "":
		return suspect
	case row.Identity != identity:
		return fmt.Sprintf("another memory: %s, it was %s", identity, row.Identity)
	case marker.Activation == 0:
		return "the marker is missing"
	}
	return fmt.Sprintf("the marker is of activation %d", marker.Activation)
}

// keeps reports whether a durable store came back with the memory that SQL knows: with its marker,
// and with counters at or above SQL's.
func (l *lane) keeps(ctx context.Context, row LaneRow, identity string, marker bucket.Marker) (
	bool, error) {
	if !l.store.Durable || row.Activation == 0 || marker.Activation == 0 || l.suspect != "" ||
		marker.Activation > row.Activation || marker.Activation < row.Since {
		return false, nil
	}
	m := bucket.Memory{Lane: l.name, Activation: marker.Activation, Identity: identity}
	for after := int64(0); ; {
		live, err := l.s.ledger.Lanes.Live(ctx, l.name, after, MaxEpochs)
		if err != nil || len(live) == 0 {
			return err == nil, err
		}
		refs := make([]bucket.Ref, len(live))
		for i, e := range live {
			refs[i] = bucket.Ref{Bucket: e.Bucket, Epoch: e.Number, Activation: e.Activation}
		}
		entries, err := l.store.Read(ctx, m, refs)
		if err != nil {
			return false, err
		}
		for i, e := range live {
			absent := entries[i].Verdict != bucket.Accepted && entries[i].Verdict != bucket.Closed
			if e.Activation < row.Since || absent && e.Taken+e.GivenBack == 0 {
				continue
			}
			if absent || entries[i].Taken < e.Taken || entries[i].GivenBack < e.GivenBack {
				return false, nil
			}
		}
		after = live[len(live)-1].Bucket
	}
}

// GiveUp gives up the memories of lanes whose store does not come back. Their activations end in
// SQL, and their live epochs are lost. The units of these epochs go to quarantine, or to the total
// if the budget says on_loss: assume_unused. Move can then assign the buckets to other lanes, where
// earlier ids are unknown. The lanes must be drained, so that no epoch begins there. A store that
// comes back later starts with the next activation. Repeating GiveUp gives up what is left. Errors:
// Unavailable; OutcomeUnknown.
func (s *Service) GiveUp(ctx context.Context, lanes []bucket.Lane) (
	out bucket.GivenUp, err error) {
	for _, name := range lanes {
		row, err := s.ledger.Lanes.Lane(ctx, name)
		if err != nil {
			return out, err
		}
		if row.Activation == 0 {
			continue // it never held anything
		}
		next := LaneRow{Lane: name, Activation: row.Activation + 1, Since: row.Activation + 1}
		_, err = s.ledger.Lanes.Activate(ctx, row.Activation, next, "an operator gave it up")
		if err != nil {
			return out, err
		}
		if l := s.laneOf(name); l != nil {
			l.known.Store(nil)
		}
		if err := s.endAllLost(ctx, name, &out); err != nil {
			return out, err
		}
	}
	return out, nil
}

// endAllLost ends the lost epochs of a lane.
func (s *Service) endAllLost(ctx context.Context, name bucket.Lane, out *bucket.GivenUp) error {
	for more := true; more; {
		done, err := s.ledger.Lanes.EndLost(ctx, name)
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

// givenUp reports whether an operator gave the lane up and no store was verified since.
func (r *LaneRow) givenUp() bool { return r.Activation > 0 && r.Identity == "" }
