package bucket_test

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/budgetd/budgetd/bucket"
	"github.com/budgetd/budgetd/budget"
)

// aloneOrTogether makes a deduction by Deduct, or by DeductAll.
func aloneOrTogether(s *bucket.Service, together bool, r bucket.DeductRequest) (bucket.DeductAnswer, error) {
	if !together {
		return s.Deduct(context.Background(), r)
	}
	all := s.DeductAll(context.Background(), []bucket.DeductRequest{r})
	return all[0].Answer, all[0].Err
}

// TestDeductAll sells a budget to callers who ask in batches through two nodes, some ids twice in a batch
// and some in two batches at once: every unit is sold, each id once, and each repetition gets the same answer.
func TestDeductAll(t *testing.T) {
	everywhere(t, func(t *testing.T, w *world) {
		const callers, batches, size, total = 6, 8, 40, 1500
		set := quick
		nodes := []*bucket.Service{w.node(set), w.node(set)}
		ref := w.create(nodes[0], promo("batches", total, 5))
		ctx := context.Background()
		request := func(caller, batch, i int) bucket.DeductRequest {
			switch i % 10 {
			case 8: // the id of the one before
				i--
			case 9: // an id that two callers ask for
				caller /= 2
			}
			return bucket.DeductRequest{Budget: ref, RequestID: fmt.Sprintf("c%d-b%d-%d", caller, batch, i), Amount: 1}
		}
		var mu sync.Mutex
		accepted, originals, refused := map[string]string{}, map[string]int{}, map[string]bool{} // with their receipts
		take := func(requests []bucket.DeductRequest, results []bucket.DeductResult) {
			mu.Lock()
			defer mu.Unlock()
			for i, r := range results {
				id := requests[i].RequestID
				switch {
				case r.Err == nil && r.Answer.RequestID == id && r.Answer.Amount == 1:
					if was, known := accepted[id]; known && was != r.Answer.Receipt {
						t.Errorf("%s was told %s and %s", id, was, r.Answer.Receipt)
					}
					accepted[id] = r.Answer.Receipt
					if !r.Answer.Replayed {
						originals[id]++
					}
				case budget.Is(r.Err, budget.BudgetExhausted):
					refused[id] = true
				default:
					t.Errorf("%s: %+v, %v", id, r.Answer, r.Err)
				}
			}
		}
		var all sync.WaitGroup
		for caller := range callers {
			all.Go(func() {
				for batch := range batches {
					requests := make([]bucket.DeductRequest, size)
					for i := range requests {
						requests[i] = request(caller, batch, i)
					}
					take(requests, nodes[(caller+batch)%2].DeductAll(ctx, requests))
				}
			})
		}
		all.Wait()
		const ids = callers * batches * size * 8 / 10
		if least := ids + callers/2*batches*size/10; len(accepted)+len(refused) < least || len(accepted) != total {
			t.Errorf("%d ids accepted, %d refused, of at least %d", len(accepted), len(refused), least)
		}
		for id := range accepted {
			if originals[id] != 1 {
				t.Errorf("%s was accepted anew %d times", id, originals[id])
			}
		}
		for id := range refused {
			if _, both := accepted[id]; both { // refused while another call with it was accepted
				t.Errorf("%s was refused and accepted", id)
			}
		}
		w.settled(nodes[0], ref, total)
	})
}

// TestDeductAllWithLimits: nobody gets more than the limit, and nobody less, however many come in one batch.
func TestDeductAllWithLimits(t *testing.T) {
	everywhere(t, func(t *testing.T, w *world) {
		const users, each, most, batch = 12, 9, 5, 50
		s := w.node(quick)
		d := promo("limited", 10_000, 4)
		d.RoutingDimension = "user"
		d.Limits = &budget.Limits{List: []budget.Limit{{Name: "per-user", Dimension: "user", Max: most, Enforce: true,
			Measure: budget.MeasureCount, Window: budget.LimitWindow{Kind: budget.WindowLifetime}}}}
		ref := w.create(s, d)
		var requests []bucket.DeductRequest
		for i := range each {
			for u := range users {
				requests = append(requests, bucket.DeductRequest{Budget: ref, RequestID: fmt.Sprintf("u%d-%d", u, i),
					Amount: 2, Dimensions: map[string]string{"user": fmt.Sprint("u", u)}})
			}
		}
		accepted := map[string]int{}
		for len(requests) > 0 {
			now := requests[:min(batch, len(requests))]
			requests = requests[len(now):]
			for i, r := range s.DeductAll(context.Background(), now) {
				user := now[i].Dimensions["user"]
				switch {
				case r.Err == nil:
					accepted[user]++
				case !budget.Is(r.Err, budget.LimitExceeded):
					t.Errorf("%s: %v", now[i].RequestID, r.Err)
				}
			}
		}
		for u := range users {
			if n := accepted[fmt.Sprint("u", u)]; n != most {
				t.Errorf("user %d got %d of %d", u, n, most)
			}
		}
		w.settled(s, ref, users*most*2)
	})
}

// TestDeductAllEachForItself: what is wrong with one request of a batch is its own answer.
func TestDeductAllEachForItself(t *testing.T) {
	w := newWorld(t)
	s := w.node(quick)
	ref := w.create(s, promo("mixed", 100, 2))
	paused, yes := w.create(s, promo("paused", 100, 1)), true
	if _, err := s.Change(context.Background(), paused, bucket.Change{Paused: &yes}); err != nil {
		t.Fatal(err)
	}
	if _, err := deduct(s, ref, "old", 3); err != nil {
		t.Fatal(err)
	}
	ask := func(ref bucket.BudgetRef, id string, amount int64) bucket.DeductRequest {
		return bucket.DeductRequest{Budget: ref, RequestID: id, Amount: amount}
	}
	hold := ask(ref, "hold", 5)
	hold.HoldTTL = time.Minute
	short := ask(ref, "short", 5)
	short.HoldTTL = time.Microsecond
	requests := []bucket.DeductRequest{ask(ref, "a", 10), ask(ref, "old", 3), ask(ref, "old", 4), ask(paused, "p", 1),
		ask(bucket.BudgetRef{ID: 999}, "x", 1), hold, short, ask(ref, "too much", 101), ask(ref, "a", 10)}
	want := []budget.Code{"", "", budget.RequestConflict, budget.BudgetPaused, budget.BudgetNotFound, "", budget.Invalid,
		budget.BudgetExhausted, ""}
	for i, r := range s.DeductAll(context.Background(), requests) {
		if code := budget.CodeOf(r.Err); r.Err != nil && code != want[i] || r.Err == nil && want[i] != "" {
			t.Errorf("%s: %v, want %q", requests[i].RequestID, r.Err, want[i])
		}
		if replayed := i == 1 || i == 8; r.Answer.Replayed != replayed {
			t.Errorf("%s: %+v", requests[i].RequestID, r.Answer)
		}
	}
	w.settled(s, ref, 13)
}
