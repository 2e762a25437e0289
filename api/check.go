package api

import (
	"time"
)

// CheckItem asks whether a deduction would be accepted now.
type CheckItem struct {
	Budget string `json:"budget" check:"required same"`
	// Amount is in minor units.
	Amount     int64             `json:"amount" check:"required 1..max"`
	Dimensions map[string]string `json:"dimensions,omitempty" check:"most=dimensions key"`
	// Counts are the request's own amounts by limit name.
	Counts map[string]int64 `json:"counts,omitempty" check:"most=limits name"`
}

// Foreseen is the present answer to a deduction.
type Foreseen struct {
	RequestID string `json:"request_id,omitzero"`
	// Outcome is "would_be_accepted", or "accepted" if the request id is known: a repeat would be
	// answered from the ledger.
	Outcome string `json:"outcome"`
	Amount  int64  `json:"amount"`
	// BudgetRemaining is what the whole budget still holds; nil if Unlimited.
	BudgetRemaining *int64 `json:"budget_remaining"`
	PeriodRemaining *int64 `json:"period_remaining,omitzero"`
	Unlimited       bool   `json:"unlimited,omitzero"`
	// Limits are those that it would count for, without counting it.
	Limits []LimitState `json:"limits"`
	// Replayed means that the request id is known.
	Replayed bool `json:"replayed,omitzero"`
}

// Usage is the sum of the deductions with given values of dimensions.
type Usage struct {
	Dimensions map[string]string `json:"dimensions"`
	From       time.Time         `json:"from,omitzero"`
	To         time.Time         `json:"to,omitzero"`
	// Calls is their number, Amount what they deducted in minor units, RolledBack the part of it
	// that was given back.
	Calls      int64 `json:"calls"`
	Amount     int64 `json:"amount"`
	RolledBack int64 `json:"rolled_back"`
}
