package sqlstore

import (
	"testing"

	"github.com/budgetd/budgetd/bucket"
	"github.com/budgetd/budgetd/ledger"
)

// TestTakenForNew: a commit that took ids for new, one of which was not, is done again with a look-up; the
// units of the repeat come back, the new id is deducted, and the next commits look ids up first.
func TestTakenForNew(t *testing.T) {
	for _, engine := range engines() {
		t.Run(engine.name, func(t *testing.T) {
			db := checkHolds(t, engine.open(t))
			v := openBudget(t, db, "b", 100, 2)
			first, second := newLog(v.Buckets[0].Ref()), newLog(v.Buckets[1].Ref())
			commit := func(logs ...ledger.Log) []ledger.Outcome {
				t.Helper()
				r, err := db.Commit(t.Context(), logs)
				if err != nil {
					t.Fatal(err)
				}
				var out []ledger.Outcome
				for _, e := range r.Epochs {
					if e.Err != nil {
						t.Fatal(e.Err)
					}
					out = append(out, e.Outcomes...)
				}
				return out
			}
			first.grant(50, 1)
			first.deduct(1, "a")
			second.grant(50, 1)
			if out := commit(first.log(0)); len(out) != 1 || out[0].Duplicate != nil || db.lookUps.Load() != 0 {
				t.Fatalf("%+v, %d look-ups", out, db.lookUps.Load())
			}
			second.deduct(2, "b")
			second.deduct(1, "a")
			second.deduct(2, "b")
			out := commit(second.log(0))
			if len(out) != 3 || out[0].Duplicate != nil || out[1].Duplicate == nil || out[2].Duplicate == nil {
				t.Fatalf("%+v", out)
			}
			if d := out[1].Deduction; d == nil || d.Position != first.at(2) || out[1].Duplicate.Reason != ledger.ReasonDuplicate {
				t.Errorf("the repeat: %+v", out[1])
			}
			ref := v.Buckets[1].Ref()
			rows, err := db.Epochs(t.Context(), []bucket.Ref{ref})
			if e := rows[ref]; err != nil || e.Used != 2 || e.Returning != 3 || e.Outstanding != 45 {
				t.Errorf("%+v, %v", e, err)
			}
			if n := db.lookUps.Load(); n != db.guessAgainAfter {
				t.Errorf("%d look-ups to come", n)
			}
			first.deduct(1, "a")
			if out := commit(first.log(2)); out[0].Duplicate == nil || db.lookUps.Load() != db.guessAgainAfter-1 {
				t.Errorf("%+v, %d look-ups to come", out, db.lookUps.Load())
			}
		})
	}
}
