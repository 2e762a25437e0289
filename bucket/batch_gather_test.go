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
}

const gatherCall, gatherPatience = time.Millisecond, 5 * time.Millisecond

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
	one := &gather{many: 4, patience: gatherPatience, now: func() time.Duration { return time.Since(base) },
		sleep: SystemClock{}.Sleep, last: last}
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

// TestGatherWaitsForNobody: a caller who is alone waits for nobody, nor do a few; and those who do not come again after a
// call of many hold the next one up once, for patience at most.
func TestGatherWaitsForNobody(t *testing.T) {
	for _, callers := range []int{1, 3} {
		t.Run(fmt.Sprint(callers), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				const times = 20
				g := newGathering()
				if took := g.ask(t, callers, times, 0); took > time.Duration(times+callers)*gatherCall {
					t.Errorf("%v for %d times: calls of %v", took, times, g.sizes)
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
