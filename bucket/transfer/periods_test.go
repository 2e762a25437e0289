package transfer_test

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/budgetd/budgetd/bucket"
	"github.com/budgetd/budgetd/bucket/hold"
	"github.com/budgetd/budgetd/bucket/transfer"
	"github.com/budgetd/budgetd/budget"
	"github.com/budgetd/budgetd/internal/sql/engine"
	"github.com/budgetd/budgetd/ledger"
	"github.com/budgetd/budgetd/ledger/books"
)

// rollOver rolls over a budget that is due.
func (w *world) rollOver(id int64) transfer.RolledOver {
	w.Helper()
	done := must(w.rolledOver(id))(w)
	equal(w, "rolled over", done.Done, true)
	return done
}

// holds compares F, U + ΣO, R, S and X, and proves I1.
func (w *world) holds(what string, id int64, figures [5]int64) {
	w.Helper()
	f := w.figures(id)
	got := [5]int64{f.Unfunded, f.Undistributed + f.InBuckets, f.Returning, f.Used, f.Forfeited}
	if got != figures {
		w.Errorf("%s: F, U + O, R, S, X are %v, want %v", what, got, figures)
	}
	w.conserved(id)
}

func (w *world) period(id, number int64) ledger.PeriodFigures {
	w.Helper()
	for _, p := range w.periods(id) {
		if p.Number == number {
			return p
		}
	}
	w.Fatalf("no period %d", number)
	return ledger.PeriodFigures{}
}

// gone compares what a period was funded with, what it carried, and what left it to F, to later
// periods and to X.
func (w *world) gone(what string, id, number int64, figures [5]int64) {
	w.Helper()
	p := w.period(id, number)
	if got := [5]int64{p.Funded, p.Carried, p.Returned, p.Passed, p.Forfeited}; got != figures {
		w.Errorf("%s: period %d got and gave back %v, want %v", what, number, got, figures)
	}
}

func TestOver(t *testing.T) {
	everywhere(t, func(w *world) {
		a := w.daily("a", 1000, day(""))
		b := w.daily("b", 1000, budget.Rule{Kind: budget.Calendar, Every: budget.Hour, Quantity: 1})
		w.create(promo("promo", 10, 1))
		over := func(limit int) []int64 { return must(w.part.Over(w.ctx, limit))(w) }
		w.until(time.Hour - time.Millisecond)
		equal(w, "before any end", len(over(10)), 0)
		w.until(dayLong)
		if got := over(10); !slices.Equal(got, []int64{b.ID, a.ID}) {
			w.Errorf("over %v, want %v and %v", got, b.ID, a.ID)
		}
		if got := over(1); !slices.Equal(got, []int64{b.ID}) {
			w.Errorf("the first of those over: %v", got)
		}
		w.rollOver(a.ID)
		w.rollOver(b.ID)
		equal(w, "after the rollovers", len(over(10)), 0)
	})
}

func TestRollOverAtTheEnd(t *testing.T) {
	everywhere(t, func(w *world) {
		b := w.daily("b", 1000, day(""))
		w.use(b.Buckets[0].ID, "a", 15)
		w.until(dayLong - time.Millisecond)
		equal(w, "before the end", must(w.rolledOver(b.ID))(w).Done, false)
		equal(w, "nothing has changed", w.read(b.ID).ListVersion, b.ListVersion)
		w.until(dayLong)
		done := w.rollOver(b.ID)
		w.lies("the second day", b.ID, 20, 20)
		read := w.read(b.ID)
		period := budget.Period{Number: 2, Start: start.Add(dayLong), End: start.Add(2 * dayLong)}
		equal(w, "period", read.Period, period)
		equal(w, "period answered", done.Period, period)
		equal(w, "buckets", done.Buckets, 2)
		for i := range read.Buckets {
			e := read.Buckets[i].Epoch
			equal(w, "epoch", e.Number, 2)
			equal(w, "its period", e.Period, 2)
			equal(w, "its end", e.EndAt, period.End)
			equal(w, "out_cnt", read.Buckets[i].OutCnt, 1)
			equal(w, "its units", e.Outstanding, 20)
		}
		w.holds("after the first day", b.ID, [5]int64{945, 40, 0, 15, 0})
		w.gone("the first day", b.ID, 1, [5]int64{40, 0, 25, 0, 0})
		equal(w, "a second rollover", must(w.rolledOver(b.ID))(w).Done, false)
		w.use(b.Buckets[1].ID, "b", 20)
		_, err := w.rolledOver(1 << 40)
		w.refused(err, budget.BudgetNotFound)
	})
}

func TestRollOverByUnused(t *testing.T) {
	everywhere(t, func(w *world) {
		for _, tc := range []struct {
			unused     budget.Where
			most       int64 // max_rollover
			holds      [5]int64
			gone, next [5]int64
		}{
			{budget.Spread, 0, [5]int64{930, 40, 0, 30, 0}, [5]int64{40, 0, 10, 0, 0}, [5]int64{40}},
			{budget.Next, 4, [5]int64{926, 44, 0, 30, 0}, [5]int64{40, 0, 6, 4, 0}, [5]int64{40, 4}},
			{budget.Next, 0, [5]int64{920, 50, 0, 30, 0}, [5]int64{40, 0, 0, 10, 0}, [5]int64{40, 10}},
			{budget.Forfeit, 0, [5]int64{920, 40, 0, 30, 10}, [5]int64{40, 0, 0, 0, 10}, [5]int64{40}},
		} {
			rule, name := day(tc.unused), fmt.Sprint(tc.unused, "-", tc.most)
			rule.MaxRollover = tc.most
			b := w.daily(name, 1000, rule)
			w.use(b.Buckets[0].ID, "a", 20)
			w.use(b.Buckets[1].ID, "b", 10)
			w.until(dayLong)
			w.rollOver(b.ID)
			w.holds(name, b.ID, tc.holds)
			w.gone(name, b.ID, 1, tc.gone)
			w.gone(name, b.ID, 2, tc.next)
		}
	})
}

func TestRollOverSeveralMissedPeriods(t *testing.T) {
	everywhere(t, func(w *world) {
		b := w.daily("b", 1000, day(budget.Next))
		w.use(b.Buckets[0].ID, "a", 10)
		w.until(4*dayLong + time.Hour)
		equal(w, "period", w.rollOver(b.ID).Period.Number, 5)
		w.holds("after four days", b.ID, [5]int64{800, 190, 0, 10, 0})
		w.gone("a missed day", b.ID, 3, [5]int64{40, 70, 0, 110, 0})
		w.gone("today", b.ID, 5, [5]int64{40, 150, 0, 0, 0})
		c := w.daily("c", 1000, day(budget.Forfeit))
		w.until(30 * dayLong)
		w.rollOver(c.ID)
		w.holds("all of it has expired", c.ID, [5]int64{0, 0, 0, 0, 1000})
	})
}

// TestRollOverMoreThanAtOnce checks that a rollover over more missed periods than one transaction
// handles takes several transactions.
func TestRollOverMoreThanAtOnce(t *testing.T) {
	everywhere(t, func(w *world) {
		hours := budget.Rule{Kind: budget.Calendar, Every: budget.Hour, Quantity: 1, Unused: budget.Next}
		b := w.daily("b", 2000, hours)
		w.until((books.PeriodsAtOnce + 10) * time.Hour)
		equal(w, "period", w.rollOver(b.ID).Period.Number, books.PeriodsAtOnce+11)
		w.holds("what all hours left", b.ID,
			[5]int64{2000 - books.PeriodsAtOnce - 11, books.PeriodsAtOnce + 11, 0, 0, 0})
		equal(w, "due", len(must(w.part.Over(w.ctx, 10))(w)), 0)
	})
}

// TestRollOverOfManyBuckets checks that all buckets of a budget follow in one transaction, with their
// epochs, grants and counts.
func TestRollOverOfManyBuckets(t *testing.T) {
	everywhere(t, func(w *world) {
		const n = 130
		rule := day(budget.Spread)
		rule.Quantity = 10 * n
		b := w.daily("b", 1_000_000, rule, func(d *budget.Definition) { d.BucketQuantity = n })
		w.use(b.Buckets[n-1].ID, "a", 4)
		w.until(dayLong)
		done := w.rollOver(b.ID)
		equal(w, "buckets", done.Buckets, n)
		equal(w, "units", done.Units, 10*n)
		held := w.outstanding(b.ID)
		if slices.Min(held) != 10 || slices.Max(held) != 10 {
			w.Errorf("buckets hold %d to %d, want 10", slices.Min(held), slices.Max(held))
		}
		w.holds("the second day", b.ID, [5]int64{1_000_000 - 10*n - 4, 10 * n, 0, 4, 0})
		w.gone("the first day", b.ID, 1, [5]int64{10 * n, 0, 10*n - 4, 0, 0})
		equal(w, "due", len(must(w.part.Over(w.ctx, 10))(w)), 0)
		for i, bk := range w.read(b.ID).Buckets {
			if bk.OutCnt != 1 || bk.Epoch.Number != 2 || bk.Epoch.Status != ledger.Open {
				w.Fatalf("bucket %d: %+v", i, bk)
			}
		}
	})
}

func TestRollOverLeavesAHaltedEpoch(t *testing.T) {
	everywhere(t, func(w *world) {
		b := w.daily("b", 1000, day(budget.Spread))
		w.change(func(t *engine.Tx) error {
			return t.Hit(1, `UPDATE bucket_epoch SET halted = 'broken' WHERE bucket_id = ?`,
				b.Buckets[0].ID)
		})
		w.until(dayLong)
		w.rollOver(b.ID)
		equal(w, "alive", w.read(b.ID).Buckets[0].Epoch.Status, ledger.Open)
		equal(w, "of its period", w.read(b.ID).Buckets[0].Epoch.Period, 1)
		w.lies("the other gets the day", b.ID, 20, 40)
	})
}

func TestRollOverOfTheLastPeriod(t *testing.T) {
	everywhere(t, func(w *world) {
		for _, tc := range []struct {
			unused              budget.Where
			unfunded, forfeited int64
		}{{budget.Spread, 990, 0}, {budget.Next, 990, 0}, {budget.Forfeit, 960, 30}} {
			b := w.daily(string(tc.unused), 1000, day(tc.unused),
				func(d *budget.Definition) { d.EndAt = start.Add(dayLong) })
			w.use(b.Buckets[0].ID, "a", 10)
			w.until(dayLong)
			done := w.rollOver(b.ID)
			if p := done.Period; !p.Over || p.Number != 2 || done.Buckets > 0 {
				w.Errorf("after the last: %+v", done)
			}
			w.holds("expired", b.ID, [5]int64{tc.unfunded, 0, 0, 10, tc.forfeited})
			equal(w, "online", w.figures(b.ID).Online, 0)
			equal(w, "offline by", w.read(b.ID).Buckets[0].OfflineBy, bucket.ByService)
			equal(w, "due", len(must(w.part.Over(w.ctx, 10))(w)), 0)
			equal(w, "distributed", must(w.part.Distribute(w.ctx, b.ID))(w).Units, 0)
			equal(w, "applied", w.apply(b.ID, b.Buckets[0].ID, 1), 0)
			_, err := w.part.ApplyTo(w.ctx, b.ID, b.Buckets[0].ID)
			w.refused(err, budget.BudgetExpired)

			w.endAt(b.ID, start.Add(3*dayLong))
			again := w.rollOver(b.ID)
			equal(w, "begun again", again.Period, budget.Period{Number: 3, Start: start.Add(dayLong),
				End: start.Add(2 * dayLong)})
			w.holds("begun again", b.ID, [5]int64{tc.unfunded - 40, 40, 0, 10, tc.forfeited})
			equal(w, "online", w.figures(b.ID).Online, 2)
			w.use(b.Buckets[1].ID, "b", 20)
		}
	})
}

// endAt gives a budget another end after its periods are over, as a change of the definition does.
func (w *world) endAt(id int64, end time.Time) {
	w.Helper()
	w.change(func(t *engine.Tx) error {
		return t.Hit(1, `UPDATE budget_management_bucket SET end_ms = ?, roll_over_ms = ? WHERE id = ?`,
			engine.ToMS(end), engine.ToMS(t.Now), id)
	})
}

// ruleOf changes a budget's rule now and ends its period, as a change of the definition does.
func (w *world) ruleOf(id int64, rule string) {
	w.Helper()
	w.change(func(t *engine.Tx) error {
		now := engine.ToMS(t.Now)
		err := t.Hit(1, `UPDATE budget_management_bucket SET type_rule = ?, period_end_ms = ?,
			roll_over_ms = ? WHERE id = ?`, []byte(rule), now, now, id)
		if err != nil {
			return err
		}
		if err := t.Hit(1, `UPDATE budget_period SET end_ms = ? WHERE budget_id = ? AND number = 1`,
			now, id); err != nil {
			return err
		}
		_, err = t.Exec(`UPDATE bucket_epoch SET period_end_ms = ? WHERE budget_id = ?
			AND status = 'open'`, now, id)
		return err
	})
}

// TestRollOverAfterAChangeOfTheRule checks that units used since the start of the new rule's period
// count in that period.
func TestRollOverAfterAChangeOfTheRule(t *testing.T) {
	everywhere(t, func(w *world) {
		b := w.daily("b", 1000, day(budget.Forfeit))
		w.use(b.Buckets[0].ID, "a", 15)
		w.until(10 * time.Hour)
		w.ruleOf(b.ID, `{"kind":"calendar","every":"day","quantity":30,"unused":"forfeit"}`)
		done := w.rollOver(b.ID)
		equal(w, "the rest of the day", done.Period, budget.Period{Number: 2, Start: start,
			End: start.Add(dayLong)})
		w.gone("the day as it was", b.ID, 1, [5]int64{40, 0, 25, 0, 0})
		w.gone("the day as it is", b.ID, 2, [5]int64{15, 0, 0, 0, 0})
		equal(w, "used before", w.period(b.ID, 2).Before, 15)

		week := budget.Rule{Kind: budget.Calendar, Every: budget.Week, Quantity: 200}
		c := w.daily("c", 1000, week)
		w.use(c.Buckets[0].ID, "monday", 30)
		d := w.daily("d", 1000, week) // what confirms take above their holds counts by its own time
		w.use(d.Buckets[0].ID, "early", 10)
		w.use(d.Buckets[0].ID, "late", 10)
		w.settle(d, "early", 17, 0)
		w.until(2*dayLong + time.Hour)
		w.use(c.Buckets[0].ID, "wednesday", 20)
		w.giveBack(c.ID, "monday", "r1", 5, false)
		w.giveBack(c.ID, "wednesday", "r2", 8, false)
		w.ruleOf(c.ID, `{"kind":"calendar","every":"day","quantity":50}`)
		w.rollOver(c.ID)
		equal(w, "used since midnight", w.period(c.ID, 2).Before, 12)
		w.gone("the rest of Wednesday", c.ID, 2, [5]int64{38, 0, 0, 0, 0})

		w.settle(d, "late", 31, 4)
		w.ruleOf(d.ID, `{"kind":"calendar","every":"day","quantity":50}`)
		w.rollOver(d.ID)
		equal(w, "used since midnight, above holds", w.period(d.ID, 2).Before, 17)
	})
}

// settle makes a deduction a hold, confirms it above that, and gives a part back.
func (w *world) settle(b bucket.Budget, id string, actual, back int64) {
	w.Helper()
	w.change(func(t *engine.Tx) error {
		err := t.Hit(1, `INSERT INTO hold (budget_id, request_id, state, hold_until_ms, due_ms, bucket_id,
			epoch, above) SELECT budget_id, request_id, 'held', ?, ?, bucket_id, epoch, 'available'
			FROM deduction WHERE budget_id = ? AND request_id = ?`, engine.ToMS(t.Now)+1000,
			engine.ToMS(t.Now)+1000, b.ID, []byte(id))
		if err != nil {
			return err
		}
		_, err = t.Exec(`UPDATE bucket_epoch SET held_quantity = 10, used_quantity = used_quantity - 10
			WHERE budget_id = ? AND status = 'open' AND used_quantity >= 10`, b.ID)
		return err
	})
	orders := []hold.Order{{Kind: hold.Confirm, Budget: b.ID, RequestID: id, Amount: actual},
		{Kind: hold.Rollback, Budget: b.ID, RequestID: id, RollbackID: "part", Amount: back}}
	for i, o := range orders {
		if i == 1 && back == 0 {
			break
		}
		got, err := hold.NewLedger(w.db).Execute(w.ctx, []hold.Order{o})
		w.ok(err)
		w.ok(got[0].Err)
	}
}
