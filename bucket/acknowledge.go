package bucket

import (
	"context"
	"encoding/hex"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/budgetd/budgetd/budget"
	"github.com/budgetd/budgetd/internal/safeguard"
)

// acknowledgements is what this node tells callers on the word of one lane, in store mode: how far
// the logs must reach for all of it to be found. It decides, when the lane lost its memory, whether
// what an epoch held can return to the total or has to be quarantined (I2).
type acknowledgements struct {
	// gate is held while SQL is told of the use of an activation.
	gate chan struct{}

	mu sync.Mutex
	// used is the activation of which SQL knows that this node acknowledges under it; 0: none.
	used int64
	// over is the latest activation whose use was reported: nothing more is acknowledged under it.
	over int64
	// until ends the right to acknowledge unless SQL hears from this node again, of Service.now: see
	// endSilent.
	until time.Duration
	upTo  map[Ref]int64
}

func newAcknowledgements() *acknowledgements {
	return &acknowledgements{gate: make(chan struct{}, 1), upTo: map[Ref]int64{}}
}

// acknowledge notes a position that a caller is about to be told of. false: the use of its activation
// is over, so nobody may be told "accepted" any more.
func (a *acknowledgements) acknowledge(ref Ref, seq int64, now time.Duration) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	late := now >= a.until && !safeguard.Off(safeguard.UseLease)
	if ref.Activation <= a.over || ref.Activation != a.used || late {
		return false
	}
	if !safeguard.Off(safeguard.AcknowledgedFirst) {
		a.upTo[ref] = max(a.upTo[ref], seq)
	}
	return true
}

// known is the highest position of an epoch that was acknowledged and is not known to be in the
// ledger; 0: none.
func (a *acknowledgements) known(ref Ref) int64 {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.upTo[ref]
}

// forget drops what is in the ledger.
func (a *acknowledgements) forget(ref Ref, drained int64) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if seq, ok := a.upTo[ref]; ok && seq <= drained {
		delete(a.upTo, ref)
	}
}

// end stops acknowledging under an activation and returns what was acknowledged beyond the ledger.
func (a *acknowledgements) end(activation int64) map[Ref]int64 {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.over = max(a.over, activation)
	out := map[Ref]int64{}
	for ref, seq := range a.upTo {
		if ref.Activation == activation {
			out[ref] = seq
		}
	}
	return out
}

// reported forgets an activation whose report SQL has, and no other: the report of an earlier one may
// have failed.
func (a *acknowledgements) reported(activation int64) {
	a.mu.Lock()
	defer a.mu.Unlock()
	maps.DeleteFunc(a.upTo, func(ref Ref, _ int64) bool {
		return ref.Activation == activation || ref.Activation < activation && safeguard.Off(safeguard.ReportApart)
	})
}

// uses reports whether SQL knows that this node acknowledges under an activation, and for a while yet.
func (a *acknowledgements) uses(activation int64, now time.Duration) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.used == activation && a.over < activation && now < a.until-useRenewed
}

// extend notes that SQL gave this node a lease of the use of an activation, not before `began`.
func (a *acknowledgements) extend(activation int64, began, lease time.Duration) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if activation >= a.used {
		a.used, a.until = activation, max(a.until, began+lease)
	}
}

// ended reports whether this node has said, or is about to say, how far it acknowledged under an activation.
func (a *acknowledgements) ended(activation int64) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	return activation <= a.over
}

// inUse returns the activation under which this node acknowledges; 0: none.
func (a *acknowledgements) inUse() int64 {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.used > a.over {
		return a.used
	}
	return 0
}

// A node acknowledges until its lease is over, by a clock that does not step. One whose lease has been over
// for useSilence acknowledges nothing any more that its stores did after that: once the logs are drained its
// uses can be ended by others, so that a node which was killed does not leave units to be quarantined when,
// weeks later, a store loses its memory. Deductions renew a lease from useRenewed before its end on.
const useRenewed, useSilence = 5 * time.Second, 20 * time.Second

// useLease is how long this node may acknowledge after SQL last heard of it: while SQL cannot be reached,
// deductions go on for the window's time.
func (s *Service) useLease() time.Duration {
	return max(s.set.WindowTime, defaultWindowTime) + useRenewed
}

// seeUses tells SQL that this node is alive. When somebody ended its uses, it goes on under another
// name.
func (s *Service) seeUses(ctx context.Context) {
	node := s.node.Load() // before its lanes: those of a later name are not looked for under this one
	activations := map[*lane]int64{}
	for _, l := range s.lanes {
		if activation := l.acks.inUse(); activation > 0 {
			activations[l] = activation
		}
	}
	if len(activations) == 0 {
		return
	}
	began := s.now()
	uses, err := s.sql.SeeUses(ctx, *node, s.useLease())
	if err != nil {
		s.failed("sql", err)
		return
	}
	var alive []*lane
	for l, activation := range activations {
		switch {
		case slices.ContainsFunc(uses, func(u LaneUse) bool { return u.Lane == l.id && u.Activation == activation }):
			alive = append(alive, l)
		case l.acks.inUse() == activation: // not ended by this node's own report
			s.rename(node)
			return
		}
	}
	for _, l := range alive {
		s.extend(l, node, activations[l], began)
	}
}

// extend notes that SQL gave one of this node's names a lease of the use of an activation, not before `began`. false: it
// has another name by now, which has no use of it.
func (s *Service) extend(l *lane, node *string, activation int64, began time.Duration) bool {
	s.namesMu.Lock()
	defer s.namesMu.Unlock()
	if s.node.Load() != node {
		return false
	}
	l.acks.extend(activation, began, s.useLease())
	return true
}

// rename gives this node another name, whose uses nobody has ended. Those of the name before that are not ended are
// still reported by it.
func (s *Service) rename(was *string) {
	next := hex.EncodeToString([]byte(s.nonce()))
	s.namesMu.Lock()
	defer s.namesMu.Unlock()
	if !s.node.CompareAndSwap(was, &next) {
		return // somebody else noticed too
	}
	s.formerNames = append(s.formerNames, *was)
	s.log.Warn("this node was silent for too long; it goes on under another name", "was", *was, "node", next)
	for _, l := range s.lanes {
		l.acks.mu.Lock()
		l.acks.used = 0
		l.acks.mu.Unlock()
	}
}

// endSilent ends the uses of nodes that stopped without a report, once everything that their lanes
// did is in the ledger.
func (s *Service) endSilent(ctx context.Context) {
	const limit = 100
	uses, err := s.sql.SilentUses(ctx, useSilence, limit)
	if err != nil {
		s.failed("sql", err)
		return
	}
	drained := map[Lane]bool{}
	for _, u := range uses {
		l := s.lanes[u.Lane]
		if l == nil || !s.usable(l, u.Activation) {
			continue
		}
		if !drained[u.Lane] {
			if err := s.drainLane(ctx, u.Lane); err != nil || !s.stillWho(ctx, l, u.Activation) {
				continue
			}
			drained[u.Lane] = true
		}
		if err := s.sql.EndSilent(ctx, u, useSilence); err != nil {
			s.failed("sql", err)
			continue
		}
		s.log.Info("use of a silent node ended: the logs of its lane are drained", "node", u.Node, "lane", u.Lane.String())
	}
}

// stillWho reports whether a lane is the one that was activated: what was read of it until now was
// then its memory, and none that went back meanwhile.
func (s *Service) stillWho(ctx context.Context, l *lane, activation int64) bool {
	l.mu.Lock()
	identity := l.identity
	l.mu.Unlock()
	who, err := l.instance.Identity(ctx, l.id)
	return err == nil && who == identity && s.usable(l, activation)
}

// drainLane drains all live epochs of a lane up to where their logs stand.
func (s *Service) drainLane(ctx context.Context, id Lane) error {
	for after := (Ref{}); ; {
		epochs, err := s.sql.Live(ctx, id, after, choresLimit)
		if err != nil {
			return err
		}
		if err := s.drainEpochs(ctx, epochs); err != nil {
			return err
		}
		if len(epochs) < choresLimit {
			return nil
		}
		last := epochs[len(epochs)-1].Row
		after = Ref{Bucket: last.Bucket, Epoch: last.Number}
	}
}

// useLane lets this node acknowledge under a lane's activation: SQL is told first, once per
// activation. Unavailable when the lane has another one by now.
func (s *Service) useLane(ctx context.Context, l *lane, activation int64) error {
	if l.acks.uses(activation, s.now()) {
		return nil
	}
	if err := s.enter(ctx, l.acks.gate); err != nil {
		return err
	}
	defer func() { <-l.acks.gate }()
	if l.acks.uses(activation, s.now()) {
		return nil
	}
	if l.acks.ended(activation) { // by this node's own report: no name of it may have another use
		return beingRecovered(l)
	}
	began, node := s.now(), s.node.Load()
	state, err := s.sql.UseLane(ctx, *node, l.id, activation, s.useLease())
	switch {
	case err != nil:
		return s.sqlFailed(err)
	case state == UseEnded:
		s.rename(node) // others took this node for one that stopped
	case state == UseNoted && s.extend(l, node, activation, began):
		return nil
	}
	return beingRecovered(l)
}

func beingRecovered(l *lane) error {
	return budget.Refuse(budget.Unavailable, "store", "lane %s is being recovered", l.id)
}

// reportUses tells SQL how far this node acknowledged under activations that are over; all of them
// when it stops for good. It reports whether nothing is left to report.
func (s *Service) reportUses(ctx context.Context, stopping bool) bool {
	s.namesMu.Lock()
	former := slices.Clone(s.formerNames)
	s.namesMu.Unlock()
	done := true
	for _, name := range former {
		left, ok := s.reportUsesOf(ctx, name, stopping)
		if done = done && ok; ok && left == 0 {
			s.namesMu.Lock()
			s.formerNames = slices.DeleteFunc(s.formerNames, func(n string) bool { return n == name })
			s.namesMu.Unlock()
		}
	}
	_, ok := s.reportUsesOf(ctx, *s.node.Load(), stopping)
	return done && ok
}

// reportUsesOf is reportUses for one of this node's names. It returns how many uses of it are left.
func (s *Service) reportUsesOf(ctx context.Context, name string, stopping bool) (left int, done bool) {
	uses, err := s.sql.LaneUses(ctx, name)
	if err != nil {
		s.failed("sql", err)
		return 0, false
	}
	left, done = len(uses), true
	for _, u := range uses {
		l := s.lanes[u.Lane]
		if l == nil || !u.Over && !stopping {
			continue
		}
		if err := s.sql.ReportLane(ctx, name, u.Lane, u.Activation, l.acks.end(u.Activation)); err != nil {
			s.failed("sql", err)
			done = false
			continue
		}
		left--
		l.acks.reported(u.Activation)
	}
	return left, done
}

// usesAny reports whether this node may have a use to report.
func (s *Service) usesAny() bool {
	s.namesMu.Lock()
	former := len(s.formerNames)
	s.namesMu.Unlock()
	if former > 0 {
		return true
	}
	for _, l := range s.lanes {
		l.acks.mu.Lock()
		used := l.acks.used
		l.acks.mu.Unlock()
		if used > 0 {
			return true
		}
	}
	return false
}
