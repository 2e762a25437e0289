package bucket_test

import (
	"context"
	"sync/atomic"
	"testing"
	"time"

	"github.com/budgetd/budgetd/bucket"
	"github.com/budgetd/budgetd/internal/metrics"
)

// busyObserver keeps one commit, once armed, from its answers.
type busyObserver struct {
	bucket.Observer
	armed         atomic.Bool
	entered, goOn chan struct{}
}

func (o *busyObserver) Commit(rows, duplicates int, returned int64, took time.Duration) {
	if rows > 0 && o.armed.CompareAndSwap(true, false) {
		close(o.entered)
		<-o.goOn
	}
	o.Observer.Commit(rows, duplicates, returned, took)
}

// TestCommitBesideTheAnswersOfTheLast: a commit does not wait for the answers of the last one on the same bucket, and
// goes on from where that ended (I1).
func TestCommitBesideTheAnswersOfTheLast(t *testing.T) {
	w := newWorld(t)
	o := &busyObserver{Observer: metrics.New("test"), entered: make(chan struct{}), goOn: make(chan struct{})}
	w.observer = o
	s := w.node(quick)
	ref := w.create(s, promo("beside", 100, 1))
	if _, err := deduct(s, ref, "before", 1); err != nil {
		t.Fatal(err)
	}
	o.armed.Store(true)
	first := make(chan error, 1)
	go func() {
		_, err := deduct(s, ref, "first", 2)
		first <- err
	}()
	<-o.entered
	for _, id := range []string{"second", "third"} {
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
		a, err := s.Deduct(ctx, bucket.DeductRequest{Budget: ref, RequestID: id, Amount: 4})
		cancel()
		if err != nil {
			t.Errorf("beside the answers of the first: %+v, %v", a, err)
		}
	}
	select {
	case err := <-first:
		t.Errorf("the first was answered: %v", err)
	default:
	}
	close(o.goOn)
	if err := <-first; err != nil {
		t.Errorf("the first: %v", err)
	}
	if a, err := deduct(s, ref, "first", 2); err != nil || !a.Replayed {
		t.Errorf("its repetition: %+v, %v", a, err)
	}
	w.settled(s, ref, 11)
}
