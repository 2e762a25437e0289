package deduct_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/budgetd/budgetd/bucket"
	"github.com/budgetd/budgetd/bucket/deduct"
	"github.com/budgetd/budgetd/bucket/manage"
	"github.com/budgetd/budgetd/bucket/transfer"
	"github.com/budgetd/budgetd/budget"
	"github.com/budgetd/budgetd/internal/proof/fixture"
	"github.com/budgetd/budgetd/internal/sql/commit"
)

// clocked is a node over a database whose clock the test moves.
type clocked struct {
	*fixture.World
	part *commit.Decider
	defs *manage.Ledger
	s    *deduct.Service
	n    int
}

type turner struct{ *transfer.Ledger }

func (r turner) RollOver(ctx context.Context, id int64) error {
	_, _, err := r.Ledger.RollOver(ctx, id)
	return err
}

func onClock(t *testing.T, run func(w *clocked)) {
	fixture.OnEveryEngine(t, func(f *fixture.World) {
		w := &clocked{World: f, part: commit.New(f.DB), defs: manage.NewLedger(f.DB)}
		w.s = w.node(nil)
		run(w)
	})
}

func (w *clocked) node(change func(*deduct.Config)) *deduct.Service {
	w.Helper()
	budgets, err := bucket.NewBudgets(bucket.BudgetsConfig{Definitions: w.defs})
	w.OK(err)
	c := deduct.Config{Budgets: budgets, Ledger: w.part, Lookup: w.part, Now: w.DB.Now,
		Rollover: turner{transfer.NewLedger(w.DB)}, Settings: patient}
	if change != nil {
		change(&c)
	}
	s, err := deduct.New(c)
	w.OK(err)
	return s
}

func (w *clocked) create(def budget.Definition) bucket.BudgetRef {
	w.Helper()
	_, err := w.defs.Create(w.Ctx, def, make([]bucket.Partition, def.BucketQuantity))
	w.OK(err)
	return bucket.BudgetRef{Tenant: def.Tenant, Name: def.Name}
}

// deduct takes an amount for user u under a new id, and returns the answer or the refusal.
func (w *clocked) deduct(ref bucket.BudgetRef, amount int64, counts ...int64) (
	bucket.DeductAnswer, *budget.Error) {
	w.Helper()
	w.n++
	r := bucket.DeductRequest{Budget: ref, RequestID: fmt.Sprint("r", w.n), Amount: amount,
		Dimensions: map[string]string{"user": "u"}}
	if len(counts) > 0 {
		r.Counts = map[string]int64{"seen": counts[0]}
	}
	got, err := w.s.Deduct(w.Ctx, r)
	var refusal *budget.Error
	if err != nil && !errors.As(err, &refusal) {
		w.Fatal(err)
	}
	return got, refusal
}

func (w *clocked) accept(ref bucket.BudgetRef, amount int64, counts ...int64) bucket.DeductAnswer {
	w.Helper()
	got, refusal := w.deduct(ref, amount, counts...)
	if refusal != nil {
		w.Fatal(refusal)
	}
	return got
}

func (w *clocked) refuse(ref bucket.BudgetRef, amount int64, code budget.Code) *budget.Error {
	w.Helper()
	_, refusal := w.deduct(ref, amount)
	if refusal == nil || refusal.Code != code {
		w.Fatalf("deduct of %d: %v, want %s", amount, refusal, code)
	}
	return refusal
}

func perUser(name string, most int64, every budget.Every) budget.Limit {
	return budget.Limit{Name: name, Dimension: "user", Max: most, Measure: budget.MeasureAmount,
		Enforce: true, Window: budget.LimitWindow{Kind: budget.WindowCalendar, Every: every}}
}

func limited(name string, list ...budget.Limit) budget.Definition {
	d := promo(name, 10_000, 2)
	d.Limits = &budget.Limits{List: list}
	return d
}

// TestAllLimits checks that a refusal lists every exceeded limit and names the one that resets
// last, whatever their order. After that instant the request is accepted.
func TestAllLimits(t *testing.T) {
	onClock(t, func(w *clocked) {
		day, month := perUser("day", 1, budget.Day), perUser("month", 1, budget.Month)
		for i, list := range [][]budget.Limit{{day, month}, {month, day}} {
			ref := w.create(limited(fmt.Sprint("b", i), list...))
			w.accept(ref, 1)
			e := w.refuse(ref, 1, budget.LimitExceeded)
			names := []string{}
			for _, s := range e.Limits {
				names = append(names, s.Limit)
			}
			if e.Limit == nil || e.Limit.Limit != "month" || !slices.Equal(names, []string{"month", "day"}) {
				w.Errorf("order %d: %+v of %v", i, e.Limit, names)
			}
			if until := e.Limit.ResetAt.Sub(w.DB.Now()); e.RetryAfter != until || e.Never {
				w.Errorf("order %d: retry after %s, the window is over in %s", i, e.RetryAfter, until)
			}
			w.Clock.Advance(e.RetryAfter)
			w.accept(ref, 1)
		}
	})
}

// TestNeverByLimit checks that more than a limit ever allows is refused with Never.
func TestNeverByLimit(t *testing.T) {
	onClock(t, func(w *clocked) {
		ref := w.create(limited("b", perUser("day", 5, budget.Day), perUser("year", 100, budget.Year)))
		e := w.refuse(ref, 6, budget.LimitExceeded)
		if !e.Never || e.RetryAfter != 0 || !e.Limit.ResetAt.IsZero() ||
			!strings.Contains(e.Message, "asks for 6, at most 5 are ever allowed") {
			w.Errorf("%v, retry after %s, %+v", e, e.RetryAfter, e.Limit)
		}
		w.accept(ref, 5)
		if e := w.refuse(ref, 6, budget.LimitExceeded); !e.Never || e.RetryAfter != 0 {
			w.Errorf("used up: %v", e)
		}
		if e := w.refuse(ref, 5, budget.LimitExceeded); e.Never || e.RetryAfter <= 0 {
			w.Errorf("what fits tomorrow: %v", e)
		}
	})
}

// TestNeverByTheEnd checks that a limit that resets after the budget's end sets Never.
func TestNeverByTheEnd(t *testing.T) {
	onClock(t, func(w *clocked) {
		d := limited("b", perUser("year", 5, budget.Year))
		d.EndAt = w.DB.Now().Add(10 * time.Minute)
		ref := w.create(d)
		w.accept(ref, 5)
		if e := w.refuse(ref, 1, budget.LimitExceeded); !e.Never || e.RetryAfter != 0 {
			w.Errorf("%v, retry after %s", e, e.RetryAfter)
		}
	})
}

// TestSlidingReset checks the first instant at which the requested amount fits.
func TestSlidingReset(t *testing.T) {
	onClock(t, func(w *clocked) {
		l := perUser("slide", 3, "")
		l.Window = budget.LimitWindow{Kind: budget.WindowSliding, Length: 10 * time.Second,
			Slot: 2 * time.Second}
		ref := w.create(limited("b", l))
		w.Clock.Advance(w.DB.Now().Truncate(2 * time.Second).Add(2 * time.Second).Sub(w.DB.Now()))
		w.accept(ref, 1)
		w.Clock.Advance(5 * time.Second)
		w.accept(ref, 2)
		one, three := w.refuse(ref, 1, budget.LimitExceeded), w.refuse(ref, 3, budget.LimitExceeded)
		if one.RetryAfter >= three.RetryAfter {
			w.Errorf("one unit after %s, three after %s", one.RetryAfter, three.RetryAfter)
		}
		w.Clock.Advance(one.RetryAfter - time.Millisecond)
		w.refuse(ref, 1, budget.LimitExceeded)
		w.Clock.Advance(time.Millisecond)
		w.refuse(ref, 2, budget.LimitExceeded)
		w.Clock.Advance(three.RetryAfter - one.RetryAfter - time.Millisecond)
		w.refuse(ref, 3, budget.LimitExceeded)
		w.Clock.Advance(time.Millisecond)
		w.accept(ref, 3)
	})
}

// TestLaterPeriods checks that only what a later period can have is worth waiting for.
func TestLaterPeriods(t *testing.T) {
	onClock(t, func(w *clocked) {
		daily := func(name string, rule budget.Rule) bucket.BudgetRef {
			d := promo(name, 5000, 2)
			d.Type, d.Rule, d.StartAt = budget.Daily, &rule, w.DB.Now().Add(-time.Second)
			return w.create(d)
		}
		hourly := budget.Rule{Kind: budget.Calendar, Every: budget.Day, Quantity: 500,
			Unused: budget.Forfeit}
		ref := daily("forfeit", hourly)
		got := w.accept(ref, 1)
		if e := w.refuse(ref, 600, budget.BudgetExhausted); !e.Never || e.RetryAfter != 0 ||
			*e.Available != *got.PeriodRemaining {
			w.Errorf("forfeit: %v, %d available", e, *e.Available)
		}
		if e := w.refuse(ref, 500, budget.PeriodExhausted); e.Never ||
			!w.DB.Now().Add(e.RetryAfter).Equal(midnight(w.DB.Now())) {
			w.Errorf("forfeit: %v, retry after %s", e, e.RetryAfter)
		}
		hourly.Unused = budget.Next
		ref = daily("next", hourly)
		got = w.accept(ref, 1)
		e := w.refuse(ref, 500+*got.PeriodRemaining, budget.PeriodExhausted)
		if !w.DB.Now().Add(e.RetryAfter).Equal(midnight(w.DB.Now())) {
			w.Errorf("next: %v, retry after %s", e, e.RetryAfter)
		}
		e = w.refuse(ref, 501+*got.PeriodRemaining, budget.PeriodExhausted)
		if !w.DB.Now().Add(e.RetryAfter).Equal(midnight(w.DB.Now()).AddDate(0, 0, 1)) {
			w.Errorf("next but one: %v, retry after %s", e, e.RetryAfter)
		}
		if e := w.refuse(ref, 5001, budget.BudgetExhausted); !e.Never {
			w.Errorf("above the total: %v", e)
		}
		if e := w.refuse(ref, 5000, budget.BudgetExhausted); e.Never || e.RetryAfter != 0 {
			w.Errorf("one was used: %v", e)
		}
	})
}

func midnight(now time.Time) time.Time {
	return now.UTC().Truncate(24*time.Hour).AddDate(0, 0, 1)
}

// TestNotEffective checks that a budget that will start says when, and that a paused one does not.
func TestNotEffective(t *testing.T) {
	onClock(t, func(w *clocked) {
		d := promo("pending", 100, 1)
		d.StartAt = w.DB.Now().Add(time.Hour)
		ref := w.create(d)
		if e := w.refuse(ref, 1, budget.BudgetNotEffective); !e.StartAt.Equal(d.StartAt) ||
			e.RetryAfter != time.Hour {
			w.Errorf("%v: starts at %s, retry after %s", e, e.StartAt, e.RetryAfter)
		}
		d = promo("paused", 100, 1)
		d.Paused = true
		if e := w.refuse(w.create(d), 1, budget.BudgetPaused); e.RetryAfter != 0 || e.Never ||
			!strings.Contains(e.Message, "no end of the pause is known") {
			w.Error(e)
		}
		d = promo("over", 100, 1)
		d.AllowPast = true
		d.StartAt, d.EndAt = w.DB.Now().Add(-2*time.Hour), w.DB.Now().Add(-time.Hour)
		d.AllowPast = true
		if e := w.refuse(w.create(d), 1, budget.BudgetExpired); e.RetryAfter != 0 || !e.Never {
			w.Error(e)
		}
	})
}

// TestUnlimitedIsNotExhausted checks that the largest amounts use nothing up, and that no number is
// larger than callers can read.
func TestUnlimitedIsNotExhausted(t *testing.T) {
	onClock(t, func(w *clocked) {
		calls := perUser("calls", 1_000_000, budget.Year)
		calls.Measure = budget.MeasureCount
		d := limited("b", calls)
		d.Unlimited, d.TotalQuantity = true, 0
		ref := w.create(d)
		var requests []bucket.DeductRequest
		for i := range 2100 { // more than 2^63 / (2^53 - 1) for each of the two buckets
			requests = append(requests, bucket.DeductRequest{Budget: ref, RequestID: fmt.Sprint("big", i),
				Amount: budget.MaxAmount, Dimensions: map[string]string{"user": "u"}})
		}
		for _, r := range w.s.DeductAll(w.Ctx, requests) {
			if r.Err != nil {
				w.Fatal(r.Err)
			}
		}
		if got := w.accept(ref, 1); !got.Unlimited || got.Limits[0].Used != 2101 {
			w.Errorf("%+v", got)
		}
		v, err := w.defs.View(w.Ctx, ref)
		w.OK(err)
		if v.Figures.Used != budget.MaxAmount || v.Figures.PeriodUsed > budget.MaxAmount {
			w.Errorf("%+v", v.Figures)
		}
		w.Forget() // its sums stop at the largest number
	})
}

// TestCountsDoNotOverflow checks that a count that would exceed the largest number is invalid and
// changes nothing.
func TestCountsDoNotOverflow(t *testing.T) {
	onClock(t, func(w *clocked) {
		l := perUser("seen", 10, budget.Year)
		l.Enforce = false
		ref := w.create(limited("b", l))
		got := w.accept(ref, 1, budget.MaxAmount)
		if got.Limits[0].Used != budget.MaxAmount {
			w.Errorf("%+v", got.Limits)
		}
		for range 2 {
			_, e := w.deduct(ref, 1, budget.MaxAmount)
			if e == nil || e.Code != budget.Invalid || len(e.Fields) != 1 || e.Fields[0].Field != "counts.seen" {
				w.Fatal(e)
			}
		}
		if got = w.accept(ref, 1, 0); got.BudgetRemaining != 9998 {
			w.Errorf("%d are left", got.BudgetRemaining)
		}
	})
}

// TestSameIDInABatch checks that the replay's figures are from after the deduction.
func TestSameIDInABatch(t *testing.T) {
	onClock(t, func(w *clocked) {
		ref := w.create(promo("b", 10, 1))
		r := bucket.DeductRequest{Budget: ref, RequestID: "a", Amount: 4}
		for i, got := range w.s.DeductAll(w.Ctx, []bucket.DeductRequest{r, r}) {
			a := got.Answer
			if got.Err != nil || a.Replayed != (i == 1) || a.BucketRemaining != 6 || a.BudgetRemaining != 6 ||
				a.FiguresUnknown || a.RemainingUnknown {
				w.Errorf("%d: %+v, %v", i, a, got.Err)
			}
		}
	})
}
