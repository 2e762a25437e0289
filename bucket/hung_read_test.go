package bucket_test

import (
	"context"
	"sync/atomic"
	"testing"
	"time"

	"github.com/budgetd/budgetd/bucket"
	"github.com/budgetd/budgetd/budget"
	"github.com/budgetd/budgetd/ledger"
)

// hungRead is SQL of which one read of a budget is answered no more, once armed.
type hungRead struct {
	bucket.SQL
	armed, hangs atomic.Bool
}

func (q *hungRead) Budget(ctx context.Context, ref bucket.BudgetRef) (bucket.Budget, error) {
	if q.armed.CompareAndSwap(true, false) {
		q.hangs.Store(true)
		<-ctx.Done()
		return bucket.Budget{}, ctx.Err()
	}
	return q.SQL.Budget(ctx, ref)
}

// TestPausedBesideAHungRead: in store mode a node that waits for an answer of SQL that was lost obeys a pause all the
// same, as SQL can be reached (I8).
func TestPausedBesideAHungRead(t *testing.T) {
	w := newStoreWorld(t)
	other := w.node(storeQuick())
	q := &hungRead{SQL: w.model}
	w.sql = q
	set := storeQuick()
	set.StepTimeout = 3 * time.Second
	s := w.node(set)
	ref := w.create(other, promo("hung", 100, 1))
	if _, err := deduct(s, ref, "before", 1); err != nil {
		t.Fatal(err)
	}
	yes := true
	q.armed.Store(true)
	if _, err := other.Change(context.Background(), ref, bucket.Change{Paused: &yes}); err != nil {
		t.Fatal(err)
	}
	w.until("the read of the change hangs", q.hangs.Load)
	time.Sleep(time.Second)
	if a, err := deduct(s, ref, "after", 1); !budget.Is(err, budget.BudgetPaused) {
		t.Errorf("paused: %+v, %v", a, err)
	}
}

// hungSums is SQL of which one read of what remains of budgets is answered no more, once armed.
type hungSums struct {
	bucket.SQL
	armed, hangs atomic.Bool
}

func (q *hungSums) Covers(ctx context.Context, ids []int64) (map[int64]bucket.Cover, error) {
	if q.armed.CompareAndSwap(true, false) {
		q.hangs.Store(true)
		<-ctx.Done()
		return nil, ctx.Err()
	}
	return q.SQL.Covers(ctx, ids)
}

// TestHungSums: a check that ends while it waits for what remains of its budget could not be answered, and those of other
// budgets do not wait for that read.
func TestHungSums(t *testing.T) {
	w := newWorld(t)
	q := &hungSums{SQL: w.model}
	w.sql = q
	set := quick
	set.StepTimeout = 4 * time.Second
	s := w.node(set)
	hung, other := w.create(s, promo("hung", 300, 3)), w.create(s, promo("other", 300, 3))
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Second)
	defer cancel()
	check := func(of bucket.BudgetRef) error {
		return s.Check(ctx, []bucket.CheckRequest{{Budget: of, Amount: 1}})[0].Err
	}
	q.armed.Store(true)
	ended := make(chan error, 1)
	go func() { ended <- check(hung) }()
	within(t, time.Second, "the read hangs", q.hangs.Load)
	if err := check(other); err != nil || ctx.Err() != nil {
		t.Errorf("beside it: %v, %v", err, ctx.Err())
	}
	if err := <-ended; !budget.Is(err, budget.Unavailable) {
		t.Errorf("it ended with %v, want Unavailable", err)
	}
}

// hungCommit is SQL of which one commit is answered no more, once armed.
type hungCommit struct {
	bucket.SQL
	armed, hangs atomic.Bool
}

func (q *hungCommit) Commit(ctx context.Context, logs []ledger.Log) (bucket.CommitReport, error) {
	if q.armed.CompareAndSwap(true, false) {
		q.hangs.Store(true)
		<-ctx.Done()
		return bucket.CommitReport{}, ctx.Err()
	}
	return q.SQL.Commit(ctx, logs)
}

// TestHungCommit: one caller of another budget that comes while a commit hangs, and is the last one to come, is answered
// all the same.
func TestHungCommit(t *testing.T) {
	w := newWorld(t)
	q := &hungCommit{SQL: w.model}
	w.sql = q
	set := quick
	set.StepTimeout = 4 * time.Second
	s := w.node(set)
	hung, other := w.create(s, promo("hung", 300, 3)), w.create(s, promo("other", 300, 3))
	for _, ref := range []bucket.BudgetRef{hung, other} {
		if _, err := deduct(s, ref, "before", 1); err != nil {
			t.Fatal(err)
		}
	}
	q.armed.Store(true)
	ended := make(chan error, 1)
	go func() {
		_, err := deduct(s, hung, "hangs", 1)
		ended <- err
	}()
	within(t, time.Second, "the commit hangs", q.hangs.Load)
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Second)
	defer cancel()
	if a, err := s.Deduct(ctx, bucket.DeductRequest{Budget: other, RequestID: "beside", Amount: 1}); err != nil {
		t.Errorf("beside it: %+v, %v", a, err)
	}
	<-ended
}
