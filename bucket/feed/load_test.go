package feed_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"

	"github.com/budgetd/budgetd/bucket"
	"github.com/budgetd/budgetd/bucket/hold"
	"github.com/budgetd/budgetd/internal/proof/fixture"
	"github.com/budgetd/budgetd/internal/sql/engine"
	"github.com/budgetd/budgetd/ledger"
)

// TestFeedUnderLoad runs deductions, rollbacks and new epochs concurrently: readers with different
// page sizes get every entry exactly once, and each deduction before what is done to it.
func TestFeedUnderLoad(t *testing.T) {
	onEveryEngine(t, func(w *world) {
		const writers, flights = 3, 25
		b := w.Create("b", 30_000, 2)
		load, written := context.WithCancel(w.Ctx)
		var writing, reading sync.WaitGroup
		for i := range writers {
			writing.Go(func() { w.drive(b, i, flights) })
		}
		writing.Go(func() {
			for i := range 6 {
				if err := w.Renew(b, b.Buckets[i%2]); err != nil {
					w.Errorf("renew: %v", err)
				}
			}
		})
		results := make([][]bucket.FeedEntry, 3)
		for i := range results {
			reading.Go(func() { results[i] = w.tail(load, b, []int{1, 7, 1000}[i]) })
		}
		writing.Wait()
		written()
		reading.Wait()
		for i, got := range results {
			w.compare(b, fmt.Sprint("reader ", i), got)
		}
	})
}

// drive deducts in flights and gives some of it back.
func (w *world) drive(b fixture.Budget, writer, flights int) {
	random := rand.New(rand.NewPCG(7, uint64(writer))) //nolint:gosec // reproducible
	for i := range flights {
		ids := make([]string, 1+random.IntN(5))
		for j := range ids {
			ids[j] = fmt.Sprint(writer, "-", i, "-", j)
		}
		if err := w.TryFlight(b.Buckets[random.IntN(2)], random.IntN(3), ids...); err != nil {
			w.Errorf("flight: %v", err)
			continue
		}
		got, err := w.returns.Execute(w.Ctx, []hold.Order{{Kind: hold.Rollback, Budget: b.ID,
			RequestID: ids[0]}})
		if err != nil || got[0].Err != nil {
			w.Errorf("rollback: %v, %v", err, got)
		}
	}
}

// tail follows a feed until the load has ended and nothing is new.
func (w *world) tail(load context.Context, b fixture.Budget, limit int) (out []bucket.FeedEntry) {
	after := ""
	for {
		over := load.Err() != nil
		page, err := w.service.Feed(w.Ctx, bucket.FeedRequest{Budget: bucket.BudgetRef{ID: b.ID}, After: after,
			Limit: limit})
		if err != nil {
			w.Errorf("feed: %v", err)
			return out
		}
		out, after = append(out, page.Entries...), page.Next
		if over && len(page.Entries) == 0 {
			return out
		}
	}
}

// compare compares what a reader got with the rows.
func (w *world) compare(b fixture.Budget, who string, got []bucket.FeedEntry) {
	w.Helper()
	type key struct{ bucket, entry int64 }
	seen, last, deducted := map[key]bool{}, map[int64]int64{}, map[string]int64{}
	for _, e := range got {
		if k := (key{e.Bucket, e.Entry}); seen[k] {
			w.Errorf("%s got entry %v twice", who, k)
		} else {
			seen[k] = true
		}
		if e.Entry <= last[e.Bucket] {
			w.Errorf("%s got entry %d of bucket %d after %d", who, e.Entry, e.Bucket, last[e.Bucket])
		}
		last[e.Bucket] = e.Entry
		if e.Kind == ledger.FeedDeduct {
			deducted[e.RequestID] += e.Amount
		} else if deducted[e.RequestID] == 0 {
			w.Errorf("%s got the rollback of %q before its deduction", who, e.RequestID)
		}
	}
	var entries, backs int64
	w.OK(w.DB.Read(w.Ctx, "compare", func(r *engine.Reader) error {
		if _, err := r.Get(&entries, `SELECT COUNT(*) FROM deduction WHERE budget_id = ?`, b.ID); err != nil {
			return err
		}
		_, err := r.Get(&backs, `SELECT COUNT(*) FROM give_back WHERE budget_id = ?`, b.ID)
		return err
	}))
	if int64(len(got)) != entries+backs || int64(len(deducted)) != entries {
		w.Errorf("%s got %d entries, %d deductions; the rows have %d and %d", who, len(got), len(deducted),
			entries+backs, entries)
	}
}
