package wire

import (
	"github.com/budgetd/budgetd/api"
	"github.com/budgetd/budgetd/bucket"
	"github.com/budgetd/budgetd/budget"
	"github.com/budgetd/budgetd/internal/httpapi/strictjson"
	"github.com/budgetd/budgetd/limit"
)

// MaxChecks is the most deductions in one check.
const MaxChecks = 1000

// CheckList is the body of a check.
type CheckList struct {
	Items   []*checkItem
	TooMany bool
}

func (d *CheckList) Member(r *strictjson.Reader, name string) bool {
	if name != "checks" {
		return false
	}
	r.Objects(name, func(i int) (strictjson.Body, *api.Faults) {
		if i == MaxChecks {
			d.TooMany = true
			return nil, nil
		}
		item := new(checkItem)
		d.Items = append(d.Items, item)
		return item, &item.Faults
	})
	return true
}

func (d *CheckList) Check(r *strictjson.Reader) {
	r.Require("checks")
	if len(d.Items) == 0 && r.Seen("checks") && !r.Has("checks") &&
		!r.Has("checks[0]") {
		r.Invalid("checks", "must hold 1 to %d deductions", MaxChecks)
	}
}

// checkItem is one deduction to be checked.
type checkItem struct {
	Request bucket.CheckRequest
	Budget  string
	Faults  api.Faults
}

func (d *checkItem) Member(r *strictjson.Reader, name string) bool {
	switch name {
	case "budget":
		r.ID(name, &d.Budget)
	case "amount":
		r.Amount(name, &d.Request.Amount)
	case "dimensions":
		r.Texts(name, &d.Request.Dimensions, budget.MaxDimensions, budget.CheckKey)
	case "counts":
		readCounts(r, name, &d.Request.Counts)
	default:
		return false
	}
	return true
}

func (d *checkItem) Check(r *strictjson.Reader) { r.Require("budget", "amount") }

// readCounts reads a request's own amounts for limits.
func readCounts(r *strictjson.Reader, name string, into *map[string]int64) {
	r.Integers(name, into, limit.MaxLimits, budget.CheckName)
}

// foreseen is the answer to a check that would be accepted now. Quantities are in minor units.
type foreseen struct {
	RequestID string `json:"request_id,omitzero"`
	Outcome   string `json:"outcome"`
	Amount    int64  `json:"amount"`
	// BudgetRemaining is null for an unlimited budget.
	BudgetRemaining *int64           `json:"budget_remaining"`
	PeriodRemaining *int64           `json:"period_remaining,omitzero"`
	Unlimited       bool             `json:"unlimited,omitzero"`
	Limits          []api.LimitState `json:"limits"`
}

// ForeseenOf returns the JSON form of the answer to a check.
func ForeseenOf(got *bucket.CheckAnswer) *foreseen {
	return &foreseen{Outcome: "would_be_accepted", Amount: got.Amount,
		BudgetRemaining: unless(got.Unlimited, got.BudgetRemaining), PeriodRemaining: got.PeriodRemaining,
		Unlimited: got.Unlimited, Limits: statesOf(got.Limits)}
}
