package feed_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/budgetd/budgetd/bucket"
	"github.com/budgetd/budgetd/bucket/feed"
	"github.com/budgetd/budgetd/bucket/hold"
	"github.com/budgetd/budgetd/bucket/manage"
	"github.com/budgetd/budgetd/budget"
	"github.com/budgetd/budgetd/internal/proof/fixture"
	"github.com/budgetd/budgetd/ledger"
)

// world is a database with a service that reads its feeds.
type world struct {
	*fixture.World
	service *feed.Service
	returns *hold.Ledger
}

func onEveryEngine(t *testing.T, run func(w *world)) {
	t.Parallel()
	fixture.OnEveryEngine(t, func(w *fixture.World) {
		budgets, err := bucket.NewBudgets(bucket.BudgetsConfig{Definitions: manage.NewLedger(w.DB)})
		w.OK(err)
		run(&world{w, feed.New(feed.Config{DB: w.DB, Budgets: budgets}), hold.NewLedger(w.DB)})
	})
}

func (w *world) page(r bucket.FeedRequest) bucket.FeedPage {
	w.Helper()
	page, err := w.service.Feed(w.Ctx, r)
	w.OK(err)
	return page
}

// follow reads a feed to its end, in pages of limit entries, and returns its entries and the last cursor.
func (w *world) follow(b fixture.Budget, after string, limit int) ([]bucket.FeedEntry, string) {
	w.Helper()
	var out []bucket.FeedEntry
	for {
		page := w.page(bucket.FeedRequest{Budget: bucket.BudgetRef{ID: b.ID}, After: after, Limit: limit})
		if len(page.Entries) > limit {
			w.Fatalf("%d entries, asked for %d", len(page.Entries), limit)
		}
		out, after = append(out, page.Entries...), page.Next
		if len(page.Entries) == 0 {
			return out, after
		}
	}
}

func texts(entries []bucket.FeedEntry) (out []string) {
	for _, e := range entries {
		out = append(out, fmt.Sprint(e.Entry, " ", e.Kind, " ", e.RequestID, " ", e.Amount))
	}
	return out
}

func (w *world) back(b fixture.Budget, id string, kind hold.Kind, amount int64) {
	w.Helper()
	got, err := w.returns.Execute(w.Ctx, []hold.Order{{Kind: kind, Budget: b.ID, RequestID: id, Amount: amount}})
	w.OK(err)
	w.OK(got[0].Err)
}

func want(w *world, what string, got, want []string) {
	w.Helper()
	if !slices.Equal(got, want) {
		w.Errorf("%s: %q, want %q", what, got, want)
	}
}

func TestFeedHasEveryKind(t *testing.T) {
	onEveryEngine(t, func(w *world) {
		b, other := w.Create("b", 100, 1), w.Create("other", 100, 1)
		id := b.Buckets[0]
		w.Use(other.Buckets[0], "elsewhere", 1)
		w.Deduct(fixture.Deduction{Bucket: id, ID: "order", Amount: 30,
			Note: ledger.Note{Reference: "for Ann", Dimensions: `{"user":"u1"}`}})
		w.Deduct(fixture.Deduction{Bucket: id, ID: "hold", Amount: 9, Hold: time.Minute})
		w.Deduct(fixture.Deduction{Bucket: id, ID: "due", Amount: 4, Hold: time.Second})
		w.Clock.Advance(time.Second)
		w.back(b, "order", hold.Rollback, 5)
		w.back(b, "hold", hold.Confirm, 7)
		_, err := w.returns.ExpireHolds(w.Ctx, 5, 0)
		w.OK(err)
		w.back(b, "order", hold.Cancel, 0)
		w.back(b, "void", hold.Cancel, 0) // a tombstone has no entry
		got, _ := w.follow(b, "", 2)
		want(w, "entries", texts(got), []string{"1 deduct order 30", "2 deduct hold 9", "3 deduct due 4",
			"4 rollback order 5", "5 confirm hold 7", "6 expire due 4", "7 rollback order 25"})
		e := got[3]
		if e.Reference != "for Ann" || e.Dimensions != `{"user":"u1"}` || e.Epoch != 1 ||
			e.BucketKey != "b:bucket-0" || !e.At.Equal(w.DB.Now()) || e.RollbackID != "" || e.Held {
			t.Errorf("%+v", e)
		}
		if !got[1].Held || got[6].RollbackID != ledger.CancelID {
			t.Errorf("%+v, %+v", got[1], got[6])
		}
		rest, _ := w.follow(other, "", 9)
		want(w, "entries of the other budget", texts(rest), []string{"1 deduct elsewhere 1"})
	})
}

// TestFeedWithinRows checks that pages may end in the middle of rows, and that numbers may be
// missing.
func TestFeedWithinRows(t *testing.T) {
	onEveryEngine(t, func(w *world) {
		b := w.Create("b", 1000, 2)
		w.Flight(b.Buckets[0], 0, "a", "b", "c", "d", "e")
		w.Flight(b.Buckets[0], 7, "f", "g")
		w.Flight(b.Buckets[1], 25_000, "h", "i", "j")
		w.Flight(b.Buckets[0], 0, "k")
		for limit := range 9 {
			got, next := w.follow(b, "", limit+1)
			var ids []string
			for _, e := range got {
				ids = append(ids, e.RequestID)
				if e.Reference != "for "+e.RequestID {
					t.Errorf("%+v", e)
				}
			}
			slices.Sort(ids)
			want(w, fmt.Sprint("pages of ", limit+1), ids, strings.Split("abcdefghijk", ""))
			again, _ := w.follow(b, next, 3)
			want(w, "after the end", texts(again), nil)
		}
	})
}

// TestFeedOverEpochs checks that the numbers continue across a bucket's epochs, and that rollbacks
// of ended ones are among the newest. Retired buckets are read to their end, and new ones from
// their beginning.
func TestFeedOverEpochs(t *testing.T) {
	onEveryEngine(t, func(w *world) {
		b := w.Create("b", 100, 2)
		id, second := b.Buckets[0], b.Buckets[1]
		w.Use(id, "one", 2)
		w.Use(second, "two", 2)
		w.Offline(b, id)
		w.back(b, "one", hold.Rollback, 1)
		w.Online(b, id, 10)
		w.Use(id, "three", 2)
		w.back(b, "one", hold.Cancel, 0)
		got, next := w.follow(b, "", 1)
		slices.SortFunc(got, func(a, b bucket.FeedEntry) int { return int(a.Bucket - b.Bucket) })
		want(w, "entries", texts(got), []string{"1 deduct one 2", "2 rollback one 1", "3 deduct three 2",
			"4 rollback one 1", "1 deduct two 2"})
		if got[3].Epoch != 1 || got[2].Epoch != 2 {
			t.Errorf("%+v", got)
		}
		w.Use(second, "before", 1)
		w.Retire(b, second)
		third := w.Grow(&b, "b")
		w.Online(b, third, 5)
		w.Use(third, "new", 1)
		w.back(b, "before", hold.Cancel, 0)
		got, _ = w.follow(b, next, 9)
		slices.SortFunc(got, func(a, b bucket.FeedEntry) int { return int(a.Bucket - b.Bucket) })
		want(w, "afterwards", texts(got), []string{"2 deduct before 1", "3 rollback before 1", "1 deduct new 1"})
	})
}

func TestFeedFromTailAndInstant(t *testing.T) {
	onEveryEngine(t, func(w *world) {
		b := w.Create("b", 1000, 3)
		began := w.DB.Now()
		var all []string
		for i := range 12 {
			w.Clock.Advance(time.Minute)
			ids := []string{fmt.Sprintf("%02d-a", i), fmt.Sprintf("%02d-b", i)}
			w.Flight(b.Buckets[i%2], i%3*5, ids...)
			all = append(all, ids...)
		}
		ids := func(entries []bucket.FeedEntry) (out []string) {
			for _, e := range entries {
				out = append(out, e.RequestID)
			}
			return out
		}
		ref := bucket.BudgetRef{ID: b.ID}
		for _, n := range []int{1, 2, 3, 7, 24, 100} {
			page := w.page(bucket.FeedRequest{Budget: ref, Tail: n, Limit: 1})
			want(w, fmt.Sprint("the last ", n), ids(page.Entries), all[max(0, len(all)-n):])
			rest, _ := w.follow(b, page.Next, 5)
			want(w, "after the tail", ids(rest), nil)
		}
		for minute := range 14 {
			since := began.Add(time.Duration(minute) * time.Minute)
			page := w.page(bucket.FeedRequest{Budget: ref, Since: since, Limit: 100})
			want(w, fmt.Sprint("from minute ", minute), ids(page.Entries), all[min(2*max(minute-1, 0), 24):])
		}
		empty := w.Create("empty", 10, 1)
		for _, r := range []bucket.FeedRequest{{Tail: 5}, {Since: began}} {
			r.Budget.ID = empty.ID
			if page := w.page(r); len(page.Entries) > 0 || page.Next == "" {
				t.Errorf("%+v", page)
			}
		}
	})
}

func TestFeedRefusals(t *testing.T) {
	onEveryEngine(t, func(w *world) {
		b, other := w.Create("b", 100, 1), w.Create("other", 100, 1)
		w.Use(b.Buckets[0], "order", 1)
		_, next := w.follow(b, "", 1)
		for name, test := range map[string]struct {
			request bucket.FeedRequest
			code    budget.Code
		}{
			"another budget's": {bucket.FeedRequest{Budget: bucket.BudgetRef{ID: other.ID}, After: next}, budget.Invalid},
			"damaged":          {bucket.FeedRequest{Budget: bucket.BudgetRef{ID: b.ID}, After: next[1:]}, budget.Invalid},
			"no budget":        {bucket.FeedRequest{Budget: bucket.BudgetRef{ID: 999}}, budget.BudgetNotFound},
			"two beginnings": {bucket.FeedRequest{Budget: bucket.BudgetRef{ID: b.ID}, Tail: 1,
				Since: time.Now()}, budget.Invalid},
			"too long a tail": {bucket.FeedRequest{Budget: bucket.BudgetRef{ID: b.ID}, Tail: 1001}, budget.Invalid},
		} {
			if _, err := w.service.Feed(w.Ctx, test.request); budget.CodeOf(err) != test.code {
				t.Errorf("%s: %v, want %s", name, err, test.code)
			}
		}
		w.Exec([]any{`UPDATE bucket_epoch SET next_entry = 1 WHERE bucket_id = ?`, b.Buckets[0]})
		_, err := w.service.Feed(w.Ctx, bucket.FeedRequest{Budget: bucket.BudgetRef{ID: b.ID}, After: next})
		if budget.CodeOf(err) != budget.Invalid {
			t.Errorf("a cursor ahead of the ledger: %v", err)
		}
		stored := w.Create("stored", 100, 1)
		w.Exec([]any{`UPDATE budget_management_bucket SET durability = 'store' WHERE id = ?`, stored.ID})
		_, err = w.service.Feed(w.Ctx, bucket.FeedRequest{Budget: bucket.BudgetRef{ID: stored.ID}, Tail: 1001})
		if !budget.Is(err, budget.LedgerModeOnly) || !strings.Contains(err.Error(), "ledger needs the rows of ledger mode") {
			t.Errorf("in store mode: %v", err)
		}
	})
}

// TestFeedCutsLargePages checks that a page ends when its texts get too large, and that nothing is
// lost.
func TestFeedCutsLargePages(t *testing.T) {
	onEveryEngine(t, func(w *world) {
		b := w.Create("b", 1000, 2)
		long := `{"user":"` + strings.Repeat("u", 60_000) + `"}`
		const n = 150
		for i := range n {
			w.Deduct(fixture.Deduction{Bucket: b.Buckets[i%2], ID: fmt.Sprint("order-", i), Amount: 1,
				Note: ledger.Note{Dimensions: long}})
		}
		seen, pages, after := map[string]int{}, 0, ""
		for {
			page := w.page(bucket.FeedRequest{Budget: bucket.BudgetRef{ID: b.ID}, After: after, Limit: 1000})
			if after = page.Next; len(page.Entries) == 0 {
				break
			}
			pages++
			for _, e := range page.Entries {
				seen[e.RequestID]++
			}
		}
		if pages != 3 || len(seen) != n {
			t.Errorf("%d of %d entries on %d pages", len(seen), n, pages)
		}
	})
}

// TestFeedWaits checks that a wait ends with an entry, at its deadline, when the caller leaves, and
// when the node stops.
func TestFeedWaits(t *testing.T) {
	onEveryEngine(t, func(w *world) {
		b := w.Create("b", 100, 1)
		ref := bucket.BudgetRef{ID: b.ID}
		_, next := w.follow(b, "", 1)
		var readers sync.WaitGroup
		for range 5 {
			readers.Go(func() {
				page, err := w.service.Feed(w.Ctx, bucket.FeedRequest{Budget: ref, After: next, Wait: 30 * time.Second})
				if err != nil || len(page.Entries) != 1 || page.Entries[0].RequestID != "order" {
					w.Errorf("%+v, %v", page, err)
				}
			})
		}
		time.Sleep(50 * time.Millisecond)
		w.Use(b.Buckets[0], "order", 1)
		readers.Wait()
		_, next = w.follow(b, "", 1)
		left, cancel := context.WithCancel(w.Ctx)
		cancel()
		stopped := make(chan struct{})
		close(stopped)
		for name, wait := range map[string]struct {
			ctx   context.Context
			until <-chan struct{}
			wait  time.Duration
		}{"stopped": {w.Ctx, stopped, 30 * time.Second}, "in time": {w.Ctx, nil, 100 * time.Millisecond}} {
			page, err := w.service.Feed(wait.ctx, bucket.FeedRequest{Budget: ref, After: next, Wait: wait.wait,
				Until: wait.until})
			if err != nil || len(page.Entries) != 0 || page.Next != next {
				t.Errorf("%s: %+v, %v", name, page, err)
			}
		}
		if _, err := w.service.Feed(left, bucket.FeedRequest{Budget: ref, After: next, Wait: 30 * time.Second}); err == nil {
			t.Error("a reader that has left got a page")
		}
	})
}
