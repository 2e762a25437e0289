package counter_test

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/budgetd/budgetd/bucket"
	"github.com/budgetd/budgetd/budget"
)

// TestPredictionsComeTrue checks over random traffic that a dry run, and a check of the same
// request, say what the deduction that follows gets, and deduct nothing.
func TestPredictionsComeTrue(t *testing.T) {
	everywhere(t, 2, func(w *world) {
		random := rand.New(rand.NewPCG(1, 2)) //nolint:gosec // a test
		b := w.create(limited(300))
		seen := map[string]int{}
		var done []bucket.DeductRequest
		left := int64(300)
		for i := range 150 {
			r := request(b, fmt.Sprint("id-", i), 1+random.Int64N(20))
			r.Dimensions = map[string]string{"user": fmt.Sprint("u", random.IntN(25))}
			if random.IntN(10) == 0 {
				r.Counts = map[string]int64{"calls": random.Int64N(4)}
			}
			if len(done) > 0 && random.IntN(5) == 0 {
				r = done[random.IntN(len(done))]
				r.Amount += random.Int64N(2)
			}
			synced := random.IntN(10) == 0
			if synced {
				w.run("store sync")
			}
			dry, err := w.node.DryRun(w.Context(), r)
			w.ok(err)
			check := w.node.Check(w.Context(), []bucket.CheckRequest{
				{Budget: r.Budget, Amount: r.Amount, Dimensions: r.Dimensions, Counts: r.Counts},
				{Budget: bucket.BudgetRef{ID: 99}, Amount: 1}})
			a, err := w.node.Deduct(w.Context(), r)
			// If both the limits and the budget refuse, either may be the answer.
			same := func(predicted error) bool {
				return fmt.Sprint(predicted) == fmt.Sprint(err) ||
					budget.Is(predicted, budget.LimitExceeded) && budget.Is(err, budget.BudgetExhausted)
			}
			if !same(dry.Err) {
				w.Fatalf("%d: predicted %v, then %v", i, dry.Err, err)
			}
			known := budget.Is(err, budget.RequestConflict) || a.Replayed
			if (dry.Recorded != nil) != a.Replayed {
				w.Fatalf("%d: recorded %+v, then %+v", i, dry.Recorded, a)
			}
			if !known && !same(check[0].Err) {
				w.Fatalf("%d: checked %v, then %v", i, check[0].Err, err)
			}
			if !budget.Is(check[1].Err, budget.BudgetNotFound) {
				w.Fatalf("a budget that is not there: %v", check[1].Err)
			}
			if err == nil && !a.Replayed {
				for n := range a.Limits {
					if dry.Limits[n].Used > a.Limits[n].Used || dry.Limits[n].Max != a.Limits[n].Max {
						w.Fatalf("%d: limits %+v, then %+v", i, dry.Limits, a.Limits)
					}
				}
				if dry.BudgetRemaining > left || synced && dry.BudgetRemaining != left {
					w.Fatalf("%d: remaining %d, want %d", i, dry.BudgetRemaining, left)
				}
				left -= a.Amount
				done = append(done, r)
			}
			seen[fmt.Sprint(budget.CodeOf(err), a.Replayed)]++
		}
		w.run("store sync")
		if got := w.books(b.ID); got.S != 300-left {
			w.Errorf("%+v, deductions of %d were accepted", got, 300-left)
		}
		for _, want := range []string{"false", "true"} {
			if seen[want] == 0 {
				w.Errorf("no deduction with replayed %s: %v", want, seen)
			}
		}
		for _, code := range []budget.Code{budget.LimitExceeded, budget.BudgetExhausted,
			budget.RequestConflict} {
			if seen[fmt.Sprint(code, false)] == 0 {
				w.Errorf("no refusal with %s: %v", code, seen)
			}
		}
	})
}

// TestPredictionsOfOthers checks predictions for what random traffic does not reach: a paused and a
// cancelled one, holds and groups, a request that lacks a dimension, and two checks in one call that fit only separately.
func TestPredictionsOfOthers(t *testing.T) {
	w := onRedis(t, "sqlite", 1)
	b := w.create(limited(30))
	user := func(id string, amount int64) bucket.DeductRequest {
		r := request(b, id, amount)
		r.Dimensions = map[string]string{"user": "ann"}
		return r
	}
	dry := func(r bucket.DeductRequest, want budget.Code) bucket.CheckAnswer {
		w.Helper()
		a, err := w.node.DryRun(w.Context(), r)
		w.ok(err)
		if budget.CodeOf(a.Err) != want {
			w.Errorf("%s: %v, want %s", r.RequestID, a.Err, want)
		}
		return a
	}
	dry(request(b, "no user", 1), budget.Invalid)
	held, grouped := user("held", 1), user("grouped", 1)
	held.HoldTTL, grouped.Group = time.Minute, "basket"
	dry(held, budget.LedgerModeOnly)
	dry(grouped, budget.LedgerModeOnly)
	for i, a := range w.node.Check(w.Context(), []bucket.CheckRequest{
		{Budget: ref(b), Amount: 20, Dimensions: map[string]string{"user": "ann"}},
		{Budget: ref(b), Amount: 20, Dimensions: map[string]string{"user": "ann"}}}) {
		if a.Err != nil || a.BudgetRemaining != 30 || len(a.Limits) != 2 {
			w.Errorf("check %d: %+v", i, a)
		}
	}
	w.age(15 * time.Minute) // the record window
	_, err := w.node.Cancel(w.Context(), bucket.RollbackRequest{Budget: ref(b), RequestID: "gone",
		Key: "ann"})
	w.ok(err)
	dry(user("gone", 1), budget.RequestVoid)
	_, err = w.node.Deduct(w.Context(), user("done", 7))
	w.ok(err)
	paused := true
	_, err = w.defs.Change(w.Context(), b.ID, bucket.Change{Paused: &paused})
	w.ok(err)
	w.clock.Advance(2 * time.Second) // definitions are at most a second old
	dry(user("new", 1), budget.BudgetPaused)
	if a := dry(user("done", 7), ""); a.Recorded == nil || a.Recorded.Amount != 7 {
		w.Errorf("a repeat: %+v", a)
	}
}
