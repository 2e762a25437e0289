package client

import (
	"context"
	"net/http"
	"strconv"
	"time"

	"github.com/budgetd/budgetd/budget"
)

// RefusalQuery selects refusals; zero fields select all.
type RefusalQuery struct {
	RequestID string
	// Value is a value of any dimension, or a key.
	Value string
	// Budget is the name of a budget.
	Budget string
	// Limit is the most refusals; 0 means 100.
	Limit int
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

// Refusals returns the recent refusals that this server remembers, newest first. Each node
// remembers its own last 4,096 and forgets them when it stops. Errors: forbidden.
func (c *Client) Refusals(ctx context.Context, q RefusalQuery) ([]Refusal, error) {
	query := c.inTenant()
	set(query, "request_id", q.RequestID)
	set(query, "value", q.Value)
	set(query, "budget", q.Budget)
	if q.Limit != 0 {
		query.Set("limit", strconv.Itoa(q.Limit))
	}
	var answer struct {
		Refusals []Refusal `json:"refusals"`
	}
	_, err := c.do(ctx, call{op: "refusals", method: http.MethodGet,
		path: []string{"v1", "refusals"}, query: query, repeatable: true}, &answer)
	return answer.Refusals, err
}
