package batch_test

import (
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"pgregory.net/rapid"

	"github.com/budgetd/budgetd/bucket/batch"
)

// item is a request of an owner for a key.
type item struct{ owner, key, n int64 }

// recorder is a queue whose calls wait until they are released.
type recorder struct {
	*batch.Queue[item]
	mu      sync.Mutex
	calls   [][]item
	refused []item
	begun   chan struct{}
	goOn    chan struct{}
}

func record(config batch.Config[item]) *recorder {
	r := &recorder{begun: make(chan struct{}, 1), goOn: make(chan struct{})}
	config.Owner = func(it item) int64 { return it.owner }
	config.Works = func(it item, to []int64) []int64 { return append(to, it.key) }
	config.Run = func(items []item) {
		r.mu.Lock()
		r.calls = append(r.calls, slices.Clone(items))
		r.mu.Unlock()
		r.begun <- struct{}{}
		<-r.goOn
	}
	config.Refuse = func(it item) {
		r.mu.Lock()
		r.refused = append(r.refused, it)
		r.mu.Unlock()
	}
	r.Queue = batch.New(config)
	return r
}

// TestNextCall checks that a request without a running call is sent alone and at once, and that all
// which arrive during its call go into the next one.
func TestNextCall(t *testing.T) {
	r := record(batch.Config[item]{Size: 100, Bound: 100})
	r.Add(item{1, 1, 0})
	<-r.begun
	for n := range int64(9) {
		r.Add(item{1, 1, n + 1})
	}
	r.goOn <- struct{}{}
	<-r.begun
	r.goOn <- struct{}{}
	if len(r.calls[0]) != 1 || len(r.calls[1]) != 9 {
		t.Errorf("calls of %d and %d items, want 1 and 9", len(r.calls[0]), len(r.calls[1]))
	}
}

// TestHotOwner checks that an owner whose items fill the queue leaves the others a place in it and
// in the next call.
func TestHotOwner(t *testing.T) {
	const hot, cold, room = 1, 2, 50
	r := record(batch.Config[item]{Size: 10, Bound: room})
	r.Add(item{hot, 1, 0})
	<-r.begun
	for n := range int64(room) {
		r.Add(item{hot, 1, n + 1})
	}
	r.Add(item{cold, 2, 0})
	if want := []item{{hot, 1, room}}; !slices.Equal(r.refused, want) {
		t.Errorf("refused: %v, want %v", r.refused, want)
	}
	r.goOn <- struct{}{}
	<-r.begun
	if !slices.Contains(r.calls[1], item{cold, 2, 0}) {
		t.Errorf("the next call is %v", r.calls[1])
	}
	r.Add(item{hot, 1, room + 1})
	if r.Add(item{hot, 1, room + 2}); r.Len() > room {
		t.Errorf("%d wait", r.Len())
	}
	close(r.goOn)
	for r.Len() > 0 {
		<-r.begun
	}
}

// TestQueueProperties adds items of random owners and keys in bursts: each is in exactly one call
// or refused, calls and queue keep their bounds, and the items of an owner keep their order.
func TestQueueProperties(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		size := rapid.IntRange(1, 20).Draw(t, "size")
		bound := rapid.IntRange(1, 60).Draw(t, "bound")
		keys := rapid.IntRange(0, 5).Draw(t, "keys")
		r := record(batch.Config[item]{Size: size, Bound: bound, Keys: keys})
		owners := rapid.Int64Range(0, 4)
		added := 0
		for range rapid.IntRange(1, 10).Draw(t, "bursts") {
			burst := make([]item, rapid.IntRange(1, 40).Draw(t, "burst"))
			for i := range burst {
				burst[i] = item{owners.Draw(t, "owner"), rapid.Int64Range(0, 8).Draw(t, "key"), int64(added)}
				added++
			}
			first := r.Len() == 0 && len(r.calls) == 0
			r.AddAll(burst)
			if first {
				<-r.begun
			}
			if n := r.Len(); n > bound {
				t.Fatalf("%d items wait, the bound is %d", n, bound)
			}
		}
		for r.Len() > 0 {
			r.goOn <- struct{}{}
			<-r.begun
		}
		close(r.goOn)
		seen, last := map[int64]bool{}, map[int64]int64{}
		for i, call := range r.calls {
			distinct := map[int64]bool{}
			for _, it := range call {
				distinct[it.key] = true
				if seen[it.n] || last[it.owner] > it.n {
					t.Fatalf("item %+v comes twice or too late", it)
				}
				seen[it.n], last[it.owner] = true, it.n
			}
			if len(call) > size || keys > 0 && len(distinct) > keys {
				t.Fatalf("call %d: %d items of %d keys", i, len(call), len(distinct))
			}
		}
		for _, it := range r.refused {
			if seen[it.n] {
				t.Fatalf("item %+v was refused and in a call", it)
			}
			seen[it.n] = true
		}
		if len(seen) != added {
			t.Fatalf("%d of %d items were in a call or refused", len(seen), added)
		}
	})
}

// TestMaxMinFair checks that a call gives each owner the same number of places, as far as it has
// that many items.
func TestMaxMinFair(t *testing.T) {
	r := record(batch.Config[item]{Size: 30, Bound: 1000})
	r.Add(item{9, 9, 0})
	<-r.begun
	for owner, n := range []int{100, 100, 3, 8} {
		for i := range n {
			r.Add(item{int64(owner), 1, int64(i)})
		}
	}
	r.goOn <- struct{}{}
	<-r.begun
	got := map[int64]int{}
	for _, it := range r.calls[1] {
		got[it.owner]++
	}
	if got[2] != 3 || got[3] < 7 || got[0] < 9 || got[1] < 9 || len(r.calls[1]) != 30 {
		t.Errorf("places by owner: %v", got)
	}
	close(r.goOn)
	for r.Len() > 0 {
		<-r.begun
	}
}

// TestGroup checks for one call at a time per key, and as many concurrent keys as there are
// workers.
func TestGroup(t *testing.T) {
	const keys, each, workers = 6, 50, 3
	var mu sync.Mutex
	running, most, done := map[int64]int{}, 0, map[int64][]int{}
	var wait sync.WaitGroup
	g := batch.NewGroup(batch.GroupConfig[int]{Size: 7, Bound: 1000, Workers: workers,
		Refuse: func(int) { t.Error("refused") },
		Run: func(key int64, items []int) {
			mu.Lock()
			running[key]++
			if running[key] > 1 || len(items) > 7 {
				t.Errorf("key %d: %d calls, %d items", key, running[key], len(items))
			}
			sum := 0
			for _, n := range running {
				sum += n
			}
			most = max(most, sum)
			mu.Unlock()
			time.Sleep(time.Millisecond)
			mu.Lock()
			running[key]--
			done[key] = append(done[key], items...)
			mu.Unlock()
			for range items {
				wait.Done()
			}
		}})
	for i := range each {
		for key := range int64(keys) {
			wait.Add(1)
			g.Add(key, i)
		}
	}
	wait.Wait()
	for key, items := range done {
		if len(items) != each || !slices.IsSorted(items) {
			t.Errorf("key %d: %v", key, items)
		}
	}
	if most > workers || most < 2 {
		t.Errorf("%d calls side by side, want up to %d", most, workers)
	}
}

func TestGroupBound(t *testing.T) {
	hold, refused := make(chan struct{}), atomic.Int64{}
	g := batch.NewGroup(batch.GroupConfig[int]{Size: 10, Bound: 2, Workers: 1,
		Refuse: func(int) { refused.Add(1) }, Run: func(int64, []int) { <-hold }})
	for i := range 10 {
		g.Add(1, i)
	}
	if n := refused.Load(); n < 6 {
		t.Errorf("%d were refused, want at least 6: 2 in a call, 2 waiting", n)
	}
	close(hold)
}

// waiter counts how often it was overdue.
type waiter struct {
	until time.Time
	ended atomic.Int64
	place batch.Watched
}

func (w *waiter) CheckDeadline(now time.Time) {
	if !now.Before(w.until) {
		w.ended.Add(1)
	}
}

// TestWatch checks that each waiter is told within one interval after its deadline, and not after
// it was removed.
func TestWatch(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const every = 10 * time.Millisecond
		watch := batch.NewWatch(every)
		waiters := make([]waiter, 20)
		for i := range waiters {
			waiters[i].until = time.Now().Add(time.Duration(i) * 7 * time.Millisecond)
			watch.Add(&waiters[i].place, &waiters[i])
		}
		for i := range waiters {
			w := &waiters[i]
			time.Sleep(time.Until(w.until.Add(every)))
			synctest.Wait()
			if w.ended.Load() == 0 {
				t.Errorf("%d: not told", i)
			}
			watch.Remove(&w.place)
			watch.Remove(&w.place)
			before := w.ended.Load()
			time.Sleep(every)
			synctest.Wait()
			if w.ended.Load() != before {
				t.Errorf("%d: told after it was removed", i)
			}
		}
		time.Sleep(time.Second) // the goroutine ends: synctest fails otherwise
		again := &waiter{until: time.Now()}
		watch.Add(&again.place, again)
		time.Sleep(2 * every)
		if again.ended.Load() == 0 {
			t.Error("a waiter after a pause was not told")
		}
		watch.Remove(&again.place)
		time.Sleep(time.Second)
	})
}
