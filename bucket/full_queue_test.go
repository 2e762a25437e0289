package bucket_test

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/budgetd/budgetd/bucket"
	"github.com/budgetd/budgetd/budget"
)

// slowStep is what a slow call takes here.
const slowStep = 250 * time.Millisecond

// slowLane is an instance whose deductions take slowStep.
type slowLane struct{ bucket.Instance }

func (i slowLane) Deduct(ctx context.Context, lane bucket.Lane, operations []bucket.Operation) ([]bucket.Reply, error) {
	time.Sleep(slowStep)
	return i.Instance.Deduct(ctx, lane, operations)
}

// slowRuns is SQL in which a collect takes slowStep to begin.
type slowRuns struct{ bucket.SQL }

func (q slowRuns) BeginRun(ctx context.Context, r bucket.Run) (bucket.Run, error) {
	time.Sleep(slowStep)
	return q.SQL.BeginRun(ctx, r)
}

// TestFullQueue: who comes to a queue that is full is told "unavailable" at once, and nothing is looked for elsewhere: neither
// where a store is slow nor where a collect is.
func TestFullQueue(t *testing.T) {
	const room, callers = 10, 30
	set := quick
	set.Queue, set.BatchSize, set.Deadline = room, 2, 8*time.Second
	for _, durability := range []budget.Durability{budget.Ledger, budget.Store} {
		for _, batch := range []bool{false, true} {
			overTime(t, fmt.Sprintf("%s, a lane's, batch=%t", durability, batch), func(t *testing.T) {
				w := newWorld(t)
				w.durability = durability
				connect := w.connect
				w.connect = func() map[string]bucket.Instance {
					all := connect()
					for name, instance := range all {
						all[name] = slowLane{instance}
					}
					return all
				}
				s := w.node(set)
				ref := w.create(s, promo("b", 1000, 1))
				requests := requestsOf(ref, callers, 1)
				var results []timed
				if batch {
					for _, r := range s.DeductAll(context.Background(), requests) {
						results = append(results, timed{err: r.Err})
					}
				} else {
					results = atOnce(s, requests)
				}
				if epoch := w.newestEpoch(ref); epoch != 1 {
					t.Errorf("the bucket is in epoch %d: units were looked for", epoch)
				}
				w.settled(s, ref, accepted(t, results, callers-room-set.BatchSize))
			})
		}
		overTime(t, string(durability)+", a collect's", func(t *testing.T) {
			w := newWorld(t)
			w.durability = durability
			w.sql = slowRuns{w.model}
			s := w.node(set)
			ref := w.create(s, promo("b", 1000, 2))
			requests := requestsOf(ref, callers, 600)
			var results []timed
			var mu sync.Mutex
			var all sync.WaitGroup
			for i := range requests { // one by one, so that the lane's queue has room
				time.Sleep(time.Millisecond)
				all.Go(func() {
					got := atOnce(s, requests[i:i+1])
					mu.Lock()
					defer mu.Unlock()
					results = append(results, got...)
				})
			}
			all.Wait()
			sold := 0
			for i := range results {
				if budget.Is(results[i].err, budget.BudgetExhausted) {
					sold++ // after the units came together for somebody
					results[i].took = 0
				}
			}
			if got := accepted(t, results, callers-room-set.BatchSize); got != 1 || sold == 0 {
				t.Errorf("%d accepted, %d told that it is sold out", got, sold)
			}
			w.settled(s, ref, 600)
		})
	}
}

func requestsOf(ref bucket.BudgetRef, n int, amount int64) []bucket.DeductRequest {
	out := make([]bucket.DeductRequest, n)
	for i := range out {
		out[i] = bucket.DeductRequest{Budget: ref, RequestID: fmt.Sprint("o", i), Key: "k", Amount: amount}
	}
	return out
}

// timed is how a request ended, and what it took.
type timed struct {
	err  error
	took time.Duration
}

func atOnce(s *bucket.Service, requests []bucket.DeductRequest) []timed {
	out := make([]timed, len(requests))
	var all sync.WaitGroup
	for i, r := range requests {
		all.Go(func() {
			began := time.Now()
			_, err := s.Deduct(context.Background(), r)
			out[i] = timed{err, time.Since(began)}
		})
	}
	all.Wait()
	return out
}

// accepted counts what was accepted; of the rest so many at least must have been refused for want of room, at once.
func accepted(t *testing.T, results []timed, refused int) (n int64) {
	t.Helper()
	unavailable := 0
	for _, r := range results {
		switch {
		case r.err == nil:
			n++
		case budget.Is(r.err, budget.Unavailable):
			if unavailable++; r.took > 0 {
				t.Errorf("after %v: %v", r.took, r.err)
			}
		case !budget.Is(r.err, budget.BudgetExhausted):
			t.Error(r.err)
		}
	}
	if unavailable < refused {
		t.Errorf("%d refused, want %d at least", unavailable, refused)
	}
	return n
}
