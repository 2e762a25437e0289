package counter_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/budgetd/budgetd/bucket"
)

// TestSyncOfMany checks that a partition of which many buckets changed is synced once a second, and
// others more often.
func TestSyncOfMany(t *testing.T) {
	w := onRedis(t, "sqlite", 1)
	b := w.create(promo("sale", 10_000_000, 1024))
	requests := make([]bucket.DeductRequest, 8000) // of 1,024 buckets all but a few get one
	for i := range requests {
		requests[i] = request(b, fmt.Sprint("id-", i), 1)
	}
	for _, result := range w.node.DeductAll(t.Context(), requests) {
		w.ok(result.Err)
	}
	w.clock.Stop()
	sync := w.node.Loops(w.partitions)[0]
	used := func(want int64) {
		t.Helper()
		w.ok(sync.RunOnce(t.Context()))
		if got := w.books(b.ID).S; got != want {
			t.Fatalf("SQL knows of %d, want %d", got, want)
		}
	}
	used(8000)
	w.deduct(b, "soon", 1)
	used(8000)
	w.clock.Advance(time.Second)
	used(8001)
	w.deduct(b, "at once", 1)
	used(8002)
}
