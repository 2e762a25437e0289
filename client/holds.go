package client

import (
	"context"
)

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

// Renew makes one step of a stream: Used of what is held becomes used, and Hold is held from now
// on, as far as the budget has it. Final says that it had less: stop when Held is used. The same
// step again replays. Errors: deduction_not_found (not final), not_held, hold_expired,
// request_conflict, step_conflict, amount_exceeds_remaining, already_rolled_back.
func (c *Client) Renew(ctx context.Context, name string, request RenewRequest) (*Renewal, error) {
	what := c.post("renew", request, name, "renew")
	what.requestID, what.repeatable = request.RequestID, true
	var answer Renewal
	_, err := c.do(ctx, what, &answer)
	return result(&answer, err)
}

// ConfirmGroup uses the units of all holds of a group, or of none: an expired one prevents the
// confirm of the others (hold_expired). It closes the group, which then accepts no other hold; the
// same again replays. Errors: deduction_not_found (the group has no hold), hold_expired, not_held
// (it was rolled back).
func (c *Client) ConfirmGroup(ctx context.Context, name, group string) (*Group, error) {
	return c.onGroup(ctx, "confirm", name, group, ConfirmRequest{Group: group})
}

// ExtendGroup is Extend for all holds of a group, or for none.
func (c *Client) ExtendGroup(ctx context.Context, name, group string, request ExtendRequest) (
	*Group, error) {
	request.Group = group
	return c.onGroup(ctx, "extend", name, group, request)
}

// RollbackGroup gives back what is left of all deductions of a group, held or confirmed, and closes
// it. The same again replays. Errors: deduction_not_found (not final).
func (c *Client) RollbackGroup(ctx context.Context, name, group string) (*Group, error) {
	return c.onGroup(ctx, "rollback", name, group, RollbackRequest{Group: group})
}

func (c *Client) onGroup(ctx context.Context, verb, name, group string, body any) (*Group, error) {
	what := c.post(verb, body, name, verb)
	what.requestID, what.repeatable = group, true
	var answer Group
	_, err := c.do(ctx, what, &answer)
	return result(&answer, err)
}
