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
	// failing: the last pass could not read a store, or not write to SQL. Guarded by mu.
	failing bool
	// pace is guarded by mu.
	pace pace
}

// pace is how long an entry takes the drain of a lane. The zero value knows nothing yet.
type pace struct {
	// each is what an entry took lately, last what it did in the last two transactions: in full ones, or beside what a
	// transaction takes in any case; 0: not known.
	each time.Duration
	last [2]time.Duration
	// least is what a transaction takes however few entries it has: what the quickest took, or a little more by each that
	// was slower.
	least time.Duration
}

// note notes a transaction that brought so many entries into the ledger. full: there were more than it takes.
func (p *pace) note(took time.Duration, entries int64, full bool) {
	if took <= 0 || entries <= 0 { // also a clock that stepped back
		return
	}
	if p.least == 0 || took < p.least {
		p.least = took
	}
	p.least += (took - p.least) / 64
	beyond := took
	if !full {
		beyond -= p.least
	}
	if beyond < p.least/2 { // what its entries took cannot be told from the rest, but not more than that
		if each := p.least / 2 / time.Duration(entries); each < p.each {
			p.each = (p.each + each) / 2
		}
		return
	}
	each := beyond / time.Duration(entries)
	three := []time.Duration{each, p.last[0], p.last[1]}
	slices.Sort(three)
	p.last = [2]time.Duration{each, p.last[0]}
	if p.each == 0 {
		p.each = three[1]
		return
	}
	p.each = (3*p.each + three[1]) / 4 // the median: one that was slow says nothing
}

// trail is what of an epoch's log was acknowledged and is not known to be in the ledger. Once nothing is, it stays for as
// long as somebody waits: without it whoever comes first would take the room, and not who waits longest.
type trail struct {
	// from is how far the ledger is, as far as is known.
	from, upTo int64
	milestones []milestone // the oldest first; at least one
	// waiting are those who wait until their bucket may deduct again, of *waiter: the longest waiting first.
	waiting list.List
	// steps counts how often some of them were woken, counted is what the ledger had counted then; 0: not known.
	steps, counted int64
}

// waiter waits for a window that is used up.
type waiter struct {
	since time.Duration // of Service.now
	units int64         // what it asks for
	wake  context.CancelFunc
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
	if last := t.milestones[len(t.milestones)-1]; t.complete() {
		t.milestones = append(t.milestones[:0], milestone{above: t.upTo, at: now})
	} else if now-last.at >= every {
		t.milestones = append(t.milestones, milestone{above: t.upTo, at: now})
	}
	t.upTo = seq
}

// drained notes how far the ledger is.
func (t *trail) drained(seq int64) {
	for len(t.milestones) > 1 && t.milestones[1].above <= seq {
		t.milestones = t.milestones[1:]
	}
	t.from = max(t.from, seq)
}

// complete reports whether the ledger has all that was acknowledged.
func (t *trail) complete() bool { return t.from >= t.upTo }

// join lets somebody wait, by how long it has waited already.
func (t *trail) join(w *waiter) *list.Element {
	if last := t.waiting.Back(); last == nil || last.Value.(*waiter).since <= w.since {
		return t.waiting.PushBack(w)
	}
	at := t.waiting.Front() // it was woken and refused: there are few before it
	for at.Value.(*waiter).since <= w.since {
		at = at.Next()
	}
	return t.waiting.InsertBefore(w, at)
}

// woken are those whose waiting has ended, in order: the first, for whom there is room, and those who get what they leave.
type woken struct{ first, then []context.CancelFunc }

func (w *woken) add(more woken) {
	w.first, w.then = append(w.first, more.first...), append(w.then, more.then...)
}

// step ends the waiting of those for whom there is room in a window of so many units, now that the ledger has counted so
// much, one at least; and then of those for a quarter more, as not all take what they ask for.
func (t *trail) step(counted, window int64) woken {
	freed := max(counted-t.counted, 0)
	if t.counted == 0 || t.complete() {
		freed = window
	}
	t.steps++
	t.counted = counted
	w := woken{first: t.leave(freed, 1)}
	w.then = t.leave(freed/4+1, 0)
	return w
}

// end ends the waiting of all.
func (t *trail) end() woken {
	t.steps++
	return woken{first: t.leave(0, t.waiting.Len())}
}

// leave ends the waiting of the first who ask for so many units together, and of so many at least.
func (t *trail) leave(units int64, least int) (wake []context.CancelFunc) {
	for at := t.waiting.Front(); at != nil; at = t.waiting.Front() {
		w := at.Value.(*waiter)
		if w.units > units && len(wake) >= least {
			break
		}
		units -= min(w.units, units)
		t.waiting.Remove(at)
		wake = append(wake, w.wake)
	}
	return wake
}

// takes is how long the drain is likely to take for the whole trail, at so much an entry, if it does nothing else.
func (t *trail) takes(each time.Duration) time.Duration {
	n := t.upTo - t.from
	if each > 0 && n > int64(math.MaxInt64/2/each) {
		return math.MaxInt64 / 2
	}
	return time.Duration(n) * each
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
		from, known := s.drained.Get(ref)
		if !known || from > seq {
			from = seq - 1
		}
		t = newTrail(now, from)
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
		if t.waiting.Len() > 0 || s.behindBy(l, t) > s.set.WindowTime/2 {
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
		refs := s.toDrain(l, d, &next)
		if len(refs) == 0 {
			return
		}
		ctx, cancel := s.bounded(context.Background())
		progress, admit := false, false
		for round := 0; round < commitRounds && len(d.epochs) > 0; round++ {
			at := s.now()
			d.round(ctx)
			moved, woke := s.caughtUp(l, d, s.now()-at)
			s.wake(woke, s.now()-began)
			progress, admit = progress || moved, admit || len(woke.first) > 0
		}
		cancel()
		next.passed(refs, !progress && d.unread) // a fenced epoch stays and is no reason for less
		if progress {
			rest := s.drainRest(l, began)
			if admit {
				s.admit(s.now() - began)
			}
			s.rest(l, rest)
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

// wake lets those go on for whom there is room, and then those who get what they leave: all at once would take it from each
// other, and some lose each time.
func (s *Service) wake(w woken, took time.Duration) {
	for _, wake := range w.first {
		wake()
	}
	if len(w.then) > 0 {
		s.admit(took)
	}
	for _, wake := range w.then {
		wake()
	}
}

// admit lets those go first who were just woken by a pass that took so long: else the next one would find hardly anything,
// and what they are told would wait for the pass after it. Stop ends it.
func (s *Service) admit(took time.Duration) {
	const most = 5 * time.Millisecond
	_ = s.clock.Sleep(s.life, min(took/10, most))
}

// toDrain begins a pass: it returns its epochs, none where the worker has ended because nothing is left.
func (s *Service) toDrain(l *lane, d *draining, next *portion) []Ref {
	var ended woken
	defer func() { s.wake(ended, 0) }()
	l.behind.mu.Lock()
	defer l.behind.mu.Unlock()
	for ref, t := range l.behind.epochs {
		if l.lost(ref.Activation) { // whoever settles the epoch drains what is left of its log
			ended.add(t.end())
			delete(l.behind.epochs, ref)
		}
	}
	if len(l.behind.epochs) == 0 {
		l.behind.working = false
		return nil
	}
	l.behind.awaited.Store(false)
	refs := next.of(l.behind.epochs)
	for _, ref := range refs {
		d.epoch(l, ref).upTo = l.behind.epochs[ref].upTo
	}
	d.total = max(readTotal>>next.halved, 1)
	return refs
}

// caughtUp notes how far the ledger is after a round that took so long, and drops the epochs that have ended, or are drained
// and nobody waits for.
// It returns whether any progress was made, and whom to wake.
func (s *Service) caughtUp(l *lane, d *draining, took time.Duration) (progress bool, woke woken) {
	l.behind.mu.Lock()
	defer l.behind.mu.Unlock()
	l.behind.failing = d.unread
	entries, full := int64(0), false
	for ref, t := range l.behind.epochs {
		row, ok := d.rows[ref]
		if !ok {
			if d.errs[ref] != nil {
				woke.add(t.end())
			}
			continue
		}
		s.counted.Add(ref, row.Counted())
		moved := max(row.DrainedSeq-t.from, 0)
		entries += moved
		_, closing := d.closes[ref]
		switch {
		case !row.Status.Live(), closing, row.DrainedSeq >= t.upTo && d.errs[ref] != nil:
			delete(l.behind.epochs, ref)
			woke.add(t.end())
			progress = true
		case d.errs[ref] != nil: // its callers see what became of it
			woke.add(t.end())
		default:
			full = full || moved > 0 && d.epochs[ref] != nil
			t.drained(row.DrainedSeq)
			if t.complete() || moved > 0 && s.behindBy(l, t) <= s.set.WindowTime {
				woke.add(t.step(row.Counted(), s.set.WindowUnits))
			}
			if t.complete() && t.waiting.Len() == 0 {
				delete(l.behind.epochs, ref)
			}
			progress = true
		}
	}
	l.behind.pace.note(took, entries, full)
	return progress, woke
}

// behindBy is how far the ledger is behind an epoch: the age of the oldest that was acknowledged and is not in the ledger, or
// what the drain takes for all of that and a third more, as it may become slower, if it is longer and known. By age alone
// a bucket would have room until what it took at full speed is late, and none until all that is in the ledger. What the
// drain does for other buckets of the lane meanwhile is not in it: one that few ask is not closed for others.
// Caller: holds behind.mu.
func (s *Service) behindBy(l *lane, t *trail) time.Duration {
	if t.complete() {
		return 0
	}
	age, takes := s.now()-t.since(), t.takes(l.behind.pace.each)
	if l.behind.failing {
		return age
	}
	return max(age, takes+takes/3)
}

// stand is where a bucket's trail was when somebody looked.
type stand struct {
	trail *trail
	steps int64
}

// firstOfAll is since when somebody waits whom nobody comes before.
const firstOfAll time.Duration = 1

// room says whether a bucket may deduct now for somebody who has waited since `since`, 0: not yet (back-pressure). It may not
// while the ledger is further behind it than the window of time, or somebody waits who came before and the ledger comes
// nearer.
func (s *Service) room(l *lane, ref Ref, since time.Duration) (stand, error) {
	l.behind.mu.Lock()
	defer l.behind.mu.Unlock()
	t := l.behind.epochs[ref]
	if t == nil {
		return stand{}, nil
	}
	at := stand{t, t.steps}
	if by := s.behindBy(l, t); by > s.set.WindowTime {
		return at, budget.Refuse(budget.Unavailable, "deduct",
			"the ledger is %v behind this bucket, its window is %v; repeat later", by.Round(time.Millisecond), s.set.WindowTime)
	}
	first := t.waiting.Front()
	if first != nil && (since == 0 || first.Value.(*waiter).since < since) && !l.behind.failing {
		return at, budget.Refuse(budget.Unavailable, "deduct",
			"%d others wait for the ledger, which is behind this bucket by its window; repeat later", t.waiting.Len())
	}
	return at, nil
}

// awaitLedger waits until a bucket that had used up its window may be asked again, as long as its trail is where it was
// when room was asked, for a moment at most: another node may have brought the ledger nearer. The budget is not read anew:
// the bucket is where it was. cause is the answer when the deadline passes meanwhile.
func (a *attempt) awaitLedger(ctx context.Context, l *lane, ref Ref, was stand, cause error) (DeductAnswer, bool, error) {
	const moment, again = 500 * time.Millisecond, 2 * time.Millisecond
	now := a.s.now()
	if a.waitsSince == 0 {
		a.waitsSince = now
	}
	step, wake := context.WithCancel(ctx)
	defer wake()
	wait := moment
	l.behind.mu.Lock()
	if t := l.behind.epochs[ref]; t != nil && t.steps == was.steps && (t == was.trail || was.trail == nil) {
		at := t.join(&waiter{a.waitsSince, a.amount, wake})
		defer func() {
			l.behind.mu.Lock()
			defer l.behind.mu.Unlock()
			t.waiting.Remove(at) // nothing, where it was woken
		}()
	} else {
		wait = again // it has moved meanwhile
	}
	l.behind.awaited.Store(true)
	l.behind.mu.Unlock()
	place := a.s.turns.take()
	_ = a.s.clock.Sleep(step, min(wait, a.deadline-now)) // however it ends, the bucket is asked again
	a.s.turns.wait(place)
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
