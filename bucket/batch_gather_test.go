package bucket

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

// gathering is a group whose calls take a moment each, and how many items they had.
type gathering struct {
	*group[int, int, int]
	mu    sync.Mutex
	sizes []int
	waits atomic.Int64
}

const gatherCall, gatherPatience, gatherMost = time.Millisecond, 5 * time.Millisecond, 40

func newGathering() *gathering {
	g := &gathering{}
	g.group = newGroup[int, int, int](func(_ int, items []int) []result[int] {
		time.Sleep(gatherCall)
		g.mu.Lock()
		defer g.mu.Unlock()
		g.sizes = append(g.sizes, len(items))
		return make([]result[int], len(items))
	}, 100, 100, turns{})
	base, last := time.Now(), new(atomic.Pointer[gathered])
	one := &gather{many: 4, most: gatherMost, patience: gatherPatience, last: last,
		now: func() time.Duration { return time.Since(base) },
		sleep: func(ctx context.Context, d time.Duration) error {
			g.waits.Add(1)
			return SystemClock{}.Sleep(ctx, d)
		}}
	g.gather = func(int) *gather { return one }
	return g
}

// ask makes callers ask so many times each, pausing between, and returns how long that took.
func (g *gathering) ask(t *testing.T, callers, times int, pause time.Duration) time.Duration {
	began := time.Now()
	var all sync.WaitGroup
	for range callers {
		all.Go(func() {
			for range times {
				if _, err := g.do(context.Background(), 1, 0); err != nil {
					t.Error(err)
				}
				time.Sleep(pause)
			}
		})
	}
	all.Wait()
	return time.Since(began)
}

// TestGatherTogether: many callers who come again soon are in one call, all of them, instead of taking turns.
func TestGatherTogether(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const callers, times = 10, 20
		g := newGathering()
		g.ask(t, callers, times, gatherCall/2)
		if calls := len(g.sizes); calls > times+2 {
			t.Errorf("%d callers, %d times each: calls of %v", callers, times, g.sizes)
		}
	})
}

// TestGatherGivesUp: callers who do not come again soon, as those of an open loop, are waited for in vain a few times and
// then now and then; as soon as they do come again they are waited for all the time.
func TestGatherGivesUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const callers = 10
		g := newGathering()
		for range 100 { // bursts, of others each time
			g.ask(t, callers, 1, 4*gatherPatience)
		}
		if calls := len(g.sizes); g.waits.Load() > int64(vainWaits+calls/restCalls) || g.waits.Load() < vainWaits {
			t.Errorf("%d calls of %d waited", g.waits.Load(), calls)
		}
		g.ask(t, callers, 2*restCalls, gatherCall/2) // comes to its senses within these
		g.sizes = nil
		if g.ask(t, callers, 20, gatherCall/2); len(g.sizes) > 22 {
			t.Errorf("%d callers come again soon: calls of %v", callers, g.sizes)
		}
	})
}

// TestGatherMost: a call that is large enough waits for nobody.
func TestGatherMost(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := newGathering()
		g.ask(t, gatherMost+5, 20, gatherCall/2)
		if calls := len(g.sizes); slices.Max(g.sizes) < gatherMost/2 || g.waits.Load() > 2 { // the last callers are few
			t.Errorf("%d of %d calls waited: %v", g.waits.Load(), calls, g.sizes)
		}
	})
}

// TestGatheredAfter: what a call says of the next ones.
func TestGatheredAfter(t *testing.T) {
	for _, test := range []struct {
		before     gathered
		w          waited
		vain, rest int
	}{
		{gathered{}, didNotWait, 0, 0},
		{gathered{}, waitedForAll, 0, 0},
		{gathered{}, waitedInVain, 1, 0},
		{gathered{vain: vainWaits - 2}, waitedInVain, vainWaits - 1, 0},
		{gathered{vain: vainWaits - 1}, waitedInVain, vainWaits, restCalls},
		{gathered{vain: vainWaits, rest: restCalls}, didNotWait, vainWaits, restCalls - 1},
		{gathered{vain: vainWaits, rest: 1}, didNotWait, vainWaits, 0},
		{gathered{vain: vainWaits}, waitedInVain, vainWaits, restCalls},
		{gathered{vain: vainWaits}, waitedForAll, 0, 0},
		{gathered{vain: 1}, didNotWait, 1, 0},
	} {
		got := test.before.after(7, 9, test.w)
		if want := (gathered{7, 9, test.vain, test.rest}); got != want {
			t.Errorf("%+v after a call that waited %d: %+v instead of %+v", test.before, test.w, got, want)
		}
	}
}

// TestGatherWaitsForNobody: a caller who is alone waits for nobody, nor do a few; and those who do not come again after a
// call of many hold the next one up once, for patience at most.
func TestGatherWaitsForNobody(t *testing.T) {
	for _, callers := range []int{1, 3} {
		t.Run(fmt.Sprint(callers), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				const times = 20
				g := newGathering()
				if g.ask(t, callers, times, 0); g.waits.Load() > 0 {
					t.Errorf("%d of the calls waited: %v", g.waits.Load(), g.sizes)
				}
			})
		})
	}
	synctest.Test(t, func(t *testing.T) {
		g := newGathering()
		g.ask(t, 10, 2, 0)
		if took := g.ask(t, 1, 1, 0); took > gatherPatience+gatherCall {
			t.Errorf("the first one that is alone waited %v", took)
		}
		if took := g.ask(t, 1, 1, 0); took > gatherCall {
			t.Errorf("the next one waited %v", took)
		}
		if slices.Max(g.sizes) < 9 {
			t.Errorf("calls of %v", g.sizes)
		}
	})
}
