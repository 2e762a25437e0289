package bucket_test

import (
	"context"
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	"github.com/budgetd/budgetd/bucket"
	"github.com/budgetd/budgetd/internal/metrics"
)

// TestAuditBetweenStoreAndLedger: whenever the audit has read the stores and is about to read the ledger,
// deductions, grants and rollbacks are committed in every bucket. Nothing of that is a discrepancy.
func TestAuditBetweenStoreAndLedger(t *testing.T) {
	w := newWorld(t)
	m := metrics.New("test")
	w.observer = m
	var node *bucket.Service
	var ref bucket.BudgetRef
	var n, looks atomic.Int64
	var busy atomic.Bool
	var on atomic.Bool
	ctx := context.Background()
	w.model.Hook = func(method string, before bool) error {
		if method != "Spans" || !before || !on.Load() || !busy.CompareAndSwap(false, true) {
			return nil
		}
		defer busy.Store(false)
		looks.Add(1)
		for range 12 {
			id := fmt.Sprint("d", n.Add(1))
			if _, err := deduct(node, ref, id, 2); err != nil {
				t.Errorf("%s: %v", id, err)
			}
			_, err := node.Rollback(ctx, bucket.RollbackRequest{Budget: ref, RequestID: id, RollbackID: "part", Amount: 1})
			if err != nil {
				t.Errorf("rollback of %s: %v", id, err)
			}
		}
		_, err := node.Adjust(ctx, bucket.AdjustRequest{Budget: ref, RequestID: fmt.Sprint("a", n.Load()), Quantity: 9})
		if err != nil {
			t.Error(err)
		}
		return nil
	}
	set := quick
	set.Audit = 10 * time.Millisecond
	node = w.node(set)
	ref = w.create(node, promo("between", 1_000_000, 3))
	on.Store(true)
	within(t, time.Minute, "60 looks with traffic in between", func() bool { return looks.Load() >= 60 })
	on.Store(false)
	within(t, time.Minute, "the last traffic in between", func() bool { return !busy.Load() })
	for _, name := range []string{"budgetd_audit_discrepancies_total", "budgetd_fenced_buckets_total"} {
		if got := metric(t, m, name); got != 0 {
			t.Errorf("%s is %v", name, got)
		}
	}
	w.settled(node, ref, n.Load())
}
