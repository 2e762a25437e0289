package deduct_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/budgetd/budgetd/bucket"
	"github.com/budgetd/budgetd/bucket/deduct"
	"github.com/budgetd/budgetd/budget"
	"github.com/budgetd/budgetd/ledger"
)

// TestSetsHold holds through two legs at once: exactly as many succeed as fit.
func TestSetsHold(t *testing.T) {
	everywhere(t, func(t *testing.T, d *database) {
		d.create(t, promo("org", 500, 4))
		d.create(t, promo("team", 10_000, 4))
		nodes := []*deduct.Service{d.node(t, nil), d.node(t, nil)}
		var run sync.WaitGroup
		var mu sync.Mutex
		held := 0
		for i := range 20 {
			run.Go(func() {
				r := set(fmt.Sprint("h", i), "team", 75, "org", 75)
				r.HoldTTL = time.Hour
				_, err := nodes[i%2].Deduct(context.Background(), r)
				var e *budget.Error
				mu.Lock()
				defer mu.Unlock()
				switch {
				case err == nil:
					held++
				case !errors.As(err, &e) || e.Code != budget.LegRefused || len(e.Refusals) != 1 ||
					e.Refusals[0].Budget != "org" || *e.Refusals[0].Reason.Available >= 75:
					t.Errorf("%v", err)
				}
			})
		}
		run.Wait()
		if held != 6 {
			t.Errorf("%d holds of 75 from 500", held)
		}
		d.uses(t, map[string]int64{"org": 450, "team": 450})
	})
}

// TestSetsOverlap deducts overlapping sets and from their budgets alone, through two nodes, until
// all is sold. Each set is deducted as a whole or not at all, and a refused one did not fit.
func TestSetsOverlap(t *testing.T) {
	everywhere(t, func(t *testing.T, d *database) {
		names := []string{"a", "b", "c"}
		for _, name := range names {
			d.create(t, promo(name, 300, 3))
		}
		nodes := []*deduct.Service{d.node(t, nil), d.node(t, nil)}
		var run sync.WaitGroup
		var mu sync.Mutex
		taken := map[string]int64{}
		for caller := range 6 {
			run.Go(func() {
				random := rand.New(rand.NewPCG(uint64(caller), 7))
				for n := range 40 {
					first := random.IntN(3)
					amounts := []int{1 + random.IntN(6), 1 + random.IntN(6)}
					r := set(fmt.Sprint(caller, "-", n), names[first], amounts[0], names[(first+1)%3], amounts[1])
					if n%4 == 0 {
						r = bucket.DeductRequest{Budget: r.Legs[0].Budget, RequestID: r.RequestID, Amount: r.Legs[0].Amount}
					}
					_, err := nodes[caller%2].Deduct(context.Background(), r)
					mu.Lock()
					switch {
					case err == nil && len(r.Legs) == 0:
						taken[r.Budget.Name] += r.Amount
					case err == nil:
						for _, l := range r.Legs {
							taken[l.Budget.Name] += l.Amount
						}
					case !budget.Is(err, budget.LegRefused) && !budget.Is(err, budget.BudgetExhausted):
						t.Errorf("%v", err)
					}
					mu.Unlock()
				}
			})
		}
		run.Wait()
		d.uses(t, taken)
		if left := slices.Max([]int64{300 - taken["a"], 300 - taken["b"], 300 - taken["c"]}); left > 150 {
			t.Errorf("the test did not come near the end: %v", taken)
		}
	})
}

// TestSetUnclear loses replies of transactions: the actual outcome of the set is answered.
func TestSetUnclear(t *testing.T) {
	for _, happened := range []bool{true, false} {
		b := newBooks()
		b.add("a", 100, 1, 100)
		b.add("b", 100, 2, 10) // must be brought
		for _, amount := range []int{5, 50} {
			lost := 1
			fault := func(call string) error {
				if (call == "commit" || call == "bring") && lost > 0 {
					lost--
					return &budget.Error{Code: budget.OutcomeUnknown, Op: "commit"}
				}
				return nil
			}
			b.mu.Lock()
			b.before, b.after = fault, nil
			if happened {
				b.before, b.after = nil, fault
			}
			b.mu.Unlock()
			s := node(t, b, nil)
			got, err := s.Deduct(context.Background(), set(fmt.Sprint("s", amount), "a", 7, "b", amount))
			if err != nil || got.Replayed || len(got.Legs) != 2 || got.Legs[1].Amount != int64(amount) {
				t.Errorf("happened %v, %d: %+v, %v", happened, amount, got, err)
			}
		}
		if units, rows := b.used(2); units != 55 || rows != 2 {
			t.Errorf("happened %v: %d units in %d rows", happened, units, rows)
		}
		if got := ledger.CallerID(ledger.LegID(0, "x")); got != "x" {
			t.Errorf("the caller's id is %q", got)
		}
	}
}

// TestSetLimits checks that a rollback of a set lowers the limits of its legs.
func TestSetLimits(t *testing.T) {
	everywhere(t, func(t *testing.T, d *database) {
		d.create(t, promo("free", 100, 2))
		limited := promo("limited", 100, 2)
		limited.Limits = &budget.Limits{List: []budget.Limit{{Name: "ever", Dimension: "user", Max: 5,
			Measure: budget.MeasureAmount, Window: budget.LimitWindow{Kind: budget.WindowLifetime}, Enforce: true}}}
		d.create(t, limited)
		s, _ := d.withHolds(t)
		ask := func(id string) error {
			r := set(id, "free", 1, "limited", 5)
			r.Legs[1].Dimensions = map[string]string{"user": "u"}
			_, err := s.Deduct(context.Background(), r)
			return err
		}
		if err := ask("a"); err != nil {
			t.Fatal(err)
		}
		if err := ask("b"); !budget.Is(err, budget.LegRefused) {
			t.Errorf("above the limit: %v", err)
		}
		if _, err := s.Rollback(context.Background(), whole("a")); err != nil {
			t.Fatal(err)
		}
		if err := ask("c"); err != nil {
			t.Errorf("after the rollback: %v", err)
		}
		d.uses(t, map[string]int64{"free": 1, "limited": 5})
	})
}

// TestSetsShareBuckets checks that the legs of a flight that any bucket may serve use few of them,
// and those with a key the one that the key chooses.
func TestSetsShareBuckets(t *testing.T) {
	everywhere(t, func(t *testing.T, d *database) {
		d.create(t, promo("org", 6_400, 16))
		d.create(t, promo("team", 6_400, 16))
		s := d.node(t, nil)
		for i := range 128 { // each bucket is known to the node
			name := []string{"org", "team"}[i%2]
			r := one(bucket.BudgetRef{Tenant: budget.DefaultTenant, Name: name}, fmt.Sprint("first-", i), 1)
			if _, err := s.Deduct(context.Background(), r); err != nil {
				t.Fatal(err)
			}
		}
		var requests []bucket.DeductRequest
		for i := range 32 {
			r := set(fmt.Sprint("s", i), "org", 1, "team", 1)
			r.Legs[1].Key = fmt.Sprint("key-", i)
			requests = append(requests, r)
		}
		org, team := map[string]bool{}, map[string]bool{}
		for _, got := range s.DeductAll(context.Background(), requests) {
			if got.Err != nil {
				t.Fatal(got.Err)
			}
			org[got.Answer.Legs[0].Bucket], team[got.Answer.Legs[1].Bucket] = true, true
		}
		if len(org) > 3 || len(team) < 8 {
			t.Errorf("32 sets are in %d buckets of org and, with keys, in %d of team", len(org), len(team))
		}
		d.uses(t, map[string]int64{"org": 96, "team": 96})
	})
}
