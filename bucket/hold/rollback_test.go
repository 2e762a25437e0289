package hold_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/budgetd/budgetd/bucket/hold"
	"github.com/budgetd/budgetd/budget"
	"github.com/budgetd/budgetd/ledger"
)

func TestRollbackOfTheWhole(t *testing.T) {
	onEveryEngine(t, func(w *world) {
		b := w.Create("b", 100, 1)
		id := b.Buckets[0]
		w.Use(id, "order", 30)
		w.Use(id, "other", 5)
		got, err := w.part.Execute(w.Ctx, []hold.Order{{Kind: hold.Rollback, Budget: b.ID,
			RequestID: "order"}})
		w.OK(err)
		equal(w, "state", got[0].Deduction.State, ledger.StateRolledBack)
		w.columns(id, 1, 95, 0, 5, 0)
		equal(w, "next entry", w.Newest(id).NextEntry, 4)
		w.unchanged(id, "a repeated rollback", func() {
			w.gives(b, "order", "", 0, 30, true)
			for _, amount := range []int64{0, 30} {
				_, _, err := w.give(b, "order", "another id", amount)
				w.refused(err, budget.AlreadyRolledBack)
			}
		})
	})
}

func TestRollbackOfParts(t *testing.T) {
	onEveryEngine(t, func(w *world) {
		b := w.Create("b", 100, 1)
		id := b.Buckets[0]
		w.Use(id, "order", 30)
		w.gives(b, "order", "one", 10, 10, false)
		w.gives(b, "order", "two", 15, 25, false)
		w.gives(b, "order", "one", 10, 25, true)
		w.unchanged(id, "a rollback of more than is left", func() {
			_, _, err := w.give(b, "order", "three", 6)
			if e := w.refused(err, budget.AmountExceedsRemaining); e.Available == nil || *e.Available != 5 {
				w.Errorf("available %v, want 5", e.Available)
			}
			_, _, err = w.give(b, "order", "three", budget.MaxAmount)
			w.refused(err, budget.AmountExceedsRemaining)
			_, _, err = w.give(b, "order", "one", 11)
			w.refused(err, budget.RequestConflict)
			_, _, err = w.give(b, "order", "one", 0)
			w.refused(err, budget.RequestConflict)
		})
		w.gives(b, "order", "three", 5, 30, false) // the refused id is free
		w.unchanged(id, "repeated parts", func() {
			for name, amount := range map[string]int64{"one": 10, "two": 15, "three": 5} {
				w.gives(b, "order", name, amount, 30, true)
			}
			_, _, err := w.give(b, "order", "", 0)
			w.refused(err, budget.AlreadyRolledBack)
		})
		w.columns(id, 1, 100, 0, 0, 0)
	})
}

func TestRollbackUnderTheDefaultID(t *testing.T) {
	onEveryEngine(t, func(w *world) {
		b := w.Create("b", 100, 1)
		w.Use(b.Buckets[0], "order", 30)
		w.gives(b, "order", "", 10, 10, false)
		w.gives(b, "order", "", 10, 10, true)
		_, _, err := w.give(b, "order", "", 0)
		w.refused(err, budget.RequestConflict)
		w.gives(b, "order", "rest", 0, 30, false)
		w.gives(b, "order", "rest", 0, 30, true)
	})
}

func TestRollbackOfWhatNeverWas(t *testing.T) {
	onEveryEngine(t, func(w *world) {
		b, other := w.Create("b", 100, 1), w.Create("other", 100, 1)
		w.Use(other.Buckets[0], "order", 30)
		for _, id := range []string{"order", "ORDER", ""} {
			_, _, err := w.give(b, id, "", 0)
			w.refused(err, budget.DeductionNotFound)
		}
		w.Use(b.Buckets[0], "order", 5) // "not found" is not final
		w.gives(b, "order", "", 0, 5, false)
		w.columns(other.Buckets[0], 1, 70, 0, 30, 0)
		other.ID += 100
		_, _, err := w.give(other, "order", "", 0)
		w.refused(err, budget.BudgetNotFound)
	})
}

func TestCancel(t *testing.T) {
	onEveryEngine(t, func(w *world) {
		b, other := w.Create("b", 100, 1), w.Create("other", 100, 1)
		id := b.Buckets[0]
		void := w.cancel(b, "absent")
		equal(w, "tombstone", void, ledger.Deduction{Budget: b.ID, RequestID: "absent",
			State: ledger.StateVoid, CountedAt: w.DB.Now()})
		w.Clock.Advance(time.Second)
		equal(w, "repeated", w.cancel(b, "absent"), void)
		for _, amount := range []int64{0, 5} {
			_, _, err := w.give(b, "absent", "", amount)
			w.refused(err, budget.RequestVoid)
		}
		w.Use(other.Buckets[0], "absent", 1)
		for i, rollbackID := range []string{"", "part"} { // the default id may be taken
			name := fmt.Sprint("order-", i)
			w.Use(id, name, 30)
			w.gives(b, name, rollbackID, 10, 10, false)
			d := w.cancel(b, name)
			equal(w, "rolled back", d.RolledBack, 30)
			equal(w, "state", d.State, ledger.StateRolledBack)
			w.gives(b, name, rollbackID, 10, 30, true)
			w.unchanged(id, "a repeated cancel", func() { equal(w, "again", w.cancel(b, name), d) })
		}
		w.columns(id, 1, 100, 0, 0, 0)
		other.ID += 100
		_, _, err := w.execute(hold.Order{Kind: hold.Cancel, Budget: other.ID, RequestID: "order"})
		w.refused(err, budget.BudgetNotFound)
	})
}

// TestRollbackFindsAHome checks that, wherever a bucket is, the units go to O if the deduction's
// epoch is open and its period has not ended, and to R otherwise. The bucket's newest epoch numbers
// the entry.
func TestRollbackFindsAHome(t *testing.T) {
	onEveryEngine(t, func(w *world) {
		b := w.Create("b", 600, 6)
		for i, id := range b.Buckets {
			w.Use(id, fmt.Sprint("order-", i), 10)
		}
		past := w.DB.Now().UnixMilli()
		halt := []any{`UPDATE bucket_epoch SET halted = ? WHERE bucket_id = ?`, []byte("broken"), b.Buckets[3]}
		over := []any{`UPDATE bucket_epoch SET period_end_ms = ? WHERE bucket_id = ?`, past, b.Buckets[4]}
		w.Offline(b, b.Buckets[1])
		w.Offline(b, b.Buckets[2])
		w.Online(b, b.Buckets[2], 7)
		w.Exec(halt, over)
		for i, test := range []struct {
			what                         string
			outstanding, returning, late int64
		}{
			{"open", 100, 0, 0}, {"offline", 0, 10, 0}, {"online again", 0, 10, 0}, {"halted", 90, 10, 0},
			{"over", 90, 10, 0}, {"open", 100, 0, 0},
		} {
			w.gives(b, fmt.Sprint("order-", i), "part", 4, 4, false)
			w.gives(b, fmt.Sprint("order-", i), "", 0, 10, false)
			w.columns(b.Buckets[i], 1, test.outstanding, 0, 0, test.returning)
			equal(w, "late of the "+test.what+" one", w.Epoch(b.Buckets[i], 1).Late, test.late)
			equal(w, "next entry of the "+test.what+" one", w.Newest(b.Buckets[i]).NextEntry, 4)
		}
		w.columns(b.Buckets[2], 2, 7, 0, 0, 0)
		w.Exec([]any{`UPDATE budget_period SET end_ms = ? WHERE budget_id = ?`, past, b.ID},
			[]any{`UPDATE bucket_epoch SET period_end_ms = ? WHERE budget_id = ?`, past, b.ID})
		w.Exec([]any{`UPDATE bucket_epoch SET period_end_ms = 0 WHERE bucket_id = ?`, b.Buckets[5]})
		w.Use(b.Buckets[5], "late", 10)
		w.Exec([]any{`UPDATE bucket_epoch SET period_end_ms = ? WHERE bucket_id = ?`, past, b.Buckets[5]})
		w.gives(b, "late", "", 3, 3, false)
		w.columns(b.Buckets[5], 1, 90, 0, 7, 3)
		equal(w, "late", w.Epoch(b.Buckets[5], 1).Late, 3)
	})
}

// TestOrdersShareATransaction checks that orders on several budgets, and several on one deduction,
// are executed in order; a refused order changes nothing.
func TestOrdersShareATransaction(t *testing.T) {
	onEveryEngine(t, func(w *world) {
		b, other := w.Create("b", 100, 2), w.Create("other", 100, 1)
		w.Use(b.Buckets[0], "a", 10)
		w.Use(b.Buckets[1], "b", 20)
		w.hold(b.Buckets[1], "h", "", 7, time.Minute)
		w.Use(other.Buckets[0], "a", 30)
		back := func(id int64, name, rollbackID string, amount int64) hold.Order {
			return hold.Order{Kind: hold.Rollback, Budget: id, RequestID: name, RollbackID: rollbackID,
				Amount: amount}
		}
		got, err := w.part.Execute(w.Ctx, []hold.Order{
			back(b.ID, "a", "1", 6), back(b.ID, "a", "2", 5), back(b.ID, "a", "1", 6), back(b.ID, "a", "3", 4),
			back(other.ID, "a", "", 0), back(b.ID, "absent", "", 0), back(b.ID, "b", "", 1),
			{Kind: hold.Cancel, Budget: b.ID, RequestID: "void"}, back(b.ID, "void", "", 0),
			{Kind: hold.Confirm, Budget: b.ID, RequestID: "h", Amount: 5}, back(b.ID, "h", "", 0),
		})
		w.OK(err)
		want := []struct {
			code     budget.Code
			back     int64
			replayed bool
		}{
			{"", 6, false}, {budget.AmountExceedsRemaining, 0, false}, {"", 6, true}, {"", 10, false},
			{"", 30, false}, {budget.DeductionNotFound, 0, false}, {"", 1, false},
			{"", 0, false}, {budget.RequestVoid, 0, false}, {"", 2, false}, {"", 7, false},
		}
		for i, test := range want {
			if budget.CodeOf(got[i].Err) != test.code || got[i].Deduction.RolledBack != test.back ||
				got[i].Replayed != test.replayed {
				w.Errorf("order %d: %+v, want %+v", i, got[i], test)
			}
		}
		w.columns(b.Buckets[0], 1, 50, 0, 0, 0)
		w.columns(b.Buckets[1], 1, 31, 0, 19, 0)
		w.columns(other.Buckets[0], 1, 100, 0, 0, 0)
	})
}
