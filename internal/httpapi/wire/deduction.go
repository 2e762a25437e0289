package wire

import (
	"time"

	"github.com/budgetd/budgetd/api"
	"github.com/budgetd/budgetd/bucket"
	"github.com/budgetd/budgetd/ledger"
	"github.com/go-json-experiment/json/jsontext"
)

// Accepted is the answer to a deduct. Quantities are minor units.
type Accepted struct {
	RequestID string       `json:"request_id"`
	Outcome   string       `json:"outcome"`
	Amount    int64        `json:"amount"`
	State     ledger.State `json:"state"`
	Bucket    string       `json:"bucket"`
	// BucketRemaining and BudgetRemaining are null for an unlimited budget, and if they could not be
	// read in time. They are never figures from before the deduction.
	BucketRemaining *int64           `json:"bucket_remaining"`
	BudgetRemaining *int64           `json:"budget_remaining"`
	PeriodRemaining *int64           `json:"period_remaining,omitzero"`
	Unlimited       bool             `json:"unlimited,omitzero"`
	HoldUntil       time.Time        `json:"hold_until,omitzero"`
	Limits          []api.LimitState `json:"limits"`
	Receipt         string           `json:"receipt"`
	Replayed        bool             `json:"replayed"`
}

// AcceptedOf returns the JSON form of d. It shares d's figures.
func AcceptedOf(d *bucket.DeductAnswer) Accepted {
	a := Accepted{
		RequestID: d.RequestID, Outcome: "accepted", Amount: d.Amount, State: d.State, Bucket: d.Bucket,
		PeriodRemaining: d.PeriodRemaining, Unlimited: d.Unlimited, HoldUntil: InUTC(d.HoldUntil),
		Limits: statesOf(d.Limits), Receipt: d.Receipt, Replayed: d.Replayed,
	}
	if d.Unlimited {
		return a
	}
	if !d.RemainingUnknown {
		a.BucketRemaining = &d.BucketRemaining
	}
	if d.FiguresUnknown {
		a.PeriodRemaining = nil
	} else {
		a.BudgetRemaining = &d.BudgetRemaining
	}
	return a
}

// deductionView is the record of a request id. A tombstone has neither amount nor bucket.
type deductionView struct {
	RequestID  string         `json:"request_id"`
	State      ledger.State   `json:"state"`
	Amount     int64          `json:"amount"`
	RolledBack int64          `json:"rolled_back"`
	Confirmed  int64          `json:"confirmed,omitzero"`
	HoldUntil  time.Time      `json:"hold_until,omitzero"`
	Group      string         `json:"group,omitzero"`
	Bucket     string         `json:"bucket,omitzero"`
	Dimensions jsontext.Value `json:"dimensions,omitzero"`
	Reference  string         `json:"reference,omitzero"`
	CountedAt  time.Time      `json:"counted_at,omitzero"`
	Receipt    string         `json:"receipt,omitzero"`
	Replayed   bool           `json:"replayed"`
}

// DeductionOf returns the body that shows d.
func DeductionOf(d *bucket.DeductionView) *deductionView {
	v := &deductionView{
		RequestID: d.RequestID, State: d.State, Amount: d.Amount, RolledBack: d.RolledBack,
		Confirmed: d.Confirmed, HoldUntil: InUTC(d.HoldUntil), Group: d.Group,
		Bucket: d.Bucket, Reference: d.Reference,
		CountedAt: InUTC(d.CountedAt), Receipt: d.Receipt, Replayed: d.Replayed,
	}
	if d.Dimensions != "" {
		v.Dimensions = jsontext.Value(d.Dimensions)
	}
	return v
}
