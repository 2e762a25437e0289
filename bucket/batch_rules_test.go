package bucket

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/budgetd/budgetd/budget"
)

// gates is a call that tells what it was given, and waits to be let through.
type gates struct {
	began chan []int
	pass  chan struct{}
}

func newGates() *gates { return &gates{began: make(chan []int, 100), pass: make(chan struct{})} }

func (g *gates) run(items []int) []result[int] {
	g.began <- slices.Clone(items)
	<-g.pass
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
	for range 3 {
		g.pass <- struct{}{}
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
	g.pass <- struct{}{}
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
	g.pass <- struct{}{}
	next := b.hand([]int{5})
	if got := <-g.began; !slices.Equal(got, []int{5}) {
		t.Errorf("third call %v: what was withdrawn was sent", got)
	}
	g.pass <- struct{}{}
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
		beside: &beside{full: 3, patience: time.Second, now: func() time.Duration { return now }}}
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
	hand(1)
	<-g.began
	hand(11, 2)
	none("two wait")
	hand(3)
	if got := <-g.began; !slices.Equal(got, []int{2, 3}) {
		t.Fatalf("three wait: %v", got)
	}
	g.pass <- struct{}{} // one of the two ends; both have the same to do: 11 is 1's
	g.pass <- struct{}{}
	if got := <-g.began; !slices.Equal(got, []int{11}) {
		t.Fatalf("then %v", got)
	}
	hand(4)
	none("one waits")
	now += 2 * time.Second
	hand(21)
	if got := <-g.began; !slices.Equal(got, []int{4}) {
		t.Fatalf("after a long time: %v", got)
	}
	close(g.pass)
	for _, h := range all {
		b.wait(context.Background(), h)
	}
	if got := <-g.began; !slices.Equal(got, []int{21}) {
		t.Errorf("at last %v", got)
	}
}

// TestBatcherManyCallers: every caller gets the answers to its own items, whatever is handed in together and whoever gives
// up meanwhile.
func TestBatcherManyCallers(t *testing.T) {
	var mu sync.Mutex
	working := map[int64]bool{}
	key := func(i int) int64 { return int64(i % 7) }
	b := &batcher[int, int]{size: 16, bound: 1000, workers: 3, apart: key,
		beside: &beside{full: 4, patience: time.Hour, now: func() time.Duration { return 0 }},
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
