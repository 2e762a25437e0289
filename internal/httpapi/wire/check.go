package wire

import (
	"github.com/budgetd/budgetd/api"
	"github.com/budgetd/budgetd/bucket"
)

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
