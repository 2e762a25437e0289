package httpapi

import (
	"context"
	"fmt"
	"runtime/debug"
	"slices"
	"sync"

	"github.com/budgetd/budgetd/api"
	"github.com/budgetd/budgetd/bucket"
	"github.com/budgetd/budgetd/budget"
	"github.com/budgetd/budgetd/internal/httpapi/wire"
)

// batch makes many deductions in one call, each independent of the others. Items with the same
// request id run one after the other in the order of the request, all others concurrently.
func (a *API) batch(d *data) (answer, error) {
	tenant := d.tenant(d.query("tenant"))
	if err := d.onTenant(tenant); err != nil {
		return answer{}, err
	}
	var body wire.Deductions
	err := d.read(&body)
	if body.TooMany {
		return answer{}, budget.Refuse(budget.TooLarge, "batch",
			"a batch holds at most %d deductions", wire.MaxBatch)
	}
	if err != nil {
		return answer{}, err
	}
	results := make([]any, len(body.Items))
	sound := make([]int, 0, len(body.Items))
	for i, item := range body.Items {
		err := item.Faults.Err("deduct")
		if err == nil {
			item.Request.Budget, err = refOf("deduct", tenant, item.Budget)
		}
		if err == nil {
			err = d.within("deduct", item.Request.Budget)
		}
		if err == nil {
			item.Request.By = d.by()
			sound = append(sound, i)
			continue
		}
		if !item.DryRun {
			a.observeDeduction(d.ctx, nil, nil, err)
		}
		results[i] = a.itemProblem(d.ctx, item, err)
	}
	for _, part := range batchParts(body.Items, sound) {
		a.dryRuns(d.ctx, body.Items, part.dryRuns, results)
		a.deductAll(d.ctx, body.Items, part.deductions, results)
	}
	return answer{body: wire.BatchAnswer{Results: results}}, nil
}

// batchPart is a part of a batch, by index. Its dry runs do not see its deductions.
type batchPart struct{ dryRuns, deductions []int }

// batchParts divides the items with these indices into parts, so that a dry run sees the items of
// its id that precede it in the batch and none that follow it. A batch without dry runs is one
// part.
func batchParts(items []*wire.BatchItem, sound []int) []batchPart {
	dry := func(i int) bool { return items[i].DryRun }
	if !slices.ContainsFunc(sound, dry) {
		return []batchPart{{deductions: sound}}
	}
	type place struct {
		part  int
		taken bool
	}
	var parts []batchPart
	latest := make(map[string]place, len(sound))
	for _, i := range sound {
		id := items[i].Request.RequestID
		at := latest[id]
		if dry(i) && at.taken {
			at.part++
		}
		if at.part == len(parts) {
			parts = append(parts, batchPart{})
		}
		t := &parts[at.part]
		if dry(i) {
			t.dryRuns = append(t.dryRuns, i)
		} else {
			t.deductions = append(t.deductions, i)
		}
		at.taken = true
		latest[id] = at
	}
	return parts
}

// deductAll makes the deductions with these indices.
func (a *API) deductAll(ctx context.Context, items []*wire.BatchItem, at []int, results []any) {
	if len(at) == 0 {
		return
	}
	requests := make([]bucket.DeductRequest, len(at))
	for n, i := range at {
		requests[n] = items[i].Request
	}
	all := a.service.DeductAll(ctx, requests)
	accepted := make([]wire.Accepted, len(at))
	for n, i := range at {
		got := &all[n]
		a.observeDeduction(ctx, &requests[n], &got.Answer, got.Err)
		if got.Err != nil {
			results[i] = a.itemProblem(ctx, items[i], got.Err)
			continue
		}
		accepted[n] = wire.AcceptedOf(&got.Answer)
		results[i] = &accepted[n]
	}
}

// dryRuns makes the dry runs with these indices concurrently.
func (a *API) dryRuns(ctx context.Context, items []*wire.BatchItem, at []int, results []any) {
	var running sync.WaitGroup
	for _, i := range at {
		running.Go(func() {
			defer func() {
				if why := recover(); why != nil {
					results[i] = a.itemProblem(ctx, items[i], &budget.Error{Code: budget.Internal, Op: "deduct",
						Err: fmt.Errorf("panic: %v\n%s", why, debug.Stack())})
				}
			}()
			foreseen, err := a.dryRun(ctx, items[i].Request)
			results[i] = foreseen.body
			if err != nil {
				results[i] = named(items[i].Budget, items[i].Request.RequestID,
					wire.ProblemOf(wire.ErrorOf(err, "deduct", false)))
			}
		})
	}
	running.Wait()
}

// itemProblem logs the error of an item and returns its problem.
func (a *API) itemProblem(ctx context.Context, item *wire.BatchItem, err error) *api.Problem {
	e := wire.ErrorOf(err, "deduct", true)
	a.logError(ctx, "deduct", e)
	return named(item.Budget, item.Request.RequestID, wire.ProblemOf(e))
}

// named adds the budget and request id of its item to a problem.
func named(budgetName, requestID string, p *api.Problem) *api.Problem {
	p.Budget, p.RequestID = budgetName, requestID
	return p
}

// Checks is the part of the service that answers whether deductions would be accepted.
type Checks interface {
	// Check answers each request, in order. It changes nothing.
	Check(ctx context.Context, requests []bucket.CheckRequest) []bucket.CheckAnswer
}

// DryRun answers a deduct with dry_run. Its errors never have an unknown outcome.
func (a *API) dryRun(ctx context.Context, request bucket.DeductRequest) (answer, error) {
	got, err := a.service.DryRun(ctx, request)
	if err == nil {
		err = got.Err
	}
	if err != nil {
		return answer{}, wire.ErrorOf(err, "deduct", false)
	}
	if got.Recorded != nil {
		recorded := wire.AcceptedOf(got.Recorded)
		return answer{body: &recorded}, nil
	}
	out := wire.ForeseenOf(&got)
	out.RequestID = request.RequestID
	return answer{body: out}, nil
}

// checks answers which of many deductions would be accepted now.
func (a *API) checks(d *data) (answer, error) {
	tenant := d.tenant(d.query("tenant"))
	if err := d.onTenant(tenant); err != nil {
		return answer{}, err
	}
	var body wire.CheckList
	err := d.read(&body)
	if body.TooMany {
		return answer{}, budget.Refuse(budget.TooLarge, "check",
			"one call checks at most %d deductions", wire.MaxChecks)
	}
	if err != nil {
		return answer{}, err
	}
	results := make([]any, len(body.Items))
	var requests []bucket.CheckRequest
	var at []int
	for i, item := range body.Items {
		err := item.Faults.Err("check")
		if err == nil {
			item.Request.Budget, err = refOf("check", tenant, item.Budget)
		}
		if err == nil {
			err = d.within("check", item.Request.Budget)
		}
		if err != nil {
			results[i] = named(item.Budget, "", wire.ProblemOf(wire.ErrorOf(err, "check", false)))
			continue
		}
		requests, at = append(requests, item.Request), append(at, i)
	}
	if len(requests) > 0 {
		for i, got := range a.service.Check(d.ctx, requests) {
			results[at[i]] = a.checked(d.ctx, body.Items[at[i]].Budget, &got)
		}
	}
	return answer{body: wire.BatchAnswer{Results: results}}, nil
}

// checked returns one result of a check: what would be accepted, or a problem.
func (a *API) checked(ctx context.Context, budgetName string, got *bucket.CheckAnswer) any {
	if got.Err == nil {
		return wire.ForeseenOf(got)
	}
	e := wire.ErrorOf(got.Err, "check", false)
	a.logError(ctx, "check", e)
	return named(budgetName, "", wire.ProblemOf(e))
}
