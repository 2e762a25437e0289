package client

import (
	"context"
	"net/http"
	"strconv"

	"github.com/budgetd/budgetd/api"
)

// Thresholds returns the thresholds of a budget. Errors: budget_not_found.
func (c *Client) Thresholds(ctx context.Context, name string) (*Thresholds, error) {
	var answer Thresholds
	_, err := c.do(ctx, c.get("thresholds", name, "thresholds"), &answer)
	return result(&answer, err)
}

// SetThresholds replaces the thresholds of a budget; nil restores the defaults. Errors:
// budget_not_found, invalid, ledger_mode_only.
func (c *Client) SetThresholds(ctx context.Context, name string, list []Threshold) (
	*Thresholds, error,
) {
	var body api.ThresholdsRequest
	if list != nil {
		body.Thresholds = &list
	}
	what := c.post("set thresholds", body, name, "thresholds")
	what.method, what.repeatable = http.MethodPut, true
	var answer Thresholds
	_, err := c.do(ctx, what, &answer)
	return result(&answer, err)
}

// AlertQuery selects alerts; zero fields select all.
type AlertQuery struct {
	Budget string
	// State is "firing" or "resolved".
	State     string
	PageSize  int
	PageToken string
}

// Alerts returns a page of the alerts of the client's tenant, or of all tenants with "". Errors:
// budget_not_found, forbidden.
func (c *Client) Alerts(ctx context.Context, q AlertQuery) (*AlertPage, error) {
	query := c.inTenant()
	set(query, "budget", q.Budget)
	set(query, "state", q.State)
	set(query, "page_token", q.PageToken)
	if q.PageSize > 0 {
		query.Set("page_size", strconv.Itoa(q.PageSize))
	}
	var answer AlertPage
	_, err := c.do(ctx, call{op: "alerts", method: http.MethodGet, path: []string{"v1", "alerts"},
		query: query, repeatable: true}, &answer)
	return result(&answer, err)
}
