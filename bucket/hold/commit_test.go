package hold_test

import (
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	"github.com/budgetd/budgetd/bucket"
	"github.com/budgetd/budgetd/bucket/hold"
	"github.com/budgetd/budgetd/budget"
	"github.com/budgetd/budgetd/internal/sql/commit"
	"github.com/budgetd/budgetd/ledger"
)

// TestReturnsBesideFlights runs flights and returns concurrently on the same epochs and limit rows;
// accounts, feed numbers and counters agree afterwards.
func TestReturnsBesideFlights(t *testing.T) {
	onEveryEngine(t, func(w *world) {
		const flights, each = 12, 6
		made := w.Create("b", 6000, 2)
		wide := ever
		wide.Max = 100_000
		set := w.limited(made, 1, wide)
		b := &bucket.Budget{Definition: budget.Definition{ID: made.ID, Name: "b", Version: 2,
			Limits: &budget.Limits{Version: 1, List: []budget.Limit{wide}}}}
		part := commit.New(w.DB)
		user := map[string]string{"user": "u1"}
		var left atomic.Int64 // of what was accepted
		together(racers, func(i int) {
			for f := range flights {
				var ops []bucket.Operation
				for j := range each {
					op := bucket.Operation{Budget: b, Bucket: made.Buckets[(i+j)%2], Request: ledger.Request{
						ID: fmt.Sprint(i, "-", f, "-", j), Amount: 3, Nonce: "nonce...",
						Dimensions: ledger.Dimensions(user), HoldTTL: int64(j%2) * time.Hour.Milliseconds()}}
					op.Request.Fingerprint = ledger.RequestFingerprint(3, "", op.Request)
					op.Charges, _ = set.Charges(3, user, nil)
					ops = append(ops, op)
				}
				got, err := part.Commit(w.Ctx, ops)
				if err != nil {
					w.Errorf("commit: %v", err)
					return
				}
				for j := range got {
					if got[j].Verdict != bucket.Accepted {
						w.Errorf("%+v", got[j])
						continue
					}
					left.Add(3)
					w.end(made.ID, ops[j].Request.ID, j, &left)
				}
			}
		})
		w.Check()
		w.counted(set, made, "ever", "u1", left.Load())
	})
}

// end gives back part of a deduction, or confirms it, depending on its at in a flight.
func (w *world) end(budgetID int64, id string, at int, left *atomic.Int64) {
	o := hold.Order{Kind: hold.Rollback, Budget: budgetID, RequestID: id, Amount: 2}
	switch {
	case at%3 == 2:
		return
	case at == 1:
		o = hold.Order{Kind: hold.Confirm, Budget: budgetID, RequestID: id, Amount: 1}
	}
	if _, err := w.try(o); err != nil {
		w.Errorf("%v: %v", o, err)
		return
	}
	left.Add(-2)
}
