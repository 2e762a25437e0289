package client

import (
	"context"
	"net/http"
	"strconv"
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
