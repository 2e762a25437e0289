package bucket_test

import (
	"context"
	"sync/atomic"
	"testing"
	"time"

	"github.com/budgetd/budgetd/bucket"
)

// slowRenewal is a database in which an epoch that a recycle has closed waits for its end until the chores
// have looked at the unfinished work.
type slowRenewal struct {
	bucket.SQL
	looks   atomic.Int64
	waiting atomic.Int64 // renewals that have waited
}

func (q *slowRenewal) Unfinished(ctx context.Context, limit int, without ...bucket.Lane) (bucket.Unfinished, error) {
	u, err := q.SQL.Unfinished(ctx, limit, without...)
	q.looks.Add(1)
	return u, err
}

func (q *slowRenewal) Renew(ctx context.Context, order bucket.Renewal) (bucket.Handout, error) {
	// By then the chores have found it closing, acted on that, found the bucket without an epoch, and acted.
	for until := q.looks.Load() + 5; q.looks.Load() < until && ctx.Err() == nil; {
		time.Sleep(time.Millisecond)
	}
	q.waiting.Add(1)
	return q.SQL.Renew(ctx, order)
}

// TestChoresLeaveRecyclesAlone: the chores do not end an epoch that a recycle works on. They would spread
// what came back from it evenly, and demand would not count.
func TestChoresLeaveRecyclesAlone(t *testing.T) {
	w := newWorld(t)
	slow := &slowRenewal{SQL: w.model}
	w.sql = slow
	s := w.node(quick)
	ref := w.create(s, promo("skewed", 8000, 8))
	const calls, amount = 20, 40
	w.sellFrom(s, ref, "hot", calls, amount)
	w.settled(s, ref, calls*amount)
	report, err := s.Recycle(context.Background(), ref)
	if err != nil || report.Done != 8 || report.Skipped > 0 || report.After.Stranded != 0 {
		t.Errorf("%+v, %v", report, err)
	}
	if n := slow.waiting.Load(); n != 8 {
		t.Errorf("%d renewals waited for the chores", n)
	}
	for _, bk := range w.budget(ref).Buckets {
		if bk.Epoch.Number != 2 || bk.OutCnt > 1 {
			t.Errorf("bucket %s: epoch %d, out_cnt %d", bk.Key, bk.Epoch.Number, bk.OutCnt)
		}
	}
	w.settled(s, ref, calls*amount)
}
