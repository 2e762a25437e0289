package bucket_test

import (
	"context"
	"sync/atomic"
	"testing"
	"time"

	"github.com/budgetd/budgetd/bucket"
	"github.com/budgetd/budgetd/budget"
	"github.com/budgetd/budgetd/ledger"
)

// besideCommit is SQL whose commits, while on, answer as one that counted beside another commit of the same ids: it
// refuses its entry by a limit or a group, and the ledger has the other's row.
type besideCommit struct {
	bucket.SQL
	on     atomic.Bool
	reason ledger.Reason
}

func (q *besideCommit) Commit(ctx context.Context, logs []ledger.Log) (bucket.CommitReport, error) {
	report, err := q.SQL.Commit(ctx, logs)
	if !q.on.Load() {
		return report, err
	}
	for i := range report.Epochs {
		for j := range report.Epochs[i].Outcomes {
			o := &report.Epochs[i].Outcomes[j]
			d := ledger.Duplicate{Reason: q.reason}
			if o.Duplicate != nil {
				d.Budget, d.RequestID, d.Amount, d.Nonce = o.Duplicate.Budget, o.Duplicate.RequestID, o.Duplicate.Amount, o.Duplicate.Nonce
			} else {
				d.Budget, d.RequestID, d.Amount, d.Nonce = o.Deduction.Budget, o.Deduction.RequestID, o.Deduction.Amount, o.Deduction.Nonce
			}
			if q.reason == ledger.ReasonLimit {
				d.Figures = ledger.LimitRefusal{LimitState: budget.LimitState{Limit: "once", Dimension: "user", Value: "u",
					Used: 1, Max: 1}}.Figures()
			}
			d.Position = o.Position
			*o = ledger.Outcome{Position: o.Position, Duplicate: &d}
		}
	}
	return report, err
}

// TestRefusedBesideItsOwnCount: a commit refuses an entry by a limit, or because its group is closed, that another
// commit beside it has just counted for the same id. The caller is told what the ledger has of its id (I4).
func TestRefusedBesideItsOwnCount(t *testing.T) {
	for _, reason := range []ledger.Reason{ledger.ReasonLimit, ledger.ReasonGroup} {
		t.Run(string(reason), func(t *testing.T) {
			w, _ := one(t)
			other := w.node(slow())
			beside := &besideCommit{SQL: w.model, reason: reason}
			w.sql = beside
			s := w.node(slow())
			w.sql = w.model
			ref := w.create(other, promo("beside", 1000, 1))
			ask := func(s *bucket.Service, id string, amount int64) (bucket.DeductAnswer, error) {
				return s.Deduct(context.Background(), bucket.DeductRequest{Budget: ref, RequestID: id, Amount: amount,
					HoldTTL: time.Hour, Group: "g"})
			}
			for _, id := range []string{"replayed", "conflict"} {
				if _, err := ask(other, id, 5); err != nil {
					t.Fatal(err)
				}
			}
			beside.on.Store(true)
			if a, err := ask(s, "own", 5); err != nil || a.Replayed || a.Amount != 5 || a.State != ledger.StateHeld {
				t.Errorf("its own entry was counted: %+v, %v", a, err)
			}
			if a, err := ask(s, "replayed", 5); err != nil || !a.Replayed || a.Amount != 5 || a.State != ledger.StateHeld {
				t.Errorf("another call's entry was counted: %+v, %v", a, err)
			}
			if _, err := ask(s, "conflict", 6); !budget.Is(err, budget.RequestConflict) {
				t.Errorf("another payload's entry was counted: %v", err)
			}
		})
	}
}
