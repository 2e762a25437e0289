package bucket

import (
	"math"
	"testing"
	"testing/synctest"
	"time"

	"github.com/budgetd/budgetd/budget"
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
			trail.drained(int64(step.drained), 0)
		}
		if trail.since() != ms(step.since) {
			t.Errorf("%+v: since %v", step, trail.since())
		}
	}
	if trail.upTo != 70 || len(trail.milestones) != 1 {
		t.Errorf("%+v", trail)
	}
}

// TestTrailTakes: how long the drain takes for a trail is what it took lately for an entry, when it had more than it took.
func TestTrailTakes(t *testing.T) {
	const ms = time.Millisecond
	trail := newTrail(0, 1000)
	for _, step := range []struct {
		acknowledged int64 // a position, 0: none
		drained      int64
		took, takes  time.Duration
	}{
		{acknowledged: 1100},                              // nothing is known yet
		{drained: 1100, took: 50 * ms},                    // that was all
		{acknowledged: 3000},                              //
		{drained: 2000, took: 900 * ms, takes: 1000 * ms}, // 900 of them: 1 ms each
		{acknowledged: 4000, takes: 2000 * ms},
		{drained: 3000, took: 5000 * ms, takes: 2000 * ms}, // slower once: a quarter of it counts
		{drained: 3000, took: 9000 * ms, takes: 2000 * ms}, // another node was ahead
		{drained: 2500, took: 100 * ms, takes: 2000 * ms},  // an old row
		{drained: 4000, took: 3000 * ms},                   // all: no faster is known from that
		{acknowledged: 4100, takes: 200 * ms},
		{drained: 4100, took: 50 * ms}, // all, and faster
		{acknowledged: 4300, takes: 100 * ms},
		{acknowledged: math.MaxInt64, takes: math.MaxInt64},
	} {
		if step.acknowledged > 0 {
			trail.acknowledged(step.acknowledged, 0, time.Hour)
		} else {
			trail.drained(step.drained, step.took)
		}
		if got := trail.takes(); got != step.takes {
			t.Errorf("%+v: takes %v", step, got)
		}
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
			{"as many as the drain brings into the ledger in it", 0, 5000, time.Millisecond, true},
			{"more", 0, 5001, time.Millisecond, false},
		} {
			s := &Service{clock: SystemClock{}, base: time.Now(), set: Settings{WindowTime: window}}
			l := &lane{behind: behind{epochs: map[Ref]*trail{}}}
			if err := s.room(l, ref); err != nil {
				t.Errorf("an epoch that has nothing acknowledged: %v", err)
			}
			tr := newTrail(s.now(), 1000)
			tr.acknowledged(1000+test.entries, s.now(), time.Second)
			tr.pace = test.pace
			l.behind.epochs[ref] = tr
			time.Sleep(test.age)
			if err := s.room(l, ref); (err == nil) != test.room || err != nil && !budget.Is(err, budget.Unavailable) {
				t.Errorf("%s: %v", test.name, err)
			}
		}
	})
}
