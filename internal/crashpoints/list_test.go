package crashpoints

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/budgetd/budgetd/bucket"
	"github.com/budgetd/budgetd/budget"
	"github.com/budgetd/budgetd/internal/memstore"
	"github.com/budgetd/budgetd/ledger"
)

// The shapes of worlds: instances × buckets, with logs or as rows of the ledger's own database.
var (
	single = shape{instances: 1, buckets: 1}
	narrow = shape{instances: 1, buckets: 3}
	wide   = shape{instances: 3, buckets: 3}
	inRows = shape{instances: 1, buckets: 3, rows: true}
)

// operations are all that a node is stopped in. Every one is run with each of its shapes and with
// every durability.
var operations = slices.Concat(deductions, batches, returns, holds, counting, transfers, periods, instances, recoveries, losses,
	uses, archives)

var deductions = []operation{
	{name: "create", shapes: []shape{single, narrow, wide, inRows}, total: 90, final: 90, bare: true,
		calls: []call{create()}},
	{name: "deduct", shapes: []shape{single, wide, inRows}, total: 90, final: 90, records: true,
		calls: []call{deducting("x", 10, 0)}},
	{name: "deduct, needs apply", shapes: []shape{narrow, inRows}, total: 90, final: 90, base: 1,
		prepare: undistribute, calls: []call{deducting("x", 15, 0)}},
	{name: "deduct, needs collect", shapes: []shape{wide, inRows}, total: 90, final: 90,
		calls: []call{deducting("x", 70, 0)}},
	{name: "deduct the last unit", shapes: []shape{narrow, inRows}, total: 3, final: 3, base: 2,
		prepare: func(w *world) {
			w.must(deducting("y", 1, 0))
			w.must(deducting("z", 1, 1))
		}, calls: []call{deducting("x", 1, 0)}},
	{name: "deduct, leaves a fragment", shapes: []shape{narrow, inRows}, total: 90, final: 90, base: 29,
		prepare: func(w *world) { w.must(deducting("y", 29, 0)) },
		calls:   []call{deducting("x", 20, 0)}},
	{name: "deduct, applies in the background", shapes: []shape{narrow, inRows}, total: 90, final: 90,
		base: 1, prepare: undistribute, calls: []call{deducting("x", 1, 0)}},
	{name: "duplicate on another bucket", shapes: []shape{wide, inRows}, total: 90, final: 90, base: 10,
		prepare: func(w *world) {
			w.must(deducting("x", 10, 0))
			w.must(handling("offline", 0, nil))
			w.restart()
		}, calls: []call{deducting("x", 10, 0).again()}},
	{name: "deduct from a bucket that went offline", shapes: []shape{wide, inRows}, total: 90, final: 90,
		base: 1, prepare: func(w *world) {
			w.must(deducting("y", 1, 0))
			w.other(func() { w.must(handling("offline", 0, nil)) })
		}, calls: []call{deducting("x", 10, 0)}},
	{name: "deduct from a bucket that got a new epoch", shapes: []shape{narrow}, total: 90, final: 90,
		base: 1, prepare: func(w *world) {
			w.must(deducting("y", 1, 0))
			w.other(func() {
				w.must(handling("offline", 0, nil))
				w.must(handling("online", 0, nil))
			})
		}, calls: []call{deducting("x", 10, 0)}},
	{name: "batch", shapes: []shape{wide, single, inRows}, total: 90, final: 90, together: true,
		calls: []call{deducting("x0", 3, 0), deducting("x1", 4, 1), deducting("x2", 5, 2),
			deducting("x3", 6, 0), deducting("x4", 7, 1)}},
	{name: "deduct more than there is", shapes: []shape{wide, inRows}, total: 90, final: 90, base: 10,
		prepare: func(w *world) { w.must(deducting("y", 10, 0)) },
		calls:   []call{deducting("x", 81, 0).answered(budget.BudgetExhausted)}},
	{name: "another payload", shapes: []shape{narrow, inRows}, total: 90, final: 90, base: 10,
		prepare: func(w *world) {
			w.must(deducting("y", 10, 0))
			w.restart()
		}, calls: []call{anotherPayload}},
}

var returns = []operation{
	{name: "rollback of the whole", shapes: []shape{narrow, inRows}, total: 90, final: 90, base: 20,
		prepare: func(w *world) { w.must(deducting("y", 20, 0)) },
		calls:   []call{rollingBack("y", "", 0, 20)}},
	{name: "rollback of a part", shapes: []shape{narrow}, total: 90, final: 90, base: 20,
		prepare: func(w *world) { w.must(deducting("y", 20, 0)) },
		calls:   []call{rollingBack("y", "r", 5, 5), rollingBack("y", "", 0, 15)}},
	{name: "rollback from a closed epoch", shapes: []shape{wide}, total: 90, final: 90, base: 20,
		prepare: func(w *world) {
			w.must(deducting("y", 20, 0))
			w.must(handling("offline", 0, nil))
		}, calls: []call{rollingBack("y", "", 0, 20)}},
	{name: "rollback from a lost epoch", shapes: []shape{wide}, total: 90, final: 90, base: 20, loses: true,
		prepare: func(w *world) {
			w.must(deducting("y", 20, w.onServer("m0")))
			w.follow()
			w.servers["m0"].Lose()
			w.must(deducting("z", 1, w.onServer("m0")))
			w.must(rollingBack("z", "", 0, 1))
			w.settle()
		}, calls: []call{rollingBack("y", "", 0, 20)}},
	{name: "cancel", shapes: []shape{narrow}, total: 90, final: 90, base: 20,
		prepare: func(w *world) { w.must(deducting("y", 20, 0)) },
		calls:   []call{cancelling("y", 20)}},
	{name: "cancel before the deduct", shapes: []shape{wide, inRows}, total: 90, final: 90, records: true,
		calls: []call{cancelling("x", 0), deducting("x", 10, 0).answered(budget.RequestVoid)}},
	{name: "sweep", shapes: []shape{narrow}, total: 90, final: 90,
		prepare: func(w *world) {
			w.must(deducting("y", 20, 0))
			w.must(rollingBack("y", "", 0, 20))
		}, until: (*world).quiet},
}

var transfers = []operation{
	{name: "append", shapes: []shape{single, wide, inRows}, total: 90, final: 120,
		calls: []call{adjusting("a", 30)}},
	{name: "append, reopens a bucket", shapes: []shape{narrow}, total: 90, final: 120, base: 49,
		prepare: func(w *world) {
			w.must(deducting("y", 29, 0))
			w.must(deducting("z", 20, 0)) // retires the first bucket
			w.settle()
		}, calls: []call{adjusting("a", 30)}},
	{name: "shrink at once", shapes: []shape{narrow}, total: 90, final: 65, base: 1, prepare: undistribute,
		calls: []call{adjusting("s", -25)}},
	{name: "shrink with recall", shapes: []shape{single, wide, inRows}, total: 90, final: 30, base: 1,
		prepare: func(w *world) { w.must(deducting("y", 1, 0)) },
		calls:   []call{adjusting("s", -60)}},
	{name: "offline", shapes: []shape{wide, inRows}, total: 90, final: 90, base: 5,
		prepare: func(w *world) { w.must(deducting("y", 5, 0)) },
		calls: []call{handling("offline", 0, func(b *memstore.BucketRow) bool {
			return b.Bucket.OfflineBy == bucket.ByOperator
		})}},
	{name: "online", shapes: []shape{wide, inRows}, total: 90, final: 90, base: 5,
		prepare: func(w *world) {
			w.must(deducting("y", 5, 0))
			w.must(handling("offline", 0, nil))
		},
		calls: []call{handling("online", 0, func(b *memstore.BucketRow) bool { return b.Bucket.Online })}},
	{name: "apply", shapes: []shape{narrow, inRows}, total: 90, final: 90, base: 1, prepare: undistribute,
		calls: []call{handling("apply", 0, func(b *memstore.BucketRow) bool {
			return b.Bucket.OutQuantity > 30
		})}},
	{name: "collect, broken off and never asked for again", shapes: []shape{wide}, total: 90, final: 90,
		prepare: abandonRun, until: (*world).quiet},
	{name: "collect, another node's run", shapes: []shape{wide, inRows}, total: 90, final: 90,
		prepare: abandonRun, calls: []call{deducting("x", 70, 1)}},
	{name: "recycle", shapes: []shape{wide, inRows, single}, total: 90, final: 90, base: 25,
		prepare: func(w *world) {
			w.must(deducting("y", 20, 0))
			w.must(deducting("z", 5, 1))
		}, calls: []call{recycling}, until: (*world).quiet, proof: allRenewed},
	{name: "recycle, another node's run", shapes: []shape{wide}, total: 90, final: 90, base: 20,
		prepare: func(w *world) {
			w.must(deducting("y", 20, 0))
			w.follow()
			abandonRecycle(w)
		}, until: (*world).quiet, proof: allRenewed},
	{name: "pause", shapes: []shape{narrow}, total: 90, final: 90, reopen: unpause,
		calls: []call{changing("pause", bucket.Change{Paused: pointer(true)},
			func(d budget.Definition) bool { return d.Paused })}},
	{name: "resume", shapes: []shape{narrow}, total: 90, final: 90,
		prepare: func(w *world) {
			w.must(changing("pause", bucket.Change{Paused: pointer(true)}, nil))
		},
		calls: []call{changing("resume", bucket.Change{Paused: pointer(false)},
			func(d budget.Definition) bool { return !d.Paused })}},
	{name: "change of the end", shapes: []shape{narrow}, total: 90, final: 90,
		calls: []call{changing("end", bucket.Change{EndAt: &someday},
			func(d budget.Definition) bool { return d.EndAt.Equal(someday) })}},
}

// minutely has a period of the first minute of the day, which the bubble's clock begins with, and one of
// the rest of it. What the first does not use goes to the second, also from a store that was out of reach.
func minutely(d *budget.Definition) {
	d.Type, d.Rule = budget.Daily, firstMinute(d.TotalQuantity)
}

func firstMinute(quantity int64) *budget.Rule {
	return &budget.Rule{Kind: budget.Windows, Unused: budget.Next, Windows: []budget.Window{
		{From: "00:00", To: "00:01", Quantity: quantity}, {From: "00:01", To: "24:00", Quantity: 90}}}
}

// almostOver sleeps until shortly before the minute is over, after some units were used.
func almostOver(w *world) {
	w.must(deducting("y", 5, 0))
	w.follow()
	now := time.Now()
	const shortly = 300 * time.Millisecond
	time.Sleep(now.Truncate(time.Minute).Add(time.Minute).Sub(now) - shortly)
}

// rolledOver reports whether the second period is open and nothing is left half done.
func rolledOver(w *world) bool {
	return w.row().Period.Number > 1 && w.quiet()
}

var periods = []operation{
	{name: "roll-over", shapes: []shape{single, wide, inRows}, total: 90, final: 90, base: 5, define: minutely,
		prepare: almostOver, until: rolledOver},
	{name: "roll-over that a request asks for", shapes: []shape{wide, inRows}, total: 90, final: 90, base: 5,
		define: minutely, prepare: func(w *world) {
			almostOver(w)
			const over = 301 * time.Millisecond
			time.Sleep(over)
		}, calls: []call{deducting("x", 3, 1)}, until: rolledOver},
	{name: "expiry and another life", shapes: []shape{wide, inRows}, total: 90, final: 90, base: 5,
		define: func(d *budget.Definition) {
			const life = 10 * time.Second
			d.EndAt = time.Now().Truncate(time.Minute).Add(life)
		},
		prepare: func(w *world) {
			w.must(deducting("y", 5, 0))
			w.follow()
			const almost = 9500 * time.Millisecond
			time.Sleep(time.Until(time.Now().Truncate(time.Minute).Add(almost)))
		}, until: func(w *world) bool { return w.row().Period.Over && w.quiet() },
		reopen: func(w *world) {
			never := time.Time{}
			if _, err := w.node.Change(context.Background(), w.budget, bucket.Change{EndAt: &never}); err != nil {
				w.fault("extend: %v", err)
			}
			time.Sleep(time.Second)
		}},
	{name: "refund of a period that is over", shapes: []shape{wide}, total: 90, final: 90, base: 5,
		define: func(d *budget.Definition) {
			minutely(d)
			d.LateRefund = budget.Next
		},
		prepare: func(w *world) {
			almostOver(w)
			time.Sleep(choresEvery)
		}, calls: []call{rollingBack("y", "", 2, 2)}, until: rolledOver},
	{name: "a lowered rule", shapes: []shape{wide, inRows}, total: 90, final: 90, base: 5, define: minutely,
		prepare: func(w *world) {
			w.must(deducting("y", 5, 0))
			w.follow()
		}, calls: []call{changing("rule", bucket.Change{Rule: firstMinute(4)}, // less than was used
			func(d budget.Definition) bool { return d.Rule.Windows[0].Quantity == 4 })},
		until: func(w *world) bool {
			return rolledOver(w) || w.row().Definition.Rule.Windows[0].Quantity != 4 && w.quiet() // not done
		}, reopen: func(w *world) {
			if _, err := w.node.Change(context.Background(), w.budget, bucket.Change{Rule: firstMinute(90)}); err != nil {
				w.fault("raise: %v", err)
			}
			time.Sleep(time.Second)
		}},
}

var recoveries = []operation{
	{name: "lane restarted with its data", shapes: []shape{single, wide}, total: 90, final: 90, base: 5, loses: true,
		prepare: func(w *world) {
			w.must(deducting("y", 5, w.onServer("m0")))
			w.follow()
			w.servers["m0"].Restore(w.servers["m0"].Snapshot(), false)
		}, calls: []call{onLostLane}, until: (*world).quiet},
	{name: "lane restarted empty", shapes: []shape{single, narrow, wide}, total: 90, final: 90, base: 5, loses: true,
		prepare: func(w *world) {
			w.must(deducting("y", 5, w.onServer("m0")))
			w.follow()
			w.servers["m0"].Lose()
		}, calls: []call{onLostLane}, until: (*world).quiet},
	{name: "lane restarted with older data", shapes: []shape{wide}, total: 90, final: 90, base: 5, loses: true,
		prepare: func(w *world) {
			older := w.servers["m0"].Snapshot()
			w.must(deducting("y", 5, w.onServer("m0")))
			w.follow()
			w.servers["m0"].Restore(older, false)
		}, calls: []call{onLostLane}, until: (*world).quiet},
	{name: "lane went back unnoticed", shapes: []shape{single, wide}, total: 90, final: 90, base: 5, loses: true,
		prepare: func(w *world) {
			older := w.servers["m0"].Snapshot()
			w.must(deducting("y", 5, w.onServer("m0")))
			w.follow()
			w.servers["m0"].Restore(older, true)
		}, calls: []call{onLostLane}, until: (*world).quiet},
	{name: "instance down", shapes: []shape{wide}, total: 90, final: 90, base: 5,
		prepare: func(w *world) {
			w.must(deducting("y", 5, w.onServer("m0")))
			w.follow()
			const lasts = downAfter + 4*time.Second
			w.trace.leaves("m0", lasts)
		}, until: (*world).quiet,
		proof: func(w *world) string {
			first, want := w.row().Buckets[w.onServer("m0")].Epochs[0], ledger.Lost
			if w.durability == budget.Store {
				want = ledger.Open // nobody else may sell what it holds
			}
			if first.Status != want {
				return "the epoch on the lane that was down is " + string(first.Status)
			}
			return ""
		}},
	{name: "fenced bucket", shapes: []shape{single, wide, inRows}, total: 90, final: 90, base: 5, loses: true,
		prepare: func(w *world) {
			w.must(deducting("y", 5, 0))
			w.follow()
			if err := w.model.Fence(w.life, w.ref(0), "a test"); err != nil {
				w.fault("prepare: fence: %v", err)
			}
		}, until: (*world).quiet},
}

// anotherPayload is asked of another bucket where requests move.
var anotherPayload = call{what: "deduct y", want: budget.RequestConflict,
	do: func(ctx context.Context, w *world) (bool, error) {
		ordinal := 1
		if w.durability == budget.Store {
			ordinal = 0
		}
		return deducting("y", 11, ordinal).do(ctx, w)
	}}

// abandonRun lets a node begin a collect and stop.
func abandonRun(w *world) {
	w.trace.arm("sql EndRun#1", before)
	_, err := deducting("y", 70, 0).do(w.life, w)
	if _, met := w.trace.disarm(); !met {
		w.fault("prepare: the run was not broken off: %v", err)
	}
	w.kill()
	w.start()
}

// recycling is an operator's recycle. One that goes on already is not begun again.
var recycling = call{what: "recycle",
	do: func(ctx context.Context, w *world) (bool, error) {
		_, err := w.node.Recycle(ctx, w.budget)
		if budget.Is(err, budget.RecycleRunning) {
			err = nil
		}
		return false, err
	},
	did: func(b *memstore.BudgetRow) bool { return len(b.Recycles) > 0 }}

// abandonRecycle leaves a recycle behind whose node stopped after one of its buckets.
func abandonRecycle(w *world) {
	order := bucket.RecycleOrder{Budget: w.row().Definition.ID, Cause: bucket.OnSchedule, Holder: ghost}
	for i := range w.row().Buckets {
		ref := w.ref(i)
		order.Plan = append(order.Plan, bucket.Planned{Bucket: ref.Bucket, Epoch: ref.Epoch})
	}
	if _, err := w.model.BeginRecycle(w.life, order); err != nil {
		w.fault("prepare: %v", err)
	}
	if _, err := w.model.Ending(w.life, order.Budget, w.ref(0), bucket.ByService, true); err != nil {
		w.fault("prepare: %v", err)
	}
}

// allRenewed: every bucket got another epoch, or is left offline as nobody asks for it, and the recycle
// skipped none.
func allRenewed(w *world) string {
	for _, b := range w.row().Buckets {
		if b.Epochs[0].Status.Live() {
			return b.Bucket.Key + " has its first epoch still"
		}
	}
	for _, r := range w.row().Recycles {
		if r.Skipped > 0 || r.Done < len(r.Plan) {
			return fmt.Sprintf("the recycle is not complete: %+v", r)
		}
	}
	return ""
}

// onLostLane is a deduction whose bucket lies on the lane that lost its memory.
var onLostLane = call{what: "deduct x", worth: 10, replays: true, behind: true,
	do: func(ctx context.Context, w *world) (bool, error) {
		return deducting("x", 10, w.onServer("m0")).do(ctx, w)
	},
	did: deducting("x", 10, 0).did}

// undistribute leaves 27 of 90 in the total and 2 in the first bucket; 1 is used.
func undistribute(w *world) {
	w.must(deducting("y", 28, 0))
	w.must(rollingBack("y", "r", 27, 27))
	w.settle()
}

func pointer[T any](v T) *T { return &v }

var someday = time.Date(2030, 1, 1, 0, 0, 0, 0, time.UTC)
