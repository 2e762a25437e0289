package bucket

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"strings"

	"golang.org/x/sync/errgroup"

	"github.com/budgetd/budgetd/budget"
)

// ensureLane verifies who the lane is and prepares it for its activation; a lane whose identity is
// not the one that SQL verified, or that showed a sign of lost memory, gets the next activation
// first, and its older epochs are lost: in ledger mode their units return to the total (DESIGN 6,
// recover a lane). It reports whether the lane can be used now.
func (s *Service) ensureLane(ctx context.Context, l *lane) bool {
	if s.enter(ctx, l.recovering) != nil {
		return false
	}
	defer func() { <-l.recovering }()
	l.mu.Lock()
	lostUnder := l.lostUnder
	l.mu.Unlock()
	row, err := s.verifyLane(ctx, l, lostUnder)
	l.mu.Lock()
	defer l.mu.Unlock()
	if err != nil {
		if !l.down {
			s.log.Warn("lane is not in use", "lane", l.id.String(), "error", err)
		}
		l.down, l.problem = true, err.Error()
		s.failed("store", err)
		return false
	}
	if l.down {
		s.log.Info("lane is in use again", "lane", l.id.String(), "activation", row.Activation)
	}
	if l.lostUnder != lostUnder {
		return false // another sign was seen meanwhile: verify again
	}
	l.activation, l.identity, l.down, l.problem, l.lostUnder = row.Activation, row.Identity, false, "", 0
	return true
}

// verifyLane returns the lane's row once its store serves that activation.
func (s *Service) verifyLane(ctx context.Context, l *lane, lostUnder int64) (row LaneRow, err error) {
	identity, err := l.instance.Identity(ctx, l.id)
	if err != nil {
		return row, l.missed(err)
	}
	row, err = s.sql.Lane(ctx, l.id, identity)
	if err != nil {
		return row, err
	}
	if row.Identity != identity || row.Activation == lostUnder {
		was := row.Activation
		if row, err = s.sql.NextActivation(ctx, l.id, was, identity); err != nil {
			return row, err
		}
		s.log.Warn("lane lost its memory; its epochs are being replaced", "lane", l.id.String(),
			"activation", row.Activation, "was", was)
		if row.Identity != identity {
			return row, unavailable("verify", errors.New("another node meets another store at this address"))
		}
	}
	if _, err := s.loseStale(ctx, l, row.Activation); err != nil {
		return row, err
	}
	if err := s.checkSettings(ctx, l, row.Activation); err != nil {
		return row, err
	}
	if err := l.instance.Activate(ctx, l.id, identity, row.Activation); err != nil {
		return row, l.missed(err)
	}
	if err := s.compareClocks(ctx, l); err != nil {
		return row, l.missed(err)
	}
	l.met()
	l.unsettled.Store(row.Activation)
	return row, nil
}

// missed notes that an attempt to reach the lane failed, and returns why. A store that is not who it
// was is reached.
func (l *lane) missed(err error) error {
	if !errors.Is(err, ErrMemoryLost) {
		l.misses.Add(1)
		l.unreached.Store(true)
	}
	return err
}

// met notes that the lane was reached.
func (l *lane) met() {
	l.reached.Store(true)
	l.unreached.Store(false)
}

// checkSettings warns, once per activation, of the settings of a lane's store that may lose what it
// holds. Error where `strict` refuses them: the lane is then not activated.
func (s *Service) checkSettings(ctx context.Context, l *lane, activation int64) error {
	inspected, ok := l.instance.(Inspected)
	if !ok {
		return nil
	}
	condition, err := inspected.Condition(ctx, l.id)
	if err != nil {
		return l.missed(err)
	}
	l.forgetful.Store(!condition.Persistent)
	if refused := condition.Refused(); s.set.Strict && len(refused) > 0 {
		l.met() // it is there, and its units are not sold elsewhere: a person decides
		return budget.Refuse(budget.Unavailable, "verify", "strict: %s", strings.Join(refused, "; "))
	}
	all := condition.warnings(activation)
	if l.warned != all {
		for _, f := range condition.Findings {
			s.log.Warn("setting of an instance", "lane", l.id.String(), "activation", activation, "problem", f.Problem)
		}
	}
	l.warned = all
	return nil
}

// loseBatch is how many epochs are lost in one transaction.
const loseBatch = 100

// loseStale ends the epochs of older activations, many in one transaction: nothing of them can be
// committed any more. It returns how many it ended. Those of budgets in store mode are left to
// settleLanes: what is left of their logs counts.
func (s *Service) loseStale(ctx context.Context, l *lane, activation int64) (ended int, err error) {
	const workers = 4
	for ctx.Err() == nil {
		stale, err := s.sql.Stale(ctx, l.id, activation, workers*loseBatch)
		if err != nil || len(stale) == 0 {
			return ended, err
		}
		// By budget, so that as few as can be have to be locked by two of them.
		slices.SortStableFunc(stale, func(a, b EpochOf) int { return cmp.Compare(a.Budget, b.Budget) })
		var all errgroup.Group
		for batch := range slices.Chunk(stale, loseBatch) {
			place := s.turns.take()
			all.Go(func() error { s.turns.wait(place); return s.loseAll(ctx, l.id, batch) })
		}
		if err := all.Wait(); err != nil {
			return ended, err
		}
		if ended += len(stale); len(stale) < workers*loseBatch {
			return ended, nil
		}
	}
	return ended, ctx.Err()
}

// loseAll ends epochs of a lane in one transaction.
func (s *Service) loseAll(ctx context.Context, id Lane, epochs []EpochOf) error {
	refs, held := make([]Ref, len(epochs)), map[Ref]int64{}
	for i, e := range epochs {
		refs[i] = Ref{Bucket: e.Row.Bucket, Epoch: e.Row.Number, Activation: e.Row.Activation}
		held[refs[i]] = e.Row.Outstanding
	}
	lost, err := s.sql.LoseAll(ctx, refs)
	if err != nil || len(lost) == 0 {
		return err
	}
	units := int64(0)
	for _, ref := range lost {
		units += held[ref]
	}
	s.observer.Moved("lose", units)
	s.log.Info("epochs lost; their units returned to the total", "lane", id.String(), "epochs", len(lost),
		"units", units)
	return nil
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
