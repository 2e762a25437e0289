package bucket

import (
	"container/list"
	"context"
	"math"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	lru "github.com/hashicorp/golang-lru/v2"

	"github.com/budgetd/budgetd/budget"
	"github.com/budgetd/budgetd/ledger"
)

// TestTrail: how old the oldest entry is that the ledger does not have is known to within the distance of
// milestones, and never taken for younger than it is.
func TestTrail(t *testing.T) {
	const every = 10 * time.Millisecond
	ms := func(n int) time.Duration { return time.Duration(n) * time.Millisecond }
	trail := newTrail(ms(5), 0)
	for _, step := range []struct {
		at, acknowledged int // at: in ms; acknowledged: a position, 0: none
		drained          int
		since            int
	}{
		{at: 5, acknowledged: 3, since: 5},
		{at: 9, acknowledged: 8, since: 5},  // too close to the last one
		{at: 20, acknowledged: 6, since: 5}, // nothing new
		{at: 21, acknowledged: 9, since: 5},
		{at: 40, acknowledged: 50, since: 5},
		{at: 41, drained: 7, since: 5},
		{at: 42, drained: 8, since: 21}, // 9 is the oldest
		{at: 43, drained: 9, since: 40},
		{at: 44, drained: 20, since: 40},
		{at: 60, acknowledged: 70, since: 40},
		{at: 61, drained: 60, since: 60},
		{at: 61, drained: 30, since: 60}, // an old row
	} {
		if step.acknowledged > 0 {
			trail.acknowledged(int64(step.acknowledged), ms(step.at), every)
		} else {
			trail.drained(int64(step.drained))
		}
		if trail.since() != ms(step.since) {
			t.Errorf("%+v: since %v", step, trail.since())
		}
	}
	if trail.upTo != 70 || len(trail.milestones) != 1 {
		t.Errorf("%+v", trail)
	}
}

// TestPace: how long an entry takes the drain is what it took lately: in full transactions, or beside what one takes however
// few it has.
func TestPace(t *testing.T) {
	const ms = time.Millisecond
	p := pace{least: 100 * ms}
	for i, step := range []struct {
		entries    int64
		full       bool
		took, each time.Duration
	}{
		{entries: 1, took: 140 * ms},                                               // few
		{entries: 1000, took: 4100 * ms},                                           // slow once says nothing
		{entries: 500, took: 1100 * ms, each: 2 * ms},                              // by both
		{entries: 500, took: 4100 * ms, each: 2500 * time.Microsecond},             // slow: the median is 4 ms, a quarter of it counts
		{entries: 0, took: 9100 * ms, each: 2500 * time.Microsecond},               // nothing was there
		{entries: 9, took: -time.Hour, each: 2500 * time.Microsecond},              // the clock stepped back
		{entries: 500, full: true, took: 1000 * ms, each: 2375 * time.Microsecond}, // the median is 2 ms
		{entries: 10, took: 149 * ms, each: 2375 * time.Microsecond},
		{entries: 100, took: 149 * ms, each: 1437 * time.Microsecond}, // as fast as a transaction of few: 0.5 ms at most
	} {
		p.least = 100 * ms
		p.note(step.took, step.entries, step.full)
		if diff := (p.each - step.each).Abs(); diff > 100*time.Microsecond {
			t.Errorf("%d: %v instead of %v", i, p.each, step.each)
		}
	}
	p = pace{}
	for i, step := range []struct{ took, least time.Duration }{
		{100 * ms, 100 * ms}, {40 * ms, 40 * ms}, {104 * ms, 41 * ms}, {41 * ms, 41 * ms}, {7 * ms, 7 * ms}, {-1, 7 * ms},
	} {
		if p.note(step.took, 1, false); p.least != step.least {
			t.Errorf("%d: least %v instead of %v", i, p.least, step.least)
		}
	}
}

// TestTrailQueue: who waits longest goes on first, as many as there is room for and one at least.
func TestTrailQueue(t *testing.T) {
	const wide, narrow = budget.MaxAmount, 20
	trail := newTrail(0, 0)
	trail.acknowledged(1, 0, time.Second)
	var woke []int
	join := func(since time.Duration, units int64, name int) *list.Element {
		return trail.join(&waiter{since, units, func() { woke = append(woke, name) }})
	}
	step := func(w woken, first []int, then ...int) {
		t.Helper()
		for _, group := range []struct {
			name string
			wake []context.CancelFunc
			want []int
		}{{"first", w.first, first}, {"then", w.then, then}} {
			woke = nil
			for _, wake := range group.wake {
				wake()
			}
			if !slices.Equal(woke, group.want) {
				t.Errorf("woken %s: %v instead of %v", group.name, woke, group.want)
			}
		}
	}
	join(5, 100, 1)
	join(7, 100, 2)
	join(6, 100, 3) // it was woken before, and refused
	join(4, 1, 0)
	step(trail.step(10, wide), []int{0, 1, 3, 2})
	join(8, 10, 4)
	join(9, 29, 5)
	join(9, 15, 6)
	step(trail.step(40, wide), []int{4}) // 30 units, of which 20 are left, and 8 more
	step(trail.step(40, wide), []int{5}) // one at least
	gone := join(10, 1, 7)
	join(11, 5, 8)
	trail.waiting.Remove(gone) // its deadline has passed
	step(trail.step(56, wide), []int{6}, 8)
	trail.waiting.Remove(gone)
	join(12, 1_000_000, 9)
	join(13, 1, 10)
	step(trail.end(), []int{9, 10})
	step(trail.end(), nil)
	trail.drained(1) // all of it: there is room for a whole window, and a quarter more
	join(14, 15, 11)
	join(15, 5, 12)
	join(16, 1, 13)
	join(17, 5, 14)
	join(18, 1, 15)
	step(trail.step(57, narrow), []int{11, 12}, 13, 14)
	step(trail.step(57, narrow), []int{15})
	if trail.steps != 8 {
		t.Errorf("%d steps", trail.steps)
	}
}

// TestRoom: a bucket has room while the ledger is no further behind it than the window, and the drain takes no longer than
// that for what it has acknowledged.
func TestRoom(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const window = 5 * time.Second
		ref := Ref{Bucket: 1, Epoch: 1, Activation: 1}
		for _, test := range []struct {
			name    string
			age     time.Duration
			entries int64
			pace    time.Duration
			room    bool
		}{
			{"nothing known of the drain", window, 1_000_000, 0, true},
			{"as old as the window", window, 1, time.Millisecond, true},
			{"older", window + 1, 1, time.Millisecond, false},
			{"three quarters of what the drain brings into the ledger in it", 0, 3750, time.Millisecond, true},
			{"more", 0, 3751, time.Millisecond, false},
			{"more than can be counted", 0, math.MaxInt64 - 1000, time.Millisecond, false},
		} {
			s := &Service{clock: SystemClock{}, base: time.Now(), set: Settings{WindowTime: window}}
			l := &lane{behind: behind{epochs: map[Ref]*trail{}}}
			if _, err := s.room(l, ref, 0); err != nil {
				t.Errorf("an epoch that has nothing acknowledged: %v", err)
			}
			tr := newTrail(s.now(), 1000)
			tr.acknowledged(1000+test.entries, s.now(), time.Second)
			l.behind.pace.each = test.pace
			l.behind.epochs[ref] = tr
			time.Sleep(test.age)
			if _, err := s.room(l, ref, 0); (err == nil) != test.room || err != nil && !budget.Is(err, budget.Unavailable) {
				t.Errorf("%s: %v", test.name, err)
			}
			if l.behind.failing = true; test.age <= window {
				if _, err := s.room(l, ref, 0); err != nil {
					t.Errorf("%s, SQL is down: %v", test.name, err)
				}
			}
		}
	})
}

// TestRoomIsInTurn: while somebody waits for a bucket's window nobody who came later is let in, unless the ledger does not
// come nearer.
func TestRoomIsInTurn(t *testing.T) {
	s := &Service{clock: SystemClock{}, base: time.Now(), set: Settings{WindowTime: time.Hour}}
	ref, other := Ref{Bucket: 1, Epoch: 1, Activation: 1}, Ref{Bucket: 2, Epoch: 1, Activation: 1}
	l := &lane{behind: behind{epochs: map[Ref]*trail{ref: newTrail(s.now(), 0), other: newTrail(s.now(), 0)}}}
	l.behind.epochs[ref].join(&waiter{20, 1, func() {}})
	for _, test := range []struct {
		ref     Ref
		since   time.Duration
		failing bool
		room    bool
	}{
		{ref, 0, false, false}, {ref, 21, false, false}, {ref, 20, false, true}, {ref, 19, false, true},
		{other, 0, false, true}, {ref, 0, true, true}, {ref, firstOfAll, false, true},
	} {
		l.behind.failing = test.failing
		at, err := s.room(l, test.ref, test.since)
		if (err == nil) != test.room || err != nil && !budget.Is(err, budget.Unavailable) || at.trail != l.behind.epochs[test.ref] {
			t.Errorf("%+v: %v", test, err)
		}
	}
}

// TestQueueOutlastsTheTrail: when the ledger has all of a bucket, there is room for those who wait longest, and nobody who
// comes meanwhile goes before the others; the trail goes with the last of them.
func TestQueueOutlastsTheTrail(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const window = 4
		counted, _ := lru.New[Ref, int64](10)
		s := &Service{clock: SystemClock{}, base: time.Now(), counted: counted,
			set: Settings{WindowTime: time.Second, WindowUnits: window}}
		ref := Ref{Bucket: 1, Epoch: 1, Activation: 1}
		tr := newTrail(s.now(), 0)
		l := &lane{behind: behind{epochs: map[Ref]*trail{ref: tr}}}
		tr.acknowledged(window, s.now(), time.Millisecond)
		for since := range 8 {
			tr.join(&waiter{time.Duration(since + 10), 1, func() {}})
		}
		drain := func(seq int64) (n int) {
			row := ledger.Epoch{Status: ledger.Open, DrainedSeq: seq, Used: seq}
			d := &draining{s: s, rows: map[Ref]ledger.Epoch{ref: row}}
			progress, woke := s.caughtUp(l, d, time.Millisecond)
			if !progress {
				t.Errorf("drained to %d, and that is no progress", seq)
			}
			return len(woke.first) + len(woke.then)
		}
		if n := drain(window); n != window+window/4+1 {
			t.Errorf("%d woken of 8 for a window of %d units", n, window)
		}
		time.Sleep(time.Minute) // nothing is behind, so nothing grows old
		for since, room := range map[time.Duration]bool{0: false, 20: false, 15: true} {
			if _, err := s.room(l, ref, since); (err == nil) != room {
				t.Errorf("two wait still; one that waits since %d: %v", since, err)
			}
		}
		tr.acknowledged(2*window, s.now(), time.Millisecond)
		time.Sleep(time.Second)
		if by := s.behindBy(l, tr); by != time.Second {
			t.Errorf("behind by %v after a second", by)
		}
		if n := drain(2 * window); n != 2 || len(l.behind.epochs) != 0 {
			t.Errorf("%d woken of 2, %d trails left", n, len(l.behind.epochs))
		}
	})
}

// TestLostLaneWakes: who waits for a bucket whose store has lost its memory is woken: its epoch will not be drained here.
func TestLostLaneWakes(t *testing.T) {
	s := &Service{clock: SystemClock{}, base: time.Now()}
	lost, kept := Ref{Bucket: 1, Epoch: 1, Activation: 1}, Ref{Bucket: 2, Epoch: 1, Activation: 2}
	l := &lane{lostUnder: 1, behind: behind{epochs: map[Ref]*trail{lost: newTrail(s.now(), 0), kept: newTrail(s.now(), 0)}}}
	var woken []Ref
	for ref, t := range l.behind.epochs {
		t.join(&waiter{1, 1, func() { woken = append(woken, ref) }})
	}
	var next portion
	d := &draining{s: s, epochs: map[Ref]*drainEpoch{kept: {}}} // it is known already
	if refs := s.toDrain(l, d, &next); !slices.Equal(refs, []Ref{kept}) || !slices.Equal(woken, []Ref{lost}) {
		t.Errorf("drains %v, woke %v", refs, woken)
	}
}
