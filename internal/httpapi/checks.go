package httpapi

import (
	"context"

	"github.com/budgetd/budgetd/bucket"
	"github.com/budgetd/budgetd/budget"
	"github.com/budgetd/budgetd/internal/httpapi/strictjson"
	"github.com/budgetd/budgetd/limit"
)

// Checks are the service's questions about deductions that nobody makes.
type Checks interface {
	// Check answers each request, in order, and changes nothing.
	Check(ctx context.Context, requests []bucket.CheckRequest) []bucket.CheckAnswer
}

// maxChecks bounds what one call asks.
const maxChecks = 1000

// dryRun answers a deduct with dry_run. Its errors never leave open whether something was done.
func (a *API) dryRun(ctx context.Context, request bucket.DeductRequest) (answer, error) {
	got, err := a.service.DryRun(ctx, request)
	if err == nil {
		err = got.Err
	}
	if err != nil {
		return answer{}, settle(err, "deduct", false)
	}
	if got.Recorded != nil {
		recorded := acceptedOf(got.Recorded)
		return answer{body: &recorded}, nil
	}
	out := foreseenOf(&got)
	out.RequestID = request.RequestID
	return answer{body: out}, nil
}

// checks answers which of many deductions would be accepted now.
func (a *API) checks(d *data) (answer, error) {
	tenant := d.tenant(d.query("tenant"))
	var body checkList
	err := d.readAtMost(a.limits.BatchBytes, &body)
	if body.tooMany {
		return answer{}, budget.Refuse(budget.TooLarge, "check", "one call checks at most %d deductions", maxChecks)
	}
	if err != nil {
		return answer{}, err
	}
	results := make([]any, len(body.items))
	var requests []bucket.CheckRequest
	var at []int
	for i, item := range body.items {
		err := item.faults.Err("check")
		if err == nil {
			item.request.Budget, err = refOf("check", tenant, item.budget)
		}
		if err != nil {
			results[i] = problemOf(settle(err, "check", false))
			continue
		}
		requests, at = append(requests, item.request), append(at, i)
	}
	if len(requests) > 0 {
		for i, got := range a.service.Check(d.ctx, requests) {
			results[at[i]] = a.checked(d.ctx, &got)
		}
	}
	return answer{body: batchAnswer{results}}, nil
}

// checked is one result of a check: what would be accepted, or a problem.
func (a *API) checked(ctx context.Context, got *bucket.CheckAnswer) any {
	if got.Err == nil {
		return foreseenOf(got)
	}
	e := settle(got.Err, "check", false)
	a.logError(ctx, "check", e)
	return problemOf(e)
}

// checkList is the body of a check.
type checkList struct {
	items   []*checkItem
	tooMany bool
}

func (d *checkList) Member(r *strictjson.Reader, name string) bool {
	if name != "checks" {
		return false
	}
	r.Objects(name, func(i int) (strictjson.Body, *strictjson.Faults) {
		if i == maxChecks {
			d.tooMany = true
			return nil, nil
		}
		item := new(checkItem)
		d.items = append(d.items, item)
		return item, &item.faults
	})
	return true
}

func (d *checkList) Check(r *strictjson.Reader) {
	r.Require("checks")
	if len(d.items) == 0 && r.Seen("checks") && !r.Has("checks") {
		r.Invalid("checks", "must hold 1 to %d deductions", maxChecks)
	}
}

// checkItem is one deduction to be checked.
type checkItem struct {
	request bucket.CheckRequest
	budget  string
	faults  strictjson.Faults
}

func (d *checkItem) Member(r *strictjson.Reader, name string) bool {
	switch name {
	case "budget":
		r.ID(name, &d.budget)
	case "amount":
		r.Amount(name, &d.request.Amount)
	case "dimensions":
		r.Texts(name, &d.request.Dimensions, budget.MaxDimensions, budget.CheckKey)
	case "counts":
		readCounts(r, name, &d.request.Counts)
	default:
		return false
	}
	return true
}

func (d *checkItem) Check(r *strictjson.Reader) { r.Require("budget", "amount") }

// readCounts reads own amounts for single limits.
func readCounts(r *strictjson.Reader, name string, into *map[string]int64) {
	r.Integers(name, into, limit.MaxLimits, budget.CheckName)
}

// foreseen is the answer to a check of what would be accepted now. Quantities are minor units.
type foreseen struct {
	RequestID string `json:"request_id,omitzero"`
	Outcome   string `json:"outcome"`
	Amount    int64  `json:"amount"`
	// BudgetRemaining is null for an unlimited budget.
	BudgetRemaining *int64       `json:"budget_remaining"`
	PeriodRemaining *int64       `json:"period_remaining,omitzero"`
	Unlimited       bool         `json:"unlimited,omitzero"`
	Limits          []limitState `json:"limits"`
}

func foreseenOf(got *bucket.CheckAnswer) *foreseen {
	return &foreseen{Outcome: "would_be_accepted", Amount: got.Amount,
		BudgetRemaining: unless(got.Unlimited, got.BudgetRemaining), PeriodRemaining: got.PeriodRemaining,
		Unlimited: got.Unlimited, Limits: statesOf(got.Limits)}
}
