package usage_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/budgetd/budgetd/bucket"
	"github.com/budgetd/budgetd/bucket/hold"
	"github.com/budgetd/budgetd/budget"
	"github.com/budgetd/budgetd/iana"
	"github.com/budgetd/budgetd/internal/sql/engine"
	"github.com/budgetd/budgetd/ledger"
)

// TestCheckOfManyBudgets checks that one statement per kind of row serves all budgets of a call.
func TestCheckOfManyBudgets(t *testing.T) {
	each(t, func(w *world) {
		var asked []bucket.CheckRequest
		var want []budget.Code
		for i := range 20 {
			b := w.make(fmt.Sprint("b", i), 100, limits(perUser("daily", 10, budget.MeasureAmount, budget.Day, "")))
			w.accepted(b, "first", 6, user("a"))
			asked = append(asked, ask(b, 4, user("a")), ask(b, 5, user("a")), ask(b, 5, user("b")),
				ask(b, 95, user("b")), ask(b, 1, nil))
			want = append(want, "", budget.LimitExceeded, "", budget.BudgetExhausted, budget.Invalid)
		}
		paused := w.make("paused", 100, func(d *budget.Definition) { d.Paused = true })
		none := w.make("unlimited", 0, func(d *budget.Definition) { d.Unlimited = true })
		asked = append(asked, ask(paused, 1, nil), ask(none, budget.MaxAmount, nil),
			bucket.CheckRequest{Budget: bucket.BudgetRef{ID: 4711}, Amount: 1})
		want = append(want, budget.BudgetPaused, "", budget.BudgetNotFound)
		*w.reads = counting{Decider: w.commits}
		got := w.d.Check(w.Ctx, asked)
		for i := range got {
			if codeOf(got[i].Err) != want[i] || got[i].Amount != asked[i].Amount {
				t.Errorf("%d: %v, want %q", i, got[i].Err, want[i])
			}
		}
		if w.reads.hints != 1 || w.reads.exacts != 1 {
			t.Errorf("%d + %d reads of sums", w.reads.hints, w.reads.exacts)
		}
		if a := got[0]; a.BudgetRemaining != 94 || a.Unlimited || a.PeriodRemaining != nil ||
			len(a.Limits) != 1 || a.Limits[0].Used != 6 || a.Limits[0].Max != 10 {
			t.Errorf("%+v", a)
		}
		if a := got[len(got)-2]; !a.Unlimited {
			t.Errorf("%+v", a)
		}
		var refusal *budget.Error
		if refusal, _ = got[3].Err.(*budget.Error); refusal == nil || *refusal.Available != 94 {
			t.Errorf("%+v", got[3])
		}
	})
}

// TestEveryExceededLimitIsNamed also checks that the limit that resets last determines when to try
// again.
func TestEveryExceededLimitIsNamed(t *testing.T) {
	each(t, func(w *world) {
		b := w.make("b", 1000, limits(perUser("day", 10, budget.MeasureAmount, budget.Day, ""),
			perUser("fits", 100, budget.MeasureAmount, budget.Year, ""),
			perUser("year", 1, budget.MeasureCount, budget.Year, "")))
		w.accepted(b, "a", 8, user("u"))
		a := w.check(b, 3, user("u"), budget.LimitExceeded)
		e := a.Err.(*budget.Error) //nolint:errorlint // it is one
		named := map[string]bool{}
		for _, l := range e.Limits {
			named[l.Limit] = true
		}
		if len(named) != 2 || !named["day"] || !named["year"] || e.Limit.Limit != "year" ||
			e.RetryAfter <= 0 || len(a.Limits) != 3 {
			t.Errorf("%+v, %+v", e, a.Limits)
		}
		out := w.deduct(b, "b", 3, user("u"))
		if out.Verdict != bucket.Limited || len(out.Refused) != 2 {
			t.Errorf("a deduct is refused by %v", out.Refused)
		}
	})
}

// TestCheckAgreesWithDeduct checks that a check predicts what a deduct does on the days when clocks
// change, and after a limit has changed from a day to a month.
func TestCheckAgreesWithDeduct(t *testing.T) {
	each(t, func(w *world) {
		zone, err := iana.Zone("Europe/Berlin")
		w.OK(err)
		year := w.DB.Now().Year() + 1
		for _, day := range []time.Time{lastSunday(year, time.March, zone),
			lastSunday(year, time.October, zone)} {
			b := w.make("dst"+day.Format("0102"), 10_000, limits(
				perUser("day", 24, budget.MeasureAmount, budget.Day, "Europe/Berlin")))
			w.Clock.Advance(day.Add(-2 * time.Hour).Sub(w.DB.Now()))
			for hour := range 30 {
				id := fmt.Sprint("h", hour)
				b = w.find(b.ID)
				a := w.d.Check(w.Ctx, []bucket.CheckRequest{ask(b, 3, user("u"))})[0]
				out := w.deduct(b, id, 3, user("u"))
				if (a.Err == nil) != (out.Verdict == bucket.Accepted) {
					t.Errorf("%v: check %v, deduct %d", w.DB.Now().In(zone), a.Err, out.Verdict)
				}
				w.Clock.Advance(time.Hour)
			}
			hours := int64(day.AddDate(0, 0, 1).Sub(day).Hours()) // 23 or 25
			if got, want := w.used(b, "u"), 2*3+24+(30-2-hours)*3; got != want || hours == 24 {
				t.Errorf("used %d, want %d", got, want)
			}
		}
	})
}

func lastSunday(year int, month time.Month, zone *time.Location) time.Time {
	d := time.Date(year, month+1, 1, 0, 0, 0, 0, zone).AddDate(0, 0, -1)
	return d.AddDate(0, 0, -int(d.Weekday()))
}

func (w *world) used(b *bucket.Budget, name string) int64 {
	w.Helper()
	got, err := w.s.Usage(w.Ctx, bucket.UsageRequest{Budget: bucket.BudgetRef{ID: b.ID},
		Dimensions: user(name)})
	w.OK(err)
	return got.Amount
}

// TestCheckOfAChangedLimit checks that what was counted by the day counts by the month at once,
// before any deduction has loaded the counter, and that rollbacks are subtracted.
func TestCheckOfAChangedLimit(t *testing.T) {
	each(t, func(w *world) {
		now := w.DB.Now()
		begin := time.Date(now.Year(), now.Month()+1, 10, 12, 0, 0, 0, time.UTC)
		b := w.make("b", 1000, limits(perUser("l", 10, budget.MeasureAmount, budget.Day, "")))
		w.Clock.Advance(begin.Sub(now))
		for day := range 3 {
			w.accepted(w.find(b.ID), fmt.Sprint("d", day), 10, user("u"))
			w.Clock.Advance(24 * time.Hour)
		}
		_, err := hold.NewLedger(w.DB).Execute(w.Ctx, []hold.Order{{Kind: hold.Rollback, Budget: b.ID,
			RequestID: "d1", RollbackID: "r", Amount: 4}})
		w.OK(err)
		w.check(b, 10, user("u"), "")
		list := []budget.Limit{perUser("l", 30, budget.MeasureAmount, budget.Month, "")}
		_, err = w.defs.Change(w.Ctx, b.ID, bucket.Change{Limits: &list})
		w.OK(err)
		b = w.find(b.ID)
		a := w.check(b, 5, user("u"), budget.LimitExceeded)
		if len(a.Limits) != 1 || a.Limits[0].Used != 26 || a.Limits[0].Max != 30 {
			t.Errorf("%+v", a.Limits)
		}
		w.check(b, 4, user("u"), "")
		if n := w.rows(`SELECT COUNT(*) FROM deduction WHERE budget_id = ?`, b.ID); n != 3 {
			t.Errorf("%d rows after checks", n)
		}
		if out := w.deduct(b, "over", 5, user("u")); out.Verdict != bucket.Limited {
			t.Errorf("a deduct gets %d", out.Verdict)
		}
		w.accepted(b, "fits", 4, user("u"))
	})
}

func (w *world) rows(query string, args ...any) (n int64) {
	w.Helper()
	w.OK(w.DB.Read(w.Ctx, "test", func(r *engine.Reader) error {
		_, err := r.Get(&n, query, args...)
		return err
	}))
	return n
}

// TestDryRun checks that a recorded id gets the answer of a repeat, and that nothing is written.
func TestDryRun(t *testing.T) {
	each(t, func(w *world) {
		b := w.make("b", 100)
		w.accepted(b, "known", 7, user("u"))
		_, err := hold.NewLedger(w.DB).Execute(w.Ctx, []hold.Order{{Kind: hold.Cancel, Budget: b.ID,
			RequestID: "void"}})
		w.OK(err)
		ref := bucket.BudgetRef{ID: b.ID}
		for _, one := range []struct {
			request bucket.DeductRequest
			want    budget.Code
		}{
			{bucket.DeductRequest{RequestID: "new", Amount: 93}, ""},
			{bucket.DeductRequest{RequestID: "new", Amount: 94}, budget.BudgetExhausted},
			{bucket.DeductRequest{RequestID: "known", Amount: 8, Dimensions: user("u")}, budget.RequestConflict},
			{bucket.DeductRequest{RequestID: "void", Amount: 1}, budget.RequestVoid},
			{bucket.DeductRequest{RequestID: "new", Amount: 1, Group: "g"}, budget.Invalid},
		} {
			one.request.Budget = ref
			a, err := w.d.DryRun(w.Ctx, one.request)
			if err != nil || codeOf(a.Err) != one.want || a.Recorded != nil || a.Amount != one.request.Amount {
				t.Errorf("%+v: %+v, %v", one.request, a, err)
			}
		}
		a, err := w.d.DryRun(w.Ctx, bucket.DeductRequest{Budget: ref, RequestID: "known", Amount: 7,
			Dimensions: user("u")})
		if r := a.Recorded; err != nil || a.Err != nil || r == nil || !r.Replayed || r.Amount != 7 ||
			r.Bucket != b.Route("known").Key || r.BucketRemaining != 43 || r.BudgetRemaining != 93 ||
			r.State != ledger.StateUsed || r.Receipt == "" {
			t.Errorf("%+v, %+v, %v", a, a.Recorded, err)
		}
		if n := w.rows(`SELECT COUNT(*) FROM deduction WHERE budget_id = ?`, b.ID); n != 2 {
			t.Errorf("%d rows", n)
		}
		if _, err := w.d.DryRun(w.Ctx, bucket.DeductRequest{Budget: bucket.BudgetRef{ID: 99}}); !budget.Is(err,
			budget.BudgetNotFound) {
			t.Error(err)
		}
	})
}

// TestUsage sums deductions that carry all of the values, within the span, with what was given
// back.
func TestUsage(t *testing.T) {
	each(t, func(w *world) {
		b, other := w.make("b", 1000), w.make("other", 1000)
		begin := w.DB.Now()
		both := map[string]string{"user": "u", "shop": "s"}
		w.accepted(b, "a", 10, both)
		w.accepted(other, "a", 10, both)
		w.Clock.Advance(time.Minute)
		w.accepted(b, "b", 20, both)
		w.accepted(b, "c", 30, user("u"))
		w.accepted(b, "d", 40, map[string]string{"user": "v", "shop": "s"})
		_, err := hold.NewLedger(w.DB).Execute(w.Ctx, []hold.Order{{Kind: hold.Rollback, Budget: b.ID,
			RequestID: "b", RollbackID: "r", Amount: 4}, {Kind: hold.Rollback, Budget: b.ID,
			RequestID: "b", RollbackID: "s", Amount: 5}, {Kind: hold.Rollback, Budget: b.ID, RequestID: "c"}})
		w.OK(err)
		for _, one := range []struct {
			dimensions map[string]string
			from, to   time.Time
			want       bucket.Usage
		}{
			{user("u"), time.Time{}, time.Time{}, bucket.Usage{Calls: 3, Amount: 60, RolledBack: 39}},
			{both, time.Time{}, time.Time{}, bucket.Usage{Calls: 2, Amount: 30, RolledBack: 9}},
			{both, begin.Add(time.Second), time.Time{}, bucket.Usage{Calls: 1, Amount: 20, RolledBack: 9}},
			{both, begin, begin.Add(time.Minute), bucket.Usage{Calls: 1, Amount: 10}},
			{user("nobody"), time.Time{}, time.Time{}, bucket.Usage{}},
		} {
			got, err := w.s.Usage(w.Ctx, bucket.UsageRequest{Budget: bucket.BudgetRef{ID: b.ID},
				Dimensions: one.dimensions, From: one.from, To: one.to})
			if err != nil || got != one.want {
				t.Errorf("%v from %v to %v: %+v, %v, want %+v", one.dimensions, one.from, one.to, got, err, one.want)
			}
		}
		if _, err := w.s.Usage(w.Ctx, bucket.UsageRequest{Budget: bucket.BudgetRef{ID: b.ID}}); !budget.Is(err,
			budget.Invalid) {
			t.Error(err)
		}
	})
}

// TestCheckOfADuePeriod checks that a period that is over is rolled over first, as for a deduct.
func TestCheckOfADuePeriod(t *testing.T) {
	each(t, func(w *world) {
		b := w.make("daily", 1000, func(d *budget.Definition) {
			d.Type, d.Timezone, d.StartAt = budget.Daily, "Europe/Berlin", w.DB.Now()
			d.Rule = &budget.Rule{Kind: budget.Calendar, Every: budget.Day, Quantity: 100,
				Unused: budget.Forfeit, Partial: budget.Whole}
		})
		w.accepted(b, "a", 30, nil)
		a := w.check(b, 71, nil, budget.PeriodExhausted)
		if a.PeriodRemaining == nil || *a.PeriodRemaining != 70 || a.BudgetRemaining != 970 {
			t.Errorf("%+v", a)
		}
		w.Clock.Advance(25 * time.Hour)
		got := w.d.Check(w.Ctx, []bucket.CheckRequest{ask(b, 100, nil), ask(b, 101, nil)})
		if got[0].Err != nil || *got[0].PeriodRemaining != 100 || w.turns != 1 ||
			codeOf(got[1].Err) != budget.BudgetExhausted { // no period ever has more than 100
			t.Errorf("%+v, %d turns", got, w.turns)
		}
	})
}

// TestStoreMode checks that calls that need rows name themselves when they refuse a budget in store
// mode.
func TestStoreMode(t *testing.T) {
	each(t, func(w *world) {
		b := w.make("b", 100)
		w.Exec([]any{`UPDATE budget_management_bucket SET durability = 'store' WHERE id = ?`, b.ID})
		b = w.find(b.ID)
		_, summed := w.s.Usage(w.Ctx, bucket.UsageRequest{Budget: bucket.BudgetRef{ID: b.ID}})
		_, nearest := w.s.Nearest(w.Ctx, bucket.NearestRequest{Budget: bucket.BudgetRef{ID: b.ID}})
		for call, err := range map[string]error{"usage": summed, "nearest": nearest} {
			if !budget.Is(err, budget.LedgerModeOnly) || !strings.Contains(err.Error(), call+" needs the rows") {
				t.Errorf("%s: %v", call, err)
			}
		}
	})
}
