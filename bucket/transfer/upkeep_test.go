package transfer_test

import (
	"testing"
	"time"

	"github.com/budgetd/budgetd/budget"
	"github.com/budgetd/budgetd/internal/sql/engine"
)

// TestTheTableShowsTheStatus checks that the table shows the status by the clock.
func TestTheTableShowsTheStatus(t *testing.T) {
	everywhere(t, func(w *world) {
		d := promo("b", 10, 1)
		d.StartAt, d.EndAt = start.Add(time.Hour), start.Add(2*time.Hour)
		b := w.create(d)
		paused := promo("paused", 10, 1)
		paused.Paused = true
		stopped := w.create(paused)
		shows := func(id int64, when string, want budget.Status) {
			t.Helper()
			w.ok(w.part.Restate(w.ctx, 10))
			var status string
			w.ok(w.db.Read(w.ctx, "test", func(r *engine.Reader) error {
				_, err := r.Get(&status, `SELECT status FROM budget_management_bucket WHERE id = ?`, id)
				return err
			}))
			equal(w, when, budget.Status(status), want)
		}
		shows(b.ID, "before its start", budget.Pending)
		w.at(d.StartAt)
		shows(b.ID, "from its start on", budget.Effective)
		w.at(d.EndAt.Add(-time.Millisecond))
		shows(b.ID, "until its end", budget.Effective)
		w.at(d.EndAt)
		shows(b.ID, "from its end on", budget.Expired)
		shows(stopped.ID, "paused", budget.Paused)
	})
}
