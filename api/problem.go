package api

import (
	"math"
	"time"

	"github.com/budgetd/budgetd/budget"
)

// Problem is the JSON form of an error (RFC 9457).
type Problem struct {
	Type   string      `json:"type"`
	Title  string      `json:"title"`
	Status int         `json:"status"`
	Detail string      `json:"detail,omitzero"`
	Code   budget.Code `json:"code"`
	// Docs is the path of the page that explains the code.
	Docs string `json:"docs"`
	// Budget and RequestID identify the item of a batch or a check, as in the request.
	Budget    string              `json:"budget,omitzero"`
	RequestID string              `json:"request_id,omitzero"`
	Errors    []budget.FieldError `json:"errors,omitempty"`
	// Available is in minor units.
	Available *int64 `json:"available,omitzero"`
	// Limit, Dimension, Value, Used, Max and ResetAt describe the limit that would be exceeded, in
	// calls or minor units. If there are several, it is the one that resets last. ResetAt is absent
	// if it never resets. Limits lists all limits that would be exceeded.
	Limit     string       `json:"limit,omitzero"`
	Dimension string       `json:"dimension,omitzero"`
	Value     string       `json:"value,omitzero"`
	Used      *int64       `json:"used,omitzero"`
	Max       *int64       `json:"max,omitzero"`
	ResetAt   time.Time    `json:"reset_at,omitzero"`
	Limits    []LimitState `json:"limits,omitempty"`
	// Refusals are those of the legs of a set.
	Refusals []LegRefusal `json:"refusals,omitempty"`
	// State is the state of a deduction of which nothing is left.
	State string `json:"state,omitzero"`
	// Never means that the request can never be accepted under the present definitions.
	Never bool `json:"never,omitzero"`
	// StartAt is when the budget becomes effective.
	StartAt time.Time `json:"start_at,omitzero"`
	// Reason says why the service could not carry out the request.
	Reason budget.Reason `json:"reason,omitzero"`
	// RetryAfter is in seconds.
	RetryAfter float64 `json:"retry_after,omitzero"`
	// Reasons say why the service is not ready.
	Reasons       []string `json:"reasons,omitempty"`
	CorrelationID string   `json:"correlation_id,omitzero"`
}

// LegRefusal is why a leg of a set refuses it. The members are those of Problem.
type LegRefusal struct {
	Budget     string       `json:"budget"`
	Code       budget.Code  `json:"code"`
	Detail     string       `json:"detail,omitzero"`
	Available  *int64       `json:"available,omitzero"`
	Limit      string       `json:"limit,omitzero"`
	Limits     []LimitState `json:"limits,omitempty"`
	Never      bool         `json:"never,omitzero"`
	StartAt    time.Time    `json:"start_at,omitzero"`
	RetryAfter float64      `json:"retry_after,omitzero"`
}

// WholeRetryAfter returns RetryAfter for the header: whole seconds, 0 for none.
func (p *Problem) WholeRetryAfter() int64 {
	if p.RetryAfter <= 0 {
		return 0
	}
	return int64(max(1, math.Ceil(p.RetryAfter)))
}

// Refusal is a deduction that the server refused, with the reason.
type Refusal struct {
	At         time.Time         `json:"at"`
	Tenant     string            `json:"tenant"`
	Budget     string            `json:"budget"`
	RequestID  string            `json:"request_id"`
	Amount     int64             `json:"amount"`
	Key        string            `json:"key,omitzero"`
	Dimensions map[string]string `json:"dimensions,omitempty"`
	Hold       bool              `json:"hold,omitzero"`
	Reference  string            `json:"reference,omitzero"`
	// RoutingKey is the key by which the request is routed now; KeyedDeduction takes it. Bucket is
	// the bucket to which it is routed, Home where that is. Home is nil if Bucket is empty.
	RoutingKey string `json:"routing_key,omitzero"`
	Bucket     string `json:"bucket,omitzero"`
	Home       *Home  `json:"home,omitzero"`
	// Problem is what the caller was answered; its RetryAfter counts from At.
	Problem Problem `json:"problem"`
}

// RefusalList lists refusals, newest first.
type RefusalList struct {
	Refusals []Refusal `json:"refusals"`
}
