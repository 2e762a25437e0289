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
	"github.com/budgetd/budgetd/internal/httpapi/strictjson"
)

// maxItems is the most deductions in a batch or in a check.
const maxItems = 1000

// batchItem is one deduction of a batch.
type batchItem struct {
	api.BatchItem `json:",inline"`
	DryRun        bool `json:"dry_run"`
	ref           bucket.BudgetRef
	faults        api.Faults
}

// Member implements strictjson.Body. It reads the members that every item has without reflection,
// which costs a batch a tenth of its time here.
func (i *batchItem) Member(r *strictjson.Reader, name string) bool {
	switch name {
	case "budget":
		r.ID(name, &i.Budget)
	case "request_id":
		r.Text(name, &i.RequestID, budget.CheckRequestID)
	case "amount":
		r.Amount(name, &i.Amount)
	default:
		return r.Tagged(name, i)
	}
	return true
}

// Check implements strictjson.Body.
func (i *batchItem) Check(r *strictjson.Reader) {
	r.Require("budget", "request_id", "amount")
	i.Validate(&r.Object)
}

// batchAnswer holds an answer or a problem for each deduction, in order.
type batchAnswer struct {
	Results []any `json:"results"`
}

// batch makes many deductions in one call, each independent of the others. Items with the same
// request id run one after the other in the order of the request, all others concurrently.
func (a *API) batch(d *data) (answer, error) {
	tenant := d.tenant(d.query("tenant"))
	if err := d.onTenant(tenant); err != nil {
		return answer{}, err
	}
	var items []*batchItem
	var free []batchItem // allocating several at once costs less than one by one
	body := strictjson.Each{Name: "deductions", Most: maxItems, Next: func() (any, *api.Faults) {
		if len(free) == 0 {
			const most = 64
			free = make([]batchItem, min(max(len(items), 1), most))
		}
		item := &free[0]
		free = free[1:]
		items = append(items, item)
		return item, &item.faults
	}}
	err := d.read(&body)
	if body.TooMany {
		return answer{}, budget.Refuse(budget.TooLarge, "batch",
			"a batch holds at most %d deductions", maxItems)
	}
	if err != nil {
		return answer{}, err
	}
	err = d.lookUpAll(tenant, len(items), func(i int) string { return items[i].Budget })
	if err != nil {
		return answer{}, err
	}
	results := make([]any, len(items))
	sound := make([]int, 0, len(items))
	for i, item := range items {
		err := item.faults.Err("deduct")
		if err == nil {
			item.ref, err = refOf("deduct", tenant, item.Budget)
		}
		if err == nil {
			item.ref, err = d.within("deduct", item.ref)
		}
		if err == nil {
			sound = append(sound, i)
			continue
		}
		if !item.DryRun {
			a.observeDeduction(d.ctx, nil, nil, err)
		}
		results[i] = a.itemProblem(d.ctx, item, err)
	}
	for _, part := range batchParts(items, sound) {
		a.dryRuns(d, items, part.dryRuns, results)
		a.deductAll(d, items, part.deductions, results)
	}
	return answer{body: batchAnswer{results}}, nil
}

// batchPart is a part of a batch, by index. Its dry runs do not see its deductions.
type batchPart struct{ dryRuns, deductions []int }

// batchParts divides the items with these indices into parts, so that a dry run sees the items of
// its id that precede it in the batch and none that follow it. A batch without dry runs is one
// part.
func batchParts(items []*batchItem, sound []int) []batchPart {
	dry := func(i int) bool { return items[i].DryRun }
	if !slices.ContainsFunc(sound, dry) {
		return []batchPart{{deductions: sound}}
	}
	type position struct {
		part  int
		taken bool
	}
	var parts []batchPart
	latest := make(map[string]position, len(sound))
	for _, i := range sound {
		id := items[i].RequestID
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
func (a *API) deductAll(d *data, items []*batchItem, at []int, results []any) {
	if len(at) == 0 {
		return
	}
	requests := make([]bucket.DeductRequest, len(at))
	for n, i := range at {
		requests[n] = requestOf(items[i].ref, &items[i].DeductRequest, d.by())
	}
	all := a.service.DeductAll(d.ctx, requests)
	accepted := make([]api.DeductAnswer, len(at))
	for n, i := range at {
		got := &all[n]
		a.observeDeduction(d.ctx, &requests[n], &got.Answer, got.Err)
		if got.Err != nil {
			results[i] = a.itemProblem(d.ctx, items[i], got.Err)
			continue
		}
		accepted[n] = a.acceptedOf(&got.Answer, requests[n].HoldTTL)
		results[i] = &accepted[n]
	}
}

// dryRuns makes the dry runs with these indices concurrently.
func (a *API) dryRuns(d *data, items []*batchItem, at []int, results []any) {
	var running sync.WaitGroup
	for _, i := range at {
		running.Go(func() {
			defer func() {
				if why := recover(); why != nil {
					results[i] = a.itemProblem(d.ctx, items[i], &budget.Error{Code: budget.Internal, Op: "deduct",
						Err: fmt.Errorf("panic: %v\n%s", why, debug.Stack())})
				}
			}()
			foreseen, err := a.dryRun(d.ctx,
				requestOf(items[i].ref, &items[i].DeductRequest, d.by()))
			results[i] = foreseen.body
			if err != nil {
				results[i] = named(items[i].Budget, items[i].RequestID,
					ProblemOf(errorOf(err, "deduct", false)))
			}
		})
	}
	running.Wait()
}

// itemProblem logs the error of an item and returns its problem.
func (a *API) itemProblem(ctx context.Context, item *batchItem, err error) *api.Problem {
	e := errorOf(err, "deduct", true)
	a.logError(ctx, "deduct", e)
	return named(item.Budget, item.RequestID, ProblemOf(e))
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
		return answer{}, errorOf(err, "deduct", false)
	}
	if got.Recorded != nil {
		recorded := a.acceptedOf(got.Recorded, 0)
		return answer{body: &recorded}, nil
	}
	out := foreseenOf(&got)
	out.RequestID = request.RequestID
	return answer{body: out}, nil
}

func foreseenOf(got *bucket.CheckAnswer) *api.Foreseen {
	return &api.Foreseen{Outcome: "would_be_accepted", Amount: got.Amount,
		BudgetRemaining: unless(got.Unlimited, got.BudgetRemaining),
		PeriodRemaining: got.PeriodRemaining, Unlimited: got.Unlimited, Limits: statesOf(got.Limits)}
}

// checkItem is one deduction to be checked.
type checkItem struct {
	api.CheckItem `json:",inline"`
	faults        api.Faults
}

// checks answers which of many deductions would be accepted now.
func (a *API) checks(d *data) (answer, error) {
	tenant := d.tenant(d.query("tenant"))
	if err := d.onTenant(tenant); err != nil {
		return answer{}, err
	}
	var items []*checkItem
	body := strictjson.Each{Name: "checks", Most: maxItems, Next: func() (any, *api.Faults) {
		item := new(checkItem)
		items = append(items, item)
		return item, &item.faults
	}}
	err := d.read(&body)
	if body.TooMany {
		return answer{}, budget.Refuse(budget.TooLarge, "check",
			"one call checks at most %d deductions", maxItems)
	}
	if err != nil {
		return answer{}, err
	}
	err = d.lookUpAll(tenant, len(items), func(i int) string { return items[i].Budget })
	if err != nil {
		return answer{}, err
	}
	results := make([]any, len(items))
	var requests []bucket.CheckRequest
	var at []int
	for i, item := range items {
		request := bucket.CheckRequest{Amount: item.Amount, Dimensions: item.Dimensions,
			Counts: item.Counts}
		err := item.faults.Err("check")
		if err == nil {
			request.Budget, err = refOf("check", tenant, item.Budget)
		}
		if err == nil {
			request.Budget, err = d.within("check", request.Budget)
		}
		if err != nil {
			results[i] = named(item.Budget, "", ProblemOf(errorOf(err, "check", false)))
			continue
		}
		requests, at = append(requests, request), append(at, i)
	}
	if len(requests) > 0 {
		for i, got := range a.service.Check(d.ctx, requests) {
			results[at[i]] = a.checked(d.ctx, items[at[i]].Budget, &got)
		}
	}
	return answer{body: batchAnswer{results}}, nil
}

// checked returns one result of a check: what would be accepted, or a problem.
func (a *API) checked(ctx context.Context, budgetName string, got *bucket.CheckAnswer) any {
	if got.Err == nil {
		return foreseenOf(got)
	}
	e := errorOf(got.Err, "check", false)
	a.logError(ctx, "check", e)
	return named(budgetName, "", ProblemOf(e))
}
