package usage_test

import (
	"testing"
	"time"

	"github.com/budgetd/budgetd/bucket"
	"github.com/budgetd/budgetd/bucket/audit"
	"github.com/budgetd/budgetd/bucket/hold"
	"github.com/budgetd/budgetd/budget"
	"github.com/budgetd/budgetd/ledger"
)

// quiet observes nothing that a sound budget shows.
type quiet struct{ bucket.Observer }

func (quiet) Discrepancies(int, int64) {}
func (quiet) Halted()                  {}

// held commits a hold of which more may be confirmed.
func (w *world) held(b *bucket.Budget, id string, amount int64, counts map[string]int64) {
	w.Helper()
	op := bucket.Operation{Budget: b, Bucket: b.Route(id).ID, Request: ledger.Request{ID: id, Amount: amount,
		Nonce: "nonce...", Dimensions: ledger.Dimensions(user("u")), HoldTTL: int64(time.Hour / time.Millisecond),
		Above: ledger.AboveAvailable, Counts: ledger.Counts(counts)}}
	op.Request.Fingerprint = ledger.RequestFingerprint(amount, "", op.Request)
	op.Charges, _ = b.LimitSet().Charges(amount, user("u"), counts)
	out, err := w.commits.Commit(w.Ctx, []bucket.Operation{op})
	w.OK(err)
	if out[0].Verdict != bucket.Accepted {
		w.Fatalf("%s: verdict %d", id, out[0].Verdict)
	}
}

// settles confirms a hold, twice, and compares what was taken above it and whether that passed a
// limit.
func (w *world) settles(b *bucket.Budget, id string, actual, extra int64, over bool) {
	w.Helper()
	for range 2 {
		d := w.order(b, hold.Order{Kind: hold.Confirm, RequestID: id, Amount: actual})
		if d.Extra != extra || d.OverLimit != over {
			w.Errorf("confirm of %d of %q: %d extra, over %v; want %d, %v", actual, id, d.Extra, d.OverLimit,
				extra, over)
		}
	}
	w.Check()
}

func (w *world) order(b *bucket.Budget, o hold.Order) ledger.Deduction {
	w.Helper()
	o.Budget = b.ID
	got, err := hold.NewLedger(w.DB).Execute(w.Ctx, []hold.Order{o})
	w.OK(err)
	w.OK(got[0].Err)
	return got[0].Deduction
}

// counts compares what limits count of the value u now, and audits the budget, its counters too.
func (w *world) counts(b *bucket.Budget, want map[string]int64) {
	w.Helper()
	charges, _ := b.LimitSet().Charges(1, user("u"), nil)
	got, err := w.commits.Usages(w.Ctx, []bucket.Charged{{Budget: b.ID, Charges: charges}})
	w.OK(err)
	for i, usage := range got[0] {
		if used, _ := usage.Used(); used != want[charges[i].Limit.Name] {
			w.Errorf("limit %s counts %d, want %d", charges[i].Limit.Name, used, want[charges[i].Limit.Name])
		}
	}
	report, err := audit.New(audit.Config{DB: w.DB, Budgets: w.budgets,
		Observer: quiet{}}).Audit(w.Ctx, bucket.BudgetRef{ID: b.ID})
	if err != nil || !report.OK {
		w.Errorf("audit: %v, %v", report.Discrepancies, err)
	}
}

// TestExtrasCountOnLimits checks that what a confirm takes above its hold counts on limits of
// amounts in the window of the confirm, is never refused by them, and is lowered there.
func TestExtrasCountOnLimits(t *testing.T) {
	minute := budget.LimitWindow{Kind: budget.WindowCalendar, Every: budget.Minute}
	each(t, func(w *world) {
		calls := window("calls", 50, minute)
		calls.Measure = budget.MeasureCount
		b := w.make("b", 200, limits(window("minute", 50, minute), window("sliding", 60, sliding),
			window("own", 50, minute), calls))
		w.held(b, "a", 10, map[string]int64{"own": 3})
		w.counts(b, map[string]int64{"minute": 10, "sliding": 10, "own": 3, "calls": 1})
		w.Clock.Advance(time.Minute)
		w.settles(b, "a", 30, 20, false) // of its bucket
		w.counts(b, map[string]int64{"minute": 20, "sliding": 30, "own": 0, "calls": 0})
		w.held(b, "b", 5, nil)
		w.settles(b, "b", 101, 96, true) // of both
		w.counts(b, map[string]int64{"minute": 121, "sliding": 131, "own": 101, "calls": 1})
		if out := w.deduct(b, "more", 1, user("u")); out.Verdict != bucket.Limited {
			t.Errorf("a deduct gets %d", out.Verdict)
		}
		w.order(b, hold.Order{Kind: hold.Rollback, RequestID: "b", RollbackID: "part", Amount: 90})
		w.counts(b, map[string]int64{"minute": 31, "sliding": 41, "own": 11, "calls": 1})
		w.accepted(b, "fits", 19, user("u"))
		w.order(b, hold.Order{Kind: hold.Rollback, RequestID: "a"})
		w.counts(b, map[string]int64{"minute": 30, "sliding": 30, "own": 30, "calls": 2})
		w.settles(b, "b", 101, 96, true)
	})
}

// TestExtrasPassLimits compares over_limit with the bound of the value, at and above it.
func TestExtrasPassLimits(t *testing.T) {
	each(t, func(w *world) {
		off := window("off", 1, daily)
		off.Enforce = false
		b := w.make("b", 1000, limits(window("one", 30, daily), off))
		w.held(b, "a", 10, nil)
		w.settles(b, "a", 30, 20, false)
		w.override(b, own("u", 55))
		b = w.find(b.ID)
		w.held(b, "b", 10, nil)
		w.settles(b, "b", 25, 15, false)
		w.override(b, own("u", 80))
		w.held(b, "c", 10, nil)
		w.settles(b, "c", 26, 16, true)
		w.override(b, []budget.Override{{Value: "u", Exempt: true}})
		w.held(b, "d", 10, nil)
		w.settles(b, "d", 700, 690, false) // of both
		w.counts(b, map[string]int64{"one": 781, "off": 781})
	})
}

// TestExtrasOfAChangedLimit checks that a limit which has changed counts deductions and extras of
// the ledger, each at its own time, before it counts and judges another extra.
func TestExtrasOfAChangedLimit(t *testing.T) {
	each(t, func(w *world) {
		now := w.DB.Now()
		b := w.make("b", 200, limits(window("one", 100, daily)))
		w.Clock.Advance(now.Truncate(24 * time.Hour).Add(36 * time.Hour).Sub(now))
		w.held(b, "a", 10, nil)
		w.Clock.Advance(10 * time.Minute)
		w.settles(b, "a", 40, 30, false)
		w.Clock.Advance(10 * time.Minute)
		w.held(b, "b", 10, nil)
		w.held(b, "c", 10, nil)
		hour := budget.LimitWindow{Kind: budget.WindowSliding, Length: 25 * time.Minute, Slot: time.Minute}
		for i, most := range []int64{95, 94} {
			list := []budget.Limit{window("one", most, hour)}
			if i == 1 {
				list[0].Window.Length += time.Minute
			}
			_, err := w.defs.Change(w.Ctx, b.ID, bucket.Change{Limits: &list})
			w.OK(err)
			b = w.find(b.ID)
			// Of its bucket, and then of both.
			w.settles(b, []string{"b", "c"}[i], []int64{25, 30}[i], []int64{15, 20}[i], i == 1)
		}
		w.counts(b, map[string]int64{"one": 95})
		w.Clock.Advance(7 * time.Minute) // the deduction "a" has left the window, its extra has not
		w.counts(b, map[string]int64{"one": 85})
	})
}

// TestUsageOfExtras sums what was taken above holds by its own time.
func TestUsageOfExtras(t *testing.T) {
	each(t, func(w *world) {
		b := w.make("b", 200)
		begin := w.DB.Now()
		w.held(b, "a", 10, nil)
		w.held(b, "b", 10, nil)
		w.settles(b, "a", 13, 3, false)
		w.Clock.Advance(time.Minute)
		w.settles(b, "b", 15, 5, false)
		w.order(b, hold.Order{Kind: hold.Rollback, RequestID: "b", RollbackID: "part", Amount: 7})
		for _, one := range []struct {
			from, to time.Time
			want     bucket.Usage
		}{
			{time.Time{}, time.Time{}, bucket.Usage{Calls: 2, Amount: 28, RolledBack: 7}},
			{begin, begin.Add(time.Second), bucket.Usage{Calls: 2, Amount: 23, RolledBack: 2}},
			{begin.Add(time.Second), time.Time{}, bucket.Usage{Amount: 5, RolledBack: 5}},
		} {
			got, err := w.s.Usage(w.Ctx, bucket.UsageRequest{Budget: bucket.BudgetRef{ID: b.ID},
				Dimensions: user("u"), From: one.from, To: one.to})
			if err != nil || got != one.want {
				t.Errorf("from %v to %v: %+v, %v, want %+v", one.from, one.to, got, err, one.want)
			}
		}
	})
}

// TestLateConfirmsCountOnLimits checks that a confirm after the expiry counts as a new deduction, at
// its own time, after the hold no longer counts.
func TestLateConfirmsCountOnLimits(t *testing.T) {
	minute := budget.LimitWindow{Kind: budget.WindowCalendar, Every: budget.Minute}
	ever := budget.LimitWindow{Kind: budget.WindowLifetime}
	each(t, func(w *world) {
		calls := window("calls", 50, minute)
		calls.Measure = budget.MeasureCount
		b := w.make("b", 200, limits(window("ever", 12, ever),
			window("minute", 50, minute), window("own", 50, minute), calls))
		w.held(b, "a", 10, map[string]int64{"own": 3})
		w.Clock.Advance(time.Hour)
		w.settles(b, "a", 12, 12, false) // of its bucket; the hold was due
		w.counts(b, map[string]int64{"ever": 12, "minute": 12, "own": 3, "calls": 1})
		w.order(b, hold.Order{Kind: hold.Rollback, RequestID: "a", RollbackID: "part", Amount: 4})
		w.counts(b, map[string]int64{"ever": 8, "minute": 8, "own": 2, "calls": 1})
		w.order(b, hold.Order{Kind: hold.Rollback, RequestID: "a"})
		w.counts(b, map[string]int64{"ever": 0, "minute": 0, "own": 0, "calls": 0})
		w.held(b, "b", 10, map[string]int64{"own": 7})
		w.Clock.Advance(time.Hour)
		w.settles(b, "b", 150, 150, true) // of both
		w.counts(b, map[string]int64{"ever": 150, "minute": 150, "own": 7, "calls": 1})
		list := []budget.Limit{window("calls", 50, daily)}
		list[0].Measure = budget.MeasureCount
		_, err := w.defs.Change(w.Ctx, b.ID, bucket.Change{Limits: &list})
		w.OK(err)
		w.counts(w.find(b.ID), map[string]int64{"calls": 1}) // of the ledger
	})
}
