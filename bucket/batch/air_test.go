package batch_test

import (
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/budgetd/budgetd/bucket/batch"
)

// flown is a call as it was seen.
type flown struct {
	items      []item
	began, end time.Duration // since the beginning of the test
}

// flight runs a test with a queue whose calls take what long says, or a millisecond.
func flight(t *testing.T, most int, long func(items []item) time.Duration,
	run func(q *batch.Queue[item], at func() time.Duration)) []*flown {
	t.Helper()
	var calls []*flown
	synctest.Test(t, func(t *testing.T) {
		start := time.Now()
		at := func() time.Duration { return time.Since(start) }
		var mu sync.Mutex
		q := batch.New(batch.Config[item]{Size: 100, Bound: 1000, Most: func(time.Duration) int { return most },
			Owner:  func(it item) int64 { return it.owner },
			Claims: func(it item, to []uint64) []uint64 { return append(to, uint64(it.key)) }, //nolint:gosec // small
			Refuse: func(it item) { t.Errorf("%+v was refused", it) },
			Run: func(items []item) {
				call := &flown{items: slices.Clone(items), began: at()}
				mu.Lock()
				calls = append(calls, call)
				mu.Unlock()
				took := time.Millisecond
				if long != nil {
					took = max(took, long(items))
				}
				time.Sleep(took)
				call.end = at()
			}})
		for n := range int64(20) { // so that the queue knows how long a call takes
			q.Add(item{1, -1 - n, -1 - n})
			time.Sleep(2 * time.Millisecond)
			synctest.Wait()
		}
		calls = nil
		start = time.Now()
		run(q, at)
		for q.Len() > 0 {
			time.Sleep(time.Millisecond)
		}
		time.Sleep(time.Second)
	})
	return calls
}

// TestBesideAnother checks when a call begins beside another one: after an eighth of the usual time,
// or as soon as as many items wait as went last, and never beside Most.
func TestBesideAnother(t *testing.T) {
	calls := flight(t, 2, nil, func(q *batch.Queue[item], _ func() time.Duration) {
		q.AddAll([]item{{1, 1, 1}, {1, 2, 2}})
		time.Sleep(10 * time.Microsecond)
		q.Add(item{1, 3, 3})
		synctest.Wait()
		time.Sleep(200 * time.Microsecond)
		q.Add(item{1, 4, 4}) // the third call waits for the first
		time.Sleep(2 * time.Millisecond)
		q.AddAll([]item{{1, 5, 5}, {1, 6, 6}})
		time.Sleep(10 * time.Microsecond)
		q.AddAll([]item{{1, 7, 7}, {1, 8, 8}}) // as many as went last
	})
	want := []struct {
		began time.Duration
		items int
	}{{0, 2}, {135 * time.Microsecond, 1}, {time.Millisecond, 1}, {2210 * time.Microsecond, 2}, {2220 * time.Microsecond, 2}}
	for i, call := range calls {
		if i < len(want) && ((call.began-want[i].began).Abs() > time.Microsecond || len(call.items) != want[i].items) {
			t.Errorf("call %d: %d items at %s, want %+v", i, len(call.items), call.began, want[i])
		}
	}
	if len(calls) != len(want) {
		t.Errorf("%d calls, want %d", len(calls), len(want))
	}
}

// TestSlowCall checks that a call that takes more than four times as long as usual stops only its
// owner's items, although those who got items back from it may change them already.
func TestSlowCall(t *testing.T) {
	long := func(items []item) time.Duration {
		if items[0].owner == 7 && items[0].n == 0 {
			items[0].owner = 9
			return 100 * time.Millisecond
		}
		return 0
	}
	calls := flight(t, 2, long, func(q *batch.Queue[item], _ func() time.Duration) {
		q.Add(item{7, 1, 0})
		synctest.Wait()
		for n := range int64(50) {
			q.Add(item{7, 100 + n, 1 + n})
			q.Add(item{8, 200 + n, 1 + n})
			time.Sleep(time.Millisecond)
		}
	})
	last := time.Duration(0)
	for _, call := range calls {
		for _, it := range call.items {
			if it.owner == 8 {
				last = max(last, call.began)
			}
			if it.owner == 7 && it.n > 10 && call.began < 100*time.Millisecond {
				t.Errorf("%+v went at %s, beside the slow call of its owner", it, call.began)
			}
		}
	}
	if last > 60*time.Millisecond {
		t.Errorf("the other owner's last item waited until %s", last)
	}
}

// TestClaims checks that no two calls in the air have the same claim, that every item goes once, and
// that no more calls are in the air than may be.
func TestClaims(t *testing.T) {
	for seed := range uint64(20) {
		random := rand.New(rand.NewPCG(seed, 1))
		most := 2 + random.IntN(3)
		added := int64(0)
		calls := flight(t, most, func(items []item) time.Duration {
			return time.Duration(max(items[0].n, 0)*7919%1500) * time.Microsecond
		}, func(q *batch.Queue[item], _ func() time.Duration) {
			for range 100 {
				for range random.IntN(8) {
					q.Add(item{random.Int64N(3), random.Int64N(30), added})
					added++
				}
				time.Sleep(time.Duration(random.IntN(500)) * time.Microsecond)
			}
		})
		seen := map[int64]bool{}
		for i, a := range calls {
			beside := 0
			for _, it := range a.items {
				if seen[it.n] {
					t.Fatalf("%+v goes twice", it)
				}
				seen[it.n] = true
			}
			for _, b := range calls[:i] {
				if b.end <= a.began {
					continue
				}
				beside++
				for _, it := range a.items {
					if slices.ContainsFunc(b.items, func(o item) bool { return o.key == it.key }) {
						t.Fatalf("two calls in the air have key %d", it.key)
					}
				}
			}
			if beside >= most {
				t.Fatalf("call %d is in the air beside %d others, %d may be", i, beside, most)
			}
		}
		if int64(len(seen)) != added {
			t.Fatalf("%d of %d items went", len(seen), added)
		}
	}
}
