package crashpoints

import (
	"context"
	"time"

	"github.com/budgetd/budgetd/bucket"
	"github.com/budgetd/budgetd/budget"
	"github.com/budgetd/budgetd/internal/memstore"
)

// losses are of store mode: a store's memory goes back between an "accepted" and its way into the
// ledger.
var losses = []operation{
	{name: "restart with data, not drained", shapes: []shape{single}, total: 90, final: 90,
		only: budget.Store, loses: true,
		calls: []call{onLane("y", 5), goingBack("restart with data", func(w *world) {
			w.servers["m0"].Restore(w.servers["m0"].Snapshot(), false)
		}), onLostLane}, until: (*world).quiet, proof: quarantines(0)},
	{name: "restart empty, not drained", shapes: []shape{wide}, total: 90, final: 90,
		only: budget.Store, loses: true,
		calls: []call{onLane("y", 5), goingBack("restart empty", func(w *world) {
			w.servers["m0"].Lose()
		}), onLostLane}, until: (*world).quiet, proof: quarantines(30)},
	{name: "restart with older data, not drained", shapes: []shape{wide}, total: 90, final: 90, base: 1,
		only: budget.Store, loses: true,
		prepare: func(w *world) {
			w.must(deducting("z", 1, w.onServer("m0")))
			w.older = w.servers["m0"].Snapshot()
			w.follow()
		},
		calls: []call{onLane("y", 5), goingBack("restart with older data", func(w *world) {
			w.servers["m0"].Restore(w.older, false)
		}), onLostLane}, until: (*world).quiet, proof: quarantines(29)},
	{name: "lane lost while nobody uses it", shapes: []shape{wide}, total: 90, final: 90,
		only: budget.Store, loses: true,
		prepare: func(w *world) { w.servers["m0"].Lose() }, until: (*world).settledLanes, proof: quarantines(0)},
}

// uses are of store mode: who may still say "accepted", and what becomes of quarantined units.
var uses = []operation{
	{name: "cancel while its deduct is on its way", shapes: []shape{wide}, total: 90, final: 90,
		only: budget.Store, late: true, prepare: sendLate,
		calls: []call{cancelling("x", 0), arriving, deducting("x", 10, 0).answered(budget.RequestVoid)}},
	{name: "cancel of what is not drained", shapes: []shape{narrow}, total: 90, final: 90,
		only: budget.Store, calls: []call{deducting("y", 10, 0), cancelling("y", 10)}},
	{name: "rollback of what is not drained", shapes: []shape{wide}, total: 90, final: 90,
		only: budget.Store, calls: []call{deducting("y", 10, 0), rollingBack("y", "", 0, 10)}},
	{name: "release", shapes: []shape{wide}, total: 90, final: 90, base: 5, only: budget.Store, loses: true,
		keeps:   true,
		prepare: loseUnheard,
		calls:   []call{releasing("r1", 10), releasing("r2", 5)}},
	{name: "late report releases", shapes: []shape{wide}, total: 90, final: 90, base: 5,
		only: budget.Store,
		prepare: func(w *world) {
			loseUnheard(w)
			w.ghost(func(lane bucket.Lane) error {
				return w.model.ReportLane(context.Background(), ghost, lane, 1, nil)
			})
		}, until: func(w *world) bool { return w.row().Quarantined == 0 && w.quiet() }},
	{name: "silent node's use ends", shapes: []shape{wide}, total: 90, final: 90, base: 5,
		only: budget.Store,
		prepare: func(w *world) {
			w.ghost(func(lane bucket.Lane) error {
				_, err := w.model.UseLane(context.Background(), ghost, lane, 1, 10*time.Second)
				return err
			})
			const almost = 29 * time.Second
			time.Sleep(almost)
			w.must(deducting("y", 5, w.onServer("m0")))
		}, until: func(w *world) bool { return (!w.used(ghost) || w.row().Quarantined > 0) && w.quiet() }},
	{name: "a node reports", shapes: []shape{wide}, total: 90, final: 90, base: 5,
		only: budget.Store, loses: true,
		prepare: func(w *world) {
			w.must(deducting("y", 5, w.onServer("m0")))
			w.follow()
			w.servers["m0"].Restore(w.servers["m0"].Snapshot(), false)
		}, until: (*world).settledLanes, proof: quarantines(0)},
}

// ghost is a node that stopped; the tables are all that is known of it.
const ghost = "ghost"

// ghost does something with the lane of m0, on behalf of a node that stopped.
func (w *world) ghost(do func(bucket.Lane) error) {
	w.gone = true
	if err := do(bucket.Lane{Instance: "m0"}); err != nil {
		w.fault("prepare: %v", err)
	}
}

// used reports whether a node has a use that is not ended.
func (w *world) used(node string) bool {
	for _, u := range w.model.Tables().Uses {
		if u.Node == node {
			return true
		}
	}
	return false
}

// settledLanes reports whether the first lane has got another activation and nothing is left of the one
// before.
func (w *world) settledLanes() bool {
	return w.model.Tables().Lanes[bucket.Lane{Instance: "m0"}].Activation > 1 && w.quiet()
}

// loseUnheard brings the units of m0's bucket into quarantine: its store restarts, and a node that used
// it does not report.
func loseUnheard(w *world) {
	w.must(deducting("y", 5, w.onServer("m0")))
	w.follow()
	w.ghost(func(lane bucket.Lane) error {
		_, err := w.model.UseLane(context.Background(), ghost, lane, 1, 10*time.Second)
		return err
	})
	w.servers["m0"].Restore(w.servers["m0"].Snapshot(), false)
	w.settle() // until the chores have seen it
	w.settle()
	if why := quarantines(25)(w); why != "" {
		w.fault("prepare: %s", why)
	}
}

// sendLate sends a deduction of x that does not arrive.
func sendLate(w *world) {
	w.trace.hold(true)
	defer w.trace.hold(false)
	_, err := deducting("x", 10, 0).do(w.life, w)
	if !budget.Is(err, budget.OutcomeUnknown) {
		w.fault("prepare: a deduction that does not arrive: %v", err)
	}
}

// arriving lets what is on its way arrive.
var arriving = call{what: "arrive", do: func(_ context.Context, w *world) (bool, error) {
	w.release()
	return false, nil
}}

// onLane is a deduction whose bucket lies on m0.
func onLane(id string, amount int64) call {
	c := deducting(id, amount, 0)
	c.do = func(ctx context.Context, w *world) (bool, error) {
		return deducting(id, amount, w.onServer("m0")).do(ctx, w)
	}
	return c
}

// goingBack is what happens to a store, once.
func goingBack(what string, do func(*world)) call {
	return call{what: what, do: func(_ context.Context, w *world) (bool, error) {
		if !w.wentBack {
			w.wentBack = true
			do(w)
		}
		return false, nil
	}}
}

// releasing is an operator's release of quarantined units.
func releasing(id string, quantity int64) call {
	return call{what: "release " + id, replays: true,
		do: func(ctx context.Context, w *world) (bool, error) {
			v, err := w.node.Release(ctx, bucket.ReleaseRequest{Budget: w.budget, RequestID: id,
				Quantity: quantity, Reason: "a test", By: "test"})
			return v.Replayed, err
		},
		did: func(b *memstore.BudgetRow) bool {
			for _, r := range b.Releases {
				if r.RequestID == id {
					return true
				}
			}
			return false
		}}
}
