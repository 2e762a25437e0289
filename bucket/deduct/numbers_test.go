package deduct_test

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"reflect"
	"testing"
	"time"

	"github.com/budgetd/budgetd/bucket"
	"github.com/budgetd/budgetd/bucket/usage"
	"github.com/budgetd/budgetd/budget"
)

// numbers calls back for every quantity in a value.
func numbers(path string, v reflect.Value, found func(path string, n int64)) {
	switch v.Kind() {
	case reflect.Int64:
		if v.Type() == reflect.TypeFor[int64]() { // no duration
			found(path, v.Int())
		}
	case reflect.Pointer, reflect.Interface:
		if !v.IsNil() {
			numbers(path, v.Elem(), found)
		}
	case reflect.Slice:
		for i := range v.Len() {
			numbers(fmt.Sprintf("%s[%d]", path, i), v.Index(i), found)
		}
	case reflect.Struct:
		if v.Type().PkgPath() == "time" {
			return
		}
		for i := range v.NumField() {
			if f := v.Type().Field(i); f.IsExported() {
				numbers(path+"."+f.Name, v.Field(i), found)
			}
		}
	}
}

// TestNumbersFit checks that no number in an answer, refusal, view, check or sum of usage is
// negative or above 2^53 - 1, over random requests with amounts and counts of every size, limited
// or not.
func TestNumbersFit(t *testing.T) {
	onClock(t, func(w *clocked) {
		seed := rand.Uint64()
		w.Logf("seed %d", seed)
		random := rand.New(rand.NewPCG(seed, 1))
		fits := func(what string, v any) {
			numbers(what, reflect.ValueOf(v), func(path string, n int64) {
				if n < 0 || n > budget.MaxAmount {
					w.Errorf("%s: %d", path, n)
				}
			})
		}
		size := func() int64 {
			return max(1, min(budget.MaxAmount, budget.MaxAmount>>random.IntN(54)+random.Int64N(3)-1))
		}
		seen := perUser("seen", 10, budget.Year)
		seen.Enforce = false
		calls := perUser("calls", budget.MaxAmount, "")
		calls.Window = budget.LimitWindow{Kind: budget.WindowFirstHit, Length: 1e9}
		free, total := limited("unlimited", seen, calls), limited("limited", seen, calls)
		free.Unlimited, free.TotalQuantity, total.TotalQuantity = true, 0, budget.MaxAmount
		budgets, err := bucket.NewBudgets(bucket.BudgetsConfig{Definitions: w.defs})
		w.OK(err)
		looks := usage.New(usage.Config{DB: w.DB, Budgets: budgets})
		accepted := 0
		for _, ref := range []bucket.BudgetRef{w.create(free), w.create(total)} {
			for i := range 80 {
				r := bucket.DeductRequest{Budget: ref, RequestID: fmt.Sprint(i), Amount: size(),
					Dimensions: map[string]string{"user": fmt.Sprint("u", random.IntN(2))},
					Counts:     map[string]int64{"seen": size() * random.Int64N(2)}}
				if random.IntN(3) == 0 {
					r.Counts["seen"] = 0
				}
				w.Clock.Advance(2 * time.Second) // another window of calls
				got, err := w.s.Deduct(w.Ctx, r)
				var refusal *budget.Error
				switch {
				case err == nil:
					accepted++
					fits("answer", got)
				case !errors.As(err, &refusal) || refusal.Code != budget.Invalid &&
					refusal.Code != budget.LimitExceeded && refusal.Code != budget.BudgetExhausted:
					w.Fatal(err)
				default:
					fits("refusal", refusal)
				}
				fits("check", w.s.Check(w.Ctx, []bucket.CheckRequest{{Budget: ref, Amount: r.Amount,
					Dimensions: r.Dimensions, Counts: r.Counts}}))
			}
			v, err := w.defs.View(w.Ctx, ref)
			w.OK(err)
			fits("view", v)
			for u := range 2 {
				sum, err := looks.Usage(w.Ctx, bucket.UsageRequest{Budget: ref,
					Dimensions: map[string]string{"user": fmt.Sprint("u", u)}})
				w.OK(err)
				fits("usage", sum)
			}
		}
		if accepted < 10 {
			w.Errorf("%d were accepted: the test tries too little", accepted)
		}
		w.Forget() // sums of an unlimited budget stop at the largest number
	})
}
