package bucket

import (
	"context"
	"errors"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/budgetd/budgetd/budget"
	"github.com/budgetd/budgetd/ledger"
)

// String names a lane as the placement ring and people do.
func (l Lane) String() string { return l.Instance + "/" + strconv.Itoa(l.Index) }

// bucketKey is the public name of a bucket.
func bucketKey(name string, ordinal int) string { return name + ":bucket-" + strconv.Itoa(ordinal) }

func compareLanes(a, b Lane) int {
	if c := strings.Compare(a.Instance, b.Instance); c != 0 {
		return c
	}
	return a.Index - b.Index
}

// lane is one lane as this node knows it.
type lane struct {
	id       Lane
	instance Instance
	direct   Direct // nil: deducting and committing are two steps
	deducts  *batcher[Operation, admitted]

	mu         sync.Mutex
	activation int64 // 0: not verified
	problem    string
	// down makes requests go elsewhere at once; the prober clears it.
	down bool
	// lostUnder is the activation under which a sign of lost memory was seen; 0: none.
	lostUnder int64

	recovering sync.Mutex  // one verification at a time
	verifying  atomic.Bool // one of them is waiting in the background
}

// admitted is a store's answer to a deduction; outcome is set when it is in the ledger already.
type admitted struct {
	reply   Reply
	outcome *ledger.Outcome
}

func (s *Service) newLane(id Lane, instance Instance) *lane {
	l := &lane{id: id, instance: instance, problem: "not reached yet"}
	l.direct, _ = instance.(Direct)
	l.deducts = &batcher[Operation, admitted]{size: s.set.BatchSize, bound: s.set.Queue, workers: 1,
		run: func(ops []Operation) []result[admitted] { return s.deductBatch(l, ops) }}
	return l
}

// deductBatch sends one aggregated call.
func (s *Service) deductBatch(l *lane, ops []Operation) []result[admitted] {
	ctx, cancel := s.bounded(context.Background())
	defer cancel()
	began, under := s.clock.Now(), l.current()
	var replies []Reply
	var outcomes []*ledger.Outcome
	var err error
	if l.direct != nil {
		replies, outcomes, err = l.direct.DeductAndCommit(ctx, l.id, ops)
	} else {
		replies, err = l.instance.Deduct(ctx, l.id, ops)
	}
	s.observer.LaneCall(l.id.Instance, len(ops), s.clock.Now().Sub(began))
	if err != nil {
		return failAll[admitted](len(ops), s.laneFailed(ctx, l, under, err))
	}
	out := make([]result[admitted], len(ops))
	rows, duplicates, returned := 0, 0, int64(0)
	for i := range out {
		out[i].answer.reply = replies[i]
		if outcomes == nil || outcomes[i] == nil {
			continue
		}
		out[i].answer.outcome = outcomes[i]
		rows++
		if dup := outcomes[i].Duplicate; dup != nil {
			duplicates++
			returned += dup.Amount
		}
	}
	if l.direct != nil {
		s.observer.Commit(rows, duplicates, returned, s.clock.Now().Sub(began))
	}
	return out
}

// laneFailed notes that a call made under an activation failed: a lane that lost its memory is
// verified anew, one that cannot be reached is skipped until it was reached again, which is tried at
// once. A call that its own context ended says nothing about the lane; nor does a failed transaction
// of a lane in the ledger's own database. It returns the error as the protocol knows it.
func (s *Service) laneFailed(ctx context.Context, l *lane, under int64, err error) error {
	s.failed("store", err)
	switch {
	case errors.Is(err, ErrMemoryLost):
		s.memoryLost(l, under, "the store does not know the scripts of its activation, or is not who it was")
		return &budget.Error{Code: budget.Unavailable, Op: "store",
			Message: "instance " + l.id.Instance + " lost its memory and is being recovered", Err: err}
	case ctx.Err() != nil || l.direct != nil:
		return err
	}
	l.mu.Lock()
	l.down, l.problem = true, err.Error()
	l.mu.Unlock()
	s.verifySoon(l)
	return err
}

// verifySoon verifies a lane in the background, unless that is going on already.
func (s *Service) verifySoon(l *lane) {
	if !l.verifying.CompareAndSwap(false, true) {
		return
	}
	s.later("verify", func(ctx context.Context) {
		if s.ensureLane(ctx, l) {
			s.finishUnfinished(ctx)
		}
	}, func() { l.verifying.Store(false) })
}

// failed tells the observer of a failed call.
func (s *Service) failed(where string, err error) { s.observer.Failed(where, budget.CodeOf(err)) }

// current is the activation this node has verified.
func (l *lane) current() int64 {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.activation
}

// usable reports whether requests may be sent to the lane for an epoch of that activation. Where the
// epoch is newer than what this node has verified, another node recovered the lane: verify it too.
func (s *Service) usable(l *lane, activation int64) bool {
	l.mu.Lock()
	behind := l.activation < activation && !l.down
	fit := !l.down && l.activation == activation
	l.mu.Unlock()
	if behind {
		s.verifySoon(l)
	}
	return fit
}

// isDown reports whether a lane cannot be reached; one that is being recovered will be in a moment.
func (s *Service) isDown(id Lane) bool {
	l := s.lanes[id]
	if l == nil {
		return true
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.down && l.lostUnder == 0
}

// unusable lists the lanes that this node cannot use now.
func (s *Service) unusable() []Lane {
	var out []Lane
	for _, id := range s.laneOrder {
		l := s.lanes[id]
		l.mu.Lock()
		if l.down || l.activation == 0 {
			out = append(out, id)
		}
		l.mu.Unlock()
	}
	return out
}

// ensureLane verifies who the lane is and prepares it for its activation; a lane whose identity is
// not the one that SQL verified, or that showed a sign of lost memory, gets the next activation
// first, and its older epochs are lost: in ledger mode their units return to the total (DESIGN 6,
// recover a lane). It reports whether the lane can be used now.
func (s *Service) ensureLane(ctx context.Context, l *lane) bool {
	l.recovering.Lock()
	defer l.recovering.Unlock()
	l.mu.Lock()
	lostUnder := l.lostUnder
	l.mu.Unlock()
	activation, err := s.verifyLane(ctx, l, lostUnder)
	l.mu.Lock()
	defer l.mu.Unlock()
	if err != nil {
		l.down, l.problem = true, err.Error()
		s.failed("store", err)
		return false
	}
	if l.down {
		s.log.Info("lane is in use again", "lane", l.id.String(), "activation", activation)
	}
	if l.lostUnder != lostUnder {
		return false // another sign was seen meanwhile: verify again
	}
	l.activation, l.down, l.problem, l.lostUnder = activation, false, "", 0
	return true
}

func (s *Service) verifyLane(ctx context.Context, l *lane, lostUnder int64) (activation int64, err error) {
	identity, err := l.instance.Identity(ctx, l.id)
	if err != nil {
		return 0, err
	}
	row, err := s.sql.Lane(ctx, l.id, identity)
	if err != nil {
		return 0, err
	}
	if row.Identity != identity || row.Activation == lostUnder {
		was := row.Activation
		if row, err = s.sql.NextActivation(ctx, l.id, was, identity); err != nil {
			return 0, err
		}
		s.log.Warn("lane lost its memory; its epochs are being replaced", "lane", l.id.String(),
			"activation", row.Activation, "was", was)
		if row.Identity != identity {
			return 0, unavailable("verify", errors.New("another node meets another store at this address"))
		}
	}
	if err := s.loseStale(ctx, l, row.Activation); err != nil {
		return 0, err
	}
	return row.Activation, l.instance.Activate(ctx, l.id, identity, row.Activation)
}

// loseStale ends the epochs of older activations, several at a time: nothing of them can be
// committed any more.
func (s *Service) loseStale(ctx context.Context, l *lane, activation int64) error {
	const page, workers = 200, 8
	for ctx.Err() == nil {
		stale, err := s.sql.Stale(ctx, l.id, activation, page)
		if err != nil {
			return err
		}
		var all errgroup.Group
		all.SetLimit(workers)
		for _, e := range stale {
			all.Go(func() error { _, err := s.lose(ctx, e); return err })
		}
		if err := all.Wait(); err != nil {
			return err
		}
		if len(stale) < page {
			return nil
		}
	}
	return ctx.Err()
}

func (s *Service) lose(ctx context.Context, e EpochOf) (bool, error) {
	ref := Ref{Bucket: e.Row.Bucket, Epoch: e.Row.Number, Activation: e.Row.Activation}
	lost, err := s.sql.Lose(ctx, ref)
	if lost {
		s.observer.Moved("lose", e.Row.Outstanding)
		s.log.Info("epoch lost; its units returned to the total", "budget", e.Budget, "bucket", ref.Bucket,
			"epoch", ref.Epoch, "units", e.Row.Outstanding)
	}
	return lost, err
}

// memoryLost recovers a lane in the background, and keeps requests from it meanwhile. under is the
// activation under which the sign was seen: one that this node has left already means nothing.
func (s *Service) memoryLost(l *lane, under int64, why string) {
	l.mu.Lock()
	if under == 0 || l.activation != under || l.lostUnder == under {
		l.mu.Unlock()
		return
	}
	l.down, l.problem, l.lostUnder = true, why, under
	l.mu.Unlock()
	s.verifySoon(l)
}

// probeLanes tries the lanes that are down, side by side.
func (s *Service) probeLanes(context.Context) {
	for _, id := range s.laneOrder {
		l := s.lanes[id]
		l.mu.Lock()
		down := l.down
		l.mu.Unlock()
		if down {
			s.verifySoon(l)
		}
	}
}

// laneOf returns the lane, or Unavailable when its instance is not configured on this node.
func (s *Service) laneOf(id Lane) (*lane, error) {
	if l := s.lanes[id]; l != nil {
		return l, nil
	}
	return nil, budget.Refuse(budget.Unavailable, "store",
		"lane %s is not in this node's configuration; add its instance", id)
}

// Lanes shows every configured lane.
func (s *Service) Lanes(context.Context) ([]LaneView, error) {
	views := make([]LaneView, 0, len(s.laneOrder))
	for _, id := range s.laneOrder {
		l := s.lanes[id]
		l.mu.Lock()
		views = append(views, LaneView{Lane: id, Activation: l.activation,
			Reachable: !l.down && l.activation > 0, Problem: l.problem})
		l.mu.Unlock()
	}
	return views, nil
}

// Ready says why this node should not get requests; nothing when it should. One lane that serves is
// enough: what lies on the others is answered with Unavailable or found elsewhere.
func (s *Service) Ready(ctx context.Context) []string {
	var reasons []string
	step, cancel := context.WithTimeout(ctx, time.Second)
	defer cancel()
	if _, err := s.sql.Versions(step, nil); err != nil {
		reasons = append(reasons, "database: "+err.Error())
	}
	serving := 0
	var lanes []string
	for _, id := range s.laneOrder {
		l := s.lanes[id]
		l.mu.Lock()
		if l.down || l.activation == 0 {
			lanes = append(lanes, "lane "+id.String()+": "+l.problem)
		} else {
			serving++
		}
		l.mu.Unlock()
	}
	if serving == 0 {
		reasons = append(reasons, lanes...)
	}
	return reasons
}
