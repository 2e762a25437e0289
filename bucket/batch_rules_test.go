package bucket

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/budgetd/budgetd/budget"
)

// gates is a call that tells what it was given, and waits to be told to go on.
type gates struct {
	began chan []int
	doors sync.Map // by the first item
}

func newGates() *gates { return &gates{began: make(chan []int, 100)} }

func (g *gates) door(item int) chan struct{} {
	door, _ := g.doors.LoadOrStore(item, make(chan struct{}))
	return door.(chan struct{})
}

func (g *gates) goOn(item int) { close(g.door(item)) }

func (g *gates) run(items []int) []result[int] {
	g.began <- slices.Clone(items)
	<-g.door(items[0])
	out := make([]result[int], len(items))
	for i, item := range items {
		out[i].answer = 10 * item
	}
	return out
}

func answersOf(rs []result[int]) (out []int) {
	for _, r := range rs {
		out = append(out, r.answer)
	}
	return out
}

// TestBatcher: what arrives while a call is in flight goes into the next one, in order; items that were handed in
// together are answered together.
func TestBatcher(t *testing.T) {
	g := newGates()
	b := &batcher[int, int]{run: g.run, size: 3, bound: 6, workers: 1}
	ctx := context.Background()
	first := b.hand([]int{1})
	if got := <-g.began; !slices.Equal(got, []int{1}) {
		t.Fatalf("first call %v", got)
	}
	both := b.hand([]int{2, 3, 4, 5})
	more := b.hand([]int{6, 7, 8}) // there is room for two
	for _, item := range []int{1, 2, 5} {
		g.goOn(item)
	}
	if got := answersOf(b.wait(ctx, first)); !slices.Equal(got, []int{10}) {
		t.Errorf("first %v", got)
	}
	if got := answersOf(b.wait(ctx, both)); !slices.Equal(got, []int{20, 30, 40, 50}) {
		t.Errorf("both %v", got)
	}
	left := b.wait(ctx, more)
	if got := answersOf(left); !slices.Equal(got, []int{60, 70, 0}) || !budget.Is(left[2].err, budget.Unavailable) {
		t.Errorf("more %v, %v", got, left[2].err)
	}
	if a, b := <-g.began, <-g.began; !slices.Equal(a, []int{2, 3, 4}) || !slices.Equal(b, []int{5, 6, 7}) {
		t.Errorf("calls %v, %v", a, b)
	}
}

// TestBatcherGivesUp: what no call has taken when its caller gives up is not sent, and of the rest nobody knows.
func TestBatcherGivesUp(t *testing.T) {
	g := newGates()
	b := &batcher[int, int]{run: g.run, size: 2, bound: 10, workers: 1}
	ctx, cancel := context.WithCancel(context.Background())
	one := b.hand([]int{1})
	<-g.began
	many := b.hand([]int{2, 3, 4})
	g.goOn(1)
	b.wait(ctx, one)
	if got := <-g.began; !slices.Equal(got, []int{2, 3}) {
		t.Fatalf("second call %v", got)
	}
	cancel()
	got := b.wait(ctx, many)
	for i, code := range []budget.Code{budget.OutcomeUnknown, budget.OutcomeUnknown, budget.Unavailable} {
		if !budget.Is(got[i].err, code) {
			t.Errorf("item %d: %v, want %s", i, got[i].err, code)
		}
	}
	g.goOn(2)
	next := b.hand([]int{5})
	if got := <-g.began; !slices.Equal(got, []int{5}) {
		t.Errorf("third call %v: what was withdrawn was sent", got)
	}
	g.goOn(5)
	if got := b.wait(context.Background(), next); got[0].answer != 50 {
		t.Errorf("%+v", got)
	}
}

// TestBatcherBeside: another call begins beside the one under way only when enough waits or that one takes long,
// and never works on what another one works on.
func TestBatcherBeside(t *testing.T) {
	g := newGates()
	now := time.Duration(0)
	b := &batcher[int, int]{run: g.run, size: 10, bound: 100, workers: 2, apart: func(i int) int64 { return int64(i % 10) },
		beside: &beside{full: 3, patience: time.Second, now: func() time.Duration { return now }, sleep: asleep(nil)}}
	var all []handed[int, int]
	hand := func(items ...int) { all = append(all, b.hand(items)) }
	none := func(when string) {
		t.Helper()
		select {
		case got := <-g.began:
			t.Fatalf("%s: a call of %v", when, got)
		case <-time.After(20 * time.Millisecond):
		}
	}
	// next is the next call; the one of the items given goes on when it is told to.
	next := func(when string, want ...int) (goOn func()) {
		t.Helper()
		if got := <-g.began; !slices.Equal(got, want) {
			t.Fatalf("%s: a call of %v, not %v", when, got, want)
		}
		return func() { g.goOn(want[0]) }
	}
	hand(1)
	first := next("one came", 1)
	hand(11, 2)
	none("two wait")
	hand(3)
	second := next("three wait", 2, 3) // 11 is 1's
	first()
	third := next("the first has ended", 11)
	second()
	for running := 2; running > 1; time.Sleep(time.Millisecond) { // it finds nothing to do
		b.mu.Lock()
		running = b.running
		b.mu.Unlock()
	}
	hand(4)
	none("one waits")
	now += 2 * time.Second
	hand(21)
	fourth := next("one has taken long", 4)
	none("what waits is the third one's")
	third()
	last := next("the third has ended", 21)
	fourth()
	last()
	for _, h := range all {
		b.wait(context.Background(), h)
	}
}

// asleep is a sleep that ends when ended says so; nil: never.
func asleep(ended chan struct{}) func(time.Duration) error {
	return func(time.Duration) error { <-ended; return nil }
}

// TestBatcherBesideAlone: another call begins beside one that takes long also when nobody comes any more, and nobody
// watches once nothing waits.
func TestBatcherBesideAlone(t *testing.T) {
	g, slept := newGates(), make(chan struct{})
	var now atomic.Int64
	b := &batcher[int, int]{run: g.run, size: 10, bound: 100, workers: 2, apart: func(i int) int64 { return int64(i) },
		beside: &beside{full: 10, patience: time.Second, now: func() time.Duration { return time.Duration(now.Load()) },
			sleep: asleep(slept)}}
	wake := func(when string) {
		t.Helper()
		select {
		case slept <- struct{}{}:
		case <-time.After(10 * time.Second):
			t.Fatalf("%s: nobody watches", when)
		}
	}
	hangs := b.hand([]int{1})
	<-g.began
	waits := b.hand([]int{2})
	wake("one waits")
	wake("the call has not taken long")
	now.Store(int64(time.Second))
	wake("the call has taken long")
	select {
	case got := <-g.began:
		if !slices.Equal(got, []int{2}) {
			t.Fatalf("a call of %v", got)
		}
	case <-time.After(10 * time.Second):
		t.Fatal("nothing began beside the call that hangs")
	}
	wake("nothing waits any more")
	g.goOn(2)
	g.goOn(1)
	b.wait(context.Background(), waits)
	b.wait(context.Background(), hangs)
	for watched := true; watched; time.Sleep(time.Millisecond) {
		b.mu.Lock()
		watched = b.watched
		b.mu.Unlock()
	}
}

// TestBatcherManyCallers: every caller gets the answers to its own items, whatever is handed in together and whoever gives
// up meanwhile.
func TestBatcherManyCallers(t *testing.T) {
	var mu sync.Mutex
	working := map[int64]bool{}
	key := func(i int) int64 { return int64(i % 7) }
	b := &batcher[int, int]{size: 16, bound: 1000, workers: 3, apart: key,
		beside: &beside{full: 4, patience: time.Hour, now: func() time.Duration { return 0 }, sleep: asleep(nil)},
		run: func(items []int) []result[int] {
			mine := map[int64]bool{}
			mu.Lock()
			for _, item := range items {
				if k := key(item); working[k] && !mine[k] {
					t.Errorf("two calls work on %d", k)
				} else {
					working[k], mine[k] = true, true
				}
			}
			mu.Unlock()
			time.Sleep(50 * time.Microsecond)
			out := make([]result[int], len(items))
			for i, item := range items {
				out[i].answer = -item
			}
			mu.Lock()
			defer mu.Unlock()
			for k := range mine {
				delete(working, k)
			}
			return out
		}}
	var all sync.WaitGroup
	for caller := range 32 {
		all.Go(func() {
			for n := range 100 {
				ctx, cancel := context.WithCancel(context.Background())
				if (caller+n)%5 == 0 {
					cancel()
				}
				items := make([]int, 1+(caller+n)%9)
				for i := range items {
					items[i] = 1 + caller*100_000 + n*100 + i
				}
				for i, r := range b.wait(ctx, b.hand(items)) {
					given := r.err == nil && r.answer == -items[i]
					gaveUp := ctx.Err() != nil && (budget.Is(r.err, budget.Unavailable) || budget.Is(r.err, budget.OutcomeUnknown))
					if !given && !gaveUp {
						t.Error(fmt.Sprintf("item %d: %+v", items[i], r))
					}
				}
				cancel()
			}
		})
	}
	all.Wait()
}
