package bucket

import (
	"context"
	"errors"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

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
	activation int64  // 0: not verified
	identity   string // who it was then
	problem    string
	// down makes requests go elsewhere at once; the prober clears it.
	down bool
	// lostUnder is the activation under which a sign of lost memory was seen; 0: none.
	lostUnder int64

	recovering chan struct{} // held by one verification at a time
	verifying  atomic.Bool   // one of them is waiting in the background
	warned     string        // the warnings given last; whoever is recovering has it

	reached, unreached atomic.Bool  // since the last look of watchLanes; at the last attempt
	misses             atomic.Int64 // attempts since then that did not reach it
	probing, ending    atomic.Bool  // a probe, an abandon is under way in the background
	draining, moving   atomic.Bool  // its buckets go elsewhere; this node is at it

	// Store mode.
	acks      *acknowledgements
	behind    behind
	unsettled atomic.Int64 // under this activation, or a later one, there may be epochs to settle; 0: there are none
	forgetful atomic.Bool  // its store answers writes before they are on its disk
	// ahead is by how much the lane's clock is ahead of SQL's, in ms, measured when it was activated.
	ahead atomic.Int64
	// unsettledSince is when the first of them was seen, by their activation. One loop has it.
	unsettledSince map[int64]time.Duration
}

// admitted is a store's answer to a deduction; outcome is set when it is in the ledger already.
type admitted struct {
	reply   Reply
	outcome *ledger.Outcome
}

func (s *Service) newLane(id Lane, instance Instance) *lane {
	l := &lane{id: id, instance: instance, problem: "not reached yet", recovering: make(chan struct{}, 1),
		acks: newAcknowledgements(), behind: behind{epochs: map[Ref]*trail{}}}
	l.direct, _ = instance.(Direct)
	l.deducts = &batcher[Operation, admitted]{size: s.set.BatchSize, bound: s.set.Queue, workers: 1, turns: s.turns,
		owner: func(op Operation) int64 { return op.Budget },
		run:   func(ops []Operation) []result[admitted] { return s.deductBatch(l, ops) }}
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
	s.observer.LaneCall(l.id, len(ops), s.clock.Now().Sub(began))
	if err != nil {
		return failAll[admitted](len(ops), s.laneFailed(ctx, l, under, err))
	}
	l.reached.Store(true)
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
	if !l.down {
		s.log.Warn("lane is down; requests go elsewhere", "lane", l.id.String(), "error", err)
	}
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
	s.apart("verify", func(ctx context.Context) {
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

// lost reports whether the lane's memory of an activation is known to be lost: nobody of this node will use
// that activation again.
func (l *lane) lost(activation int64) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return activation < l.activation || activation <= l.lostUnder
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
	return l.down && (l.lostUnder == 0 || l.unreached.Load())
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

// laneOf returns the lane, or Unavailable when its instance is not configured on this node.
func (s *Service) laneOf(id Lane) (*lane, error) {
	if l := s.lanes[id]; l != nil {
		return l, nil
	}
	return nil, budget.Refuse(budget.Unavailable, "store",
		"lane %s is not in this node's configuration; add its instance", id)
}

// Lanes shows every configured lane, while SQL can be reached with its number of buckets.
func (s *Service) Lanes(ctx context.Context) ([]LaneView, error) {
	step, cancel := context.WithTimeout(ctx, time.Second)
	defer cancel()
	rows, err := s.sql.LaneRows(step, s.laneOrder)
	if err != nil {
		s.failed("sql", err)
	}
	loads, err := s.sql.LaneLoads(step, s.laneOrder)
	if err != nil {
		s.failed("sql", err)
	}
	views := make([]LaneView, 0, len(s.laneOrder))
	for _, id := range s.laneOrder {
		l := s.lanes[id]
		l.mu.Lock()
		v := LaneView{Lane: id, Activation: l.activation, Reachable: !l.down && l.activation > 0,
			Problem: l.problem, Draining: l.draining.Load()}
		l.mu.Unlock()
		if load, ok := loads[id]; ok {
			v.Buckets = &load.Buckets
		}
		if row, ok := rows[id]; ok {
			v.Draining = row.Draining
		}
		views = append(views, v)
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
