package row_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/budgetd/budgetd/bucket"
	"github.com/budgetd/budgetd/bucket/row"
	"github.com/budgetd/budgetd/budget"
)

// hanging is a filter with a partition that does not answer while it hangs.
type hanging struct {
	*filter
	partition bucket.Partition
	hangs     atomic.Bool
	asked     atomic.Int64
}

func (h *hanging) use(c *row.Config) { c.Filters = map[string]bucket.Filter{"m": h} }

func (h *hanging) Take(ctx context.Context, partition bucket.Partition, takes []bucket.Take) ([]bucket.Taken, error) {
	if partition == h.partition {
		h.asked.Add(1)
		if h.hangs.Load() {
			<-ctx.Done()
			return nil, ctx.Err()
		}
	}
	return h.filter.Take(ctx, partition, takes)
}

// TestHungPartition checks that a store that hangs costs the requests that wait for it one timeout.
// Then it is excluded, probed once a second, and used again when it answers.
func TestHungPartition(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBooks()
		a := b.add("b", 6000, 6, 1000, three)
		h := &hanging{filter: newFilter(), partition: three(1)}
		s := node(t, b, h.use)
		round := 0
		deduct := func(wanted, most time.Duration) {
			t.Helper()
			round++
			requests := make([]bucket.DeductRequest, 60)
			for i := range requests {
				requests[i] = request(a, fmt.Sprint(round, "-", i), 1)
			}
			began := time.Now()
			for i, r := range s.DeductAll(context.Background(), requests) {
				if r.Err != nil {
					t.Errorf("%d: %v", i, r.Err)
				}
			}
			if took := time.Since(began); took < wanted || took > most {
				t.Errorf("round %d took %v, want %v to %v", round, took, wanted, most)
			}
		}
		deduct(0, 0)
		h.hangs.Store(true)
		deduct(100*time.Millisecond, 110*time.Millisecond)
		asked := h.asked.Load()
		for range 9 {
			deduct(0, 0)
			time.Sleep(100 * time.Millisecond)
		}
		if n := h.asked.Load(); n != asked {
			t.Errorf("a partition that hangs was asked %d times in 900 ms", n-asked)
		}
		for range 50 {
			deduct(0, 0)
			time.Sleep(100 * time.Millisecond)
		}
		if n := h.asked.Load() - asked; n < 4 || n > 6 {
			t.Errorf("a partition that hangs was tried %d times in 5 s", n)
		}
		h.hangs.Store(false)
		time.Sleep(time.Second)
		deduct(0, 0)
		synctest.Wait()
		asked = h.asked.Load()
		deduct(0, 0)
		if h.asked.Load() == asked {
			t.Error("a partition that answers again is not asked")
		}
		time.Sleep(time.Minute)
	})
}

// TestFilterHeals checks that a content that is lost, too small or too large is replaced by SQL's
// figures, after at most one request that goes to SQL without it and one raise of the fill.
func TestFilterHeals(t *testing.T) {
	for name, broken := range map[string]content{
		"too small": {1, 0}, "too large": {1, 1 << 50}, "of a higher fill, too small": {77, 3},
		"of a higher fill, too large": {77, 1 << 50}, "of an older fill": {0, 5},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				b := newBooks()
				a := b.add("b", 90, 1, 90, one) // so that no gather gives it another fill
				f := newFilter()
				s := node(t, b, f.use)
				deduct := func(id string, amount int64, want budget.Code) {
					t.Helper()
					_, err := s.Deduct(context.Background(), request(a, id, amount))
					if budget.CodeOf(err) != want {
						t.Errorf("%s: %v, want %q", id, err, want)
					}
					synctest.Wait()
				}
				deduct("first", 10, "")
				if got := f.get(a.Buckets[0].ID); got != (content{1, 80}) {
					t.Errorf("the filter has %+v", got)
				}
				f.put(a.Buckets[0].ID, broken)
				deduct("second", 10, "")
				deduct("third", 75, budget.BudgetExhausted)
				time.Sleep(2 * time.Second)
				deduct("last", 1, "")
				time.Sleep(2 * time.Second)
				// The last deduction may have finished after the raise it caused read SQL: its unit
				// is then still in the filter, where it costs one request to SQL at most.
				left := a.epochs[a.Buckets[0].ID]
				got := f.get(a.Buckets[0].ID)
				if got.fill != left.Fill || got.balance < left.Outstanding ||
					got.balance > left.Outstanding+1 {
					t.Errorf("the filter has %+v, SQL has fill %d and %d units", got, left.Fill, left.Outstanding)
				}
				if b.raised > 2 {
					t.Errorf("%d raises", b.raised)
				}
				time.Sleep(time.Minute)
			})
		})
	}
}

// TestBackToTheFilter checks that the filter gets back what it gave for requests that were not
// committed.
func TestBackToTheFilter(t *testing.T) {
	b := newBooks()
	a := b.add("b", 100, 1, 100, one)
	f := newFilter()
	s := node(t, b, f.use)
	for i := range 10 {
		if _, err := s.Deduct(context.Background(), request(a, fmt.Sprint("o", i/5), 10)); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := s.Deduct(context.Background(), request(a, "another", 1)); err != nil {
		t.Fatal(err)
	}
	if got := f.get(a.Buckets[0].ID); got.balance != 79 {
		t.Errorf("the filter has %d, SQL 79: eight repeats took 80 from it", got.balance)
	}
}

// blocked is a ledger whose commits wait.
type blocked struct {
	*books
	begun chan struct{}
	goOn  chan struct{}
}

func (l *blocked) Commit(ctx context.Context, ops []bucket.Operation) ([]bucket.Outcome, error) {
	l.begun <- struct{}{}
	select {
	case <-l.goOn:
		return l.books.Commit(ctx, ops)
	case <-ctx.Done():
		return nil, &budget.Error{Code: budget.OutcomeUnknown, Op: "commit", Err: ctx.Err()}
	}
}

// TestDeadline checks that a request that still waits at the deadline was not done, and that the
// outcome of one whose commit is in progress is unknown after a grace period.
func TestDeadline(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBooks()
		a := b.add("b", 100, 1, 100, none)
		l := &blocked{b, make(chan struct{}, 10), make(chan struct{})}
		s := node(t, b, func(c *row.Config) { c.Ledger = l; c.Settings.Slots = 1 })
		var run sync.WaitGroup
		deduct := func(ctx context.Context, id string, code budget.Code, after time.Duration) {
			began := time.Now()
			run.Go(func() {
				_, err := s.Deduct(ctx, request(a, id, 1))
				if took := time.Since(began); !budget.Is(err, code) || took < after || took > after+20*time.Millisecond {
					t.Errorf("%s: %v after %v, want %s after %v", id, err, took, code, after)
				}
			})
		}
		deduct(t.Context(), "under way", budget.OutcomeUnknown, 3*time.Second)
		<-l.begun
		deduct(t.Context(), "waiting", budget.Unavailable, 2*time.Second)
		given, giveUp := context.WithTimeout(t.Context(), time.Second)
		defer giveUp()
		deduct(given, "given up", budget.Unavailable, time.Second)
		run.Wait()
		close(l.goOn)
		synctest.Wait()
		if units, rows := b.used(a.ID); units != 1 || rows != 1 {
			t.Errorf("%d units in %d rows: a request that was answered with unavailable was written", units, rows)
		}
		time.Sleep(time.Minute)
	})
}

// TestFullQueue checks that a full queue refuses at once, and leaves other budgets room.
func TestFullQueue(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBooks()
		hot, cold := b.add("hot", 100, 1, 100, none), b.add("cold", 100, 1, 100, none)
		l := &blocked{b, make(chan struct{}, 10), make(chan struct{})}
		s := node(t, b, func(c *row.Config) { c.Ledger = l; c.Settings = row.Settings{Slots: 1, Queue: 8} })
		var run sync.WaitGroup
		var full, accepted atomic.Int64
		deduct := func(a *account, id string) {
			run.Go(func() {
				_, err := s.Deduct(t.Context(), request(a, id, 1))
				var e *budget.Error
				switch {
				case err == nil:
					accepted.Add(1)
				case errors.As(err, &e) && e.Code == budget.Unavailable && e.Reason == budget.ReasonOverloaded:
					full.Add(1)
				default:
					t.Errorf("%s: %v", id, err)
				}
			})
		}
		deduct(hot, "first")
		<-l.begun
		for i := range 12 {
			deduct(hot, fmt.Sprint("o", i))
		}
		synctest.Wait()
		if n := full.Load(); n != 4 {
			t.Errorf("%d of 12 were refused at once, with room for 8", n)
		}
		deduct(cold, "cold")
		synctest.Wait()
		close(l.goOn)
		run.Wait()
		if units, _ := b.used(cold.ID); units != 1 || full.Load() != 5 || accepted.Load() != 9 {
			t.Errorf("cold has %d units, %d refused, %d accepted", units, full.Load(), accepted.Load())
		}
		time.Sleep(time.Minute)
	})
}
