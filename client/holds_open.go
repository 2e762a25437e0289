package client

import (
	"context"
	"strconv"
)

// Holds lists the open holds of a budget in ledger mode, those first that expire first: at most
// limit, and 50 if limit is 0. Errors: budget_not_found.
func (c *Client) Holds(ctx context.Context, name string, limit int) (*HoldList, error) {
	what := c.get("holds", name, "holds")
	if limit != 0 {
		what.query.Set("page_size", strconv.Itoa(limit))
	}
	var answer HoldList
	_, err := c.do(ctx, what, &answer)
	return result(&answer, err)
}
