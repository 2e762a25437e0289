package client

import "context"

// DeductSet takes units from several budgets of the tenant, all or none, at most once per request
// id. It retries as Deduct does, and its id is one of the tenant: a deduction from one of the
// budgets with the same id is another request.
//
// Errors: leg_refused names every leg that refuses, with its reason (Problem.Refusals), and nothing
// has changed anywhere; budget_not_found, invalid, ledger_mode_only, request_conflict,
// request_void, already_rolled_back as of Deduct.
func (c *Client) DeductSet(ctx context.Context, request SetRequest) (*SetAnswer, error) {
	what := c.onSet("deduct set", request.RequestID, request)
	what.settle = func(ctx context.Context) error {
		_, err := c.CancelSet(ctx, request.RequestID)
		return err
	}
	var answer SetAnswer
	_, err := c.do(ctx, what, &answer)
	return result(&answer, err)
}

// RollbackSet gives back what is left of every leg of a set, or the parts of Amounts, in all legs
// or in none. The same rollback id replays. Errors: those of Rollback.
func (c *Client) RollbackSet(ctx context.Context, request SetRollback) (*Set, error) {
	return c.verb(ctx, "rollback", request.RequestID, request)
}

// ConfirmSet uses what a set holds, or the parts of Amounts and gives the rest back. Errors: those
// of Confirm.
func (c *Client) ConfirmSet(ctx context.Context, request SetConfirm) (*Set, error) {
	return c.verb(ctx, "confirm", request.RequestID, request)
}

// ExtendSet makes the hold of a set end at another time, counted from now. Errors: those of Extend.
func (c *Client) ExtendSet(ctx context.Context, request SetExtend) (*Set, error) {
	return c.verb(ctx, "extend", request.RequestID, request)
}

// CancelSet ensures that the request id of a set has no effect: what it took is given back, and a
// set that arrives later is refused (request_void). The same again answers the same.
func (c *Client) CancelSet(ctx context.Context, requestID string) (*Set, error) {
	return c.verb(ctx, "cancel", requestID, SetCancel{RequestID: requestID})
}

// Set returns what is recorded of a set. Error: deduction_not_found (not final: it may still
// arrive; CancelSet is final).
func (c *Client) Set(ctx context.Context, requestID string) (*Set, error) {
	what := c.get("set")
	what.path = []string{"v1", "deductions"}
	what.query.Set("request_id", requestID)
	var answer Set
	_, err := c.do(ctx, what, &answer)
	return result(&answer, err)
}

func (c *Client) verb(ctx context.Context, verb, requestID string, body any) (*Set, error) {
	var answer Set
	_, err := c.do(ctx, c.onSet(verb+" set", requestID, body, verb), &answer)
	return result(&answer, err)
}

// onSet returns a call on a set that may be repeated.
func (c *Client) onSet(op, requestID string, body any, segments ...string) call {
	what := c.post(op, body)
	what.path = append([]string{"v1", "deductions"}, segments...)
	what.requestID, what.repeatable = requestID, true
	return what
}
