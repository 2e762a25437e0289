package httpapi

import (
	"context"
	"fmt"
	"runtime/debug"
	"slices"
	"sync"

	"github.com/budgetd/budgetd/bucket"
	"github.com/budgetd/budgetd/budget"
	"github.com/budgetd/budgetd/internal/httpapi/strictjson"
)

// batch makes many deductions in one call, each for itself. Items of one request id are made one
// after the other, in the order of the request; all others side by side.
func (a *API) batch(d *data) (answer, error) {
	tenant := d.tenant(d.query("tenant"))
	body := deductions{limit: a.limits.BatchItems}
	err := d.readAtMost(a.limits.BatchBytes, &body)
	if body.tooMany {
		return answer{}, budget.Refuse(budget.TooLarge, "batch",
			"a batch holds at most %d deductions", body.limit)
	}
	if err != nil {
		return answer{}, err
	}
	results := make([]any, len(body.items))
	sound := make([]int, 0, len(body.items))
	for i, item := range body.items {
		err := item.faults.Err("deduct")
		if err == nil {
			item.request.Budget, err = refOf("deduct", tenant, item.budget)
		}
		if err == nil {
			sound = append(sound, i)
			continue
		}
		if !item.dryRun {
			a.observeDeduction(nil, err)
		}
		results[i] = a.itemProblem(d.ctx, err)
	}
	for _, turn := range turnsOf(body.items, sound) {
		a.dryRuns(d.ctx, body.items, turn.dryRuns, results)
		a.deductAll(d.ctx, body.items, turn.deductions, results)
	}
	return answer{body: batchAnswer{results}}, nil
}

// turn is a part of a batch, by index: its dry runs see nothing of its deductions.
type turn struct{ dryRuns, deductions []int }

// turnsOf spreads the items of these indices over turns, so that a dry run comes after the items of its id
// that stand before it in the batch, and before those that stand after it. A batch without dry runs has one
// turn.
func turnsOf(items []*batchItem, sound []int) []turn {
	dry := func(i int) bool { return items[i].dryRun }
	if !slices.ContainsFunc(sound, dry) {
		return []turn{{deductions: sound}}
	}
	type place struct {
		turn  int
		taken bool
	}
	var turns []turn
	latest := make(map[string]place, len(sound))
	for _, i := range sound {
		id := items[i].request.RequestID
		at := latest[id]
		if dry(i) && at.taken {
			at.turn++
		}
		if at.turn == len(turns) {
			turns = append(turns, turn{})
		}
		t := &turns[at.turn]
		if dry(i) {
			t.dryRuns = append(t.dryRuns, i)
		} else {
			t.deductions = append(t.deductions, i)
		}
		at.taken = true
		latest[id] = at
	}
	return turns
}

// deductAll makes the deductions of these indices.
func (a *API) deductAll(ctx context.Context, items []*batchItem, at []int, results []any) {
	if len(at) == 0 {
		return
	}
	requests := make([]bucket.DeductRequest, len(at))
	for n, i := range at {
		requests[n] = items[i].request
	}
	all := a.service.DeductAll(ctx, requests)
	accepted := make([]accepted, len(at))
	for n, i := range at {
		got := &all[n]
		a.observeDeduction(&got.Answer, got.Err)
		if got.Err != nil {
			results[i] = a.itemProblem(ctx, got.Err)
			continue
		}
		accepted[n] = acceptedOf(&got.Answer)
		results[i] = &accepted[n]
	}
}

// dryRuns makes the dry runs of these indices side by side.
func (a *API) dryRuns(ctx context.Context, items []*batchItem, at []int, results []any) {
	var running sync.WaitGroup
	for _, i := range at {
		running.Go(func() {
			defer func() {
				if why := recover(); why != nil {
					results[i] = a.itemProblem(ctx, &budget.Error{Code: budget.Internal, Op: "deduct",
						Err: fmt.Errorf("panic: %v\n%s", why, debug.Stack())})
				}
			}()
			foreseen, err := a.dryRun(ctx, items[i].request)
			results[i] = foreseen.body
			if err != nil {
				results[i] = problemOf(settle(err, "deduct", false))
			}
		})
	}
	running.Wait()
}

// itemProblem logs the error of one item, and returns its problem.
func (a *API) itemProblem(ctx context.Context, err error) *problem {
	e := settle(err, "deduct", true)
	a.logError(ctx, "deduct", e)
	return problemOf(e)
}

// deductions is the body of a batch.
type deductions struct {
	items []*batchItem
	// free are items that were made with the last ones: one by one costs more.
	free    []batchItem
	limit   int
	tooMany bool
}

func (d *deductions) Member(r *strictjson.Reader, name string) bool {
	if name != "deductions" {
		return false
	}
	r.Objects(name, func(i int) (strictjson.Body, *strictjson.Faults) {
		if i == d.limit {
			d.tooMany = true
			return nil, nil
		}
		if len(d.free) == 0 {
			const most = 64
			d.free = make([]batchItem, min(max(i, 1), most))
		}
		item := &d.free[0]
		d.free = d.free[1:]
		d.items = append(d.items, item)
		return item, &item.faults
	})
	return true
}

func (d *deductions) Check(r *strictjson.Reader) {
	r.Require("deductions")
	if len(d.items) == 0 && r.Seen("deductions") && !r.Has("deductions") {
		r.Invalid("deductions", "must hold 1 to %d deductions", d.limit)
	}
}

// batchItem is one deduction of a batch.
type batchItem struct {
	deduction
	budget string
	faults strictjson.Faults
}

func (d *batchItem) Member(r *strictjson.Reader, name string) bool {
	if name == "budget" {
		r.ID(name, &d.budget)
		return true
	}
	return d.deduction.Member(r, name)
}

func (d *batchItem) Check(r *strictjson.Reader) {
	r.Require("budget")
	d.deduction.Check(r)
}

// batchAnswer has an accepted or a problem for each deduction, in order.
type batchAnswer struct {
	Results []any `json:"results"`
}
