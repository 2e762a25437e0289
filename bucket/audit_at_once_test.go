package bucket_test

import (
	"context"
	"sync/atomic"
	"testing"
	"time"

	"github.com/budgetd/budgetd/bucket"
	"github.com/budgetd/budgetd/budget"
)

// slowAccounts is SQL whose sums take until they are let go.
type slowAccounts struct {
	bucket.SQL
	entered atomic.Int64
	goOn    chan struct{}
}

func (q *slowAccounts) Accounts(ctx context.Context, budgetID int64) (bucket.Accounts, error) {
	q.entered.Add(1)
	select {
	case <-q.goOn:
	case <-ctx.Done():
	}
	return q.SQL.Accounts(ctx, budgetID)
}

// TestAuditsAtOnce: a node works on a few audits at once, whose connections are counted; others wait, as long as
// their callers do.
func TestAuditsAtOnce(t *testing.T) {
	w := newWorld(t)
	slow := &slowAccounts{SQL: w.sql, goOn: make(chan struct{})}
	w.sql = slow
	s := w.node(quick)
	ref := w.create(s, promo("audits", 100, 2))
	const audits = bucket.AuditsAtOnce + 3
	done := make(chan error, audits)
	for range audits {
		go func() {
			report, err := s.Audit(context.Background(), ref)
			if err == nil && !report.OK {
				t.Errorf("%+v", report.Discrepancies)
			}
			done <- err
		}()
	}
	w.until("some are under way", func() bool { return slow.entered.Load() >= bucket.AuditsAtOnce })
	ctx, cancel := context.WithTimeout(context.Background(), 100*time.Millisecond)
	defer cancel()
	if _, err := s.Audit(ctx, ref); !budget.Is(err, budget.Unavailable) {
		t.Errorf("one that does not wait: %v", err)
	}
	if n := slow.entered.Load(); n != bucket.AuditsAtOnce {
		t.Errorf("%d at once, want %d", n, bucket.AuditsAtOnce)
	}
	close(slow.goOn)
	for range audits {
		if err := <-done; err != nil {
			t.Error(err)
		}
	}
}
