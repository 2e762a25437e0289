package bucket_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/budgetd/budgetd/bucket"
	"github.com/budgetd/budgetd/budget"
)

// TestLimitsOfDeduct: a limit refuses with its figures, replays go before it, what comes back is free again,
// and however many call at once, exactly the maximum pass.
func TestLimitsOfDeduct(t *testing.T) { inEveryWorld(t, limitsOfDeduct) }

func limitsOfDeduct(t *testing.T, w *world) {
	ctx, s := context.Background(), w.node(quick)
	ref := w.create(s, budget.Definition{Tenant: budget.DefaultTenant, Name: "capped", Unit: budget.Count,
		Durability: budget.Ledger, Type: budget.Promo, TotalQuantity: 10_000, BucketQuantity: 3,
		Limits: &budget.Limits{List: []budget.Limit{{Name: "per-user", Dimension: "user", Max: 5, Enforce: true,
			Measure: budget.MeasureCount, Window: budget.LimitWindow{Kind: budget.WindowFirstHit, Length: time.Hour}}}}})
	deduct := func(id, user string) (bucket.DeductAnswer, error) {
		r := bucket.DeductRequest{Budget: ref, RequestID: id, Amount: 2}
		if user != "" {
			r.Dimensions = map[string]string{"user": user}
		}
		return s.Deduct(ctx, r)
	}
	var passed, refused atomic.Int64
	var all sync.WaitGroup
	for i := range 40 {
		all.Go(func() {
			answer, err := deduct(fmt.Sprint("a", i), "u")
			switch {
			case err == nil && len(answer.Limits) == 1 && answer.Limits[0].Max == 5 || err == nil && answer.Limits == nil:
				passed.Add(1)
			case budget.Is(err, budget.LimitExceeded):
				refused.Add(1)
			default:
				t.Errorf("%+v, %v", answer, err)
			}
		})
	}
	all.Wait()
	if passed.Load() != 5 || refused.Load() != 35 {
		t.Fatalf("%d passed, %d refused", passed.Load(), refused.Load())
	}
	accepted := ""
	for i := range 40 {
		id := fmt.Sprint("a", i)
		answer, err := deduct(id, "u")
		if err == nil {
			if !answer.Replayed {
				t.Errorf("%s passed twice", id)
			}
			accepted = id
			continue
		}
		var e *budget.Error
		if !errors.As(err, &e) || e.Limit == nil || e.Limit.Limit != "per-user" || e.Limit.Value != "u" || e.Limit.Used != 5 ||
			e.Limit.Max != 5 || e.RetryAfter <= 0 || e.RetryAfter > time.Hour {
			t.Fatalf("%v, %+v", err, e.Limit)
		}
	}
	if _, err := s.Rollback(ctx, bucket.RollbackRequest{Budget: ref, RequestID: accepted}); err != nil {
		t.Fatal(err)
	}
	if answer, err := deduct("again", "u"); err != nil || len(answer.Limits) != 1 || answer.Limits[0].Used != 5 {
		t.Errorf("after a rollback: %+v, %v", answer.Limits, err)
	}
	if _, err := deduct("more", "u"); !budget.Is(err, budget.LimitExceeded) {
		t.Errorf("more: %v", err)
	}
	if _, err := deduct("other", "v"); err != nil {
		t.Errorf("another user: %v", err)
	}
	_, err := deduct("nobody", "")
	var e *budget.Error
	if !errors.As(err, &e) || e.Code != budget.Invalid || len(e.Fields) != 1 || e.Fields[0].Field != "dimensions.user" {
		t.Errorf("without the dimension: %v", err)
	}
	w.settled(s, ref, 12)
}

// TestUnlimitedCreatedAgainAtAnotherNode: the definition of an unlimited budget is the same one at a node that has
// fewer lanes, though it would make fewer buckets.
func TestUnlimitedCreatedAgainAtAnotherNode(t *testing.T) {
	w := newWorld(t)
	d := budget.Definition{Tenant: budget.DefaultTenant, Name: "capped", Unit: budget.Count, Durability: budget.Ledger,
		Unlimited: true, Limits: &budget.Limits{List: []budget.Limit{{Name: "once", Dimension: "user", Max: 1, Enforce: true,
			Measure: budget.MeasureCount, Window: budget.LimitWindow{Kind: budget.WindowLifetime}}}}}
	create := func(s *bucket.Service) bucket.View {
		t.Helper()
		v, _, err := s.Create(context.Background(), d)
		if err != nil {
			t.Fatal(err)
		}
		return v
	}
	first, all := w.node(bucket.Settings{}), w.connect
	made := create(first)
	w.connect = func() map[string]bucket.Instance {
		out := all()
		delete(out, slices.Sorted(maps.Keys(out))[0])
		return out
	}
	again := create(w.node(bucket.Settings{}))
	a, b := made.Definition, again.Definition
	if !again.Replayed || b.ID != a.ID || b.BucketQuantity != a.BucketQuantity || a.BucketQuantity != len(all()) {
		t.Errorf("replayed %v, budgets %d and %d with %d and %d buckets, %d instances", again.Replayed, a.ID, b.ID,
			a.BucketQuantity, b.BucketQuantity, len(all()))
	}
}

// TestUsedUpLimitAsksNoBucket: once a limit is known to be used up, a request goes to SQL only, once for many.
func TestUsedUpLimitAsksNoBucket(t *testing.T) {
	w := newWorld(t)
	var commits, checks atomic.Int64
	w.model.Hook = func(method string, before bool) error {
		switch {
		case before && method == "Commit":
			commits.Add(1)
		case before && method == "CheckLimits":
			checks.Add(1)
		}
		return nil
	}
	s := w.node(bucket.Settings{})
	ref := w.create(s, budget.Definition{Tenant: budget.DefaultTenant, Name: "capped", Unit: budget.Count,
		Durability: budget.Ledger, Unlimited: true,
		Limits: &budget.Limits{List: []budget.Limit{{Name: "once", Dimension: "user", Max: 1, Enforce: true,
			Measure: budget.MeasureCount, Window: budget.LimitWindow{Kind: budget.WindowLifetime}}}}})
	ask := func(id string) error {
		_, err := s.Deduct(context.Background(), bucket.DeductRequest{Budget: ref, RequestID: id, Amount: 1,
			Dimensions: map[string]string{"user": "u"}})
		return err
	}
	if err := ask("first"); err != nil {
		t.Fatal(err)
	}
	if err := ask("second"); !budget.Is(err, budget.LimitExceeded) {
		t.Fatalf("second: %v", err)
	}
	before, looked := commits.Load(), checks.Load()
	for i := range 20 {
		if err := ask(fmt.Sprint("more", i)); !budget.Is(err, budget.LimitExceeded) {
			t.Fatalf("%d: %v", i, err)
		}
	}
	if err := ask("first"); err != nil {
		t.Errorf("the accepted id: %v", err)
	}
	if n := checks.Load() - looked; n < 20 {
		t.Errorf("%d checks for 20 refusals", n)
	}
	if commits.Load() != before {
		t.Errorf("%d commits more", commits.Load()-before)
	}
	if _, err := s.Rollback(context.Background(), bucket.RollbackRequest{Budget: ref, RequestID: "first"}); err != nil {
		t.Fatal(err)
	}
	if err := ask("after"); err != nil {
		t.Errorf("after a rollback: %v", err)
	}
}
