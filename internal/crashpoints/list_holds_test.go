package crashpoints

import (
	"context"
	"time"

	"github.com/budgetd/budgetd/bucket"
	"github.com/budgetd/budgetd/internal/memstore"
	"github.com/budgetd/budgetd/ledger"
)

// ages is longer than any run.
const ages = 300 * 24 * time.Hour

// holds: what a confirm uses is used; what it returns, and what expires, can be sold.
var holds = []operation{
	{name: "holds", shapes: []shape{narrow, inRows}, total: 90, final: 90,
		calls: []call{holding("x", "", 10, 0, ages), confirming("x", 4, 4)}},
	{name: "holds of a group", shapes: []shape{wide}, total: 90, final: 90,
		prepare: func(w *world) {
			w.must(holding("x", "g", 5, 0, ages))
			w.must(holding("y", "g", 7, 1, ages))
			w.must(holding("z", "h", 9, 2, ages))
		},
		calls: []call{closing("g", ledger.StateUsed, 12), closing("h", ledger.StateRolledBack, 0)}},
	{name: "holds expire", shapes: []shape{narrow}, total: 90, final: 90,
		prepare: func(w *world) {
			w.must(holding("x", "", 5, 0, time.Second))
			w.must(holding("y", "", 7, 1, time.Second))
			w.must(holding("z", "", 9, 2, time.Second))
		},
		until: func(w *world) bool {
			for _, id := range []string{"x", "y", "z"} {
				if w.row().Deductions[id].State != ledger.StateExpired {
					return false
				}
			}
			return w.quiet()
		}},
}

// holding makes a hold through the bucket of that ordinal.
func holding(id, group string, amount int64, ordinal int, ttl time.Duration) call {
	return call{what: "hold " + id, replays: true, behind: true,
		do: func(ctx context.Context, w *world) (bool, error) {
			answer, err := w.node.Deduct(ctx, bucket.DeductRequest{Budget: w.budget, RequestID: id, Amount: amount,
				Key: w.key(ordinal), HoldTTL: ttl, Group: group})
			return answer.Replayed, err
		},
		did: func(b *memstore.BudgetRow) bool { return b.Deductions[id].Amount > 0 }}
}

// confirming confirms a part of a hold.
func confirming(id string, amount, worth int64) call {
	return call{what: "confirm " + id, worth: worth, replays: true,
		do: func(ctx context.Context, w *world) (bool, error) {
			got, err := w.node.Confirm(ctx, bucket.ConfirmRequest{Budget: w.budget, RequestID: id, Amount: amount})
			return err == nil && got[0].Replayed, err
		},
		did: func(b *memstore.BudgetRow) bool { return b.Deductions[id].Confirmed == amount }}
}

// closing confirms a group, or rolls it back.
func closing(group string, state ledger.State, worth int64) call {
	return call{what: "close " + group, worth: worth, replays: true,
		do: func(ctx context.Context, w *world) (bool, error) {
			var got []bucket.DeductionView
			var err error
			if state == ledger.StateUsed {
				got, err = w.node.Confirm(ctx, bucket.ConfirmRequest{Budget: w.budget, Group: group})
			} else {
				got, err = w.node.RollbackGroup(ctx, bucket.RollbackRequest{Budget: w.budget, Group: group})
			}
			return err == nil && got[0].Replayed, err
		},
		did: func(b *memstore.BudgetRow) bool {
			members := 0 // as far as they are in the ledger
			for _, d := range b.Deductions {
				if d.Group == group && d.State != state {
					return false
				}
				if d.Group == group {
					members++
				}
			}
			return members > 0
		}}
}
