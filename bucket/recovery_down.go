package bucket

import (
	"context"
	"time"
)

// An instance that is down (DESIGN 6). Every node that reaches a lane notes it on the lane's row, about
// once a second, and every note changes the row. A node that has not reached the lane itself for
// down_after, while the row stayed as it was all the time, declares the lane down: it moves the row to
// the next activation, if it is still the row it watched. Nothing of the epochs before can be committed
// any more, so they are lost, and their units are handed out on other lanes. Figures are compared for
// being equal and durations taken from this node's own steady clock: no two clocks are compared, and
// nobody waits for a lease.

// leastMisses is how many attempts of its own must have failed before a node declares a lane down.
const leastMisses = 3

// watch is how long nobody has been seen to reach a lane.
type watch struct {
	// row is as it was when the watch began, since when that was (Service.now).
	row   LaneRow
	since time.Duration
	// misses are this node's failed attempts since then.
	misses int64
}

// look returns the watch after a look at the lane's row, and whether the lane is to be declared down.
// The watch begins anew when this node reached the lane, or the row was changed by whoever did.
func (w watch) look(row LaneRow, reached bool, misses int64, now, downAfter time.Duration) (watch, bool) {
	if reached || row != w.row {
		return watch{row: row, since: now}, false
	}
	w.misses += misses
	return w, now-w.since >= downAfter && w.misses >= leastMisses && misses > 0
}

// beat is how often lanes are noted and looked at.
func (s *Service) beat() time.Duration { return min(time.Second, s.set.DownAfter/5) }

// watchLanes notes the lanes that this node reached since the last look, in one statement, and looks at
// the rows of all in another. Lanes in the ledger's own database are left out: they are there when it
// is. A look that comes late (a node that was stopped) or fails begins every watch anew.
func (s *Service) watchLanes(ctx context.Context) {
	now := s.now()
	if now-s.watchedAt > s.set.DownAfter/2 {
		clear(s.watches)
	}
	s.watchedAt = now
	var all, reached []Lane
	met := map[Lane]bool{}
	for _, id := range s.laneOrder {
		l := s.lanes[id]
		if l.direct != nil {
			continue
		}
		all = append(all, id)
		if met[id] = l.reached.Swap(false); met[id] {
			reached = append(reached, id)
		}
		s.probe(l)
	}
	if len(all) == 0 {
		return
	}
	step, cancel := s.bounded(ctx)
	defer cancel()
	err := s.sql.Reached(step, reached)
	var rows map[Lane]LaneRow
	if err == nil {
		rows, err = s.sql.LaneRows(step, all)
	}
	if err != nil {
		s.failed("sql", err)
		clear(s.watches)
		return
	}
	for _, id := range all {
		if row, known := rows[id]; known {
			s.watchLane(s.lanes[id], row, met[id], now)
		}
	}
}

// watchLane looks at one lane's row.
func (s *Service) watchLane(l *lane, row LaneRow, met bool, now time.Duration) {
	w, due := s.watches[l.id].look(row, met, l.misses.Swap(0), now, s.set.DownAfter)
	s.watches[l.id] = w
	l.mu.Lock()
	down := l.down
	l.mu.Unlock()
	if !down {
		s.usable(l, row.Activation) // verifies it where another node moved it on
		return
	}
	if !l.ending.CompareAndSwap(false, true) {
		return
	}
	s.apart("abandon", func(ctx context.Context) { s.abandon(ctx, l, row, due) }, func() { l.ending.Store(false) })
}

// probe asks an idle lane who it is; one that is down is verified.
func (s *Service) probe(l *lane) {
	l.mu.Lock()
	under, identity, down := l.activation, l.identity, l.down
	l.mu.Unlock()
	if down || under == 0 {
		s.verifySoon(l)
		return
	}
	if !l.probing.CompareAndSwap(false, true) {
		return
	}
	s.apart("probe", func(ctx context.Context) {
		who, err := l.instance.Identity(ctx, l.id)
		switch {
		case err != nil:
			_ = s.laneFailed(ctx, l, under, l.missed(err))
		case who != identity:
			s.memoryLost(l, under, "another store, or one that was restarted, answers at its address")
		default:
			l.met()
		}
	}, func() { l.probing.Store(false) })
}

// abandon declares a lane down where that is due and something is left on it, and loses the epochs of
// the activations before the present one, whoever declared it; then their units go elsewhere. Two nodes
// that do it at once are told apart by the compare-and-set, and what one leaves half done the other
// finds.
func (s *Service) abandon(ctx context.Context, l *lane, row LaneRow, due bool) {
	if due {
		live, err := s.sql.Stale(ctx, l.id, row.Activation+1, 1)
		if err != nil {
			s.failed("sql", err)
			return
		}
		if len(live) > 0 {
			var declared bool
			if row, declared, err = s.sql.DeclareDown(ctx, row); err != nil {
				s.failed("sql", err)
				return
			}
			if declared {
				s.log.Warn("lane is declared down; its units are sold elsewhere", "lane", l.id.String(),
					"activation", row.Activation, "down_after", s.set.DownAfter)
			}
		}
	}
	ended, err := s.loseStale(ctx, l, row.Activation)
	if err != nil {
		s.failed("sql", err)
	}
	if ended > 0 {
		s.finishUnfinished(ctx)
	}
}
