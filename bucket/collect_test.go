package bucket_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/budgetd/budgetd/bucket"
	"github.com/budgetd/budgetd/budget"
)

func TestCollectUnderLoad(t *testing.T) { everywhere(t, collectUnderLoad) }

// collectUnderLoad: many buckets hold less than what is asked for, through both nodes at once and for as
// many buckets as there are callers. Every collect makes progress: as many requests are accepted as the
// units cover, nobody waits until the deadline while there are units, and the last units are sold.
func collectUnderLoad(t *testing.T, w *world) {
	const buckets, each, amount, callers = 32, 3, 10, 32
	nodes := []*bucket.Service{w.node(quick), w.node(quick)}
	ref := w.create(nodes[0], promo("crumbs", buckets*each, buckets))
	var all sync.WaitGroup
	var sold atomic.Int64
	began := time.Now()
	for caller := range callers {
		all.Go(func() {
			_, err := nodes[caller%2].Deduct(context.Background(), bucket.DeductRequest{Budget: ref, Amount: amount,
				RequestID: fmt.Sprint("r", caller), Key: fmt.Sprint("key", caller)})
			var e *budget.Error
			switch {
			case err == nil:
				sold.Add(amount)
			case errors.As(err, &e) && e.Code == budget.BudgetExhausted && *e.Available < amount:
			default:
				t.Errorf("caller %d after %v: %v", caller, time.Since(began), err)
			}
		})
	}
	all.Wait()
	run, err := w.sql.BeginRun(context.Background(), bucket.Run{Budget: ref.ID, Target: bucket.Ref{Bucket: 1, Epoch: 1}, Units: 1})
	if err != nil {
		t.Fatal(err)
	}
	epochs := int64(0)
	b := w.budget(ref)
	for i := range b.Buckets {
		epochs += b.Buckets[i].Epoch.Number
	}
	t.Logf("%d units in %v, %d collects, %d epochs", sold.Load(), time.Since(began).Round(time.Millisecond), run.Number-1, epochs)
	// A livelock would move the same units again and again.
	if run.Number-1 > 2*callers || epochs > buckets+2*callers {
		t.Error("more was moved than the requests can have asked for")
	}
	if err := w.sql.EndRun(context.Background(), ref.ID, run.Number, 0); err != nil {
		t.Fatal(err)
	}
	if want := int64(buckets * each / amount * amount); sold.Load() != want {
		t.Errorf("sold %d, want %d", sold.Load(), want)
	}
	rest := int64(buckets * each % amount)
	if _, err := deduct(nodes[1], ref, "rest", rest); err != nil {
		t.Errorf("the last %d: %v", rest, err)
	}
	w.settled(nodes[0], ref, buckets*each)
}

// TestCollectsInStoreMode: one bucket is used up at once, and then units are asked for until none is left,
// by one key or by many. Requests stay with their bucket, so its units come from the others, and a donor that
// kept nothing would need them back with its next request.
func TestCollectsInStoreMode(t *testing.T) {
	const total, buckets = 3_000, 6
	for _, tc := range []struct {
		name string
		keys int
		// atMost epochs are begun anew: each collect halves the largest bucket.
		atMost int64
	}{{"one key", 1, 60}, {"many keys", 100, 60}} {
		t.Run(tc.name, func(t *testing.T) {
			w := newStoreWorld(t)
			s := w.node(quick)
			ref := w.create(s, promo("skewed", total, buckets))
			sold := int64(0)
			for id, amount := 0, int64(total/buckets); ; id, amount = id+1, 1 {
				_, err := s.Deduct(context.Background(), bucket.DeductRequest{Budget: ref, Amount: amount,
					RequestID: fmt.Sprint("r", id), Key: fmt.Sprint("key ", id%tc.keys)})
				if budget.Is(err, budget.BudgetExhausted) {
					break
				}
				if err != nil {
					t.Fatalf("after %d units: %v", sold, err)
				}
				sold += amount
			}
			if sold != total {
				t.Errorf("sold %d", sold)
			}
			w.settled(s, ref, total)
			anew := int64(0)
			b := w.budget(ref)
			for i := range b.Buckets {
				anew += b.Buckets[i].Epoch.Number - 1
			}
			t.Logf("%d epochs were begun anew", anew)
			if anew > tc.atMost {
				t.Errorf("%d epochs were begun anew for %d units, want at most %d", anew, total, tc.atMost)
			}
		})
	}
}

// TestCollectsUnderAdjustCnt: what a collect moves in store mode must not need applications of buckets that have
// none left. One brings units to an empty bucket, its donor's next epoch is begun by a request of its own, and all
// buckets are used up: nothing may be left that nobody can have.
func TestCollectsUnderAdjustCnt(t *testing.T) {
	const total, buckets = 600, 6
	w := newStoreWorld(t)
	s := w.node(bucket.Settings{Deadline: patientDeadline, StepTimeout: 30 * time.Second, Refresh: 20 * time.Millisecond, Chores: time.Hour})
	d := promo("bounded", total, buckets)
	d.AdjustCnt = 1
	ref := w.create(s, d)
	sold, calls := int64(0), 0
	take := func(key string, amount int64) bucket.DeductAnswer {
		t.Helper()
		calls++
		got, err := s.Deduct(context.Background(), bucket.DeductRequest{Budget: ref, Amount: amount,
			RequestID: fmt.Sprint("r", calls), Key: key})
		if err != nil {
			t.Fatalf("after %d units: %v", sold, err)
		}
		sold += amount
		return got
	}
	keys := map[string]string{}
	for i := 0; len(keys) < buckets; i++ {
		key := fmt.Sprint("key ", i)
		keys[take(key, 1).Bucket] = key
	}
	b := w.budget(ref)
	empty, donor := keys[b.Buckets[0].Key], keys[b.Buckets[1].Key]
	if left := take(empty, 1).Remaining; left > 0 {
		take(empty, left)
	}
	w.fails("Renew")
	take(empty, 1)
	w.fails()
	take(donor, 1)
	for _, bk := range slices.Sorted(maps.Keys(keys)) {
		if sold == total {
			break
		}
		if left := take(keys[bk], 1).Remaining; left > 0 {
			take(keys[bk], left)
		}
	}
	for sold < total {
		take(donor, 1)
	}
	w.settled(s, ref, total)
}
