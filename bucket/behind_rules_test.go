package bucket

import (
	"testing"
	"time"
)

// TestTrail: how old the oldest entry is that the ledger does not have is known to within the distance of
// milestones, and never taken for younger than it is.
func TestTrail(t *testing.T) {
	const every = 10 * time.Millisecond
	ms := func(n int) time.Duration { return time.Duration(n) * time.Millisecond }
	trail := newTrail(ms(5))
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
