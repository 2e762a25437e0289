package client

import (
	"context"
	"net/http"
	"strconv"
	"time"

	"github.com/budgetd/budgetd/budget"
)

// RefusalQuery selects refusals; zero fields select everything.
type RefusalQuery struct {
	RequestID string
	// Value is one of any dimension, or a key.
	Value string
	// Budget is a name.
	Budget string
	// Limit is how many at most; 0: 100.
	Limit int
}

// Refusal is a deduction that the server refused, and why.
type Refusal struct {
	At         time.Time         `json:"at"`
	Tenant     string            `json:"tenant"`
	Budget     string            `json:"budget"`
	RequestID  string            `json:"request_id"`
	Amount     int64             `json:"amount"`
	Key        string            `json:"key,omitzero"`
	Dimensions map[string]string `json:"dimensions,omitempty"`
	Hold       bool              `json:"hold,omitzero"`
	// Bucket is where the request's key is routed to, Instance and Lane where that lies.
	Bucket   string `json:"bucket,omitzero"`
	Instance string `json:"instance,omitzero"`
	Lane     int    `json:"lane"`
	Problem  Why    `json:"problem"`
}

// Why is what the caller of a refused deduction was told.
type Why struct {
	Code   budget.Code `json:"code"`
	Title  string      `json:"title"`
	Detail string      `json:"detail,omitzero"`
	// Available is what the budget had, in minor units; nil: it does not matter.
	Available *int64       `json:"available,omitzero"`
	Limits    []LimitState `json:"limits,omitempty"`
	// RetryAfter is in seconds after the refusal. Never: it can never be accepted as things are.
	RetryAfter float64   `json:"retry_after,omitzero"`
	Never      bool      `json:"never,omitzero"`
	StartAt    time.Time `json:"start_at,omitzero"`
}

// Refusals returns refusals of late that the server remembers, the newest first. Another node has
// its own. Errors: forbidden.
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
