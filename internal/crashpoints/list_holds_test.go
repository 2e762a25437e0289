package crashpoints

import (
	"context"
	"time"

	"github.com/budgetd/budgetd/bucket"
	"github.com/budgetd/budgetd/budget"
	"github.com/budgetd/budgetd/internal/memstore"
	"github.com/budgetd/budgetd/ledger"
)

// ages is longer than any run, aMinute longer than any but for what waits for it.
const (
	ages    = 300 * 24 * time.Hour
	aMinute = time.Minute
)

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
	{name: "extend a hold", shapes: []shape{narrow, inRows}, total: 90, final: 90, records: true,
		prepare: func(w *world) { w.must(holding("x", "", 10, 0, aMinute)) },
		calls:   []call{extending("x", "")}, reopen: held("x")},
	{name: "extend a group", shapes: []shape{wide}, total: 90, final: 90,
		prepare: func(w *world) {
			w.must(holding("x", "g", 5, 0, aMinute))
			w.must(holding("y", "g", 7, 1, aMinute))
		},
		calls: []call{extending("", "g")}, reopen: held("x", "y")},
	{name: "extend a hold that expired", shapes: []shape{narrow}, total: 90, final: 90,
		prepare: func(w *world) {
			w.must(holding("x", "", 10, 0, time.Second))
			time.Sleep(2 * choresEvery)
			w.follow()
		},
		calls: []call{extending("x", "").answered(budget.HoldExpired)}},
}

// extending makes a hold, or those of a group, last for ages.
func extending(id, group string) call {
	return call{what: "extend " + id + group,
		do: func(ctx context.Context, w *world) (bool, error) {
			_, err := w.node.Extend(ctx, bucket.ExtendRequest{Budget: w.budget, RequestID: id, Group: group, HoldTTL: ages})
			return false, err
		},
		did: func(b *memstore.BudgetRow) bool {
			members := 0
			for _, d := range b.Deductions {
				if d.RequestID != id && (group == "" || d.Group != group) {
					continue
				}
				if members++; time.Until(d.HoldUntil) < ages/2 {
					return false
				}
			}
			return members > 0
		}}
}

// held proves that holds which were extended are there when the time that they had before is up, and confirms
// them.
func held(ids ...string) func(*world) {
	return func(w *world) {
		time.Sleep(aMinute + 2*choresEvery)
		for _, id := range ids {
			if d := w.row().Deductions[id]; d.State != ledger.StateHeld {
				w.fault("%s was extended, and is %s", id, d.State)
			}
			w.must(confirming(id, w.row().Deductions[id].Amount, 0))
		}
	}
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
