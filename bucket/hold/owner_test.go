package hold_test

import (
	"testing"
	"time"

	"github.com/budgetd/budgetd/bucket/hold"
	"github.com/budgetd/budgetd/budget"
	"github.com/budgetd/budgetd/internal/proof/fixture"
	"github.com/budgetd/budgetd/internal/sql/engine"
	"github.com/budgetd/budgetd/ledger"
)

// TestOnlyOnesOwn checks that a principal that may act only on its own deductions cannot roll back
// or cancel another's, nor confirm or extend its hold, or a group with one.
func TestOnlyOnesOwn(t *testing.T) {
	onEveryEngine(t, func(w *world) {
		b := w.Create("b", 100, 1)
		w.Deduct(fixture.Deduction{Bucket: b.Buckets[0], ID: "a", Amount: 10, Note: ledger.Note{By: "ann"}})
		for _, kind := range []hold.Kind{hold.Rollback, hold.Cancel} {
			w.unchanged(b.Buckets[0], "an order of another principal", func() {
				_, _, err := w.execute(hold.Order{Kind: kind, Budget: b.ID, RequestID: "a", OnlyBy: "bob"})
				w.refused(err, budget.Forbidden)
			})
		}
		w.hold(b.Buckets[0], "h", "", 10, time.Minute)
		w.hold(b.Buckets[0], "g", "group", 10, time.Minute)
		for _, kind := range []hold.Kind{hold.Confirm, hold.Extend, hold.Rollback} {
			w.unchanged(b.Buckets[0], "an order of another principal", func() {
				_, _, err := w.execute(hold.Order{Kind: kind, Budget: b.ID, RequestID: "h", TTL: time.Hour, OnlyBy: "bob"})
				w.refused(err, budget.Forbidden)
				_, err = w.part.ExecuteGroup(w.Ctx, hold.GroupOrder{Kind: kind, Budget: b.ID, Group: "group", TTL: time.Hour, OnlyBy: "bob"})
				w.refused(err, budget.Forbidden)
			})
		}
		d, _, err := w.execute(hold.Order{Kind: hold.Rollback, Budget: b.ID, RequestID: "a", OnlyBy: "ann"})
		w.OK(err)
		equal(w, "rolled back", d.RolledBack, 10)
	})
}

// TestExpiryLooksUnderTheLock checks that expiry keeps a hold that was extended after it was found
// due and before it was locked.
func TestExpiryLooksUnderTheLock(t *testing.T) {
	onEveryEngine(t, func(w *world) {
		b := w.Create("b", 100, 1)
		w.hold(b.Buckets[0], "h", "", 10, time.Minute)
		w.Clock.Advance(2 * time.Minute)
		later := w.DB.Now().Add(time.Hour).UnixMilli()
		done := make(chan hold.Expired, 1)
		w.Write(func(t *engine.Tx) error {
			var one int
			if _, err := t.Get(&one, `SELECT 1 FROM deduction WHERE request_id = ? /*locked*/`,
				[]byte("h")); err != nil {
				return err
			}
			go func() { done <- w.expire(10) }()
			// Give expiry time to reach the lock. Without it the test passes without showing anything.
			time.Sleep(100 * time.Millisecond)
			_, err := t.Exec(`UPDATE hold SET hold_until_ms = ?, due_ms = ?`, later, later)
			return err
		})
		if got := <-done; got.Holds != 0 {
			w.Errorf("%d holds expired, want 0", got.Holds)
		}
		w.columns(b.Buckets[0], 1, 90, 10, 0, 0)
	})
}
