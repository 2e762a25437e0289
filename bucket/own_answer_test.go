package bucket_test

import (
	"context"
	"sync"
	"testing"
	"time"

	"github.com/budgetd/budgetd/bucket"
	"github.com/budgetd/budgetd/ledger"
)

// TestRepetitionShowsWhatIs: a repetition that finds the first call of its id still under way is answered
// with the deduction as it is when the repetition comes, and not as the first call had read it.
func TestRepetitionShowsWhatIs(t *testing.T) {
	w := newWorld(t)
	committed, heard := make(chan struct{}), make(chan struct{})
	var once sync.Once
	w.model.Hook = func(method string, before bool) error {
		if method == "Commit" && !before {
			once.Do(func() {
				close(committed)
				<-heard
			})
		}
		return nil
	}
	nodes := []*bucket.Service{w.node(quick), w.node(quick)}
	ref := w.create(nodes[0], promo("shown", 100, 1))
	type told struct {
		answer bucket.DeductAnswer
		err    error
	}
	call := func() chan told {
		out := make(chan told, 1)
		go func() {
			answer, err := deduct(nodes[0], ref, "o1", 5)
			out <- told{answer, err}
		}()
		return out
	}
	first := call()
	<-committed
	if _, err := nodes[1].Cancel(context.Background(), ref, "o1"); err != nil {
		t.Fatal(err)
	}
	second, third := call(), call()
	time.Sleep(50 * time.Millisecond) // they wait for the first
	close(heard)
	if got := <-first; got.err != nil || got.answer.Replayed || got.answer.State != ledger.StateUsed {
		t.Errorf("the first: %+v", got)
	}
	for _, c := range []chan told{second, third} {
		if got := <-c; got.err != nil || !got.answer.Replayed || got.answer.State != ledger.StateRolledBack {
			t.Errorf("a repetition after it was given back: %+v", got)
		}
	}
}
