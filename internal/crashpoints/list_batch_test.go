package crashpoints

import (
	"context"

	"github.com/budgetd/budgetd/bucket"
	"github.com/budgetd/budgetd/budget"
)

// batches are deductions that are asked for in one call. The ordinary ones go through the stores and the ledger
// together; what needs more goes on by itself.
var batches = []operation{
	{name: "one call", shapes: []shape{wide, single, inRows}, total: 90, final: 90, base: 1, asOne: true,
		prepare: warm, calls: []call{deducting("x0", 3, 0), deducting("x1", 4, 1), deducting("x2", 5, 2),
			deducting("x3", 6, 0), deducting("x4", 7, 1), deducting("x0", 3, 0).again()}},
	{name: "one call, one asks too much", shapes: []shape{wide, inRows}, total: 90, final: 90, base: 1, asOne: true,
		prepare: warm, calls: []call{deducting("x0", 3, 0), deducting("x1", 90, 1).answered(budget.BudgetExhausted),
			deducting("x2", 5, 0)}},
	{name: "one call, one with another payload", shapes: []shape{narrow, inRows}, total: 90, final: 90, base: 1,
		asOne: true, prepare: warm, calls: []call{deducting("x0", 3, 0),
			deducting("w", 2, 0).answered(budget.RequestConflict), deducting("x2", 5, 1)}},
	{name: "one call, one needs collect", shapes: []shape{wide}, total: 90, final: 90, base: 1, asOne: true,
		prepare: warm, calls: []call{deducting("x0", 3, 0), deducting("x1", 70, 1), deducting("x2", 5, 2)}},
	{name: "one call, from a bucket that went offline", shapes: []shape{wide}, total: 90, final: 90, base: 1,
		asOne: true, prepare: func(w *world) {
			w.other(func() { w.must(handling("offline", 0, nil)) })
			warm(w)
		}, calls: []call{deducting("x0", 3, 0), deducting("x1", 4, 1), deducting("x2", 5, 2)}},
	{name: "one call, of two budgets", shapes: []shape{wide, inRows}, total: 90, final: 90, base: 1, asOne: true,
		prepare: func(w *world) {
			d := w.definition()
			d.Name = another
			if _, _, err := w.node.Create(w.life, d); err != nil {
				w.fault("prepare: create %s: %v", another, err)
			}
			warm(w)
		},
		calls: []call{deducting("x0", 3, 0), deducting("x1", 4, 1), deducting("z0", 5, 0).of(another),
			deducting("z1", 6, 2).of(another)}},
	{name: "one call, on a lane restarted empty", shapes: []shape{wide}, total: 90, final: 90, base: 1, asOne: true,
		loses: true, prepare: func(w *world) {
			warm(w)
			w.follow()
			w.servers["m0"].Lose()
		},
		calls: []call{deducting("x0", 3, 0), deducting("x1", 4, 1), deducting("x2", 5, 2)}, until: (*world).quiet},
}

// another is the name of a second budget.
const another = "c"

// warm makes the node know the budget: what asks for one that it has to read goes on by itself.
func warm(w *world) { w.must(deducting("w", 1, 0)) }

// of makes a deduction one of another budget.
func (c call) of(name string) call {
	c.on = name
	request := c.request
	c.request = func(w *world) bucket.DeductRequest {
		r := request(w)
		r.Budget.Name = name
		return r
	}
	return c
}

// deductAll makes calls as one.
func (w *world) deductAll(ctx context.Context, calls []call) []bucket.DeductResult {
	requests := make([]bucket.DeductRequest, len(calls))
	for i := range calls {
		requests[i] = calls[i].request(w)
	}
	results := w.node.DeductAll(ctx, requests)
	for i, r := range results {
		if a := r.Answer; r.Err == nil && (a.RequestID != requests[i].RequestID || a.Amount != requests[i].Amount) {
			w.fault("%s of %d was answered with %+v", requests[i].RequestID, requests[i].Amount, a)
		}
	}
	return results
}

// repeatAll is repeat for calls that are made as one, again without those that were answered for certain.
func (w *world) repeatAll(op *operation, turn int) {
	was, results := make([]bool, len(op.calls)), make([]bucket.DeductResult, len(op.calls))
	var left []int
	for i := range op.calls {
		was[i] = w.did(&op.calls[i])
		left = append(left, i)
	}
	const tries = 5
	for range tries {
		asked := make([]call, len(left))
		for i, at := range left {
			asked[i] = op.calls[at]
		}
		var open []int
		for i, r := range w.deductAll(context.Background(), asked) {
			if results[left[i]] = r; uncertain(r.Err) {
				open = append(open, left[i])
			}
		}
		if left = open; len(left) == 0 {
			break
		}
	}
	for i := range op.calls {
		w.repeated(&op.calls[i], turn, was[i], results[i].Answer.Replayed, results[i].Err)
	}
}
