package client

import (
	"context"
	"strconv"
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
