package client

import (
	"context"
	"strconv"
	"time"
)

// OpenHold is a hold that is neither confirmed nor given back. Amount is what is still held, in
// minor units.
type OpenHold struct {
	RequestID string    `json:"request_id"`
	Group     string    `json:"group,omitzero"`
	Amount    int64     `json:"amount"`
	Bucket    string    `json:"bucket"`
	HeldAt    time.Time `json:"held_at"`
	HoldUntil time.Time `json:"hold_until"`
}

// HoldList lists open holds.
type HoldList struct {
	Holds []OpenHold `json:"holds"`
}

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
