package bucket

import (
	"container/list"
	"context"
	"maps"
	"math"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/budgetd/budgetd/budget"
)

// behind brings a lane's logs into the ledger behind the answers, in store mode (DESIGN 5.5). One
// worker per lane runs while there is anything to drain: what arrives during a transaction goes into
// the next one.
type behind struct {
	mu      sync.Mutex
	epochs  map[Ref]*trail
	working bool
	// answered counts what was acknowledged on the word of the lane.
	answered atomic.Int64
	// awaited: a bucket has used up its window since the last pass began; its callers wait for the next one.
	awaited atomic.Bool
	// steps counts how often the ledger came nearer to what was answered; waiting are woken by the next step, in order.
	steps   int64
	waiting list.List // of context.CancelFunc
}

// trail is what of an epoch's log was acknowledged and is not known to be in the ledger.
type trail struct {
	// from is how far the ledger is, as far as is known.
	from, upTo int64
	milestones []milestone // the oldest first; at least one
	// pace is how long an entry took the drain lately, when it had more of them than a transaction takes; 0: not known.
	pace time.Duration
}

// milestone says that what is above a position was acknowledged no earlier than at an instant, of Service.now.
type milestone struct {
	above int64
	at    time.Duration
}

func newTrail(now time.Duration, from int64) *trail {
	return &trail{from: from, upTo: from, milestones: []milestone{{at: now}}}
}

// acknowledged notes an entry; milestones are no closer than every.
func (t *trail) acknowledged(seq int64, now, every time.Duration) {
	if seq <= t.upTo {
		return
	}
	if last := t.milestones[len(t.milestones)-1]; now-last.at >= every {
		t.milestones = append(t.milestones, milestone{above: t.upTo, at: now})
	}
	t.upTo = seq
}

// drained notes how far the ledger is after a transaction that took so long.
func (t *trail) drained(seq int64, took time.Duration) {
	for len(t.milestones) > 1 && t.milestones[1].above <= seq {
		t.milestones = t.milestones[1:]
	}
	n := seq - t.from
	if n <= 0 {
		return
	}
	t.from = seq
	switch each := took / time.Duration(n); {
	case seq < t.upTo && t.pace == 0:
		t.pace = each
	case seq < t.upTo:
		t.pace = (3*t.pace + each) / 4
	default: // it could have taken more
		t.pace = min(t.pace, each)
	}
}

// takes is how long the drain is likely to take for the whole trail.
func (t *trail) takes() time.Duration {
	n := t.upTo - t.from
	if t.pace > 0 && n > int64(math.MaxInt64/t.pace) {
		return math.MaxInt64
	}
	return time.Duration(n) * t.pace
}

// since is no later than when the oldest of the trail was acknowledged.
func (t *trail) since() time.Duration { return t.milestones[0].at }

// follow makes sure that an epoch's log is drained up to seq, in the background.
func (s *Service) follow(l *lane, ref Ref, seq int64) {
	now := s.now()
	l.behind.mu.Lock()
	defer l.behind.mu.Unlock()
	t := l.behind.epochs[ref]
	if t == nil {
		t = newTrail(now, min(s.knownSeq(ref, 0), seq))
		l.behind.epochs[ref] = t
	}
	t.acknowledged(seq, now, s.set.WindowTime/100)
	if l.behind.working {
		return
	}
	s.stopMu.Lock()
	defer s.stopMu.Unlock()
	if s.stopped {
		return // Stop has drained; another node finds it in the log
	}
	l.behind.working = true
	s.trailing.Add(1)
	place := s.turns.take()
	go func() {
		defer s.trailing.Done()
		s.turns.wait(place)
		for ended := false; !ended; {
			s.guard("drain behind", func() {
				s.drainBehindAnswers(l)
				ended = true
			})
			if !ended && s.clock.Sleep(s.life, time.Second) != nil { // a panic: again, but not after Stop
				l.behind.mu.Lock()
				l.behind.working = false
				l.behind.mu.Unlock()
				return
			}
		}
	}()
}

// follows reports whether an epoch is being drained behind the answers.
func (b *behind) follows(ref Ref) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.working && b.epochs[ref] != nil
}

// drainPace is the least time between the begins of two commits behind a lane's answers: nobody waits for
// them, and one transaction of many entries costs a fraction of many of a few.
const drainPace = 50 * time.Millisecond

// drainRest is how long the drain rests after a commit that began at `began`: as long as that took, and burstRest times as
// long when it took longBurst or more, which it does where the machine is busy with answers: they get it in a burst,
// until the ledger is behind by half of the window of time, or somebody waits for it.
func (s *Service) drainRest(l *lane, began time.Duration) time.Duration {
	const longBurst, burstRest = 100 * time.Millisecond, 4
	now := s.now()
	took := min(max(now-began, 0), s.set.WindowTime)
	l.behind.mu.Lock()
	defer l.behind.mu.Unlock()
	for _, t := range l.behind.epochs {
		if now-t.since() > s.set.WindowTime/2 {
			return 0
		}
	}
	rest := max(drainPace-took, took)
	if took >= longBurst {
		rest = burstRest * took
	}
	return min(rest, s.set.WindowTime/4)
}

// rest lets the drain of a lane rest for so long, but no longer than until nothing is answered any more, or somebody
// waits for it.
func (s *Service) rest(l *lane, long time.Duration) {
	for long > 0 && !l.behind.awaited.Load() {
		answered, slice := l.behind.answered.Load(), min(long, drainPace)
		if s.clock.Sleep(s.life, slice) != nil { // Stop does not wait for it
			return
		}
		if l.behind.answered.Load() == answered {
			return
		}
		long -= slice
	}
}

// portion is what of a lane's epochs the next pass drains. After a pass that failed it is half as much, after one that did
// not twice as much: what is too much for one transaction is not tried for ever, and what makes one fail keeps nothing else
// from the ledger. The zero value is all of them.
type portion struct {
	// epochs is how many at most; 0: all. They are those that come after `last`.
	epochs int
	last   Ref
	// part: the pass under way is not of all of them.
	part bool
	// halved is how often the entries of a transaction were halved.
	halved int
}

// of returns the epochs of the next pass, at least one of at least one.
func (p *portion) of(epochs map[Ref]*trail) []Ref {
	p.part = p.epochs > 0 && p.epochs < len(epochs)
	if !p.part {
		return slices.Collect(maps.Keys(epochs))
	}
	refs := refsInOrder(epochs)
	at, found := slices.BinarySearchFunc(refs, p.last, compareRefs)
	if found {
		at++
	}
	return slices.Concat(refs[at:], refs[:at])[:p.epochs]
}

// passed notes what became of a pass. One that failed is tried again in part, unless it was of one epoch.
func (p *portion) passed(refs []Ref, failed bool) {
	const most = 1 << 30 // more than there are buckets on a lane
	if p.part && (!failed || len(refs) == 1) {
		p.last = refs[len(refs)-1]
	}
	if failed {
		p.epochs, p.halved = max(len(refs)/2, 1), min(p.halved+1, 16)
		return
	}
	p.epochs, p.halved = min(2*p.epochs, most), max(p.halved-1, 0)
}

// drainBehindAnswers drains until nothing is left that its store may still have, or until Stop when SQL or
// the store fails.
func (s *Service) drainBehindAnswers(l *lane) {
	const pause = 50 * time.Millisecond
	var next portion
	for {
		began := s.now()
		d := newDraining(s)
		l.behind.mu.Lock()
		for ref := range l.behind.epochs {
			if l.lost(ref.Activation) { // whoever settles the epoch drains what is left of its log
				delete(l.behind.epochs, ref)
			}
		}
		if len(l.behind.epochs) == 0 {
			l.behind.working = false
			l.behind.mu.Unlock()
			return
		}
		l.behind.awaited.Store(false)
		refs := next.of(l.behind.epochs)
		for _, ref := range refs {
			d.epoch(l, ref).upTo = l.behind.epochs[ref].upTo
		}
		d.total = max(readTotal>>next.halved, 1)
		l.behind.mu.Unlock()
		ctx, cancel := s.bounded(context.Background())
		progress := false
		for round := 0; round < commitRounds && len(d.epochs) > 0; round++ {
			at := s.now()
			d.round(ctx)
			progress = s.caughtUp(l, d, s.now()-at) || progress
		}
		cancel()
		next.passed(refs, !progress && d.unread) // a fenced epoch stays and is no reason for less
		if progress {
			s.rest(l, s.drainRest(l, began))
			continue
		}
		if s.clock.Sleep(s.life, pause) != nil && s.clock.Sleep(s.giveUp, pause) != nil {
			l.behind.mu.Lock()
			l.behind.working = false
			l.behind.mu.Unlock()
			return
		}
	}
}

// caughtUp notes how far the ledger is after a round that took so long, drops the epochs that are drained or have ended,
// and reports whether any progress was made.
func (s *Service) caughtUp(l *lane, d *draining, took time.Duration) bool {
	progress := false
	l.behind.mu.Lock()
	defer l.behind.mu.Unlock()
	for ref, t := range l.behind.epochs {
		row, ok := d.rows[ref]
		if !ok {
			continue
		}
		s.counted.Add(ref, row.Counted())
		_, closing := d.closes[ref]
		switch {
		case !row.Status.Live(), row.DrainedSeq >= t.upTo, closing:
			delete(l.behind.epochs, ref)
			progress = true
		case d.errs[ref] == nil:
			t.drained(row.DrainedSeq, took)
			progress = true
		}
	}
	if progress {
		l.behind.steps++
		for at := l.behind.waiting.Front(); at != nil; at = l.behind.waiting.Front() {
			l.behind.waiting.Remove(at).(context.CancelFunc)()
		}
	}
	return progress
}

// room says whether a bucket may deduct now (back-pressure): not while what it acknowledged is older than the window
// and not in the ledger, nor while it is more than the drain takes in the window. With the first alone the bucket
// would have room until what it took at full speed is late, and none until all that is in the ledger.
func (s *Service) room(l *lane, ref Ref) error {
	l.behind.mu.Lock()
	defer l.behind.mu.Unlock()
	t := l.behind.epochs[ref]
	if t == nil {
		return nil
	}
	if age := max(s.now()-t.since(), t.takes()); age > s.set.WindowTime {
		return budget.Refuse(budget.Unavailable, "deduct",
			"the ledger is %v behind this bucket, its window is %v; repeat later", age.Round(time.Millisecond), s.set.WindowTime)
	}
	return nil
}

// stepsNow is what awaitLedger is told later: nothing that happens from now on is missed.
func (b *behind) stepsNow() int64 {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.steps
}

// nextStep returns a context that ends with the step after `steps`, or with ctx; leave has to be called.
func (b *behind) nextStep(ctx context.Context, steps int64) (step context.Context, leave func()) {
	step, wake := context.WithCancel(ctx)
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.steps != steps {
		wake()
		return step, func() {}
	}
	at := b.waiting.PushBack(wake)
	return step, func() {
		wake()
		b.mu.Lock()
		defer b.mu.Unlock()
		b.waiting.Remove(at) // nothing, where the step has come
	}
}

// awaitLedger waits until the ledger has come nearer to what a lane answered than it was after `steps`, or for a moment:
// another node may have brought it there. Those who wait longest are woken first. cause is the answer when the deadline
// passes meanwhile. The budget is not read anew: a bucket that has used up its window is where it was.
func (a *attempt) awaitLedger(ctx context.Context, l *lane, steps int64, cause error) (DeductAnswer, bool, error) {
	const moment = time.Second
	l.behind.awaited.Store(true)
	step, leave := l.behind.nextStep(ctx, steps)
	defer leave()
	_ = a.s.clock.Sleep(step, min(moment, a.deadline-a.s.now())) // however it ends, the bucket is asked again
	if ctx.Err() != nil || a.s.now() >= a.deadline {
		return DeductAnswer{}, true, a.unresolved(ctx, cause)
	}
	return DeductAnswer{}, false, nil
}

// ceiling is the most that an epoch's deductions may come to: what the ledger has of them and the
// window, or the one amount, where that is more than the window: it waits until the ledger has all the
// others. An old row makes it too low, never too high.
func (s *Service) ceiling(bk *Bucket, amount int64) int64 {
	counted := bk.Epoch.Counted()
	if newer, ok := s.counted.Get(bk.Ref()); ok {
		counted = max(counted, newer)
	}
	return min(counted+max(s.set.WindowUnits, amount), budget.MaxAmount)
}
