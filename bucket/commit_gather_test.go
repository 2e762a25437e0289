package bucket_test

import (
	"context"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/budgetd/budgetd/bucket"
)

// TestCommitsGather: in ledger mode callers who come again soon share one commit, instead of taking turns with two halves.
func TestCommitsGather(t *testing.T) {
	inVirtualTime(t, func(t *testing.T) {
		ctx, w := context.Background(), newWorld(t)
		q := &busySQL{SQL: w.sql, takes: 2 * time.Millisecond}
		w.sql = q
		s := w.node(quick)
		ref := w.create(s, promo("gathered", 1_000_000, 1))
		const callers, times = 64, 50
		before := q.commits.Load()
		var all sync.WaitGroup
		for c := range callers {
			all.Go(func() {
				for n := range times {
					id := strconv.Itoa(c) + "-" + strconv.Itoa(n)
					if _, err := s.Deduct(ctx, bucket.DeductRequest{Budget: ref, RequestID: id, Amount: 1}); err != nil {
						t.Error(err)
					}
					time.Sleep(time.Millisecond + time.Duration(c)*10*time.Microsecond) // not all at the same instant
				}
			})
		}
		all.Wait()
		if commits, most := q.commits.Load()-before, int64(times*17/10); commits > most {
			t.Errorf("%d commits for %d times %d deductions: %d had been enough", commits, callers, times, most)
		}
	})
}
