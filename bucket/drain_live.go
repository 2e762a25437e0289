package bucket

import (
	"context"
	"slices"
	"time"

	"github.com/budgetd/budgetd/ledger"
)

// drainLive brings entries into the ledger that nobody on this node waits for: those of a node that
// stopped, of callers that gave up, and grants. Each time it looks at one page of each lane's open
// epochs, so the work stays the same however many there are.
func (s *Service) drainLive(ctx context.Context) {
	for _, id := range s.laneOrder {
		epochs, err := s.sql.Live(ctx, id, s.drainFrom[id], choresLimit)
		if err != nil {
			s.failed("sql", err)
			return
		}
		s.drainFrom[id] = Ref{}
		if len(epochs) == choresLimit {
			s.drainFrom[id] = refOf(&epochs[len(epochs)-1].Row)
		}
		l := s.lanes[id]
		left := slices.DeleteFunc(epochs, func(e EpochOf) bool { return s.committing(l, refOf(&e.Row)) })
		s.drainBehind(ctx, l, left, leaving{})
	}
}

// refOf names an epoch by its row.
func refOf(row *ledger.Epoch) Ref {
	return Ref{Bucket: row.Bucket, Epoch: row.Number, Activation: row.Activation}
}

// liveRead is one atomic read of a live epoch in its store.
type liveRead struct {
	EpochOf // as listed before the read
	ref     Ref
	in      Balance
	// drained is how far the ledger is known to have come since.
	drained int64
	// to is the read to compare with the ledger, if that has come so far (comparable): this one, or one before it.
	to         ledger.StoreRead
	comparable bool
}

// storeRead is the read as the audit's arithmetic knows it.
func (r *liveRead) storeRead() ledger.StoreRead {
	return ledger.StoreRead{Seq: r.in.Seq, GrantSeq: r.in.GrantSeq, Balance: r.in.Balance,
		Granted: r.in.Granted, Deducted: r.in.Deducted}
}

// lag is by how many entries the ledger was behind the store.
func (r *liveRead) lag() int64 { return max(r.in.Seq-r.Row.DrainedSeq, 0) }

// drainBehind reads epochs of a lane in their store and drains those whose store is ahead of the
// ledger, up to where it was. Fenced epochs and those that the lane cannot be asked about are left
// out; what is broken or went back is acted upon. It returns what it read.
func (s *Service) drainBehind(ctx context.Context, l *lane, epochs []EpochOf, leave leaving) []liveRead {
	refs := make([]Ref, 0, len(epochs))
	reads := make([]liveRead, 0, len(epochs))
	for _, e := range epochs {
		ref := refOf(&e.Row)
		if e.Row.Fenced == "" && s.usable(l, ref.Activation) {
			refs, reads = append(refs, ref), append(reads, liveRead{EpochOf: e, ref: ref})
		}
	}
	if len(refs) == 0 {
		return nil
	}
	under := l.current()
	balances, err := l.instance.Balances(ctx, l.id, refs)
	if err != nil {
		s.laneFailed(ctx, l, under, err)
		return nil
	}
	d := newDraining(s)
	for i, b := range balances {
		r := &reads[i]
		r.in = b
		switch {
		case b.Verdict == EpochGone:
			s.standsAfterAll(ctx, l, r.ref)
		case b.Verdict == Broken:
			s.fence(ctx, r.ref, b.Why)
		case b.Seq < r.Row.DrainedSeq:
			s.memoryLost(l, r.ref.Activation, "the store's log ends before what is in the ledger")
		case b.Seq > r.Row.DrainedSeq:
			e := d.epoch(l, r.ref)
			e.from, e.upTo = r.Row.DrainedSeq, b.Seq
		}
	}
	s.leaveToOthers(ctx, l, d, leave)
	for range commitRounds {
		if len(d.epochs) == 0 {
			break
		}
		d.round(ctx)
	}
	for i := range reads {
		r := &reads[i]
		row := d.rows[r.ref] // zero where nothing was to drain
		r.drained = max(s.knownSeq(r.ref, r.Row.DrainedSeq), row.DrainedSeq)
		r.compareAt(r.storeRead())
	}
	return reads
}

// compareAt lets a read of the epoch's store be compared with the ledger, if that has come so far.
func (r *liveRead) compareAt(to ledger.StoreRead) {
	if to.Seq <= r.drained {
		r.to, r.comparable = to, true
	}
}

// othersPatience is how long an audit leaves epochs to the commits of this node that drain them anyway: some commits
// long. Two at once would read the same entries, and one of them in vain.
const othersPatience, othersPause = 300 * time.Millisecond, 10 * time.Millisecond

// committing reports whether this node drains an epoch now: behind its answers, or for its callers.
func (s *Service) committing(l *lane, ref Ref) bool {
	return l.behind.follows(ref) || s.committer.worksOn(ref.Bucket)
}

// leaving says what a drain leaves to the other commits of this node: until an instant, of Service.now, whatever those work
// on; and for good what is drained behind the answers (behind), where a second drain would read the same logs, and the
// first one rests in a burst so that the answers get the machine. The zero value leaves nothing to them.
type leaving struct {
	until  time.Duration
	behind bool
}

// leaveToOthers waits for what is left to other commits, and takes out what they have brought far enough or have to bring.
func (s *Service) leaveToOthers(ctx context.Context, l *lane, d *draining, leave leaving) {
	for {
		left := false
		for ref, e := range d.epochs {
			if at, ok := s.drained.Get(ref); ok {
				if e.from = max(e.from, at); at >= e.upTo {
					delete(d.epochs, ref)
					continue
				}
			}
			left = left || s.committing(l, ref)
		}
		if !left || s.now() >= leave.until || s.clock.Sleep(ctx, othersPause) != nil {
			break
		}
	}
	for ref := range d.epochs {
		if leave.behind && l.behind.follows(ref) {
			delete(d.epochs, ref)
		}
	}
}
