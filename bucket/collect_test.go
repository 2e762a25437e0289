package bucket_test

import (
	"context"
	"errors"
	"fmt"
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
