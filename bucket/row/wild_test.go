package row_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"github.com/budgetd/budgetd/bucket"
	"github.com/budgetd/budgetd/bucket/row"
	"github.com/budgetd/budgetd/budget"
)

// wild is a filter that is wrong in every way: it loses, repeats, delays and reorders calls and
// replies, and answers at random. Its contents vanish, become old and are edited.
type wild struct {
	*filter
	mu   sync.Mutex
	rand *rand.Rand
	late []func() // sets that have not arrived yet
	kept map[int64]content
}

func (w *wild) draw(n int) int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.rand.IntN(n)
}

func (w *wild) Set(ctx context.Context, partition bucket.Partition, levels []bucket.Level) error {
	switch w.draw(6) {
	case 0:
		return errDown
	case 1: // it arrives later, or never
		w.mu.Lock()
		w.late = append(w.late, func() { _ = w.filter.Set(ctx, partition, levels) })
		w.mu.Unlock()
		return nil
	case 2:
		_ = w.filter.Set(ctx, partition, levels)
	}
	return w.filter.Set(ctx, partition, levels)
}

func (w *wild) Take(ctx context.Context, partition bucket.Partition, takes []bucket.Take) ([]bucket.Taken, error) {
	w.disturb(takes)
	switch w.draw(14) {
	case 0:
		return nil, errDown
	case 1:
		_, _ = w.filter.Take(ctx, partition, takes)
		return nil, errDown
	case 2:
		<-ctx.Done()
		return nil, ctx.Err()
	case 3:
		_, _ = w.filter.Take(ctx, partition, takes)
	case 4:
		return w.nonsense(takes), nil
	case 5:
		taken, err := w.filter.Take(ctx, partition, takes)
		return taken[:w.draw(len(taken)+1)], err
	}
	return w.filter.Take(ctx, partition, takes)
}

// nonsense is an answer that ignores the contents.
func (w *wild) nonsense(takes []bucket.Take) []bucket.Taken {
	out := make([]bucket.Taken, len(takes))
	for i := range out {
		out[i] = bucket.Taken{Stale: w.draw(4) == 0, Fill: int64(w.draw(50)) - 5, Balance: int64(w.draw(100)) - 50}
		for range takes[i].Amounts {
			out[i].Fits = append(out[i].Fits, w.draw(2) == 0)
		}
		if w.draw(8) == 0 {
			out[i].Fits = nil
		}
	}
	return out
}

// disturb changes the filter's contents of the buckets of a call.
func (w *wild) disturb(takes []bucket.Take) {
	for _, t := range takes {
		switch w.draw(12) {
		case 0:
			w.filter.put(t.Bucket, content{int64(w.draw(40)), int64(w.draw(1000))})
		case 1:
			w.filter.put(t.Bucket, content{t.Fill, 0})
		case 2:
			w.filter.put(t.Bucket, content{t.Fill + int64(w.draw(1000)), 1 << 50})
		case 3: // an earlier content
			w.mu.Lock()
			was, known := w.kept[t.Bucket]
			w.mu.Unlock()
			if known {
				w.filter.put(t.Bucket, was)
			}
		case 4:
			now := w.filter.get(t.Bucket)
			w.mu.Lock()
			w.kept[t.Bucket] = now
			w.mu.Unlock()
		case 5:
			w.mu.Lock()
			late := w.late
			w.late = nil
			w.mu.Unlock()
			for i := len(late) - 1; i >= 0; i-- {
				late[i]()
			}
		}
	}
}

// TestWildFilter checks that, whatever the filter does, no accepted deduction is lost or doubled,
// nothing is refused that the budget covers, and nothing fails (I9).
func TestWildFilter(t *testing.T) {
	for seed := range uint64(6) {
		t.Run(fmt.Sprint("seed ", seed), func(t *testing.T) {
			b := newBooks()
			w := &wild{filter: newFilter(), rand: rand.New(rand.NewPCG(seed, 1)), kept: map[int64]content{}}
			wildly := func(c *row.Config) {
				c.Filters = map[string]bucket.Filter{"m": w}
				c.Settings = row.Settings{FilterTime: 2 * time.Millisecond, ProbeEvery: 3 * time.Millisecond,
					RaiseEvery: time.Millisecond, Deadline: 20 * time.Second}
			}
			const budgets, callers, each = 3, 4, 40
			var all []*account
			for i := range budgets {
				all = append(all, b.add(fmt.Sprint("b", i), 400, 4, 50, three))
			}
			nodes := []*row.Service{node(t, b, wildly), node(t, b, wildly)}
			var run sync.WaitGroup
			var mu sync.Mutex
			accepted := map[bucket.ID]int64{}
			check := func(a *account, r *bucket.DeductRequest, answer *bucket.DeductAnswer, err error) {
				var refusal *budget.Error
				switch {
				case err == nil:
					mu.Lock()
					accepted[bucket.ID{Budget: a.ID, RequestID: r.RequestID}] = r.Amount
					mu.Unlock()
					if answer.BudgetRemaining < answer.BucketRemaining || answer.BudgetRemaining > 400-r.Amount {
						t.Errorf("%s: %+v", r.RequestID, answer)
					}
				case !errors.As(err, &refusal) || refusal.Code != budget.BudgetExhausted:
					t.Errorf("%s: %v", r.RequestID, err)
				default:
					b.change(a.ID, func(a *account) {
						if left := a.cover().Sum(); left >= r.Amount { // it never grows
							t.Errorf("%s: %d refused, %d are left", r.RequestID, r.Amount, left)
						}
					})
				}
			}
			for caller := range callers {
				run.Go(func() {
					random := rand.New(rand.NewPCG(seed, uint64(caller)+2))
					for n := range each {
						a, s := all[random.IntN(budgets)], nodes[random.IntN(2)]
						requests := make([]bucket.DeductRequest, 1+random.IntN(6))
						for i := range requests {
							id := fmt.Sprintf("%d-%d-%d", caller, n, i)
							if random.IntN(4) == 0 { // one that another caller uses too
								id = fmt.Sprintf("%d-%d", n, i)
							}
							requests[i] = request(a, id, int64(1+len(id)%5))
						}
						if len(requests) == 1 {
							got, err := s.Deduct(context.Background(), requests[0])
							check(a, &requests[0], &got, err)
							continue
						}
						for i, r := range s.DeductAll(context.Background(), requests) {
							check(a, &requests[i], &r.Answer, r.Err)
						}
					}
				})
			}
			run.Wait()
			rows := 0
			for _, a := range all {
				units, n := b.used(a.ID)
				rows += n
				if left := a.cover().Sum(); units+left != 400 {
					t.Errorf("budget %d: %d used, %d left", a.ID, units, left)
				}
			}
			if rows != len(accepted) {
				t.Errorf("%d rows, %d accepted ids", rows, len(accepted))
			}
			if b.count("gather") == 0 || b.count("exact") == 0 || b.count("standings") == 0 {
				t.Error("nothing was short, sold out or refused by the filter: the test tries too little")
			}
		})
	}
}
