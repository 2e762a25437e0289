package audit_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/budgetd/budgetd/bucket"
	"github.com/budgetd/budgetd/bucket/hold"
	"github.com/budgetd/budgetd/bucket/transfer"
	"github.com/budgetd/budgetd/budget"
	"github.com/budgetd/budgetd/internal/proof/fixture"
	"github.com/budgetd/budgetd/ledger"
)

// history makes a budget of three buckets with every kind of event: deductions, holds with every
// end, rollbacks into O and into R, an ended epoch and its successor.
func (w *world) history(name string) *bucket.Budget {
	w.Helper()
	b := w.make(name, 3000, 3)
	for i := range 3 {
		w.deduct(operation(b, i, fmt.Sprint("used", i), 100),
			operation(b, i, fmt.Sprint("back", i), 50), operation(b, i, fmt.Sprint("part", i), 40),
			operation(b, i, fmt.Sprint("held", i), 30, asHold),
			operation(b, i, fmt.Sprint("sure", i), 20, asHold))
		w.settle(hold.Order{Kind: hold.Rollback, Budget: b.ID, RequestID: fmt.Sprint("back", i)},
			hold.Order{Kind: hold.Rollback, Budget: b.ID, RequestID: fmt.Sprint("part", i), RollbackID: "r",
				Amount: 7},
			hold.Order{Kind: hold.Confirm, Budget: b.ID, RequestID: fmt.Sprint("sure", i), Amount: 15})
	}
	moving := transfer.NewLedger(w.DB)
	_, err := moving.Offline(w.Ctx, b.ID, b.Buckets[0].ID, bucket.ByOperator)
	w.OK(err)
	_, err = moving.Online(w.Ctx, b.ID, b.Buckets[0].ID)
	w.OK(err)
	w.settle(hold.Order{Kind: hold.Rollback, Budget: b.ID, RequestID: "part0", RollbackID: "s", Amount: 3})
	w.settle(hold.Order{Kind: hold.Rollback, Budget: b.ID, RequestID: "held1", RollbackID: "h", Amount: 4})
	w.settle(hold.Order{Kind: hold.Cancel, Budget: b.ID, RequestID: "never"})
	w.deduct(operation(b, 1, "more", 10, asHold, above))
	w.settle(hold.Order{Kind: hold.Confirm, Budget: b.ID, RequestID: "more", Amount: 25})
	w.settle(hold.Order{Kind: hold.Rollback, Budget: b.ID, RequestID: "more", RollbackID: "m", Amount: 6})
	return w.find(b.ID)
}

// TestAuditOfTrueAccounts checks that an audit of correct accounts finds and halts nothing.
func TestAuditOfTrueAccounts(t *testing.T) {
	each(t, func(w *world) {
		b := w.history("true")
		w.clean(b)
		r := w.audit(b)
		f := r.Figures
		if f.Total != 3000 || f.Sum() != 3000 || f.Held != 3*30-4 || f.Used != 3*(100+33+15)-3+19 ||
			f.Online != 3 || f.PeriodUnits != 3000 || r.AtRisk != 0 {
			t.Errorf("%+v", f)
		}
		none := w.make("unlimited", 0, 2, func(d *budget.Definition) { d.Unlimited = true })
		w.deduct(operation(none, 0, "a", budget.MaxAmount), operation(none, 0, "over", 7),
			operation(none, 1, "b", 5),
			operation(none, 1, "c", 6, asHold))
		w.settle(hold.Order{Kind: hold.Rollback, Budget: none.ID, RequestID: "b", RollbackID: "r", Amount: 2})
		w.clean(none)
		if w.seen.books != 0 || w.seen.halts != 0 {
			t.Errorf("%+v", w.seen)
		}
	})
}

// TestAuditOfPeriods rolls days over, including days of 23 and 25 hours. Unused units are carried,
// returned or forfeited.
func TestAuditOfPeriods(t *testing.T) {
	eachFar(t, func(w *world) {
		moving := transfer.NewLedger(w.DB)
		begin := time.Date(w.DB.Now().Year()+1, time.March, 20, 0, 0, 0, 0, time.UTC)
		for _, unused := range []budget.Where{budget.Spread, budget.Forfeit, "next"} {
			b := w.make(string(unused), 1000, 3, func(d *budget.Definition) {
				d.Type, d.Timezone, d.StartAt, d.EndAt = budget.Daily, "Europe/Berlin", begin,
					begin.AddDate(0, 0, 20)
				d.Rule = &budget.Rule{Kind: budget.Calendar, Every: budget.Day, Unused: unused}
			})
			w.Clock.Advance(begin.Add(time.Hour).Sub(w.DB.Now()))
			for day := range 14 {
				w.advance(moving, b)
				b, _ = w.budgets.Reload(w.Ctx, b.ID)
				id := fmt.Sprint("d", day)
				out, err := w.commits.Commit(w.Ctx, []bucket.Operation{operation(b, day%3, id, 3, asHold),
					operation(b, day%3, id+"x", 4)})
				w.OK(err)
				if day > 2 && out[0].Verdict == bucket.Accepted {
					w.settle(hold.Order{Kind: hold.Confirm, Budget: b.ID, RequestID: id, Amount: 2})
				}
				if day > 3 {
					_, err = w.returns.Execute(w.Ctx, []hold.Order{{Kind: hold.Rollback, Budget: b.ID,
						RequestID: fmt.Sprint("d", day-3, "x"), RollbackID: "r", Amount: 1}})
					w.OK(err)
				}
				w.clean(b)
				w.Clock.Advance(24 * time.Hour)
			}
			if f := w.audit(b).Figures; f.Used == 0 || f.Sum() != 1000 || f.Period.Number < 14 {
				t.Errorf("%+v", f)
			}
			w.Clock.Advance(begin.AddDate(0, 1, 0).Sub(w.DB.Now()))
			begin = begin.AddDate(1, 0, 0)
		}
	})
}

// advance rolls a budget over if that is due, hands out and sweeps.
func (w *world) advance(moving *transfer.Ledger, b *bucket.Budget) {
	w.Helper()
	_, _, err := moving.RollOver(w.Ctx, b.ID)
	w.OK(err)
	_, err = moving.Sweep(w.Ctx, []int64{b.ID})
	w.OK(err)
	_, _, err = fixture.Distribute(w.Ctx, w.DB, b.ID)
	w.OK(err)
}

// broken is one unit or row that is changed by hand.
type broken struct {
	name string
	// statement has ? for the second bucket's id or the budget's.
	statement string
	ofBudget  bool
	// what is among the figures that are found. halts lists the epochs that are halted.
	what  string
	halts []string
}

var breaks = []broken{
	{"O", `UPDATE bucket_epoch SET outstanding_quantity = outstanding_quantity + 1 WHERE bucket_id = ?`,
		false, "outstanding", []string{"1:1"}},
	{"H", `UPDATE bucket_epoch SET held_quantity = held_quantity - 1 WHERE bucket_id = ?`,
		false, "held", []string{"1:1"}},
	{"S", `UPDATE bucket_epoch SET used_quantity = used_quantity + 1 WHERE bucket_id = ?`,
		false, "used", []string{"1:1"}},
	{"R", `UPDATE bucket_epoch SET returning_quantity = returning_quantity + 1 WHERE bucket_id = ?`,
		false, "returning", []string{"1:1"}},
	{"closed", `UPDATE bucket_epoch SET closed_quantity = closed_quantity + 1 WHERE bucket_id = ?`,
		false, "outstanding", []string{"1:1"}},
	{"swept", `UPDATE bucket_epoch SET swept_quantity = swept_quantity + 1 WHERE bucket_id = ?`,
		false, "returning", []string{"1:1"}},
	{"O to S", `UPDATE bucket_epoch SET outstanding_quantity = outstanding_quantity - 1,
		used_quantity = used_quantity + 1 WHERE bucket_id = ?`, false, "used", []string{"1:1"}},
	{"a grant", `UPDATE grant_log SET amount = amount + 1 WHERE bucket_id = ?`,
		false, "outstanding", []string{"1:1"}},
	{"no grant", `DELETE FROM grant_log WHERE bucket_id = ?`, false, "outstanding", []string{"1:1"}},
	{"an amount", `UPDATE deduction SET amount = amount + 1 WHERE bucket_id = ? AND request_id = x'7573656431'`,
		false, "used", []string{"1:1"}},
	{"no deduction", `DELETE FROM deduction WHERE bucket_id = ? AND request_id = x'7573656431'`,
		false, "used", []string{"1:1"}},
	{"no give-back", `DELETE FROM give_back WHERE bucket_id = ? AND request_id = x'6261636b31'`,
		false, "used", []string{"1:1"}},
	{"an extra", `UPDATE extra SET amount = amount + 1 WHERE bucket_id = ?`,
		false, "used", []string{"1:1"}},
	{"no extra", `DELETE FROM extra WHERE bucket_id = ?`, false, "used", []string{"1:1"}},
	{"a give-back to R", `UPDATE give_back SET is_direct = 0 WHERE bucket_id = ? AND request_id = x'6261636b31'`,
		false, "returning", []string{"1:1"}},
	{"a hold's state", `UPDATE hold SET state = 'used', due_ms = NULL WHERE bucket_id = ?
		AND request_id = x'68656c6431'`, false, "held", []string{"1:1"}},
	{"no feed row", `DELETE FROM feed WHERE bucket_id = ? AND first_entry = 1`,
		false, "units of the feed", []string{"1:1"}},
	{"units of the feed", `UPDATE feed SET units = units + 1 WHERE bucket_id = ? AND first_entry = 1`,
		false, "units of the feed", []string{"1:1"}},
	{"F", `UPDATE budget_management_bucket SET unfunded_quantity = unfunded_quantity + 1,
		out_quantity = out_quantity - 1 WHERE id = ?`, true, "conservation", nil},
	{"U", `UPDATE budget_management_bucket SET undistributed_quantity = undistributed_quantity + 1,
		out_quantity = out_quantity - 1 WHERE id = ?`, true, "undistributed", nil},
	{"T", `UPDATE budget_management_bucket SET total_quantity = total_quantity + 1,
		out_quantity = out_quantity + 1 WHERE id = ?`, true, "total", nil},
	{"Q", `UPDATE budget_management_bucket SET quarantined_quantity = 1 WHERE id = ?`,
		true, "quarantined", nil},
	{"X", `UPDATE budget_management_bucket SET forfeited_quantity = 1, out_quantity = out_quantity - 1
		WHERE id = ?`, true, "forfeited", nil},
	{"A", `UPDATE budget_management_bucket SET allocated_quantity = 1 WHERE id = ?`,
		true, "allocated", nil},
	{"a pending shrink", `UPDATE budget_management_bucket SET pending_shrink_quantity = 1 WHERE id = ?`,
		true, "pending shrinks", nil},
	{"an adjustment", `UPDATE adjustment SET quantity = quantity + 1 WHERE budget_id = ?`,
		true, "total", nil},
	{"a period", `UPDATE budget_period SET funded_quantity = funded_quantity + 1 WHERE budget_id = ?`,
		true, "not funded", nil},
	{"a deduction of no epoch", `UPDATE deduction SET epoch = 99 WHERE budget_id = ?
		AND request_id = x'7573656431'`, true, "used", []string{"1:1"}},
	{"the ended epoch", `UPDATE bucket_epoch SET used_quantity = used_quantity + 1 WHERE budget_id = ?
		AND status = 'closed'`, true, "used", []string{"0:1"}},
}

// TestEveryBreakIsFound breaks one column or row at a time. The audit names it and halts exactly
// its epoch; the other buckets continue.
func TestEveryBreakIsFound(t *testing.T) {
	each(t, func(w *world) {
		for n, one := range breaks {
			b := w.history(fmt.Sprint("broken", n))
			of := b.Buckets[1].ID
			if one.ofBudget {
				of = b.ID
			}
			w.Exec([]any{one.statement, of})
			halts := w.seen.halts
			report := w.audit(b)
			if report.OK || !slices.ContainsFunc(report.Discrepancies, func(d ledger.Discrepancy) bool {
				return d.What == one.what
			}) {
				t.Errorf("%s: found %v", one.name, report.Discrepancies)
			}
			if got := w.halted(b); !slices.Equal(got, one.halts) ||
				w.seen.halts-halts != len(one.halts) {
				t.Errorf("%s: halted %v (%d), want %v", one.name, got, w.seen.halts-halts, one.halts)
			}
			for i := range 3 {
				want := bucket.Accepted
				if slices.Contains(one.halts, fmt.Sprintf("%d:%d", i, w.Newest(b.Buckets[i].ID).Number)) {
					want = bucket.Gone
				}
				out, err := w.commits.Commit(w.Ctx, []bucket.Operation{operation(b, i, fmt.Sprint("after", i), 1)})
				w.OK(err)
				if out[0].Verdict != want {
					t.Errorf("%s: bucket %d answers %d, want %d", one.name, i, out[0].Verdict, want)
				}
			}
		}
		if w.seen.books < len(breaks) || w.seen.gap < int64(len(breaks)) {
			t.Errorf("%d discrepancies known, gap %d", w.seen.books, w.seen.gap)
		}
	})
}

// TestHaltSaysWhy checks that the halt names the figure, and that a second audit changes nothing.
func TestHaltSaysWhy(t *testing.T) {
	each(t, func(w *world) {
		b := w.history("why")
		w.Exec([]any{breaks[2].statement, b.Buckets[1].ID})
		w.audit(b)
		why := w.Epoch(b.Buckets[1].ID, 1).Halted
		if !strings.Contains(why, "why:bucket-1, epoch 1: used is recorded as") {
			t.Errorf("%q", why)
		}
		w.audit(b)
		if got := w.Epoch(b.Buckets[1].ID, 1).Halted; got != why || w.seen.halts != 1 {
			t.Errorf("%q, halted %d times", got, w.seen.halts)
		}
		halted, err := w.s.Halt(w.Ctx, bucket.Ref{Bucket: b.Buckets[2].ID, Epoch: 1},
			strings.Repeat("x", 600))
		if err != nil || !halted || len(w.Epoch(b.Buckets[2].ID, 1).Halted) != 512 {
			t.Errorf("a long reason: %v, %v", halted, err)
		}
	})
}

// TestAuditIsOneSnapshot audits while deductions are committed. Each look must see one snapshot.
func TestAuditIsOneSnapshot(t *testing.T) {
	each(t, func(w *world) {
		b := w.make("many", 1_000_000, 4)
		batch := func(n, size int) []bucket.Operation {
			ops := make([]bucket.Operation, size)
			for i := range ops {
				ops[i] = operation(b, n%4, fmt.Sprint("id", n, "-", i), 1)
			}
			return ops
		}
		for n := range 3 {
			w.deduct(batch(n, 1000)...)
		}
		stop, done := make(chan struct{}), make(chan error, 1)
		go func() {
			for n := 3; ; n++ {
				select {
				case <-stop:
					done <- nil
					return
				default:
				}
				if _, err := w.commits.Commit(w.Ctx, batch(n, 5)); err != nil {
					done <- err
					return
				}
			}
		}()
		for range 20 {
			a, err := w.s.ReadAccounts(w.Ctx, b.ID)
			w.OK(err)
			if found := a.Check(); len(found) > 0 {
				t.Errorf("%d rows: %v", a.Rows, found)
			}
		}
		close(stop)
		w.OK(<-done)
		w.clean(b)
	})
}
