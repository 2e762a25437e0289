package bucket_test

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/budgetd/budgetd/bucket"
	"github.com/budgetd/budgetd/budget"
	"github.com/budgetd/budgetd/internal/metrics"
)

// counted is an observer that counts the applies.
type counted struct {
	bucket.Observer
	mu      sync.Mutex
	applies int
	units   int64
}

func (c *counted) Moved(step string, units int64) {
	if step == "apply" {
		c.mu.Lock()
		c.applies, c.units = c.applies+1, c.units+units
		c.mu.Unlock()
	}
	c.Observer.Moved(step, units)
}

func (c *counted) taken() (applies int, units int64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.applies, c.units
}

// undistributed makes a budget with one bucket that holds nothing: all its units are undistributed.
func (w *world) undistributed(s *bucket.Service, d budget.Definition) bucket.BudgetRef {
	w.t.Helper()
	ref := w.create(s, d)
	if _, err := deduct(s, ref, "all", d.TotalQuantity); err != nil {
		w.t.Fatal(err)
	}
	if _, err := s.Rollback(context.Background(), bucket.RollbackRequest{Budget: ref, RequestID: "all"}); err != nil {
		w.t.Fatal(err)
	}
	if f := w.quiet(s, ref).Figures; f.Undistributed != d.TotalQuantity {
		w.t.Fatalf("%+v", f)
	}
	return ref
}

func (w *world) figuresOf(ref bucket.BudgetRef) (undistributed, remaining, used int64) {
	w.t.Helper()
	f, err := w.sql.Figures(context.Background(), ref.ID)
	if err != nil {
		w.t.Fatal(err)
	}
	return f.Undistributed, f.Remaining, f.Used
}

// TestSteadyUseAsksRarely: a bucket that two nodes use without pause asks SQL about every three seconds
// once its rate is known, once a second at most, and holds a few seconds of its use and not the budget.
func TestSteadyUseAsksRarely(t *testing.T) { inEveryWorld(t, steadyUseAsksRarely) }

func steadyUseAsksRarely(t *testing.T, w *world) {
	const total, warm, length = 100_000_000, 2 * time.Second, 8 * time.Second
	counts := &counted{Observer: metrics.New("test")}
	w.observer = counts
	nodes := []*bucket.Service{w.node(quick), w.node(quick)}
	ref := w.undistributed(nodes[0], promo("steady", total, 1))
	stop := make(chan struct{})
	var all sync.WaitGroup
	for i := range 4 {
		all.Go(func() {
			for n := 0; ; n++ {
				select {
				case <-stop:
					return
				case <-time.After(5 * time.Millisecond):
				}
				if _, err := deduct(nodes[i%2], ref, fmt.Sprintf("%d-%d", i, n), int64(1+n%3)); err != nil {
					t.Error(err)
					return
				}
			}
		})
	}
	time.Sleep(warm)
	_, _, usedBefore := w.figuresOf(ref)
	before, _ := counts.taken()
	began, most := time.Now(), int64(0)
	for time.Since(began) < length {
		time.Sleep(20 * time.Millisecond)
		_, remaining, _ := w.figuresOf(ref)
		most = max(most, remaining)
	}
	took := time.Since(began).Seconds()
	after, units := counts.taken()
	_, _, usedAfter := w.figuresOf(ref)
	close(stop)
	all.Wait()
	rate := float64(usedAfter-usedBefore) / took
	t.Logf("%.1f units a second: %d applies in %.1f s (%d before), held up to %d, %d units applied for", rate, after-before,
		took, before, most, units)
	if applies := float64(after - before); applies > took+1 {
		t.Errorf("%d applies in %.1f s", after-before, took)
	}
	// Five seconds of use; twice as much where both nodes ask at once, or the machine was faster before.
	if rate == 0 || float64(most) > 12*rate+10 {
		t.Errorf("held up to %d at %.1f units a second", most, rate)
	}
	w.settled(nodes[0], ref, w.quiet(nodes[0], ref).Figures.Used)
}

// TestSlowBucketHoardsNothing: a bucket that is hardly used holds a few seconds of its use and one request.
func TestSlowBucketHoardsNothing(t *testing.T) { inEveryWorld(t, slowBucketHoardsNothing) }

func slowBucketHoardsNothing(t *testing.T, w *world) {
	const total, amount, gap, requests = 1_000_000, 7, 300 * time.Millisecond, 12
	s := w.node(quick)
	ref := w.undistributed(s, promo("slow", total, 1))
	time.Sleep(gap) // the deduction in the set-up is measured too
	for i := range requests {
		if _, err := deduct(s, ref, fmt.Sprint("o", i), amount); err != nil {
			t.Fatal(err)
		}
		time.Sleep(gap)
		// Two replies are no closer than the gap, so no faster use was measured.
		const most = 5*amount*int64(time.Second/time.Millisecond)/int64(gap/time.Millisecond) + 2*amount
		undistributed, remaining, used := w.figuresOf(ref)
		if remaining > most || undistributed+remaining+used != total {
			t.Fatalf("after %d requests of %d it holds %d, at most %d are expected; U %d, used %d", i+1, amount, remaining,
				most, undistributed, used)
		}
	}
	w.settled(s, ref, requests*amount)
}

// TestRefillIsBounded: sharding_quantity bounds each apply of a bucket that is used faster, and the
// requests are served all the same, by more applies.
func TestRefillIsBounded(t *testing.T) { inEveryWorld(t, refillIsBounded) }

func refillIsBounded(t *testing.T, w *world) {
	const total, bound, requests = 10_000, 5, 100
	counts := &counted{Observer: metrics.New("test")}
	w.observer = counts
	s := w.node(quick)
	d := promo("bounded", total, 1)
	d.ShardingQuantity = bound
	ref := w.undistributed(s, d)
	for i := range requests {
		if _, err := deduct(s, ref, fmt.Sprint("o", i), 1); err != nil {
			t.Fatal(err)
		}
	}
	applies, units := counts.taken()
	if applies < requests/bound || units > int64(applies)*bound {
		t.Errorf("%d units by %d applies of at most %d", units, applies, bound)
	}
	w.settled(s, ref, requests)
}

// TestCountedAppliesTakeShares: where adjust_cnt leaves a bucket one apply, that one takes all it can have,
// so that every unit is sold.
func TestCountedAppliesTakeShares(t *testing.T) { inEveryWorld(t, countedAppliesTakeShares) }

func countedAppliesTakeShares(t *testing.T, w *world) {
	const total = 60
	s := w.node(quick)
	d := promo("few-applies", total, 1)
	d.AdjustCnt = 2 // the hand-out is one
	ref := w.undistributed(s, d)
	for i := range total {
		if _, err := deduct(s, ref, fmt.Sprint("o", i), 1); err != nil {
			t.Fatalf("unit %d of %d: %v", i+1, total, err)
		}
	}
	if _, err := deduct(s, ref, "more", 1); !budget.Is(err, budget.BudgetExhausted) {
		t.Errorf("one more: %v", err)
	}
	w.settled(s, ref, total)
}
