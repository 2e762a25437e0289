package client

import (
	"context"
	"net/http"
	"strconv"

	"github.com/budgetd/budgetd/api"
)

// Nearest returns the values that are nearest their maximum of a limit in the present window, at
// most the given number, or 20 for 0. Errors: budget_not_found, invalid, ledger_mode_only.
func (c *Client) Nearest(ctx context.Context, name, limit string, most int) (*Nearest, error) {
	what := c.get("nearest", name, "limits", limit, "nearest")
	if most != 0 {
		what.query.Set("limit", strconv.Itoa(most))
	}
	var answer Nearest
	_, err := c.do(ctx, what, &answer)
	return result(&answer, err)
}

// OverrideQuery selects overrides of a limit. Values asks for that of one value, one element per
// dimension; nil asks for a page.
type OverrideQuery struct {
	Values    []string
	PageSize  int
	PageToken string
}

// Overrides reads a page of the overrides of a limit. Errors: budget_not_found, invalid.
func (c *Client) Overrides(ctx context.Context, name, limit string, q OverrideQuery) (
	*OverridePage, error,
) {
	what := c.get("overrides", name, "limits", limit, "overrides")
	if q.Values != nil {
		what.query["value"] = q.Values
	}
	if q.PageSize != 0 {
		what.query.Set("page_size", strconv.Itoa(q.PageSize))
	}
	if q.PageToken != "" {
		what.query.Set("page_token", q.PageToken)
	}
	var answer OverridePage
	_, err := c.do(ctx, what, &answer)
	return result(&answer, err)
}

// SetOverrides sets up to 1,000 overrides of a limit and leaves the others as they are. The same
// again changes nothing. Errors: budget_not_found, invalid.
func (c *Client) SetOverrides(ctx context.Context, name, limit string, list ...Override) (
	*OverridePage, error,
) {
	what := c.post("set overrides", api.OverridesRequest{Overrides: list}, name, "limits", limit,
		"overrides")
	what.method, what.repeatable = http.MethodPut, true
	var answer OverridePage
	_, err := c.do(ctx, what, &answer)
	return result(&answer, err)
}

// RemoveOverride removes the override of a value of a limit, one element per dimension, if there is
// one. Errors: budget_not_found, invalid.
func (c *Client) RemoveOverride(ctx context.Context, name, limit string, values ...string) (
	*OverridePage, error,
) {
	what := c.get("remove override", name, "limits", limit, "overrides")
	what.method = http.MethodDelete
	what.query["value"] = values
	var answer OverridePage
	_, err := c.do(ctx, what, &answer)
	return result(&answer, err)
}
