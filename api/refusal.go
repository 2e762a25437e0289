package api

import (
	"time"
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
