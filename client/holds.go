package client

import (
	"context"
	"fmt"
)

// ConfirmRequest uses the units of a hold.
type ConfirmRequest struct {
	// RequestID is the deduction's.
	RequestID string `json:"request_id"`
	// Amount is the part to use, the rest is given back; 0 means the whole.
	Amount  int64  `json:"amount,omitzero"`
	Receipt string `json:"receipt,omitzero"`
}

// ExtendRequest extends or shortens a hold.
type ExtendRequest struct {
	// RequestID is the deduction's.
	RequestID string `json:"request_id"`
	// HoldTTL counts from the time of the call, such as "15m".
	HoldTTL string `json:"hold_ttl"`
	Receipt string `json:"receipt,omitzero"`
}

// Group is the deductions of a group, by request id.
type Group struct {
	Group      string      `json:"group"`
	Deductions []Deduction `json:"deductions"`
}

// groupOrder identifies a group of holds.
type groupOrder struct {
	Group   string `json:"group"`
	HoldTTL string `json:"hold_ttl,omitzero"`
}

// Confirm uses a hold's units, or a part of them and gives the rest back. There is one confirm per
// hold: the same again replays, even after the hold's time; with another amount it is
// request_conflict. The feed has one entry, with the confirmed amount. Errors: deduction_not_found
// (not final), not_held, hold_expired, request_conflict, amount_exceeds_remaining.
func (c *Client) Confirm(
	ctx context.Context, name string, request ConfirmRequest,
) (*Deduction, error) {
	what := c.post("confirm", request, name, "confirm")
	what.requestID, what.repeatable = request.RequestID, true
	var answer Deduction
	_, err := c.do(ctx, what, &answer)
	return result(&answer, err)
}

// Extend makes a hold expire at another time, counted from now. A repeat counts from its own time.
// Errors: deduction_not_found (not final), not_held, hold_expired.
func (c *Client) Extend(
	ctx context.Context, name string, request ExtendRequest,
) (*Deduction, error) {
	what := c.post("extend", request, name, "extend")
	what.requestID, what.repeatable = request.RequestID, true
	var answer Deduction
	_, err := c.do(ctx, what, &answer)
	return result(&answer, err)
}

// ConfirmGroup uses the units of all holds of a group, or of none: an expired one prevents the
// confirm of the others (hold_expired). It closes the group, which then accepts no other hold; the
// same again replays. Errors: deduction_not_found (the group has no hold), hold_expired, not_held
// (it was rolled back).
func (c *Client) ConfirmGroup(ctx context.Context, name, group string) (*Group, error) {
	return c.onGroup(ctx, "confirm", name, groupOrder{Group: group})
}

// ExtendGroup is Extend for all holds of a group, or for none.
func (c *Client) ExtendGroup(ctx context.Context, name, group, holdTTL string) (*Group, error) {
	return c.onGroup(ctx, "extend", name, groupOrder{Group: group, HoldTTL: holdTTL})
}

// RollbackGroup gives back what is left of all deductions of a group, held or confirmed, and closes
// it. The same again replays. Errors: deduction_not_found (not final).
func (c *Client) RollbackGroup(ctx context.Context, name, group string) (*Group, error) {
	return c.onGroup(ctx, "rollback", name, groupOrder{Group: group})
}

// of implements outcome: each deduction of the group has a state.
func (g *Group) of(group string) error {
	if g.Group != group || len(g.Deductions) == 0 {
		return fmt.Errorf("the answer is not about group %q", group)
	}
	for i := range g.Deductions {
		if err := g.Deductions[i].of(""); err != nil {
			return err
		}
	}
	return nil
}

func (c *Client) onGroup(ctx context.Context, verb, name string, order groupOrder) (*Group, error) {
	what := c.post(verb, order, name, verb)
	what.requestID, what.repeatable = order.Group, true
	var answer Group
	_, err := c.do(ctx, what, &answer)
	return result(&answer, err)
}
