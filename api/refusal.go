package api

import (
	"time"

	"github.com/budgetd/budgetd/budget"
)

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
	// RoutingKey is the key by which the request is routed now; KeyedDeduction takes it. Bucket is
	// the bucket to which it is routed, Home where that is. Home is nil if Bucket is empty.
	RoutingKey string `json:"routing_key,omitzero"`
	Bucket     string `json:"bucket,omitzero"`
	Home       *Home  `json:"home,omitzero"`
	Problem    Why    `json:"problem"`
}

// Why is the answer to a refused deduction.
type Why struct {
	Code   budget.Code `json:"code"`
	Title  string      `json:"title"`
	Detail string      `json:"detail,omitzero"`
	// Available is what the budget had, in minor units; nil if that was not the reason.
	Available *int64       `json:"available,omitzero"`
	Limits    []LimitState `json:"limits,omitempty"`
	// RetryAfter is in seconds after the refusal. Never means that the request can never be
	// accepted under the present definition.
	RetryAfter float64   `json:"retry_after,omitzero"`
	Never      bool      `json:"never,omitzero"`
	StartAt    time.Time `json:"start_at,omitzero"`
}
