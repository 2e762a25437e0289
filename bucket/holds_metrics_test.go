package bucket_test

import (
	"context"
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	"github.com/budgetd/budgetd/bucket"
	"github.com/budgetd/budgetd/internal/memstore"
	"github.com/budgetd/budgetd/internal/metrics"
)

// TestHoldsInTheMetrics: open holds are counted, also those that another node made; one that is confirmed
// leaves them, one that expires is counted as such, once.
func TestHoldsInTheMetrics(t *testing.T) {
	w, m, ctx := newWorld(t), metrics.New("test"), context.Background()
	var ahead atomic.Int64
	w.model = memstore.NewSQL(func() time.Time { return time.Now().Add(time.Duration(ahead.Load())) })
	w.sql = w.model
	maker := w.node(quick)
	w.observer = m
	w.node(quick)
	ref := w.create(maker, promo("held", 1000, 2))
	for i := range 5 {
		_, err := maker.Deduct(ctx, bucket.DeductRequest{Budget: ref, RequestID: fmt.Sprint("h", i), Amount: 3,
			HoldTTL: time.Hour})
		if err != nil {
			t.Fatal(err)
		}
	}
	open := func(n float64) func() bool { return func() bool { return metric(t, m, "budgetd_holds_open") == n } }
	within(t, time.Minute, "all holds are counted", open(5))
	if err := maker.Stop(ctx); err != nil { // only the other one is left to expire them
		t.Fatal(err)
	}
	if _, err := w.model.Confirm(ctx, bucket.HoldOrder{Budget: 1, RequestID: "h0"}, 0); err != nil {
		t.Fatal(err)
	}
	within(t, time.Minute, "the confirmed one is not counted", open(4))
	ahead.Store(int64(2 * time.Hour))
	within(t, time.Minute, "none is open", open(0))
	within(t, time.Minute, "all that expired are counted", func() bool {
		return metric(t, m, "budgetd_holds_expired_total") >= 4
	})
	time.Sleep(5 * quick.Chores) // looks that must count none a second time
	if got := metric(t, m, "budgetd_holds_expired_total"); got != 4 {
		t.Errorf("%v holds expired, want 4", got)
	}
}
